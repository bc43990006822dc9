//! Decodes bytes into events: one opcode per step, followed by a few bytes of choices.

use flyball::{
    BetterDirection, Check, DeniedBy, Event, EventId, EventKind, Fingerprint, MessageOrigin, PlanStep,
    ReleaseMode, Usage, graph::Workflow,
};
use serde_json::{Map, Value, json};

const SESSIONS: [&str; 4] = ["default", "default", "child", "other"];
const NODES: [&str; 4] = ["a", "b", "c", "d"];
const TOOLS: [&str; 6] = ["bash", "read_file", "edit_file", "job_output", "delete_task", "search"];
const COMMANDS: [&str; 6] = ["ls", "cat a.py", "cat b.py", "rm -rf build", "pytest -q", "echo 1"];
const OUTPUTS: [&str; 10] = [
    "",
    "A",
    "B",
    "1 failed, 3 passed in 0.12s",
    "1 failed, 3 passed in 4.70s",
    "2 failed, 2 passed in 0.12s",
    "[2026-11-15T12:07:07Z] pid 4091: /tmp/run-d86f",
    "[2026-11-15T12:09:31Z] pid 77: /tmp/run-1c00",
    "Error: no such file: x.py",
    "\u{1b}[31mfailed\u{1b}[0m 50%\rdone",
];
const TEXTS: [&str; 10] = [
    "yes",
    "no",
    "maybe",
    "ok, but only the first",
    "да",
    "sí",
    "stop",
    "I will try again. I will try again. I will try again.",
    "done",
    "Which file?",
];
const GUARDS: [&str; 8] =
    ["repetition", "cycle", "budget", "visits", "transitions", "confirmation", "retry", "nothing"];
const CHECKS: [&str; 3] = ["tests", "lint", "build"];
const SIGNALS: [&str; 4] = ["diff", "tests", "checklist", "docs"];

/// The next step.
pub(super) enum HistoryStep {
    /// A new event.
    New(Event),
    /// The last event again.
    Again,
}

