//! Fixed work for counting instructions. `cargo xtask bench` runs each mode with N and with 2N pairs of events under
//! callgrind; the difference, divided by N, is what one pair costs, and start-up and preparation cancel out.
//!
//! usage: `flyball-bench MODE PAIRS [HISTORY]`
//!
//! A pair is one `tool.requested` and its `tool.finished`. HISTORY is how many events the session has seen before.
//! The last line on standard output says how many decisions were not `allow`; in all modes but `loop` it must be 0.

mod lines;
mod modes;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(stopped) => match writeln!(std::io::stdout(), "{stopped} decisions were not allow") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(what) => {
            // If nobody reads the complaint, the exit code still tells.
            let _ = writeln!(std::io::stderr(), "{what}\nmodes: {}", modes::NAMES.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<u64, Box<dyn std::error::Error>> {
    let [mode, pairs, rest @ ..] = args else {
        return Err("usage: flyball-bench MODE PAIRS [HISTORY]".into());
    };
    let pairs: usize = pairs.parse()?;
    if pairs > lines::PREPARED {
        return Err(format!("at most {} pairs are prepared", lines::PREPARED).into());
    }
    let history: usize = rest.first().map_or(Ok(100), |text| text.parse())?;
    modes::run(mode, pairs, history)
}
