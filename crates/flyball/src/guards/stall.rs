//! `stall`: work without progress.
//!
//! Detects repeated node outputs, an unchanged diff, an unchanged set of failing tests, no new minimum of failures, and
//! a checklist or score that does not rise. Counts include the first observation. Progress on any signal clears the
//! repeated outputs, and so does a user message: the same short answer to three questions is not a stall. A declared
//! signal that is not reported in an iteration counts as unchanged. In a dialogue, counts user turns without progress
//! (`turns`).

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{BoundedMap, push_bounded, truncate_bytes};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::{BetterDirection, EventKind, MessageOrigin};
use crate::fingerprint::Fingerprint;
use crate::limits::{SHOWN_NAME_BYTES, SIGNALS};
use crate::observation::sorted_failing;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{Count, IN_A_ROW_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit, OnStallAction};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "No progress: unchanged outputs, diffs or failing tests.")
        .table("outputs, diffs, sets of failures and scores that do not change", "halt")
        .reasons(&[
            Reason::exhausted("stalled", "The agent is active, but no progress signal has changed."),
            Reason::exhausted("no_progress", "The agent is active, but no progress signal has changed."),
        ])
        .scopes::<StallPolicy>(&[Node]);

settings! {
    /// Consecutive identical observations, including the first.
    pub struct StallPolicy: "StallFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Consecutive identical outputs that trip the guard.
        output: Limit = Some(3) => Count(IN_A_ROW_RANGE, Less);
        /// Consecutive identical structured outputs that trip the guard.
        structured: Limit = Some(3) => Count(IN_A_ROW_RANGE, Less);
        /// Consecutive identical diffs that trip the guard.
        diff: Limit = Some(2) => Count(IN_A_ROW_RANGE, Less);
        /// Consecutive test runs with the same failures, or without a new minimum, that trip the guard.
        failures: Limit = Some(3) => Count(IN_A_ROW_RANGE, Less);
        /// Conversation turns allowed without any progress.
        turns: Limit = Some(10) => Count(IN_A_ROW_RANGE, Less), in Agent => None;
    }
}

const MAX_OUTPUTS: usize = 64;
const MAX_TREND: usize = 8;
const MAX_NAMES: usize = 4;
const MAX_RECENT: usize = 4;

/// A run of equal observations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct EqualRun {
    value: Fingerprint,
    count: u32,
    first_seq: u64,
}

impl EqualRun {
    fn push(&mut self, value: Fingerprint, seq: u64) -> u64 {
        if self.value == value && self.count > 0 {
            self.count = self.count.saturating_add(1);
        } else {
            *self = EqualRun { value, count: 1, first_seq: seq };
        }
        u64::from(self.count)
    }
}

/// One progress signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SignalState {
    name: String,
    run: EqualRun,
    /// Best value so far, in thousandths, with the sign adjusted so that higher is better.
    best: Option<i64>,
    /// Observations since the best one.
    since_best: u32,
    trend: Vec<i64>,
    names: Vec<String>,
    /// The last states, newest last.
    recent: Vec<Fingerprint>,
    /// Whether it was reported in the current iteration.
    reported: bool,
}

/// Observed outputs and signals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StallGuard {
    outputs: BoundedMap<EqualRun, MAX_OUTPUTS>,
    signals: Vec<SignalState>,
    /// User turns since the last progress.
    idle_turns: u32,
}

/// One observation of a signal.
struct SignalObservation {
    state: Fingerprint,
    /// In thousandths, higher is better; `None` if the signal has no order.
    score: Option<i64>,
    /// The number for the trend.
    shown: Option<i64>,
    names: Vec<String>,
    /// Whether nothing is left to do.
    done: bool,
}

/// Version 1 of the rules: guesses from a signal's name whether lower numbers are better.
fn is_lower_better_by_name(signal: &str) -> bool {
    ["test", "fail", "error", "warning", "lint", "remaining", "open"].iter().any(|word| signal.contains(word))
}

#[expect(clippy::float_arithmetic, reason = "a measured number is converted once to integer thousandths")]
fn thousandths(number: &Number) -> i64 {
    number.as_f64().map_or(0, |value| (value * 1000.0).round().clamp(-9e17, 9e17) as i64)
}

/// The direction in which a number improves, if known.
fn direction(signal: &str, better: Option<BetterDirection>, rules: RulesVersion) -> Option<BetterDirection> {
    if rules == RulesVersion::V1 {
        return Some(if is_lower_better_by_name(signal) {
            BetterDirection::Down
        } else {
            BetterDirection::Up
        });
    }
    better.or_else(|| BetterDirection::for_builtin_signal(signal))
}