/// Decodes bytes into steps until the bytes end.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    at: u64,
    /// Whether a session has_policy a policy. Only one may, because resolving it takes as long as a hundred steps.
    has_policy: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, at: 0, has_policy: false }
    }

    pub(super) fn next(&mut self) -> Option<HistoryStep> {
        loop {
            let opcode = self.byte()?;
            match opcode % 32 {
                30 => return Some(HistoryStep::Again),
                31 => {
                    // If the bytes are not an event, continue with the next opcode.
                    if let Some(event) = self.raw() {
                        return Some(HistoryStep::New(event));
                    }
                }
                kind => return Some(HistoryStep::New(self.event(kind, opcode / 32))),
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// A choice; zero after the end of the bytes.
    fn choice(&mut self) -> usize {
        usize::from(self.byte().unwrap_or(0))
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.choice() % all.len()]
    }

    fn text(&mut self, all: &[&str]) -> String {
        self.of(all).to_owned()
    }

    fn raw(&mut self) -> Option<Event> {
        let length = self.choice().min(self.bytes.len());
        let (line, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Event::from_bytes(line).ok()
    }

    /// `flavor` is the high bits of the opcode: session, time and envelope.
    fn event(&mut self, kind: u8, flavor: u8) -> Event {
        self.at += [1_000, 1_000, 1, 20_000, 1_000, 400_000, 1_000, 1_001][usize::from(flavor % 8)];
        let envelope = if flavor >= 4 { self.choice() } else { 0 };
        let session = SESSIONS[envelope % 4];
        let kind = self.kind(kind);
        let mut event = Event::new(session, kind).at(self.at);
        if envelope & 4 != 0 {
            event = event.node(NODES[envelope / 64]);
        }
        if envelope & 8 != 0 {
            event = event.round(u64::try_from(envelope / 64).unwrap_or(0));
        }
        if envelope & 16 != 0 {
            event = event.usage(Usage { tokens_in: 100, tokens_out: 20, cost_micro_usd: 90_000 });
        }
        if envelope & 32 != 0 {
            let body = Fingerprint::of_text(&format!("{:?}", event.kind));
            event.id = Some(EventId { id: format!("i{}", envelope / 64), body });
        }
        event
    }

    fn kind(&mut self, kind: u8) -> EventKind {
        match kind {
            0..=7 => self.tool(kind),
            8..=13 => self.flow(kind),
            14..=20 => self.work(kind),
            21..=25 => self.people(kind),
            _ => self.session(kind),
        }
    }

    fn tool(&mut self, kind: u8) -> EventKind {
        let call = Some(format!("c{}", self.choice() % 24));
        match kind {
            0..=3 => {
                let (tool, args) = self.call();
                EventKind::ToolRequested { call, tool, args }
            }
            4..=6 => self.finished(call),
            _ => {
                let by = self.of(&[DeniedBy::Human, DeniedBy::Policy, DeniedBy::Guard]);
                EventKind::ToolDenied { call, by, tool: Some("bash".into()), args: Value::Null }
            }
        }
    }

    fn call(&mut self) -> (String, Value) {
        let tool = self.text(&TOOLS);
        let args = match self.choice() {
            at @ 0..=191 => json!({ "command": COMMANDS[at % COMMANDS.len()] }),
            at @ 192..=223 => json!({"path": "a.py", "offset": at * 50}),
            at @ 224..=239 => json!(format!("{{\"command\": \"{}\"}}", COMMANDS[at % COMMANDS.len()])),
            _ => Value::Null,
        };
        (tool, args)
    }

    fn finished(&mut self, call: Option<String>) -> EventKind {
        let choice = self.choice();
        let output = json!(OUTPUTS[choice % OUTPUTS.len()]);
        let ok = [Some(true), Some(true), Some(false), None][choice / 64];
        let error = if ok == Some(false) { output.clone() } else { Value::Null };
        let tool = (choice % 16 == 15).then(|| "search".to_owned());
        EventKind::ToolFinished { call, ok, output, error, duration_ms: Some(5), tool, args: Value::Null }
    }

    fn flow(&mut self, kind: u8) -> EventKind {
        match kind {
            8 | 9 => {
                let (from, to) = (self.text(&NODES), self.text(&NODES));
                EventKind::TransitionRequested { from, to, edge: None }
            }
            10 => EventKind::TurnStarted {},
            11 => {
                let (output, structured) = (self.text(&OUTPUTS), json!({ "answer": self.of(&OUTPUTS) }));
                EventKind::TurnFinished {
                    output: Some(output),
                    structured: Some(structured),
                    duration_ms: None,
                }
            }
            12 => {
                let text = self.text(&TEXTS);
                let origin = self.of(&[MessageOrigin::Human, MessageOrigin::Agent, MessageOrigin::Schedule]);
                EventKind::UserMessage { text, origin }
            }
            _ => EventKind::AssistantMessage { text: self.text(&TEXTS), structured: None, is_final: false },
        }
    }

    fn work(&mut self, kind: u8) -> EventKind {
        match kind {
            14 | 15 => self.progress(),
            16 => {
                let kind = Some(self.text(&["malformed_json", "missing_field", "unknown_tool", "truncated"]));
                EventKind::ValidationFailed { kind, expected: None, received: None, error: None }
            }
            17 => EventKind::ValidationPassed {},
            18 => EventKind::OperationFailed { operation: self.text(&NODES), key: None },
            19 => EventKind::OperationSucceeded { operation: self.text(&NODES), key: None },
            _ => self.gate(),
        }
    }

    fn progress(&mut self) -> EventKind {
        let signal = self.text(&SIGNALS);
        let choice = self.choice();
        let word = OUTPUTS[choice % OUTPUTS.len()].to_owned();
        let small = u64::try_from(choice % 7).unwrap_or(0);
        let (mut content, mut value, mut failing, mut done) = (None, None, None, None);
        match choice / 64 {
            0 => content = Some(word),
            1 => value = Some(small.into()),
            2 => failing = Some(vec![word]),
            _ => done = Some(small),
        }
        let better = [None, Some(BetterDirection::Up), Some(BetterDirection::Down)][choice % 3];
        EventKind::Progress { signal, content, hash: None, value, failing, done, total: Some(6), better }
    }

    fn gate(&mut self) -> EventKind {
        let choice = self.choice();
        let checks = CHECKS.iter().enumerate().map(|(at, name)| Check {
            name: (*name).to_owned(),
            passed: choice >> at & 1 == 1,
            skipped: choice >> (at + 3) & 1 == 1,
            output: OUTPUTS[choice % OUTPUTS.len()].to_owned(),
            ..Check::default()
        });
        EventKind::GateChecked { request: None, checks: checks.collect() }
    }

    fn people(&mut self, kind: u8) -> EventKind {
        match kind {
            21 => {
                let plan = (0..self.choice() % 3).map(|_| self.call()).collect::<Vec<_>>();
                let plan = plan.into_iter().map(|(tool, args)| PlanStep { tool, args }).collect();
                let ttl_ms = self.of(&[None, Some(0), Some(30_000)]);
                let requester = self.of(&[None, Some("ann")]).map(str::to_owned);
                EventKind::ConfirmationRequested {
                    plan,
                    question: None,
                    requester,
                    ttl_ms,
                    targets: Vec::new(),
                }
            }
            22 | 23 => {
                let by = self.of(&[None, Some("ann"), Some("bob")]).map(str::to_owned);
                EventKind::ConfirmationAnswered {
                    text: Some(self.text(&TEXTS)),
                    value: None,
                    by,
                    digest: None,
                }
            }
            24 => EventKind::QuestionAsked { text: self.text(&TEXTS) },
            _ => {
                let guard = Some(self.text(&GUARDS));
                let mode = self.of(&[ReleaseMode::Grant, ReleaseMode::Reset, ReleaseMode::Keep]);
                let n = self.of(&[None, Some(0), Some(2), Some(u64::MAX)]);
                EventKind::HumanReleased { guard, trip: None, mode, n, by: None, why: None }
            }
        }
    }

    fn session(&mut self, kind: u8) -> EventKind {
        match kind {
            26 => EventKind::CompletionRequested { request: None },
            27 => self.of(&[EventKind::Compaction {}, EventKind::ApiRetry {}].each_ref()).clone(),
            28 => match self.choice() % 8 {
                0 => EventKind::SessionEnded { outcome: None },
                1 => EventKind::HumanStopped { by: None, why: None },
                _ => EventKind::CompletionRequested { request: None },
            },
            _ => self.started(),
        }
    }

    fn started(&mut self) -> EventKind {
        let choice = if self.has_policy { usize::MAX } else { self.choice() };
        let policy = match choice {
            0 => Some(json!("strict")),
            1 => Some(json!({"guards": {"repetition": {"limit": 2}}, "budgets": {"session": {"turns": 3}}})),
            2 => Some(json!({"guards": {"repetition": {"limit": "many"}}})),
            _ => None,
        };
        self.has_policy |= policy.is_some();
        let workflow = (self.choice() % 2 == 0)
            .then(|| Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "c"), ("c", "d")]));
        let parent = self.of(&[None, Some("default"), Some("child")]).map(str::to_owned);
        let reopen = self.choice() % 4 == 0;
        EventKind::SessionStarted { policy, workflow, parent, labels: Map::new(), goal: None, reopen }
    }
}
