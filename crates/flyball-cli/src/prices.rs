//! Model prices: the built-in list, overridden by the user's.

use crate::error::CliError;
use crate::policy_loader;
use flyball_integrations::prices::{PriceError, PriceList};
use std::path::{Path, PathBuf};

/// The built-in prices, overridden by those of the given file or the user's file.
pub(crate) fn load_prices(file: Option<&Path>) -> Result<PriceList, CliError> {
    let wrong = |error: PriceError| CliError::new("bad_prices", error.location, error.message, error.help);
    let shipped = PriceList::built_in().map_err(wrong)?;
    let Some(path) = file.map(Path::to_path_buf).or_else(user_price_file) else { return Ok(shipped) };
    let text = policy_loader::read_text_file(&path)?;
    shipped.with_overrides(&text, &path.display().to_string()).map_err(wrong)
}

/// The file named by `FLYBALL_PRICES`, or the one in the user's configuration folder.
fn user_price_file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FLYBALL_PRICES").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let settings = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let settings = settings.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(settings.join("flyball/prices.yaml")).filter(|path| path.is_file())
}
