//! Audit state of one session: its spend and its current loop.
//!
//! Only the loop itself counts as waste: a call counts if a guard still denies it, or trips on its result, after the
//! point where the loop would have been stopped. The tokens of the response that requested the first denied call are
//! already spent by then, so they are not waste.

use super::finding::{AuditedRun, LoopEnd, LoopFinding, ToolCallCounts};
use super::observe_mode::{effective_severity, is_loop_trip};
use super::open_loop::{LoopAftermath, OpenLoop, false_alarm_reason, is_new_result};
use super::preview;
use super::spend::Spend;
use flyball::policy::ToolEffect;
use flyball::{Decision, Event, EventKind, MessageOrigin, Policy, Trip, TripSeverity, guess_tool_effect};
use flyball_store::RedactingParser;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of calls without a finding after which a loop is over.
const MAX_QUIET_CALLS: u32 = 6;
/// Number of events whose line numbers are remembered.
const MAX_REMEMBERED_LINES: usize = 192;
/// Maximum number of open calls.
const MAX_OPEN_CALLS: usize = 64;
/// Maximum number of loops listed per session.
const MAX_LOOPS: usize = 200;
/// Outcomes that mean success.
const SUCCESS_OUTCOMES: [&str; 8] =
    ["success", "succeeded", "done", "completed", "complete", "ok", "resolved", "passed"];

/// Additional data about an event.
pub(super) struct AuditContext<'a> {
    pub(super) line: u64,
    pub(super) cost_micro_usd: u64,
    pub(super) redactor: &'a RedactingParser,
    pub(super) file: &'a str,
}

/// A call that has not finished.
struct AuditedCall {
    id: Option<String>,
    tool: String,
    /// The spend of requesting an allowed call. It becomes waste if the call's result is a finding.
    request_spend: Spend,
    /// Whether it was denied; its running time is then waste.
    blocked: bool,
}

/// The last requested call.
#[derive(Default)]
struct LastCall {
    id: Option<String>,
    tool: String,
    args: Value,
    /// Whether it equals the call before it.
    repeated: bool,
}

impl LastCall {
    fn matches(&self, tool: &str, args: &Value) -> bool {
        self.tool == tool && self.args == *args
    }
}

/// The most severe finding of an event.
#[derive(Clone, Copy)]
struct WorstTrip<'a> {
    trip: &'a Trip,
    severity: TripSeverity,
}

impl WorstTrip<'_> {
    fn is_blocking(found: Option<WorstTrip<'_>>) -> bool {
        found.is_some_and(|found| found.severity >= TripSeverity::Block)
    }
}

/// Audit state of one session.
pub(super) struct SessionTracker {
    policy: Arc<Policy>,
    run: AuditedRun,
    seq: u64,
    now: Option<u64>,
    /// Spend since the last call.
    unassigned_spend: Spend,
    lines: VecDeque<(u64, u64)>,
    open: Vec<AuditedCall>,
    last: LastCall,
    last_result: Value,
    open_loop: Option<OpenLoop>,
    aftermath: LoopAftermath,
}

impl SessionTracker {
    /// Starts a session under a policy.
    pub(super) fn new(session: &str, policy: Arc<Policy>) -> Self {
        SessionTracker {
            policy,
            run: AuditedRun { session: session.to_owned(), ..AuditedRun::default() },
            seq: 0,
            now: None,
            unassigned_spend: Spend::default(),
            lines: VecDeque::new(),
            open: Vec::new(),
            last: LastCall::default(),
            last_result: Value::Null,
            open_loop: None,
            aftermath: LoopAftermath::default(),
        }
    }

    /// Continues under another policy.
    pub(super) fn set_policy(&mut self, policy: Arc<Policy>) {
        self.policy = policy;
    }

