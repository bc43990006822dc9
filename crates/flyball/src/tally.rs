//! What each tool was asked for, was refused and failed at, over the whole session (seed 002).
//!
//! It decides nothing. A release or a person's message does not set it back, so that a report can say what a session
//! did all in all.

use crate::event::{Event, Kind};
use crate::ledger::Facts;
use crate::limits::TOOLS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the calls of further tools are counted once there are [`TOOLS`].
const OTHERS: &str = "(others)";

/// What was counted of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Calls that were let through.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were refused.
    pub refused: u64,
}

/// The counts of all tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    tools: BTreeMap<String, ToolUse>,
}

impl Tally {
    /// Counts what an event says of a tool.
    pub(crate) fn note(&mut self, event: &Event, facts: &Facts, refused: bool, seq: u64) {
        let Some(call) = &facts.call else { return };
        match &event.kind {
            Kind::ToolRequested { .. } => {
                let tool = self.of(&call.tool);
                let count = if refused { &mut tool.refused } else { &mut tool.calls };
                *count = count.saturating_add(1);
            }
            Kind::ToolFinished { .. } => {
                let Some(result) = facts.result.as_ref().filter(|result| !result.ignored) else { return };
                let tool = self.of(&call.tool);
                // A call that nobody asked for begins and ends here.
                tool.calls = tool.calls.saturating_add(u64::from(call.seq == seq));
                tool.failed = tool.failed.saturating_add(u64::from(result.failed));
            }
            _ => {}
        }
    }

    /// The counts by tool.
    pub(crate) const fn tools(&self) -> &BTreeMap<String, ToolUse> {
        &self.tools
    }

    fn of(&mut self, name: &str) -> &mut ToolUse {
        let room = self.tools.len() < TOOLS || self.tools.contains_key(name);
        self.tools.entry(if room { name } else { OTHERS }.to_owned()).or_default()
    }
}
