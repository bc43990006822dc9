//! `stall`: work that goes on and moves nothing (seed 004).
//!
//! The same output of a node again and again, a diff that does not change, a set of failing tests that stays, no new
//! minimum of failures, a checklist or score that does not rise. Each is counted including the first observation. Any
//! signal that does move clears the repeated outputs, and so does a person who speaks: the same short answer to three
//! questions of theirs is no stall. A signal that the workflow declares and that did not come in an
//! iteration counts as unchanged. In a dialogue: turns of a person without any progress (`turns`).

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::{Better, Kind, Origin};
use crate::fingerprint::Fingerprint;
use crate::limits::{SHOWN_NAME_BYTES, SIGNALS};
use crate::observation::failing_set;
use crate::policy::OnStall;
use crate::rules_version::RulesVersion;
use crate::window::{Keyed, cut, keep};
use serde::{Deserialize, Serialize};
use serde_json::Number;

const OUTPUTS: usize = 64;
const TREND: usize = 8;
const NAMES: usize = 4;
const RECENT: usize = 4;

/// A row of equal observations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    value: Fingerprint,
    count: u32,
    first: u64,
}

impl Row {
    fn take(&mut self, value: Fingerprint, seq: u64) -> u64 {
        if self.value == value && self.count > 0 {
            self.count = self.count.saturating_add(1);
        } else {
            *self = Row { value, count: 1, first: seq };
        }
        u64::from(self.count)
    }
}

/// One progress signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Signal {
    name: String,
    row: Row,
    /// The best value so far, in thousandths, turned so that higher is better.
    best: Option<i64>,
    /// Observations since the best one.
    since: u32,
    trend: Vec<i64>,
    names: Vec<String>,
    /// The last states, newest last.
    recent: Vec<Fingerprint>,
    /// It came in the current iteration.
    seen: bool,
}

/// What was observed of outputs and signals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stall {
    outputs: Keyed<Row, OUTPUTS>,
    signals: Vec<Signal>,
    /// Turns of a person since something moved.
    idle_turns: u32,
}

/// One observation of a signal.
struct Observed {
    state: Fingerprint,
    /// In thousandths, higher is better; `None` if the signal has no order.
    score: Option<i64>,
    /// The number for the trend.
    shown: Option<i64>,
    names: Vec<String>,
    /// Nothing is left to do.
    done: bool,
}

/// Version 1 of the rules: whether the name of a signal sounds as if smaller numbers were better.
fn falls(signal: &str) -> bool {
    ["test", "fail", "error", "warning", "lint", "remaining", "open"].iter().any(|word| signal.contains(word))
}

#[expect(
    clippy::float_arithmetic,
    reason = "a measured number is read once and is whole thousandths from then on"
)]
fn thousandths(number: &Number) -> i64 {
    number.as_f64().map_or(0, |value| (value * 1000.0).round().clamp(-9e17, 9e17) as i64)
}

/// In which direction a number gets better, if that is known.
fn direction(signal: &str, better: Option<Better>, rules: RulesVersion) -> Option<Better> {
    if rules == RulesVersion::V1 {
        return Some(if falls(signal) { Better::Down } else { Better::Up });
    }
    better.or_else(|| Better::of_builtin(signal))
}

fn observed(kind: &Kind, content_state: Option<Fingerprint>, rules: RulesVersion) -> Option<Observed> {
    let Kind::Progress { signal, content, hash, value, failing, done, total, better } = kind else {
        return None;
    };
    let mut seen =
        Observed { state: Fingerprint::NONE, score: None, shown: None, names: Vec::new(), done: false };
    if let Some(failing) = failing {
        let names = failing_set(failing);
        let count = names.len() as i64;
        seen.state = Fingerprint::of_text(&names.join("\n"));
        seen.score = Some(-count * 1000);
        seen.shown = Some(count);
        seen.done = names.is_empty();
        seen.names = names.iter().take(NAMES).map(|name| cut(name, SHOWN_NAME_BYTES).to_owned()).collect();
    } else if let Some(done) = done {
        seen.state = Fingerprint::of(&done.to_le_bytes());
        seen.score = Some((*done).min(1 << 40) as i64 * 1000);
        seen.shown = Some((*done).min(1 << 40) as i64);
        seen.done = total.is_some_and(|total| *done >= total);
    } else if let Some(value) = value {
        let number = thousandths(value);
        seen.state = Fingerprint::of(&number.to_le_bytes());
        let direction = direction(signal, *better, rules);
        seen.score = direction.map(|better| if better == Better::Down { -number } else { number });
        seen.shown = Some(number / 1000);
        seen.done = direction == Some(Better::Down) && number <= 0;
    } else if content.is_some() {
        seen.state = content_state?;
    } else {
        seen.state = Fingerprint::of_text(hash.as_deref()?);
    }
    Some(seen)
}

