//! `flyball restore`: puts a backup in the place of the store. Only a person may do this: it may lift a halt.

use crate::args::Restore;
use crate::fail::{Exit, Failure};
use crate::person;
use crate::store;
use crate::telling::print_next;
use crate::words::plural;
use flyball_journal::{Address, Marks};
use serde_json::json;
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &Restore) -> Result<Exit, Failure> {
    person::speaks_at_all()?;
    let address = store::address(&args.store)?;
    let (Address::File(path) | Address::Project(path)) = &address else {
        let what = "this store has no file to replace";
        let help = "restore a PostgreSQL store with its own tools: `pg_restore --dbname=DATABASE FILE`";
        return Err(Failure::new("store_address", "", what, help));
    };
    let own_folder = matches!(address, Address::Project(_));
    let marks = Marks::of_user();
    let restored = flyball_journal::restore(path, &args.file, own_folder, marks.as_ref())?;
    let aside = restored.aside.map(|path| path.display().to_string());
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"file": args.file.display().to_string(), "store": path.display().to_string(),
            "sessions": restored.contents.sessions, "events": restored.contents.events, "kept": aside});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Done);
    }
    writeln!(
        out,
        "Restored {} from {}: {}, {}. Every row was verified.",
        path.display(),
        args.file.display(),
        plural(restored.contents.sessions, "session"),
        plural(restored.contents.events, "event"),
    )?;
    if let Some(aside) = aside {
        writeln!(out, "The old store is now {aside}.")?;
    }
    writeln!(out, "Restart running Flyball processes: they refuse all requests from now on.")?;
    print_next(&mut out, &["flyball doctor".to_owned()], &args.store)?;
    Ok(Exit::Done)
}
