//! Runs a program for a tool: both streams as one text in order of arrival, and an error unless it exits with 0.

use super::tool_error::ToolError;
use crate::process::{CancelToken, ProcessEnd, ProcessSpec, lossy_text, run};
use std::time::Duration;

/// Result of a tool: text, and an error if it failed.
#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) text: String,
    pub(super) error: Option<ToolError>,
}

impl ToolResult {
    /// A successful result.
    pub(super) fn success(text: impl Into<String>) -> Self {
        ToolResult { text: text.into(), error: None }
    }
}

/// Runs a program and keeps the first `max_kept_bytes` bytes of its output.
pub(super) fn run_program(mut job: ProcessSpec, cancel: &CancelToken) -> Result<ToolResult, ToolError> {
    let keep = std::mem::take(&mut job.max_kept_bytes);
    let mut output = Vec::new();
    let mut dropped = 0_u64;
    let ran = run(&job, cancel, &mut |_, bytes| {
        let (kept, rest) = bytes.split_at(bytes.len().min(keep - output.len()));
        output.extend_from_slice(kept);
        dropped += rest.len() as u64;
    })?;
    let mut text = lossy_text(&output);
    if dropped > 0 {
        text.push_str(&format!("\n[{dropped} more bytes of output were dropped]"));
    }
    Ok(ToolResult { text, error: exit_error(ran.end, job.deadline) })
}

fn exit_error(end: ProcessEnd, deadline: Option<Duration>) -> Option<ToolError> {
    let help = "see the output";
    match end {
        ProcessEnd::Exit(0) => None,
        ProcessEnd::Exit(code) => {
            Some(ToolError::new("exit_code", format!("the command exited with code {code}"), help))
        }
        ProcessEnd::Signal(signal) => {
            Some(ToolError::new("signal", format!("the command was killed by signal {signal}"), help))
        }
        ProcessEnd::DeadlineExceeded => {
            let limit = deadline.unwrap_or_default().as_millis();
            let what = format!("the command exceeded {limit} ms and was killed with all its child processes");
            Some(ToolError::new("deadline", what, "do less at once, or set a longer timeout"))
        }
        ProcessEnd::Cancelled => {
            let what = "the command was cancelled and killed with all its child processes";
            Some(ToolError::new("cancelled", what, "do not retry; the run is stopping"))
        }
    }
}