    /// Processes an event and the decision of the observe-only governor.
    pub(super) fn push(&mut self, event: Event, decision: &Decision, context: &AuditContext<'_>) {
        if decision.seq <= self.seq {
            // A redelivered event was already counted.
            return;
        }
        self.seq = decision.seq;
        self.run.events += 1;
        let gap = self.add_spend(&event, context);
        if self.lines.len() == MAX_REMEMBERED_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((decision.seq, context.line));
        let found = self.worst_trip(&event, decision);
        match &event.kind {
            EventKind::ToolRequested { .. } => self.on_tool_requested(event, found, context),
            EventKind::ToolFinished { .. } => self.on_tool_finished(event, found, gap, context),
            _ => self.on_other_event(&event, found, context),
        }
    }

    /// Ends the session and returns its audit.
    pub(super) fn finish(mut self) -> AuditedRun {
        self.close_loop(None);
        self.assess_aftermath();
        self.run
    }

    /// Adds the event's spend and the time since the previous event; returns that time.
    fn add_spend(&mut self, event: &Event, context: &AuditContext<'_>) -> u64 {
        let at = event.at.or(self.now);
        let idle = matches!(event.kind, EventKind::UserMessage { origin: MessageOrigin::Human, .. });
        let gap = match (at, self.now) {
            (Some(at), Some(before)) if !idle => at.saturating_sub(before),
            _ => 0,
        };
        self.now = self.now.max(at);
        self.run.started_at = self.run.started_at.or(at);
        let tokens = event.usage.tokens();
        let spent = Spend { calls: 0, tokens, cost_micro_usd: context.cost_micro_usd, time_ms: gap };
        self.run.spend.add(&spent);
        self.unassigned_spend.add(&spent);
        gap
    }

