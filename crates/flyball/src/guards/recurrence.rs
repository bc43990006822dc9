//! `recurrence`: calls that tell nothing new, with no fixed period.
//!
//! Three signs, each with no new write and no word from a person between:
//! - most of the last calls gave a (call, result) that was already seen (`stale` of the last `window`): the same few
//!   calls in any order, a long cycle before its third pass, paging that wraps around;
//! - one (call, result) was seen more than `limit` times, between other calls that do tell something: a warning;
//! - one tool called again and again with arguments that differ in their numbers only, announced each time by the
//!   same sentence, or going over ground that was covered before (`drift`).

use super::drift::{Drift, Sign};
use super::{Cx, Draft, Guard, Trips, ladder};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::ledger::{CallFacts, ResultFacts};
use crate::limits::SEEN_PAIRS;
use crate::policy::{Effect, Recurrence as Limits};
use crate::window::Keyed;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The longest window of calls that is looked back at.
const WINDOW: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    count: u32,
    last: u64,
}

/// One call of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recent {
    pair: Fingerprint,
    seq: u64,
    stale: bool,
}

/// What was seen since the last new write or word from a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recurrence {
    pairs: Keyed<Seen, SEEN_PAIRS>,
    window: VecDeque<Recent>,
    drift: Drift,
    blocks: u32,
}

impl Recurrence {
    fn stale(&self, limits: &Limits) -> u64 {
        let window = (limits.window as usize).min(WINDOW);
        self.window.iter().rev().take(window).filter(|recent| recent.stale).count() as u64
    }

    /// Whether the newest result of this call is already known, so that it would probably tell nothing.
    fn foreseen(&self, call: &CallFacts) -> bool {
        !call.told.is_none() && self.pairs.contains(call.call.with(call.told))
    }

    fn ask_stale(&self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.recurrence;
        let Some(limit) = limits.stale else { return };
        let stale = self.stale(limits);
        if stale + 1 < limit || !self.foreseen(call) {
            return;
        }
        let severity = if stale < limit { Severity::Warn } else { ladder(self.blocks, limits.blocks) };
        let window = limits.window.min(WINDOW as u64).min(self.window.len() as u64);
        let message = format!(
            "{stale} of the last {window} calls told nothing that was not known, and nothing new was written"
        );
        let events = self.window.iter().rev().take(window as usize).filter(|r| r.stale).map(|r| r.seq);
        let mut events: Vec<u64> = events.collect();
        events.reverse();
        let mut known: Vec<Fingerprint> = self.window.iter().filter(|r| r.stale).map(|r| r.pair).collect();
        known.sort_unstable();
        known.dedup();
        let mut draft = Draft::new("recurrence", "recurrence", severity, message)
            .count(stale, limit)
            .scope("tool", &call.tool)
            .events(events)
            .actions(&["try_different_approach", "switch_to_interactive", "tighten_context_pack"])
            .halts_as(HaltReason::Stalled)
            .feedback(format!(
                "{stale} of your last {window} calls repeated what you already knew, and nothing was changed between. \
                 Use what you have, change something, or say what is missing."
            ));
        draft.trip.evidence.fingerprints =
            known.into_iter().take(crate::limits::EVIDENCE_FINGERPRINTS).collect();
        trips.add(limits.mode, draft);
    }

    fn ask_drift(&self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.recurrence;
        let Some((found, limit)) =
            limits.drift.and_then(|limit| Some((self.drift.judge(call, limit)?, limit)))
        else {
            return;
        };
        let severity = if found.refuse { ladder(self.blocks, limits.blocks) } else { Severity::Warn };
        let (tool, count) = (&call.tool, found.count);
        let how = match found.sign {
            Sign::SameSentence => "announced by the same sentence",
            Sign::OldGround => "going over ground that was covered before",
        };
        let shown = cx.label(tool);
        let message =
            format!("tool '{shown}' called {count} times in a row with only the numbers changed, {how}");
        let draft = Draft::new("recurrence", "recurrence", severity, message)
            .count(count, limit)
            .scope("tool", tool)
            .scope("sign", "drift")
            .events(vec![self.drift.first(), self.drift.last(), cx.seq])
            .block(1, count, vec![call.skeleton])
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halts_as(HaltReason::Stalled)
            .feedback(format!(
                "You have called '{shown}' {count} times in a row, only with other numbers. \
                 Search for what you need instead of leafing through, or work with what you have."
            ));
        trips.add(limits.mode, draft);
    }

    fn tell_result(&mut self, cx: &Cx<'_>, call: &CallFacts, result: &ResultFacts, trips: &mut Trips) {
        if result.new_write {
            self.pairs.clear();
            self.window.clear();
            self.drift.end();
            self.blocks = 0;
            return;
        }
        if call.twin || call.effect == Effect::Poll {
            return;
        }
        let seen = self.pairs.entry(result.pair);
        let stale = seen.count > 0;
        seen.count = seen.count.saturating_add(1);
        let (count, before) = (u64::from(seen.count), seen.last);
        seen.last = call.seq;
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(Recent { pair: result.pair, seq: call.seq, stale });
        let limits = &cx.limits.recurrence;
        if limits.mode.is_on() && limits.limit.is_some_and(|limit| count == limit + 1) {
            let tool = &call.tool;
            let shown = cx.label(tool);
            let message = format!(
                "the same call of '{shown}' gave the same result {count} times, with nothing new written between"
            );
            let draft = Draft::new("recurrence", "recurrence", Severity::Warn, message)
                .count(count, limits.limit.unwrap_or(0))
                .scope("tool", tool)
                .events(vec![before, call.seq])
                .actions(&["try_different_approach"])
                .feedback(format!(
                    "This call of '{shown}' has now given the same result {count} times, and nothing was changed between. Its answer will not change."
                ));
            trips.add(limits.mode, draft);
        }
    }
}

impl Guard for Recurrence {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        if !cx.limits.recurrence.mode.is_on() || call.twin || call.effect == Effect::Poll {
            return;
        }
        self.ask_stale(cx, call, trips);
        self.ask_drift(cx, call, trips);
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match (&cx.event.kind, &cx.facts.call) {
            (Kind::AssistantMessage { text, .. }, _) => self.drift.heard(text),
            (Kind::ToolRequested { .. }, Some(call)) if !call.twin => self.drift.called(call),
            (Kind::ToolFinished { .. }, Some(call)) => {
                if let Some(result) = cx.facts.result.as_ref().filter(|result| !result.ignored) {
                    self.tell_result(cx, call, result, trips);
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, _cx: &Cx<'_>, mine: bool) {
        if mine {
            self.blocks = self.blocks.saturating_add(1);
        }
    }

    fn fresh(&mut self) {
        *self = Recurrence::default();
    }

    fn reset(&mut self) {
        *self = Recurrence::default();
    }
}
