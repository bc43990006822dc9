//! `flyball observe`: events on stdin, a decision a line on stdout.
//!
//! A line that cannot be used is answered too, with an `error` object, so that a caller who waits for an answer to
//! each line never hangs; the sessions are as they were before it.

use crate::args::Observe;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::story::Tally;
use flyball::{Preset, Sessions};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the command.
pub(crate) fn run(args: &Observe) -> Result<Exit, Failure> {
    let mut sessions = Sessions::new(load::source(&args.policy, Preset::Agent)?);
    let mut lines = Lines::open(Path::new("-"))?;
    let mut tally = Tally::default();
    let mut errors = 0_u64;
    while let Some(event) = lines.next_event()? {
        let answer = event.and_then(|mut event| {
            // Time is an input: an event without a time is stamped here, once.
            event.at = event.at.or_else(now);
            sessions.step(&event)
        });
        let line = match answer {
            Ok(decision) => {
                tally.take(&decision);
                decision.to_json()
            }
            Err(error) => {
                errors += 1;
                Failure::at(lines.place(), &error).print();
                json!({"error": {"code": error.code.as_str(), "what": error.what, "advice": error.advice, "place": lines.place()}})
                    .to_string()
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(if errors > 0 { Exit::Error } else { tally.exit() })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the door: the one place where an event is stamped with the time of arrival"
)]
fn now() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
