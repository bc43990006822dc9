//! Where a stored run stands, for a terminal.

use crate::paint::{Style, paint_out};
use crate::words::line;
use flyball::{LoopReport, Report};
pub(crate) use flyball_view::whereabouts::Whereabouts;
use std::io::Write;

/// Prints it, with the node and the loops that it is in.
pub(crate) fn print(stands: &Whereabouts, out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(out, "\n{}", paint_out(Style::Strong, "Where the run stands"))?;
    let inside = |found: &&LoopReport| report.node.as_ref().is_some_and(|node| found.nodes.contains(node));
    let badges: String =
        report.loops.iter().filter(inside).map(|found| format!(", {}", found.badge)).collect();
    let node = report.node.as_deref().unwrap_or("its start");
    writeln!(out, "  at {}{badges}", line(node, 80))?;
    if let Some(question) = &stands.question {
        writeln!(out, "  it asks: {}", line(question, 400))?;
    }
    for head in &stands.below {
        let why = head.glance.stopped_by.as_deref().unwrap_or("a plan waits for a yes");
        let (name, state) = (line(&head.session, 100), head.glance.status.as_str());
        writeln!(out, "  below it {name} is {state}: {}", line(why, 200))?;
    }
    writeln!(out, "  workflow {}", line(&stands.run.file.display().to_string(), 300))
}
