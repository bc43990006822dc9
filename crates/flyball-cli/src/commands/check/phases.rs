//! Output of `flyball check` about the phases of a policy: limits, destinations, who decides, and loops.

use super::loop_json;
use crate::color::{TextStyle, style_stdout};
use crate::formatting::{plural, single_line};
use flyball::graph::{Loop, Workflow, find_loops};
use flyball::policy::{Policy, PolicyLayer};
use serde_json::{Value, json};
use std::io::Write;

/// A phase with its effective limits.
struct PhaseSummary<'l> {
    name: &'l str,
    max_visits: Option<u64>,
    /// Allowed destinations; `None` means any.
    destinations: Option<&'l [String]>,
    /// Each outcome and its destination in words.
    outcomes: Vec<(&'l str, String)>,
}

/// The phases of a policy file.
pub(super) struct PhaseReport<'l> {
    phases: Vec<PhaseSummary<'l>>,
    loops: Vec<Loop>,
}

impl<'l> PhaseReport<'l> {
    /// The phases defined by a layer; `None` if there are none.
    pub(super) fn from_layer(layer: &'l PolicyLayer, policy: &'l Policy) -> Option<Self> {
        let written = layer.tree.get("phases").and_then(Value::as_array)?;
        let list: Vec<PhaseSummary<'l>> =
            written.iter().filter_map(|phase| read_phase(phase, policy)).collect();
        let edges = list.iter().flat_map(|phase| {
            let leads = phase.destinations.unwrap_or_default().iter();
            leads.map(|to| (None, phase.name.to_owned(), to.clone()))
        });
        let start = list.first().map(|phase| phase.name.to_owned());
        let graph = Workflow::new(Vec::new(), edges, Vec::new());
        let start = start.filter(|start| graph.nodes.contains(start));
        Some(PhaseReport { loops: find_loops(&Workflow { start, ..graph }), phases: list })
    }

    /// The phases and their loops as JSON.
    pub(super) fn as_json(&self) -> Value {
        let phase = |phase: &PhaseSummary<'_>| {
            let outcomes = phase.outcomes.iter().map(|(outcome, to)| ((*outcome).to_owned(), json!(to)));
            json!({"name": phase.name, "max_visits": phase.max_visits, "allowed_destinations": phase.destinations,
                "transitions": outcomes.collect::<serde_json::Map<_, _>>()})
        };
        json!({"list": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "loops": self.loops.iter().map(loop_json).collect::<Vec<_>>()})
    }

    /// Prints one line per phase, then the loops.
    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}", plural(self.phases.len() as u64, "phase"))?;
        let width = self.phases.iter().map(|phase| phase.name.chars().count()).max().unwrap_or(0);
        for phase in &self.phases {
            let name = style_stdout(TextStyle::Heading, &format!("{:<width$}", single_line(phase.name, 60)));
            let visits = match phase.max_visits {
                Some(visits) => format!("at most {}", plural(visits, "visit")),
                None => "any number of visits".to_owned(),
            };
            let leads = match phase.destinations {
                None => "leads anywhere: it declares no transitions".to_owned(),
                Some([]) => "leads nowhere".to_owned(),
                Some(names) => format!("leads only to {}", names.join(", ")),
            };
            writeln!(out, "  {name}  {visits}; {}", single_line(&leads, 200))?;
            for (outcome, to) in &phase.outcomes {
                writeln!(out, "  {:width$}    {outcome}: {}", "", single_line(to, 200))?;
            }
        }
        for found in &self.loops {
            let id = style_stdout(TextStyle::Heading, &found.id);
            writeln!(out, "  {id}  {}, restarts at {}", found.nodes.join(", "), found.header)?;
        }
        Ok(())
    }
}

fn read_phase<'l>(phase: &'l Value, policy: &'l Policy) -> Option<PhaseSummary<'l>> {
    let name = phase.get("name").and_then(Value::as_str)?;
    let transitions = phase.get("transitions").and_then(Value::as_object);
    let outcomes = transitions.into_iter().flatten();
    Some(PhaseSummary {
        name,
        max_visits: policy.guards_for_node(name).visits.limit,
        destinations: policy.destinations_of(name),
        outcomes: outcomes.map(|(outcome, to)| (outcome.as_str(), destination_text(to))).collect(),
    })
}

/// The destination of an outcome in words.
fn destination_text(to: &Value) -> String {
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
