//! One session on its way through the audit: what it spends, and which loop it is in.
//!
//! What is counted as waste is the loop itself and nothing else: a call counts if a guard still refuses it, or refuses
//! what came of it, after the point at which the loop would have been stopped. The tokens of the answer that asked for
//! the first refused call are spent before anybody can refuse it, so they are not waste.

use super::episode::{Episode, Sequel, doubt, tells_new};
use super::finding::{End, Habit, Loop, Run};
use super::preview;
use super::spend::Spend;
use super::watched::{is_loop, weight};
use flyball::policy::Effect;
use flyball::{Decision, Event, Kind, Origin, Policy, Severity, Trip, effect_of};
use flyball_journal::Door;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Calls without a finding after which a loop is over.
const QUIET: u32 = 6;
/// How many events are remembered with their lines.
const LINES: usize = 192;
/// How many calls may be open at once.
const OPEN: usize = 64;
/// How many loops of one session are told one by one.
const LOOPS: usize = 200;
/// Outcomes that say that a run ended well.
const WELL: [&str; 8] = ["success", "succeeded", "done", "completed", "complete", "ok", "resolved", "passed"];

/// What is known of one event besides itself.
pub(super) struct Context<'a> {
    pub(super) line: u64,
    pub(super) cost_micro_usd: u64,
    pub(super) door: &'a Door,
    pub(super) file: &'a str,
}

/// A call that has not ended.
struct OpenCall {
    id: Option<String>,
    tool: String,
    /// What it took to ask for it, if it was not refused: it is waste if its end is a finding.
    asked: Spend,
    /// It was refused: the time that it takes is waste.
    refused: bool,
}

/// The last call that was asked for.
#[derive(Default)]
struct LastCall {
    id: Option<String>,
    tool: String,
    args: Value,
    /// The call before it was the same.
    again: bool,
}

impl LastCall {
    fn is(&self, tool: &str, args: &Value) -> bool {
        self.tool == tool && self.args == *args
    }
}

/// The gravest finding of an event.
#[derive(Clone, Copy)]
struct Found<'a> {
    trip: &'a Trip,
    severity: Severity,
}

impl Found<'_> {
    fn refuses(found: Option<Found<'_>>) -> bool {
        found.is_some_and(|found| found.severity >= Severity::Block)
    }
}

/// A session on its way.
pub(super) struct Track {
    policy: Arc<Policy>,
    run: Run,
    seq: u64,
    now: Option<u64>,
    /// Spent since the last call.
    waiting: Spend,
    lines: VecDeque<(u64, u64)>,
    open: Vec<OpenCall>,
    last: LastCall,
    result: Value,
    episode: Option<Episode>,
    sequel: Sequel,
}

impl Track {
    /// A session that begins under a policy.
    pub(super) fn new(session: &str, policy: Arc<Policy>) -> Self {
        Track {
            policy,
            run: Run { session: session.to_owned(), ..Run::default() },
            seq: 0,
            now: None,
            waiting: Spend::default(),
            lines: VecDeque::new(),
            open: Vec::new(),
            last: LastCall::default(),
            result: Value::Null,
            episode: None,
            sequel: Sequel::default(),
        }
    }

    /// Goes on under another policy.
    pub(super) fn under(&mut self, policy: Arc<Policy>) {
        self.policy = policy;
    }

    /// Takes an event with the decision that it got from a governor that stops nothing.
    pub(super) fn take(&mut self, event: Event, decision: &Decision, cx: &Context<'_>) {
        if decision.seq <= self.seq {
            // A redelivery: it was counted when it came first.
            return;
        }
        self.seq = decision.seq;
        self.run.events += 1;
        let gap = self.spend(&event, cx);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((decision.seq, cx.line));
        let found = self.gravest(&event, decision);
        match &event.kind {
            Kind::ToolRequested { .. } => self.requested(event, found, cx),
            Kind::ToolFinished { .. } => self.finished(event, found, gap, cx),
            _ => self.other(&event, found, cx),
        }
    }

    /// Ends the session and says how it went.
    pub(super) fn finish(mut self) -> Run {
        self.close(None);
        self.settle();
        self.run
    }

    /// Adds what the event used up, and the time since the one before it; gives that time.
    fn spend(&mut self, event: &Event, cx: &Context<'_>) -> u64 {
        let at = event.at.or(self.now);
        let idle = matches!(event.kind, Kind::UserMessage { origin: Origin::Human, .. });
        let gap = match (at, self.now) {
            (Some(at), Some(before)) if !idle => at.saturating_sub(before),
            _ => 0,
        };
        self.now = self.now.max(at);
        self.run.began = self.run.began.or(at);
        let tokens = event.usage.tokens();
        let spent = Spend { calls: 0, tokens, cost_micro_usd: cx.cost_micro_usd, time_ms: gap };
        self.run.spend.add(&spent);
        self.waiting.add(&spent);
        gap
    }

