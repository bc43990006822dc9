//! What models cost: the list that comes with the program, and the user's own over it.

use crate::fail::Failure;
use crate::load;
use flyball_adapt::prices::{PriceError, Prices};
use std::path::{Path, PathBuf};

/// The prices that are known: those of a file, or of the user's own, over those that come with the program.
pub(crate) fn known(file: Option<&Path>) -> Result<Prices, Failure> {
    let wrong = |error: PriceError| Failure::new("bad_prices", error.place, error.what, error.advice);
    let shipped = Prices::shipped().map_err(wrong)?;
    let Some(path) = file.map(Path::to_path_buf).or_else(own) else { return Ok(shipped) };
    let text = load::read(&path)?;
    shipped.with(&text, &path.display().to_string()).map_err(wrong)
}

/// The file that `FLYBALL_PRICES` names, or the one among the user's settings, if there is one.
fn own() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FLYBALL_PRICES").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let settings = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(settings.join("flyball/prices.yaml")).filter(|path| path.is_file())
}
