//! Prints the status of a stored run.

use crate::color::{TextStyle, style_stdout};
use crate::formatting::single_line;
use flyball::{LoopReport, SessionReport};
pub(crate) use flyball_view::run_status::RunStatus;
use std::io::Write;

/// Prints the status with the current node and the loops around it.
pub(crate) fn print_run_status(
    status: &RunStatus,
    out: &mut impl Write,
    report: &SessionReport,
) -> std::io::Result<()> {
    writeln!(out, "\n{}", style_stdout(TextStyle::Heading, "Run"))?;
    let inside = |found: &&LoopReport| report.node.as_ref().is_some_and(|node| found.nodes.contains(node));
    let badges: String =
        report.loops.iter().filter(inside).map(|found| format!(", {}", found.badge)).collect();
    let node = report.node.as_deref().unwrap_or("its start");
    writeln!(out, "  at {}{badges}", single_line(node, 80))?;
    if let Some(question) = &status.question {
        writeln!(out, "  question: {}", single_line(question, 400))?;
    }
    for head in &status.waiting_children {
        let why = head.summary.stopped_by.as_deref().unwrap_or("a plan is awaiting approval");
        let (name, state) = (single_line(&head.session, 100), head.summary.status.as_str());
        writeln!(out, "  child session {name} is {state}: {}", single_line(why, 200))?;
    }
    writeln!(out, "  workflow {}", single_line(&status.run.file.display().to_string(), 300))
}
