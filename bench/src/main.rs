//! Fixed work for counting instructions. `cargo xtask bench` runs each mode with N and with 2N pairs of events under
//! callgrind; the difference divided by N is the cost of one pair, so startup and preparation cancel out.
//!
//! usage: `flyball-bench MODE PAIRS [HISTORY]`
//!
//! A pair is one `tool.requested` and its `tool.finished`. HISTORY is the number of earlier events of the session.
//! The last line of output is the number of decisions other than `allow`; it must be 0 in all modes except `loop`.

mod event_lines;
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
            // If stderr is closed, the exit code still reports the failure.
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
    if pairs > event_lines::PREPARED_PAIRS {
        return Err(format!("at most {} pairs are prepared", event_lines::PREPARED_PAIRS).into());
    }
    let history: usize = rest.first().map_or(Ok(100), |text| text.parse())?;
    modes::run(mode, pairs, history)
}