impl Signal {
    /// Takes an observation and says whether it moved for the better.
    fn take(&mut self, observed: Observed, seq: u64) -> bool {
        self.seen = true;
        let row = self.row.take(observed.state, seq);
        if let Some(shown) = observed.shown {
            keep(&mut self.trend, shown, TREND);
        }
        keep(&mut self.recent, observed.state, RECENT);
        self.names = observed.names;
        let better = match observed.score {
            Some(score) => {
                let better = observed.done || self.best.is_none_or(|best| score > best);
                if better {
                    self.best = Some(score);
                    self.since = 0;
                } else {
                    self.since = self.since.saturating_add(1);
                }
                better
            }
            None => row == 1,
        };
        if observed.done {
            self.row.count = 0;
        }
        better
    }
}

fn limit_for(cx: &Cx<'_>, signal: &str) -> Option<u64> {
    let limits = &cx.limits.stall;
    if signal == "diff" { limits.diff } else { limits.failures }
}

/// What the policy wants first, then what else could help.
fn actions(on_stall: OnStall) -> Vec<&'static str> {
    let first = match on_stall {
        OnStall::Pause => "pause",
        OnStall::SwitchToInteractive => "switch_to_interactive",
        OnStall::SpawnReviewer => "spawn_reconciliation_node",
        OnStall::RetryWithNewProvider => "retry_with_new_provider",
    };
    let mut all = vec![first];
    all.extend(
        [
            "switch_to_interactive",
            "spawn_reconciliation_node",
            "tighten_context_pack",
            "update_docs_contract",
        ]
        .into_iter()
        .filter(|action| *action != first),
    );
    all
}

impl Stall {
    fn halt(cx: &Cx<'_>, message: String, count: u64, limit: u64) -> Draft {
        let mut draft = Draft::new("stall", "stalled", Severity::Halt, message)
            .count(count, limit)
            .actions(&actions(cx.policy.on_stall))
            .trail(cx.trail())
            .halts_as(HaltReason::Stalled)
            .feedback("The work goes on and nothing moves. It is stopped until a person has had a look.");
        if let Some(id) = cx.flow.loop_here() {
            draft = draft.scope("loop", id);
        }
        draft
    }

    fn output(&mut self, cx: &Cx<'_>, what: &str, value: Fingerprint, limit: Option<u64>, trips: &mut Trips) {
        let node = cx.event.node.as_deref().unwrap_or("");
        let row = self.outputs.entry(Fingerprint::of_text(what).with(Fingerprint::of_text(node)));
        let count = row.take(value, cx.seq);
        let first = row.first;
        let Some(limit) = limit.filter(|limit| count >= *limit && cx.limits.stall.mode.is_on()) else {
            return;
        };
        let whose = if node.is_empty() { "the agent".to_owned() } else { format!("'{}'", cx.label(node)) };
        let draft = Self::halt(cx, format!("{whose} gave the same {what} {count} times"), count, limit)
            .scope("node", node)
            .events(vec![first, cx.seq])
            .block(1, count, vec![value]);
        trips.add(cx.limits.stall.mode, draft);
    }

    fn signal(&mut self, cx: &Cx<'_>, name: &str, trips: &mut Trips) {
        let Some(seen) = observed(&cx.event.kind, cx.seen.content, cx.rules) else { return };
        let Some(at) = self.slot(name) else { return };
        let signal = &mut self.signals[at];
        let done = seen.done;
        if signal.take(seen, cx.seq) {
            self.outputs.clear();
            self.idle_turns = 0;
        }
        if !done {
            self.judge(cx, at, trips);
        }
    }

    /// The place of a signal, made if it is new and there is room.
    fn slot(&mut self, name: &str) -> Option<usize> {
        let name = cut(name, SHOWN_NAME_BYTES);
        if let Some(at) = self.signals.iter().position(|signal| signal.name == name) {
            return Some(at);
        }
        if self.signals.len() == SIGNALS {
            return None;
        }
        self.signals.push(Signal { name: name.to_owned(), ..Signal::default() });
        Some(self.signals.len() - 1)
    }