    /// The gravest finding that is about going round.
    fn gravest<'a>(&mut self, event: &Event, decision: &'a Decision) -> Option<Found<'a>> {
        let mut best: Option<Found<'a>> = None;
        for trip in &decision.trips {
            let severity = weight(&self.policy, event, trip);
            if !is_loop(trip) {
                self.run.over_budget |= trip.guard == "budget" && severity >= Severity::Block;
            } else if severity >= Severity::Warn && best.is_none_or(|best| severity > best.severity) {
                best = Some(Found { trip, severity });
            }
        }
        best
    }

    fn requested(&mut self, event: Event, found: Option<Found<'_>>, cx: &Context<'_>) {
        let Kind::ToolRequested { call, tool, args } = event.kind else { return };
        self.run.spend.calls += 1;
        let again = self.last.is(&tool, &args);
        self.habit(&tool, again);
        let asked = self.waiting.take();
        let before = self.stopped();
        self.note(found, Some((&tool, &args)), &|| preview::call(&tool, &args, cx.door), cx);
        let refused = Found::refuses(found);
        if refused {
            let mut waste = Spend::CALL;
            if before {
                waste.add(&asked);
            }
            self.waste(&tool, &waste);
        } else if found.is_none() {
            let row = self.episode.as_ref().filter(|row| row.found.guard == "repetition");
            if row.is_some_and(|row| row.is_stopped_call(&tool, &args)) {
                // The guard lets the very call pass that it had refused: it has told something new.
                self.close(Some(End::NewResult));
            }
            self.calm();
        }
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        let asked = if before && !refused { asked } else { Spend::default() };
        self.open.push(OpenCall { id: call.clone(), tool: tool.clone(), asked, refused });
        self.last = LastCall { id: call, tool, args, again };
    }

    fn finished(&mut self, event: Event, found: Option<Found<'_>>, gap: u64, cx: &Context<'_>) {
        let Kind::ToolFinished { call, ok, output, error, tool, args, .. } = event.kind else { return };
        let open = self.open.iter().position(|open| open.id == call).map(|at| self.open.remove(at));
        let name = match &open {
            Some(open) => open.tool.clone(),
            None => {
                // Never asked for: it begins and ends here.
                let tool = tool.unwrap_or_default();
                self.run.spend.calls += 1;
                let again = self.last.is(&tool, &args);
                self.habit(&tool, again);
                self.last = LastCall { id: call.clone(), tool: tool.clone(), args, again };
                tool
            }
        };
        let failed = !ok.unwrap_or(error.is_null());
        let result = if failed && !error.is_null() { error } else { output };
        let before = self.stopped();
        let last = std::mem::take(&mut self.last);
        self.note(found, Some((&name, &last.args)), &|| preview::call(&name, &last.args, cx.door), cx);
        let running = Spend { time_ms: gap, ..Spend::default() };
        match open {
            Some(open) if open.refused => self.waste(&name, &running),
            open if before && Found::refuses(found) => {
                let mut waste = open.map_or(Spend::default(), |open| open.asked);
                waste.add(&Spend::CALL);
                waste.add(&running);
                self.waste(&name, &waste);
            }
            _ => {}
        }
        // The time that the call ran is not part of what the next answer takes.
        self.waiting.time_ms = self.waiting.time_ms.saturating_sub(gap);
        if last.id == call {
            self.learned(&last, &result, failed);
        }
        self.last = last;
        self.result = result;
    }

    /// A call ended: did the one that is repeated tell something new, or was something changed?
    fn learned(&mut self, last: &LastCall, result: &Value, failed: bool) {
        let row = self.episode.as_ref().filter(|row| row.is_stopped_call(&last.tool, &last.args));
        if row.is_some() && last.again && tells_new(&self.result, result) {
            self.close(Some(End::NewResult));
        }
        let followed = self.episode.is_some() || !self.run.loops.is_empty();
        if followed && !failed {
            let effect =
                self.policy.effect_of(&last.tool).unwrap_or_else(|| effect_of(&last.tool, &last.args));
            self.sequel.writes += u64::from(matches!(effect, Effect::Write | Effect::Destructive));
        }
    }

    fn other(&mut self, event: &Event, found: Option<Found<'_>>, cx: &Context<'_>) {
        match &event.kind {
            Kind::UserMessage { origin: Origin::Human, .. } => {
                self.close(Some(End::Person));
                self.settle();
            }
            Kind::SessionStarted { parent, .. } => self.run.child |= parent.is_some(),
            Kind::SessionEnded { outcome: Some(outcome) } => {
                self.sequel.well = WELL.contains(&outcome.to_ascii_lowercase().as_str());
            }
            _ => {}
        }
        let before = self.stopped();
        self.note(found, None, &|| preview::event(event, cx.door), cx);
        if before && Found::refuses(found) {
            let waste = self.waiting.take();
            self.waste("", &waste);
        }
    }

    fn habit(&mut self, tool: &str, again: bool) {
        let habit = Habit { calls: 1, again: u64::from(again) };
        match self.run.tools.get_mut(tool) {
            Some(known) => known.add(&habit),
            None => {
                self.run.tools.insert(tool.to_owned(), habit);
            }
        }
    }

    /// Whether the loop that goes on would have been stopped already.
    fn stopped(&self) -> bool {
        self.episode.as_ref().is_some_and(|episode| episode.found.stop.is_some())
    }

    fn waste(&mut self, tool: &str, spent: &Spend) {
        if let Some(episode) = &mut self.episode {
            episode.waste(tool, spent);
        }
    }

    /// Takes a finding: it begins a loop, belongs to the one that goes on, or would have stopped it.
    fn note(
        &mut self,
        found: Option<Found<'_>>,
        call: Option<(&str, &Value)>,
        told: &dyn Fn() -> String,
        cx: &Context<'_>,
    ) {
        let Some(Found { trip, severity }) = found else { return };
        let first = self.episode.is_none();
        if first {
            self.settle();
        }
        self.sequel = Sequel::default();
        let (seq, now) = (self.seq, self.now);
        let session = &self.run.session;
        let episode = self.episode.get_or_insert_with(|| Episode {
            found: begun(trip, cx, session),
            call: (String::new(), Value::Null),
            calm: 0,
        });
        episode.goes_on(trip, cx.line);
        let stops = severity >= Severity::Block && episode.found.stop.is_none();
        if !first && !stops {
            return;
        }
        if stops {
            episode.stops(trip, severity, (cx.line, seq, now));
        }
        if let Some((tool, args)) = call {
            episode.call = (tool.to_owned(), args.clone());
        }
        episode.found.tool = call.map(|(tool, _)| tool.to_owned());
        episode.found.preview = told();
        let line_of = |seq: &u64| self.lines.iter().find(|(known, _)| known == seq).map(|(_, line)| *line);
        episode.found.lines = trip.evidence.events.iter().filter_map(line_of).collect();
    }

    /// A call without a finding.
    fn calm(&mut self) {
        if self.episode.is_none() && self.run.loops.is_empty() {
            return;
        }
        self.sequel.calls += 1;
        if let Some(episode) = &mut self.episode {
            episode.calm += 1;
            if episode.calm >= QUIET {
                self.close(Some(End::MovedOn));
            }
        }
    }

    /// Ends the loop that goes on.
    fn close(&mut self, end: Option<End>) {
        let Some(mut episode) = self.episode.take() else { return };
        let by_itself = if episode.calm == 0 { End::WithTheRun } else { End::MovedOn };
        episode.found.end = end.unwrap_or(by_itself);
        let full = self.run.loops.len() >= LOOPS;
        match self.run.loops.last_mut().filter(|_| full) {
            // There is no end of loops here: the rest is told as one with the last.
            Some(last) => last.after.add(&episode.found.after),
            None => self.run.loops.push(episode.found),
        }
    }

    /// Looks at what followed the last loop, before the next one begins.
    fn settle(&mut self) {
        if let Some(last) = self.run.loops.last_mut().filter(|last| last.doubt.is_none()) {
            last.calls_after = last.calls_after.max(self.sequel.calls);
            last.doubt = doubt(last, &self.sequel);
        }
    }
}

fn begun(trip: &Trip, cx: &Context<'_>, session: &str) -> Loop {
    Loop {
        file: cx.file.to_owned(),
        session: session.to_owned(),
        guard: trip.guard.clone(),
        reason: trip.reason.clone(),
        sign: None,
        tool: None,
        preview: String::new(),
        noticed: cx.line,
        stop: None,
        message: trip.message.clone(),
        period: None,
        repeats: None,
        count: trip.count,
        last: cx.line,
        lines: Vec::new(),
        after: Spend::default(),
        tools: BTreeMap::new(),
        end: End::WithTheRun,
        calls_after: 0,
        doubt: None,
    }
}
