//! Behavior of each node kind.

mod agent;
mod agent_tools;
mod collect;
mod command_node;
mod confirm;
mod decide;
mod gate_node;
mod human;
mod human_io;
mod model_call;
mod route;
mod tool;

use crate::engine::{NodeOutcome, RunStop, Turn};
use crate::workflow::NodeKind;

/// Runs a node.
pub(crate) fn run(turn: &mut Turn<'_>) -> Result<NodeOutcome, RunStop> {
    let node = turn.node;
    match &node.kind {
        NodeKind::Command(command) => command_node::run(turn, command),
        NodeKind::Agent(agent) => agent::run(turn, agent),
        NodeKind::Decide(decide) => decide::run(turn, decide),
        NodeKind::Gate(gate) => gate_node::run(turn, gate),
        NodeKind::Confirm(confirm) => confirm::run(turn, confirm),
        NodeKind::Collect(collect) => collect::run(turn, collect),
        NodeKind::Say(say) => human::run_say(turn, say),
        NodeKind::Tool(tool) => tool::run(turn, tool),
        NodeKind::Human(human) => human::run(turn, human),
        // The fork executes its join. A join reached without a fork passes through.
        NodeKind::Join(_) => Ok(NodeOutcome::success("")),
        NodeKind::Route(route) => route::run(turn, route),
    }
}
