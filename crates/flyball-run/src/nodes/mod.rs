//! What each kind of node does in its turn.

mod agent;
mod agent_tools;
mod collect;
mod command;
mod confirm;
mod decide;
mod gate;
mod human;
mod model;
mod route;
mod talk;
mod tool;

use crate::engine::{Outcome, Stop, Turn};
use crate::workflow::Work;

/// Runs a node.
pub(crate) fn run(turn: &mut Turn<'_>) -> Result<Outcome, Stop> {
    let node = turn.node;
    match &node.work {
        Work::Command(command) => command::run(turn, command),
        Work::Agent(agent) => agent::run(turn, agent),
        Work::Decide(decide) => decide::run(turn, decide),
        Work::Gate(gate) => gate::run(turn, gate),
        Work::Confirm(confirm) => confirm::run(turn, confirm),
        Work::Collect(collect) => collect::run(turn, collect),
        Work::Say(say) => human::say(turn, say),
        Work::Tool(tool) => tool::run(turn, tool),
        Work::Human(human) => human::run(turn, human),
        // A join is walked by those who branched; one that nobody branched for lets everybody through.
        Work::Join(_) => Ok(Outcome::success("")),
        Work::Route(route) => route::run(turn, route),
    }
}
