//! What a node does and where it leads, each in one line, for people.

use super::node::{Node, Work};
use super::spec::{Line, Next, Span, Wait};

impl Node {
    /// What it does.
    #[must_use]
    pub fn does(&self) -> String {
        match &self.work {
            Work::Command(command) => match &command.run {
                Line::Shell(line) => format!("runs `{}`", line.trim().lines().next().unwrap_or_default()),
                Line::Words(words) => format!("runs `{}`", words.join(" ")),
            },
            Work::Agent(agent) => {
                let tools = list(&agent.tools, " with ");
                format!("asks '{}'{tools}{}", agent.provider, list(&agent.gates, ", done when these pass: "))
            }
            Work::Decide(decide) => {
                let sure = decide.confidence;
                let ways = decide.allowed_destinations.join(", ");
                format!(
                    "lets '{}' choose one of {ways}: followed from {} %, put to a person from {} %",
                    decide.provider, sure.advance, sure.ask
                )
            }
            Work::Gate(gate) if gate.gates.is_empty() => "runs all gates".to_owned(),
            Work::Gate(gate) => format!("runs the gates {}", gate.gates.join(", ")),
            Work::Confirm(_) => "puts a plan to a person".to_owned(),
            Work::Collect(collect) => {
                let names: Vec<String> = collect.slots.iter().map(|slot| slot.name.clone()).collect();
                format!("finds out from a person{}", list(&names, ": "))
            }
            Work::Say(_) => "says something to the person".to_owned(),
            Work::Tool(tool) => format!("calls the tool '{}'", tool.tool),
            Work::Human(_) => "asks a person".to_owned(),
            Work::Join(join) => {
                let late = join.timeout.as_ref().and_then(Span::millis);
                let late = late.map_or_else(String::new, |millis| format!(", {millis} ms at most"));
                match join.wait {
                    Wait::All => format!("waits for all branches{late}"),
                    Wait::Any => format!("waits for the first branch{late}"),
                    Wait::Quorum => format!("waits for {} branches{late}", join.count.unwrap_or(1)),
                }
            }
            Work::Route(route) => format!("chooses by {} rules", route.rules.len()),
        }
    }

    /// Where it leads: one way, or one for each outcome.
    #[must_use]
    pub fn ways(&self) -> String {
        let shown = |next: &Next| match next {
            Next::One(name) => name.clone(),
            Next::Many(names) => format!("{} side by side", names.join(" and ")),
        };
        let mut ways: Vec<(String, Vec<&str>)> = Vec::new();
        let mut add = |to: String, word: &'static str| match ways.iter_mut().find(|(known, _)| *known == to) {
            Some((_, words)) => words.push(word),
            None => ways.push((to, vec![word])),
        };
        for status in self.work.may_end() {
            add(shown(&self.way(status)), status.as_str());
        }
        match &self.work {
            Work::Decide(decide) => {
                decide.allowed_destinations.iter().for_each(|to| add(to.clone(), "chosen"));
            }
            Work::Route(route) => {
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

fn list(names: &[String], before: &str) -> String {
    if names.is_empty() { String::new() } else { format!("{before}{}", names.join(", ")) }
}
