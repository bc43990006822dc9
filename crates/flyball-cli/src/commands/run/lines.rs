//! What is said while a run goes on: one plain line for each thing that matters.

use crate::paint::{Style, paint_out};
use crate::words::line;
use flyball::graph::{Loop, loops};
use flyball::{Kind, Verdict};
use flyball_run::engine::{Past, Watcher};
use flyball_run::workflow::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much of an output is shown.
const SHOWN: usize = 120;

/// Prints as the run goes.
pub(crate) struct Lines {
    json: bool,
    loops: Vec<Loop>,
    edges: BTreeMap<(String, String), String>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// Iterations of each loop.
    rounds: BTreeMap<String, u64>,
    /// The counts of each signal.
    trends: BTreeMap<String, Vec<String>>,
    /// The run was taken up again, and that was said.
    resumed: bool,
    /// The last words for a person.
    said: Option<String>,
}

impl Lines {
    pub(crate) fn new(plan: &Plan, json: bool) -> Self {
        let edges =
            plan.graph.edges.iter().map(|edge| ((edge.from.clone(), edge.to.clone()), edge.id.clone()));
        Lines { json, loops: loops(&plan.graph), edges: edges.collect(), told: Mutex::default() }
    }

    /// The first line.
    pub(crate) fn begin(&self, session: &str) -> std::io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(std::io::stdout().lock(), "{} {session}", paint_out(Style::Strong, "session"))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a signal went, as `7 → 4 → 2`.
    pub(crate) fn trends(&self) -> Vec<String> {
        let told = self.told();
        let shown = |(name, counts): (&String, &Vec<String>)| {
            let word = if name == "tests" { "failing tests" } else { name.as_str() };
            format!("{word} {}", counts.join(" → "))
        };
        told.trends.iter().map(shown).collect()
    }

    /// `Loop 3/8` for each loop that went round.
    pub(crate) fn rounds(&self, most: Option<u64>) -> Vec<String> {
        let most = most.map_or_else(|| "∞".to_owned(), |most| most.to_string());
        self.told().rounds.iter().map(|(id, count)| format!("Loop {count}/{most} ({id})")).collect()
    }

    fn print(&self, text: &str) {
        if !self.json {
            // If nobody listens any more, the run goes on all the same.
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
    }

    fn moved(&self, from: &str, to: &str) -> String {
        let edge = self.edges.get(&(from.to_owned(), to.to_owned()));
        let mut text = format!("  {from} → {to}");
        for found in self.loops.iter().filter(|found| edge.is_some_and(|edge| found.anchors.contains(edge))) {
            let mut told = self.told();
            let count = told.rounds.entry(found.id.clone()).or_insert(0);
            *count += 1;
            text.push_str(&format!("  {}", paint_out(Style::Dim, &format!("loop {count}"))));
        }
        text
    }

    fn progress(&self, kind: &Kind) -> Option<String> {
        let Kind::Progress { signal, value, failing, done, total, .. } = kind else { return None };
        let shown = if let Some(failing) = failing {
            failing.len().to_string()
        } else if let Some(value) = value {
            value.to_string()
        } else if let (Some(done), Some(total)) = (done, total) {
            format!("{done}/{total}")
        } else {
            return None;
        };
        let mut told = self.told();
        let counts = told.trends.entry(signal.clone()).or_default();
        counts.push(shown);
        let word = if signal == "tests" { "failing tests" } else { signal };
        Some(format!("  {word} {}", counts.join(" → ")))
    }

    fn event_line(&self, past: &Past) -> Option<String> {
        let node = past.event.node.as_deref().unwrap_or_default();
        match &past.event.kind {
            Kind::TurnStarted {} => Some(paint_out(Style::Strong, node)),
            Kind::TurnFinished { output, .. } => {
                let outcome = past.event.extra.get("outcome").and_then(Value::as_str).unwrap_or_default();
                let words = line(output.as_deref().unwrap_or_default(), SHOWN);
                Some(format!("  {outcome}: {words}"))
            }
            Kind::TransitionRequested { from, to, .. } if past.decision.decision < Verdict::Block => {
                Some(self.moved(from, to))
            }
            Kind::ToolRequested { tool, args, .. } => {
                Some(format!("  {tool} {}", line(&args.to_string(), SHOWN)))
            }
            Kind::AssistantMessage { text, .. } if !text.is_empty() => {
                Some(format!("  “{}”", line(text, SHOWN)))
            }
            kind @ Kind::Progress { .. } => self.progress(kind),
            _ => None,
        }
    }
}

impl Watcher for Lines {
    fn event(&self, past: &Past, live: bool) {
        for effect in past.decision.effects.iter().filter(|effect| effect.effect == "say") {
            self.told().said = effect.fields.get("text").and_then(Value::as_str).map(str::to_owned);
        }
        if self.json {
            if live {
                let whole = json!({"event": past.event.to_json(), "decision": past.decision});
                let _ = writeln!(std::io::stdout().lock(), "{whole}");
            }
            return;
        }
        let text = self.event_line(past);
        if !live {
            self.told().resumed = true;
            return;
        }
        if std::mem::take(&mut self.told().resumed) {
            self.print(&paint_out(Style::Dim, "taken up again where it was"));
        }
        if let Some(text) = text {
            self.print(&text);
        }
        for trip in &past.decision.trips {
            let style = if past.decision.decision >= Verdict::Block { Style::Bad } else { Style::Warn };
            let word = past.decision.decision.as_str();
            self.print(&format!("  {} {}", paint_out(style, word), line(&trip.message, 300)));
        }
        for effect in past.decision.effects.iter().filter(|effect| effect.effect == "say") {
            let words = effect.fields.get("text").and_then(Value::as_str).unwrap_or_default();
            self.print(&format!("  “{}”", line(words, 600)));
        }
    }

    fn output(&self, _session: &str, _node: &str, _text: &str) {}

    fn note(&self, text: &str) {
        self.print(&paint_out(Style::Dim, &format!("  {text}")));
    }
}