    /// The most severe loop finding.
    fn worst_trip<'a>(&mut self, event: &Event, decision: &'a Decision) -> Option<WorstTrip<'a>> {
        let mut best: Option<WorstTrip<'a>> = None;
        for trip in &decision.trips {
            let severity = effective_severity(&self.policy, event, trip);
            if !is_loop_trip(trip) {
                self.run.over_budget |= trip.guard == "budget" && severity >= TripSeverity::Block;
            } else if severity >= TripSeverity::Warn && best.is_none_or(|best| severity > best.severity) {
                best = Some(WorstTrip { trip, severity });
            }
        }
        best
    }

    fn on_tool_requested(&mut self, event: Event, found: Option<WorstTrip<'_>>, context: &AuditContext<'_>) {
        let EventKind::ToolRequested { call, tool, args } = event.kind else { return };
        self.run.spend.calls += 1;
        let again = self.last.matches(&tool, &args);
        self.count_call(&tool, again);
        let asked = self.unassigned_spend.take();
        let before = self.is_stopped();
        self.record_trip(
            found,
            Some((&tool, &args)),
            &|| preview::call(&tool, &args, context.redactor),
            context,
        );
        let refused = WorstTrip::is_blocking(found);
        if refused {
            let mut waste = Spend::ONE_CALL;
            if before {
                waste.add(&asked);
            }
            self.add_waste(&tool, &waste);
        } else if found.is_none() {
            let row = self.open_loop.as_ref().filter(|row| row.finding.guard == "repetition");
            if row.is_some_and(|row| row.is_stopped_call(&tool, &args)) {
                // The guard allows the call that it had denied, so its result was new.
                self.close_loop(Some(LoopEnd::NewResult));
            }
            self.count_quiet_call();
        }
        if self.open.len() == MAX_OPEN_CALLS {
            self.open.remove(0);
        }
        let asked = if before && !refused { asked } else { Spend::default() };
        self.open.push(AuditedCall {
            id: call.clone(),
            tool: tool.clone(),
            request_spend: asked,
            blocked: refused,
        });
        self.last = LastCall { id: call, tool, args, repeated: again };
    }

    fn on_tool_finished(
        &mut self,
        event: Event,
        found: Option<WorstTrip<'_>>,
        gap: u64,
        context: &AuditContext<'_>,
    ) {
        let EventKind::ToolFinished { call, ok, output, error, tool, args, .. } = event.kind else { return };
        let open = self.open.iter().position(|open| open.id == call).map(|at| self.open.remove(at));
        let name = match &open {
            Some(open) => open.tool.clone(),
            None => {
                // A result without a request: the call starts and ends here.
                let tool = tool.unwrap_or_default();
                self.run.spend.calls += 1;
                let again = self.last.matches(&tool, &args);
                self.count_call(&tool, again);
                self.last = LastCall { id: call.clone(), tool: tool.clone(), args, repeated: again };
                tool
            }
        };
        let failed = !ok.unwrap_or(error.is_null());
        let result = if failed && !error.is_null() { error } else { output };
        let before = self.is_stopped();
        let last = std::mem::take(&mut self.last);
        self.record_trip(
            found,
            Some((&name, &last.args)),
            &|| preview::call(&name, &last.args, context.redactor),
            context,
        );
        let running = Spend { time_ms: gap, ..Spend::default() };
        match open {
            Some(open) if open.blocked => self.add_waste(&name, &running),
            open if before && WorstTrip::is_blocking(found) => {
                let mut waste = open.map_or(Spend::default(), |open| open.request_spend);
                waste.add(&Spend::ONE_CALL);
                waste.add(&running);
                self.add_waste(&name, &waste);
            }
            _ => {}
        }
        // The call's running time is not part of the next response's time.
        self.unassigned_spend.time_ms = self.unassigned_spend.time_ms.saturating_sub(gap);
        if last.id == call {
            self.on_result(&last, &result, failed);
        }
        self.last = last;
        self.last_result = result;
    }

    /// Processes a result: checks whether the repeated call returned something new, and whether something was changed.
    fn on_result(&mut self, last: &LastCall, result: &Value, failed: bool) {
        let row = self.open_loop.as_ref().filter(|row| row.is_stopped_call(&last.tool, &last.args));
        if row.is_some() && last.repeated && is_new_result(&self.last_result, result) {
            self.close_loop(Some(LoopEnd::NewResult));
        }
        let followed = self.open_loop.is_some() || !self.run.loops.is_empty();
        if followed && !failed {
            let effect = self
                .policy
                .tool_effect(&last.tool)
                .unwrap_or_else(|| guess_tool_effect(&last.tool, &last.args));
            self.aftermath.writes += u64::from(matches!(effect, ToolEffect::Write | ToolEffect::Destructive));
        }
    }

    fn on_other_event(&mut self, event: &Event, found: Option<WorstTrip<'_>>, context: &AuditContext<'_>) {
        match &event.kind {
            EventKind::UserMessage { origin: MessageOrigin::Human, .. } => {
                self.close_loop(Some(LoopEnd::Person));
                self.assess_aftermath();
            }
            EventKind::SessionStarted { parent, .. } => self.run.is_sub_agent |= parent.is_some(),
            EventKind::SessionEnded { outcome: Some(outcome) } => {
                self.aftermath.succeeded = SUCCESS_OUTCOMES.contains(&outcome.to_ascii_lowercase().as_str());
            }
            _ => {}
        }
        let before = self.is_stopped();
        self.record_trip(found, None, &|| preview::event(event, context.redactor), context);
        if before && WorstTrip::is_blocking(found) {
            let waste = self.unassigned_spend.take();
            self.add_waste("", &waste);
        }
    }

    fn count_call(&mut self, tool: &str, again: bool) {
        let habit = ToolCallCounts { calls: 1, repeated: u64::from(again) };
        match self.run.tools.get_mut(tool) {
            Some(known) => known.add(&habit),
            None => {
                self.run.tools.insert(tool.to_owned(), habit);
            }
        }
    }

    /// Whether the current loop would already have been stopped.
    fn is_stopped(&self) -> bool {
        self.open_loop.as_ref().is_some_and(|open_loop| open_loop.finding.stop.is_some())
    }

    fn add_waste(&mut self, tool: &str, spent: &Spend) {
        if let Some(open_loop) = &mut self.open_loop {
            open_loop.add_waste(tool, spent);
        }
    }

    /// Records a finding: it starts a loop, extends the current one, or marks the point where it would have been
    /// stopped.
    fn record_trip(
        &mut self,
        found: Option<WorstTrip<'_>>,
        call: Option<(&str, &Value)>,
        make_preview: &dyn Fn() -> String,
        context: &AuditContext<'_>,
    ) {
        let Some(WorstTrip { trip, severity }) = found else { return };
        let first = self.open_loop.is_none();
        if first {
            self.assess_aftermath();
        }
        self.aftermath = LoopAftermath::default();
        let (seq, now) = (self.seq, self.now);
        let session = &self.run.session;
        let open_loop = self.open_loop.get_or_insert_with(|| OpenLoop {
            finding: new_loop_finding(trip, context, session),
            call: (String::new(), Value::Null),
            quiet_calls: 0,
        });
        open_loop.extend(trip, context.line);
        let stops = severity >= TripSeverity::Block && open_loop.finding.stop.is_none();
        if !first && !stops {
            return;
        }
        if stops {
            open_loop.mark_stopped(trip, severity, (context.line, seq, now));
        }
        if let Some((tool, args)) = call {
            open_loop.call = (tool.to_owned(), args.clone());
        }
        open_loop.finding.tool = call.map(|(tool, _)| tool.to_owned());
        open_loop.finding.preview = make_preview();
        let line_of = |seq: &u64| self.lines.iter().find(|(known, _)| known == seq).map(|(_, line)| *line);
        open_loop.finding.lines = trip.evidence.events.iter().filter_map(line_of).collect();
    }

    /// Counts a call without a finding.
    fn count_quiet_call(&mut self) {
        if self.open_loop.is_none() && self.run.loops.is_empty() {
            return;
        }
        self.aftermath.calls += 1;
        if let Some(open_loop) = &mut self.open_loop {
            open_loop.quiet_calls += 1;
            if open_loop.quiet_calls >= MAX_QUIET_CALLS {
                self.close_loop(Some(LoopEnd::MovedOn));
            }
        }
    }

    /// Ends the current loop.
    fn close_loop(&mut self, end: Option<LoopEnd>) {
        let Some(mut open_loop) = self.open_loop.take() else { return };
        let by_itself = if open_loop.quiet_calls == 0 { LoopEnd::WithTheRun } else { LoopEnd::MovedOn };
        open_loop.finding.end = end.unwrap_or(by_itself);
        let full = self.run.loops.len() >= MAX_LOOPS;
        match self.run.loops.last_mut().filter(|_| full) {
            // The list is full, so further waste is added to the last loop.
            Some(last) => last.wasted.add(&open_loop.finding.wasted),
            None => self.run.loops.push(open_loop.finding),
        }
    }

    /// Assesses the calls after the last loop, before the next one starts.
    fn assess_aftermath(&mut self) {
        if let Some(last) = self.run.loops.last_mut().filter(|last| last.doubt.is_none()) {
            last.calls_after = last.calls_after.max(self.aftermath.calls);
            last.doubt = false_alarm_reason(last, &self.aftermath);
        }
    }
}

fn new_loop_finding(trip: &Trip, context: &AuditContext<'_>, session: &str) -> LoopFinding {
    LoopFinding {
        file: context.file.to_owned(),
        session: session.to_owned(),
        guard: trip.guard.clone(),
        reason: trip.reason.clone(),
        sign: None,
        tool: None,
        preview: String::new(),
        noticed: context.line,
        stop: None,
        message: trip.message.clone(),
        period: None,
        repeats: None,
        count: trip.count,
        last: context.line,
        lines: Vec::new(),
        wasted: Spend::default(),
        tools: BTreeMap::new(),
        end: LoopEnd::WithTheRun,
        calls_after: 0,
        doubt: None,
    }
}