fn parse_observation(
    kind: &EventKind,
    content_state: Option<Fingerprint>,
    rules: RulesVersion,
) -> Option<SignalObservation> {
    let EventKind::Progress { signal, content, hash, value, failing, done, total, better } = kind else {
        return None;
    };
    let mut seen = SignalObservation {
        state: Fingerprint::NONE,
        score: None,
        shown: None,
        names: Vec::new(),
        done: false,
    };
    if let Some(failing) = failing {
        let names = sorted_failing(failing);
        let count = names.len() as i64;
        seen.state = Fingerprint::of_text(&names.join("\n"));
        seen.score = Some(-count * 1000);
        seen.shown = Some(count);
        seen.done = names.is_empty();
        seen.names = names
            .iter()
            .take(MAX_NAMES)
            .map(|name| truncate_bytes(name, SHOWN_NAME_BYTES).to_owned())
            .collect();
    } else if let Some(done) = done {
        seen.state = Fingerprint::of(&done.to_le_bytes());
        seen.score = Some((*done).min(1 << 40) as i64 * 1000);
        seen.shown = Some((*done).min(1 << 40) as i64);
        seen.done = total.is_some_and(|total| *done >= total);
    } else if let Some(value) = value {
        let number = thousandths(value);
        seen.state = Fingerprint::of(&number.to_le_bytes());
        let direction = direction(signal, *better, rules);
        seen.score = direction.map(|better| if better == BetterDirection::Down { -number } else { number });
        seen.shown = Some(number / 1000);
        seen.done = direction == Some(BetterDirection::Down) && number <= 0;
    } else if content.is_some() {
        seen.state = content_state?;
    } else {
        seen.state = Fingerprint::of_text(hash.as_deref()?);
    }
    Some(seen)
}

impl SignalState {
    /// Records an observation and returns whether it is an improvement.
    fn push(&mut self, observed: SignalObservation, seq: u64) -> bool {
        self.reported = true;
        let row = self.run.push(observed.state, seq);
        if let Some(shown) = observed.shown {
            push_bounded(&mut self.trend, shown, MAX_TREND);
        }
        push_bounded(&mut self.recent, observed.state, MAX_RECENT);
        self.names = observed.names;
        let better = match observed.score {
            Some(score) => {
                let better = observed.done || self.best.is_none_or(|best| score > best);
                if better {
                    self.best = Some(score);
                    self.since_best = 0;
                } else {
                    self.since_best = self.since_best.saturating_add(1);
                }
                better
            }
            None => row == 1,
        };
        if observed.done {
            self.run.count = 0;
        }
        better
    }
}

fn limit_for(cx: &GuardContext<'_>, signal: &str) -> Option<u64> {
    let limits = &cx.limits.stall;
    if signal == "diff" { limits.diff } else { limits.failures }
}

