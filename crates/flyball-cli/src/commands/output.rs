//! `flyball output`: prints slices of a large output by its reference.

use crate::args::OutputArgs;
use crate::error::{CliError, Exit};
use crate::formatting::single_line;
use crate::store;
use flyball_store::{LargeOutputs, OutputRef};
use serde_json::{Value, json};
use std::io::Write;

/// Maximum number of lines a search prints.
const MAX_MATCHES: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &OutputArgs) -> Result<Exit, CliError> {
    let shown = single_line(&args.reference, 100);
    let reference = OutputRef::parse(&args.reference).ok_or_else(|| {
        let what = format!("'{shown}' is not an output reference");
        CliError::new("output_unknown", "", what, "copy `ref` from the decision or result")
    })?;
    let address = store::store_address(&args.store)?;
    let store = if address.exists() { Some(address.open_existing()?) } else { None };
    // Outputs of a pipe without a store are files of that process.
    let places =
        store.as_ref().map(LargeOutputs::for_store).into_iter().chain([LargeOutputs::for_processes()]);
    let mut looked = Vec::new();
    for outputs in places {
        if print_output(args, &reference, &outputs)? {
            return Ok(Exit::Success);
        }
        looked.push(single_line(&outputs.describe(), 300));
    }
    let what = format!("no output '{shown}' in {}", looked.join(" or "));
    let help = "outputs are removed when their session ends; name the store with --store, or request \
                GET /v1/outputs/REF from the server that issued the reference";
    Err(CliError::new("output_unknown", "", what, help))
}

/// Prints the requested part; `false` if the output does not exist.
fn print_output(args: &OutputArgs, reference: &OutputRef, outputs: &LargeOutputs) -> Result<bool, CliError> {
    let mut out = crate::terminal::stdout();
    if args.path {
        let Some(path) = outputs.file_path(reference) else {
            return no_file_error(outputs, reference);
        };
        let path = path.display().to_string();
        writeln!(out, "{}", if args.json { json!({"path": path}).to_string() } else { path })?;
        return Ok(true);
    }
    if let Some(needle) = &args.search {
        let Some(found) = outputs.search(reference, needle, MAX_MATCHES)? else { return Ok(false) };
        if args.json {
            writeln!(out, "{}", json!({"ref": reference.to_string(), "matches": found}))?;
        } else {
            for one in &found {
                writeln!(out, "{}: {}", one.offset, one.text)?;
            }
        }
        return Ok(true);
    }
    let limit = if args.limit == 0 { u64::MAX } else { args.limit };
    let Some(slice) = outputs.slice(reference, args.offset, limit)? else { return Ok(false) };
    if args.json {
        let mut all = json!(slice);
        all["ref"] = Value::from(reference.to_string());
        writeln!(out, "{all}")?;
        return Ok(true);
    }
    out.write_all(slice.text.as_bytes())?;
    if !slice.text.ends_with('\n') {
        writeln!(out)?;
    }
    if let Some(next) = slice.next {
        // A closed stderr leaves nowhere to report to.
        let _ = writeln!(
            std::io::stderr(),
            "characters {}-{next} of {}; for the rest use --offset {next}",
            slice.offset,
            slice.chars
        );
    }
    Ok(true)
}

fn no_file_error(outputs: &LargeOutputs, reference: &OutputRef) -> Result<bool, CliError> {
    if outputs.session_of(reference)?.is_none() {
        return Ok(false);
    }
    let what = format!("the output is in {}, not in a file", single_line(&outputs.describe(), 300));
    Err(CliError::new("output_no_file", "", what, "read it without --path"))
}
