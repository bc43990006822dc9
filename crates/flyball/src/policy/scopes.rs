//! The keys of one node, edge or tool.

use super::section_reader::{PolicySection, SectionReader};
use super::values::StricterDirection;
use super::{EdgePolicy, GuardMode, NodePolicy, ToolEffect, ToolPolicy};
use crate::guards::ScopeKind;

impl PolicySection for NodePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        self.budget.read_keys(f);
        f.flag("allow_cycles", &mut self.allow_cycles, StricterDirection::Less);
        f.names("allowed_destinations", &mut self.allowed_destinations);
        self.guards.read_scope(ScopeKind::Node, f);
    }
}

impl PolicySection for EdgePolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        self.guards.read_scope(ScopeKind::Edge, f);
    }
}

impl PolicySection for ToolPolicy {
    fn read_keys(&mut self, f: &mut SectionReader<'_>) {
        // A destructive call needs approval, so declaring the effect tightens the policy if approvals are required at
        // all.
        let approvals =
            matches!(self.guards.confirmation.mode, GuardMode::Staged | GuardMode::Block | GuardMode::Halt);
        f.optional_keyword("effect", &mut self.effect, approvals.then_some(ToolEffect::Destructive));
        self.guards.read_scope(ScopeKind::Tool, f);
    }
}