/// Suggested actions: the policy's `on_stall` action first, then alternatives.
fn actions(on_stall: OnStallAction) -> Vec<&'static str> {
    let first = match on_stall {
        OnStallAction::Pause => "pause",
        OnStallAction::SwitchToInteractive => "switch_to_interactive",
        OnStallAction::SpawnReviewer => "spawn_reconciliation_node",
        OnStallAction::RetryWithNewProvider => "retry_with_new_provider",
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

impl StallGuard {
    fn stall_trip(cx: &GuardContext<'_>, message: String, count: u64, limit: u64) -> TripBuilder {
        let mut draft = TripBuilder::new("stall", "stalled", TripSeverity::Halt, message)
            .count(count, limit)
            .actions(&actions(cx.policy.on_stall))
            .trail(cx.trail())
            .halt_reason(HaltReason::Stalled)
            .feedback(cx.rules.wording(
                "The work goes on and nothing moves. It is stopped until a person has had a look.",
                "The work is not making progress. It is stopped until a person has reviewed it.",
            ));
        if let Some(id) = cx.position.innermost_loop() {
            draft = draft.scope("loop", id);
        }
        draft
    }

    fn record_output(
        &mut self,
        cx: &GuardContext<'_>,
        what: &str,
        value: Fingerprint,
        limit: Option<u64>,
        trips: &mut Trips,
    ) {
        let node = cx.event.node.as_deref().unwrap_or("");
        let row = self.outputs.entry(Fingerprint::of_text(what).combine(Fingerprint::of_text(node)));
        let count = row.push(value, cx.seq);
        let first = row.first_seq;
        let Some(limit) = limit.filter(|limit| count >= *limit && cx.limits.stall.mode.is_on()) else {
            return;
        };
        let whose =
            if node.is_empty() { "the agent".to_owned() } else { format!("'{}'", cx.safe_name(node)) };
        let produced = cx.rules.wording("gave", "produced");
        let message = format!("{whose} {produced} the same {what} {count} times");
        let draft = Self::stall_trip(cx, message, count, limit)
            .scope("node", node)
            .events(vec![first, cx.seq])
            .repeating(1, count, vec![value]);
        trips.add(cx.limits.stall.mode, draft);
    }

    fn record_signal(&mut self, cx: &GuardContext<'_>, name: &str, trips: &mut Trips) {
        let Some(seen) = parse_observation(&cx.event.kind, cx.observation.content, cx.rules) else { return };
        let Some(at) = self.signal_index(name) else { return };
        let signal = &mut self.signals[at];
        let done = seen.done;
        if signal.push(seen, cx.seq) {
            self.outputs.clear();
            self.idle_turns = 0;
        }
        if !done {
            self.check_signal(cx, at, trips);
        }
    }

    /// Index of a signal, which is added if it is new and there is capacity.
    fn signal_index(&mut self, name: &str) -> Option<usize> {
        let name = truncate_bytes(name, SHOWN_NAME_BYTES);
        if let Some(at) = self.signals.iter().position(|signal| signal.name == name) {
            return Some(at);
        }
        if self.signals.len() == SIGNALS {
            return None;
        }
        self.signals.push(SignalState { name: name.to_owned(), ..SignalState::default() });
        Some(self.signals.len() - 1)
    }

    fn check_signal(&self, cx: &GuardContext<'_>, at: usize, trips: &mut Trips) {
        let Some(signal) = self.signals.get(at) else { return };
        let (Some(limit), true) = (limit_for(cx, &signal.name), cx.limits.stall.mode.is_on()) else { return };
        let (same, since) = (u64::from(signal.run.count), u64::from(signal.since_best));
        let name = cx.safe_name(&signal.name);
        let message = if same >= limit {
            match signal.trend.last() {
                Some(left) if !signal.names.is_empty() => cx.rules.wording(
                    format!("the same {left} failures of '{name}' {same} times"),
                    format!("'{name}' reported the same {left} failures {same} times"),
                ),
                _ => format!("'{name}' did not change in {same} observations"),
            }
        } else if since >= limit {
            let improved = cx.rules.wording("become better", "improved");
            format!("'{name}' has not {improved} in {since} observations")
        } else {
            return;
        };
        let draft = Self::stall_trip(cx, message, same.max(since), limit)
            .scope("signal", &signal.name)
            .events(vec![signal.run.first_seq, cx.seq])
            .repeating(1, same, vec![signal.run.value])
            .trend(signal.trend.clone())
            .names(signal.names.clone());
        trips.add(cx.limits.stall.mode, draft);
    }

    /// Starts a loop iteration: declared signals that were not reported count as unchanged.
    fn on_iteration(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        for name in cx.position.signals().iter().take(SIGNALS) {
            let Some(at) = self.signal_index(name) else { continue };
            let signal = &mut self.signals[at];
            if signal.reported {
                continue;
            }
            let value = signal.run.value;
            signal.run.push(value, cx.seq);
            self.check_signal(cx, at, trips);
        }
        for signal in &mut self.signals {
            signal.reported = false;
        }
    }

    fn on_user_turn(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        self.idle_turns = self.idle_turns.saturating_add(1);
        let (count, limits) = (u64::from(self.idle_turns), &cx.limits.stall);
        let Some(limit) = limits.turns.filter(|limit| count > *limit && limits.mode.is_on()) else { return };
        let message = cx.rules.wording(
            format!("{limit} turns of the conversation brought no progress"),
            format!("no progress in {limit} turns of the conversation"),
        );
        let draft = TripBuilder::new("stall", "no_progress", TripSeverity::Block, message)
            .count(count, limit)
            .events(vec![cx.seq])
            .actions(&["hand_over_to_a_person", "start_over"])
            .halt_reason(HaltReason::Stalled)
            .feedback(cx.rules.wording(
                "The conversation does not move. Offer to hand it over to a person.",
                "The conversation is not making progress. Offer to hand it over to a person.",
            ))
            .escalate();
        trips.add(limits.mode, draft);
    }

    /// The last states of one signal.
    pub(crate) fn recent_hashes(&self, signal: &str) -> &[Fingerprint] {
        self.signals.iter().find(|known| known.name == signal).map_or(&[], |known| &known.recent)
    }

    /// The values of each signal in measurement order, for the graph and the report.
    pub(crate) fn trends(&self) -> impl Iterator<Item = (&str, &[i64])> {
        self.signals.iter().map(|signal| (signal.name.as_str(), signal.trend.as_slice()))
    }
}

impl Guard for StallGuard {
    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let limits = &cx.limits.stall;
        match &cx.event.kind {
            EventKind::TurnFinished { .. } | EventKind::AssistantMessage { is_final: true, .. } => {
                let turn = matches!(cx.event.kind, EventKind::TurnFinished { .. });
                let (text, data) = if turn {
                    ("output", "structured output")
                } else {
                    ("final message", "structured message")
                };
                if let Some(state) = cx.observation.output {
                    self.record_output(cx, text, state, limits.output, trips);
                }
                if let Some(state) = cx.observation.structured {
                    self.record_output(cx, data, state, limits.structured, trips);
                }
            }
            EventKind::Progress { signal, .. } => self.record_signal(cx, signal, trips),
            EventKind::TransitionRequested { .. } if cx.position.loop_closed_by(cx.event).is_some() => {
                self.on_iteration(cx, trips)
            }
            EventKind::UserMessage { origin: MessageOrigin::Human, .. } => self.on_user_turn(cx, trips),
            EventKind::OperationSucceeded { .. } => self.idle_turns = 0,
            EventKind::ToolFinished { .. }
                if cx.facts.result.as_ref().is_some_and(|result| result.new_write) =>
            {
                self.idle_turns = 0;
                self.outputs.clear();
            }
            _ => {}
        }
    }

    fn on_user_input(&mut self) {
        self.outputs.clear();
    }

    fn reset(&mut self) {
        *self = StallGuard::default();
    }
}
