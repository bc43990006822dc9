//! Runs a program for a tool: both streams as one text in the order in which they came, and its end as an error if it
//! is not a good one.

use super::error::ToolError;
use crate::process::{Cancel, End, Job, run, text};
use std::time::Duration;

/// What a tool has to say: a text, and what went wrong, if something did.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) text: String,
    pub(super) trouble: Option<ToolError>,
}

impl Done {
    /// A tool that has done what it should.
    pub(super) fn well(text: impl Into<String>) -> Self {
        Done { text: text.into(), trouble: None }
    }
}

/// Runs a program and keeps the first `job.keep` bytes of what it says.
pub(super) fn execute(mut job: Job, cancel: &Cancel) -> Result<Done, ToolError> {
    let keep = std::mem::take(&mut job.keep);
    let mut output = Vec::new();
    let mut dropped = 0_u64;
    let ran = run(&job, cancel, &mut |_, bytes| {
        let (kept, rest) = bytes.split_at(bytes.len().min(keep - output.len()));
        output.extend_from_slice(kept);
        dropped += rest.len() as u64;
    })?;
    let mut text = text(&output);
    if dropped > 0 {
        text.push_str(&format!("\n[{dropped} more bytes of output were not kept]"));
    }
    Ok(Done { text, trouble: trouble(ran.end, job.deadline) })
}

fn trouble(end: End, deadline: Option<Duration>) -> Option<ToolError> {
    let hint = "look at the output";
    match end {
        End::Exit(0) => None,
        End::Exit(code) => {
            Some(ToolError::new("exit_code", format!("the command exited with code {code}"), hint))
        }
        End::Signal(signal) => {
            Some(ToolError::new("signal", format!("the command was ended by signal {signal}"), hint))
        }
        End::Deadline => {
            let limit = deadline.unwrap_or_default().as_millis();
            let what = format!(
                "the command took longer than {limit} ms and was ended with everything it had started"
            );
            Some(ToolError::new("deadline", what, "do less at once, or ask for more time"))
        }
        End::Cancelled => {
            let what = "the command was cancelled and ended with everything it had started";
            Some(ToolError::new("cancelled", what, "do not try again; the run is being stopped"))
        }
    }
}
