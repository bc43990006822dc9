//! `flyball restore`: replaces the store with a backup. Only a person may do this, because it can undo a halt.

use crate::args::RestoreArgs;
use crate::caller_check;
use crate::error::{CliError, Exit};
use crate::formatting::plural;
use crate::plan_printer::print_next;
use crate::store;
use flyball_store::{HighWaterMarks, StoreAddress};
use serde_json::json;
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &RestoreArgs) -> Result<Exit, CliError> {
    caller_check::require_no_agent()?;
    let address = store::store_address(&args.store)?;
    let (StoreAddress::File(path) | StoreAddress::Project(path)) = &address else {
        let what = "this store is not a file";
        let help = "restore a PostgreSQL store with its own tools: `pg_restore --dbname=DATABASE FILE`";
        return Err(CliError::new("store_address", "", what, help));
    };
    let own_folder = matches!(address, StoreAddress::Project(_));
    let marks = HighWaterMarks::for_user();
    let restored = flyball_store::restore(path, &args.file, own_folder, marks.as_ref())?;
    let aside = restored.replaced_store.map(|path| path.display().to_string());
    let mut out = crate::terminal::stdout();
    if args.json {
        let whole = json!({"file": args.file.display().to_string(), "store": path.display().to_string(),
            "sessions": restored.contents.sessions, "events": restored.contents.events, "kept": aside});
        writeln!(out, "{whole}")?;
        return Ok(Exit::Success);
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
    writeln!(out, "Restart running Flyball processes: they now refuse all requests.")?;
    print_next(&mut out, &["flyball doctor".to_owned()], &args.store)?;
    Ok(Exit::Success)
}