    fn judge(&self, cx: &Cx<'_>, at: usize, trips: &mut Trips) {
        let Some(signal) = self.signals.get(at) else { return };
        let (Some(limit), true) = (limit_for(cx, &signal.name), cx.limits.stall.mode.is_on()) else { return };
        let (same, since) = (u64::from(signal.row.count), u64::from(signal.since));
        let name = cx.label(&signal.name);
        let message = if same >= limit {
            match signal.trend.last() {
                Some(left) if !signal.names.is_empty() => {
                    format!("the same {left} failures of '{name}' {same} times")
                }
                _ => format!("'{name}' did not change in {same} observations"),
            }
        } else if since >= limit {
            format!("'{name}' has not become better in {since} observations")
        } else {
            return;
        };
        let draft = Self::halt(cx, message, same.max(since), limit)
            .scope("signal", &signal.name)
            .events(vec![signal.row.first, cx.seq])
            .block(1, same, vec![signal.row.value])
            .trend(signal.trend.clone())
            .names(signal.names.clone());
        trips.add(cx.limits.stall.mode, draft);
    }

    /// A loop begins anew: declared signals that did not come count as unchanged.
    fn iteration(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        for name in cx.flow.signals().iter().take(SIGNALS) {
            let Some(at) = self.slot(name) else { continue };
            let signal = &mut self.signals[at];
            if signal.seen {
                continue;
            }
            let value = signal.row.value;
            signal.row.take(value, cx.seq);
            self.judge(cx, at, trips);
        }
        for signal in &mut self.signals {
            signal.seen = false;
        }
    }

    fn turn_of_a_person(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        self.idle_turns = self.idle_turns.saturating_add(1);
        let (count, limits) = (u64::from(self.idle_turns), &cx.limits.stall);
        let Some(limit) = limits.turns.filter(|limit| count > *limit && limits.mode.is_on()) else { return };
        let message = format!("{limit} turns of the conversation brought no progress");
        let draft = Draft::new("stall", "no_progress", Severity::Block, message)
            .count(count, limit)
            .events(vec![cx.seq])
            .actions(&["hand_over_to_a_person", "start_over"])
            .halts_as(HaltReason::Stalled)
            .feedback("The conversation does not move. Offer to hand it over to a person.")
            .escalates();
        trips.add(limits.mode, draft);
    }

    /// The last states of one signal.
    pub(crate) fn hashes(&self, signal: &str) -> &[Fingerprint] {
        self.signals.iter().find(|known| known.name == signal).map_or(&[], |known| &known.recent)
    }

    /// The values of each signal in the order they were measured, for the graph and the report.
    pub(crate) fn trends(&self) -> impl Iterator<Item = (&str, &[i64])> {
        self.signals.iter().map(|signal| (signal.name.as_str(), signal.trend.as_slice()))
    }
}

impl Guard for Stall {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let limits = &cx.limits.stall;
        match &cx.event.kind {
            Kind::TurnFinished { .. } | Kind::AssistantMessage { is_final: true, .. } => {
                let turn = matches!(cx.event.kind, Kind::TurnFinished { .. });
                let (text, data) = if turn {
                    ("output", "structured output")
                } else {
                    ("final message", "structured message")
                };
                if let Some(state) = cx.seen.output {
                    self.output(cx, text, state, limits.output, trips);
                }
                if let Some(state) = cx.seen.structured {
                    self.output(cx, data, state, limits.structured, trips);
                }
            }
            Kind::Progress { signal, .. } => self.signal(cx, signal, trips),
            Kind::TransitionRequested { .. } if cx.flow.closes(cx.event).is_some() => {
                self.iteration(cx, trips)
            }
            Kind::UserMessage { origin: Origin::Human, .. } => self.turn_of_a_person(cx, trips),
            Kind::OperationSucceeded { .. } => self.idle_turns = 0,
            Kind::ToolFinished { .. } if cx.facts.result.as_ref().is_some_and(|result| result.new_write) => {
                self.idle_turns = 0;
                self.outputs.clear();
            }
            _ => {}
        }
    }

    fn fresh(&mut self) {
        self.outputs.clear();
    }

    fn reset(&mut self) {
        *self = Stall::default();
    }
}
