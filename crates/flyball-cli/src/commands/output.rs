//! `flyball output`: a large output in slices, by its reference.

use crate::args::Output;
use crate::fail::{Exit, Failure};
use crate::store;
use crate::words::line;
use flyball_journal::{OutputRef, Outputs};
use serde_json::{Value, json};
use std::io::Write;

/// How many lines a search prints.
const MATCHES: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &Output) -> Result<Exit, Failure> {
    let shown = line(&args.reference, 100);
    let reference = OutputRef::parse(&args.reference).ok_or_else(|| {
        let what = format!("'{shown}' is not the reference of an output");
        Failure::new("output_unknown", "", what, "copy `ref` from the decision or the result that names it")
    })?;
    let address = store::address(&args.store)?;
    let desk = if address.exists() { Some(address.open_existing()?) } else { None };
    // An output of a pipe without a store is in files of that process.
    let places = desk.as_ref().map(Outputs::of_store).into_iter().chain([Outputs::of_processes()]);
    let mut looked = Vec::new();
    for outputs in places {
        if print(args, &reference, &outputs)? {
            return Ok(Exit::Done);
        }
        looked.push(line(&outputs.describe(), 300));
    }
    let what = format!("there is no output '{shown}' in {}", looked.join(" or "));
    let help = "outputs are removed when their session ends; name its store with --store, or ask the server that gave the reference: GET /v1/outputs/REF";
    Err(Failure::new("output_unknown", "", what, help))
}

/// Prints what was asked for; `false` if the output is not there.
fn print(args: &Output, reference: &OutputRef, outputs: &Outputs) -> Result<bool, Failure> {
    let mut out = crate::terminal::stdout();
    if args.path {
        let Some(path) = outputs.path(reference) else {
            return no_file(outputs, reference);
        };
        let path = path.display().to_string();
        writeln!(out, "{}", if args.json { json!({"path": path}).to_string() } else { path })?;
        return Ok(true);
    }
    if let Some(needle) = &args.search {
        let Some(found) = outputs.search(reference, needle, MATCHES)? else { return Ok(false) };
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
        // If stderr is gone there is nobody left to tell.
        let _ = writeln!(
            std::io::stderr(),
            "characters {}-{next} of {}; the rest: --offset {next}",
            slice.offset,
            slice.chars
        );
    }
    Ok(true)
}

fn no_file(outputs: &Outputs, reference: &OutputRef) -> Result<bool, Failure> {
    if outputs.session_of(reference)?.is_none() {
        return Ok(false);
    }
    let what = format!("the output is in {}, and in no file", line(&outputs.describe(), 300));
    Err(Failure::new("output_no_file", "", what, "read it without --path"))
}
