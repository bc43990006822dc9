//! `flyball backup`: a consistent copy of the store in one file, while the store is in use.

use crate::args::Backup;
use crate::fail::{Exit, Failure};
use crate::store;
use crate::telling::print_next;
use crate::words::{plural, typed};
use flyball_journal::Address;
use serde_json::json;
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &Backup) -> Result<Exit, Failure> {
    let address = store::address(&args.store)?;
    if matches!(address, Address::Server(_)) {
        let what = "a PostgreSQL store is backed up with its own tools";
        let help = "run `pg_dump --format=custom --file=FILE DATABASE`";
        return Err(Failure::new("store_address", "", what, help));
    }
    let desk = store::existing(&address)?;
    let shown = args.file.display().to_string();
    if !args.force && args.file.symlink_metadata().is_ok() {
        let what = "there is a file of this name already";
        return Err(Failure::new("file_exists", shown, what, "name another file, or add --force"));
    }
    let copy = desk.backup(&args.file, args.force)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"file": shown, "store": desk.address(), "sessions": copy.sessions,
            "events": copy.events, "bytes": copy.bytes});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    writeln!(
        out,
        "Wrote {shown}: {}, {}, {} KiB. Every row was verified.",
        plural(copy.sessions, "session"),
        plural(copy.events, "event"),
        copy.bytes / 1024,
    )?;
    print_next(&mut out, &[format!("flyball restore {}", typed(&shown))], &args.store)?;
    Ok(Exit::Done)
}
