//! One-line descriptions of nodes and their edges, for people.

use super::node::{Node, NodeKind};
use super::spec::{CommandLine, JoinWait, NextNodes, WorkflowDuration};

impl Node {
    /// The work this node does.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Command(command) => match &command.run {
                CommandLine::Shell(line) => {
                    format!("runs `{}`", line.trim().lines().next().unwrap_or_default())
                }
                CommandLine::Argv(words) => format!("runs `{}`", words.join(" ")),
            },
            NodeKind::Agent(agent) => {
                let tools = join_names(&agent.tools, " with ");
                format!(
                    "asks '{}'{tools}{}",
                    agent.provider,
                    join_names(&agent.gates, ", done when these pass: ")
                )
            }
            NodeKind::Decide(decide) => {
                let sure = decide.confidence;
                let ways = decide.allowed_destinations.join(", ");
                format!(
                    "lets '{}' choose one of {ways}: accepted from {}% confidence, asks a person from {}%",
                    decide.provider, sure.advance, sure.ask
                )
            }
            NodeKind::Gate(gate) if gate.gates.is_empty() => "runs all gates".to_owned(),
            NodeKind::Gate(gate) => format!("runs the gates {}", gate.gates.join(", ")),
            NodeKind::Confirm(_) => "asks a person to approve a plan".to_owned(),
            NodeKind::Collect(collect) => {
                let names: Vec<String> = collect.slots.iter().map(|slot| slot.name.clone()).collect();
                format!("collects from a person{}", join_names(&names, ": "))
            }
            NodeKind::Say(_) => "sends a message to the person".to_owned(),
            NodeKind::Tool(tool) => format!("calls the tool '{}'", tool.tool),
            NodeKind::Human(_) => "asks a person".to_owned(),
            NodeKind::Join(join) => {
                let late = join.timeout.as_ref().and_then(WorkflowDuration::millis);
                let late = late.map_or_else(String::new, |millis| format!(", at most {millis} ms"));
                match join.wait {
                    JoinWait::All => format!("waits for all branches{late}"),
                    JoinWait::Any => format!("waits for the first branch{late}"),
                    JoinWait::Quorum => format!("waits for {} branches{late}", join.count.unwrap_or(1)),
                }
            }
            NodeKind::Route(route) => format!("chooses by {} rules", route.rules.len()),
        }
    }

    /// Edges: one target, or one per outcome.
    #[must_use]
    pub fn describe_edges(&self) -> String {
        let shown = |next: &NextNodes| match next {
            NextNodes::One(name) => name.clone(),
            NextNodes::Many(names) => format!("{} in parallel", names.join(" and ")),
        };
        let mut ways: Vec<(String, Vec<&str>)> = Vec::new();
        let mut add = |to: String, word: &'static str| match ways.iter_mut().find(|(known, _)| *known == to) {
            Some((_, words)) => words.push(word),
            None => ways.push((to, vec![word])),
        };
        for status in self.kind.possible_statuses() {
            add(shown(&self.next_for(status)), status.as_str());
        }
        match &self.kind {
            NodeKind::Decide(decide) => {
                decide.allowed_destinations.iter().for_each(|to| add(to.clone(), "chosen"));
            }
            NodeKind::Route(route) => {
                route.rules.iter().for_each(|rule| add(rule.to.clone(), "by rule"));
                add(route.otherwise.clone(), "otherwise");
            }
            _ => {}
        }
        if let Some(next) = &self.common.on_refused {
            add(shown(next), "refused");
        }
        match ways.as_slice() {
            [(to, _)] => format!("then {to}"),
            ways => {
                let way = |(to, words): &(String, Vec<&str>)| format!("{} → {to}", words.join(", "));
                ways.iter().map(way).collect::<Vec<_>>().join("; ")
            }
        }
    }
}

fn join_names(names: &[String], before: &str) -> String {
    if names.is_empty() { String::new() } else { format!("{before}{}", names.join(", ")) }
}
