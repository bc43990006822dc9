//! `flyball backup`: writes a consistent copy of a store to one file while the store is in use.

use crate::args::BackupArgs;
use crate::error::{CliError, Exit};
use crate::formatting::{format_bytes, plural, typed};
use crate::plan_printer::print_next;
use crate::store;
use flyball_store::StoreAddress;
use serde_json::json;
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &BackupArgs) -> Result<Exit, CliError> {
    let address = store::store_address(&args.store)?;
    if matches!(address, StoreAddress::Postgres(_)) {
        let what = "a PostgreSQL store is backed up with its own tools";
        let help = "run `pg_dump --format=custom --file=FILE DATABASE`";
        return Err(CliError::new("store_address", "", what, help));
    }
    let store = store::open_existing(&address)?;
    let shown = args.file.display().to_string();
    if !args.force && args.file.symlink_metadata().is_ok() {
        let what = "the file already exists";
        return Err(CliError::new("file_exists", shown, what, "name another file, or add --force"));
    }
    let copy = store.backup(&args.file, args.force)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"file": shown, "store": store.address(), "sessions": copy.sessions,
            "events": copy.events, "bytes": copy.bytes});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
    }
    writeln!(
        out,
        "Wrote {shown}: {}, {}, {}. Every row was verified.",
        plural(copy.sessions, "session"),
        plural(copy.events, "event"),
        format_bytes(copy.bytes),
    )?;
    print_next(&mut out, &[format!("flyball restore {}", typed(&shown))], &args.store)?;
    Ok(Exit::Success)
}
