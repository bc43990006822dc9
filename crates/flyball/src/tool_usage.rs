//! Allowed, blocked and failed calls per tool, over the whole session.
//!
//! Used for reports only; no decision depends on it. Releases and user messages do not reset it.

use crate::call_ledger::EventFacts;
use crate::event::{Event, EventKind};
use crate::limits::TOOLS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name under which further tools are counted once there are [`TOOLS`].
const OTHERS: &str = "(others)";

/// Call counts of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// Allowed calls.
    pub calls: u64,
    /// Failed calls.
    pub failed: u64,
    /// Denied calls.
    pub refused: u64,
}

/// Call counts of all tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolUsageTable {
    tools: BTreeMap<String, ToolUsage>,
}

impl ToolUsageTable {
    /// Counts the tool call of an event.
    pub(crate) fn record(&mut self, event: &Event, facts: &EventFacts, refused: bool, seq: u64) {
        let Some(call) = &facts.call else { return };
        match &event.kind {
            EventKind::ToolRequested { .. } => {
                let tool = self.entry(&call.tool);
                let count = if refused { &mut tool.refused } else { &mut tool.calls };
                *count = count.saturating_add(1);
            }
            EventKind::ToolFinished { .. } => {
                let Some(result) = facts.result.as_ref().filter(|result| !result.ignored) else { return };
                let tool = self.entry(&call.tool);
                // A call that was never requested starts and ends here.
                tool.calls = tool.calls.saturating_add(u64::from(call.seq == seq));
                tool.failed = tool.failed.saturating_add(u64::from(result.failed));
            }
            _ => {}
        }
    }

    /// The counts by tool.
    pub(crate) const fn tools(&self) -> &BTreeMap<String, ToolUsage> {
        &self.tools
    }

    fn entry(&mut self, name: &str) -> &mut ToolUsage {
        let room = self.tools.len() < TOOLS || self.tools.contains_key(name);
        self.tools.entry(if room { name } else { OTHERS }.to_owned()).or_default()
    }
}
