//! What `flyball check` says about the phases of a policy: limits, where each leads, who decides, and the loops among them.

use super::loop_json;
use crate::paint::{Style, paint_out};
use crate::words::{line, plural};
use flyball::graph::{Loop, Workflow, loops};
use flyball::policy::{Layer, Policy};
use serde_json::{Value, json};
use std::io::Write;

/// A phase as it was written, with what holds for it.
struct Phase<'l> {
    name: &'l str,
    max_visits: Option<u64>,
    /// Where it may lead; `None` = anywhere.
    destinations: Option<&'l [String]>,
    /// Each outcome, and where it leads in words.
    outcomes: Vec<(&'l str, String)>,
}

/// The phases of a policy file.
pub(super) struct Phases<'l> {
    list: Vec<Phase<'l>>,
    loops: Vec<Loop>,
}

impl<'l> Phases<'l> {
    /// The phases that a layer writes; nothing if it writes none.
    pub(super) fn of(layer: &'l Layer, policy: &'l Policy) -> Option<Self> {
        let written = layer.tree.get("phases").and_then(Value::as_array)?;
        let list: Vec<Phase<'l>> = written.iter().filter_map(|phase| read(phase, policy)).collect();
        let edges = list.iter().flat_map(|phase| {
            let leads = phase.destinations.unwrap_or_default().iter();
            leads.map(|to| (None, phase.name.to_owned(), to.clone()))
        });
        let start = list.first().map(|phase| phase.name.to_owned());
        let graph = Workflow::new(Vec::new(), edges, Vec::new());
        let start = start.filter(|start| graph.nodes.contains(start));
        Some(Phases { loops: loops(&Workflow { start, ..graph }), list })
    }

    /// As JSON: the phases, and the loops among them.
    pub(super) fn as_json(&self) -> Value {
        let phase = |phase: &Phase<'_>| {
            let outcomes = phase.outcomes.iter().map(|(outcome, to)| ((*outcome).to_owned(), json!(to)));
            json!({"name": phase.name, "max_visits": phase.max_visits, "allowed_destinations": phase.destinations,
                "transitions": outcomes.collect::<serde_json::Map<_, _>>()})
        };
        json!({"list": self.list.iter().map(phase).collect::<Vec<_>>(),
            "loops": self.loops.iter().map(loop_json).collect::<Vec<_>>()})
    }

    /// One line a phase, then the loops.
    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}", plural(self.list.len() as u64, "phase"))?;
        let width = self.list.iter().map(|phase| phase.name.chars().count()).max().unwrap_or(0);
        for phase in &self.list {
            let name = paint_out(Style::Strong, &format!("{:<width$}", line(phase.name, 60)));
            let visits = match phase.max_visits {
                Some(visits) => format!("at most {}", plural(visits, "visit")),
                None => "any number of visits".to_owned(),
            };
            let leads = match phase.destinations {
                None => "leads anywhere: it declares no transitions".to_owned(),
                Some([]) => "leads nowhere".to_owned(),
                Some(names) => format!("leads only to {}", names.join(", ")),
            };
            writeln!(out, "  {name}  {visits}; {}", line(&leads, 200))?;
            for (outcome, to) in &phase.outcomes {
                writeln!(out, "  {:width$}    {outcome}: {}", "", line(to, 200))?;
            }
        }
        for found in &self.loops {
            let id = paint_out(Style::Strong, &found.id);
            writeln!(out, "  {id}  {}, begins again at {}", found.nodes.join(", "), found.header)?;
        }
        Ok(())
    }
}

fn read<'l>(phase: &'l Value, policy: &'l Policy) -> Option<Phase<'l>> {
    let name = phase.get("name").and_then(Value::as_str)?;
    let transitions = phase.get("transitions").and_then(Value::as_object);
    let outcomes = transitions.into_iter().flatten();
    Some(Phase {
        name,
        max_visits: policy.guards_for_node(name).visits.limit,
        destinations: policy.destinations_of(name),
        outcomes: outcomes.map(|(outcome, to)| (outcome.as_str(), told(to))).collect(),
    })
}

/// Where an outcome leads.
fn told(to: &Value) -> String {
    let text = |key: &str| to.get(key).and_then(Value::as_str);
    let names = to.get("allowed_destinations").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    if let Some(name) = to.as_str() {
        return name.to_owned();
    }
    let who = text("capability").map_or_else(String::new, |who| format!(" by '{who}'"));
    let asked = text("prompt").map_or_else(String::new, |prompt| format!(", asked \"{prompt}\""));
    format!("decided{who} among {}{asked} (the caller decides; Flyball enforces the list)", names.join(", "))
}
