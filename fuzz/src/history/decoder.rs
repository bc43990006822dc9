//! From bytes to events: one opcode a step, a few bytes of choices behind it.

use flyball::{
    Better, Check, Denier, Event, EventId, Fingerprint, Kind, Origin, PlanStep, ReleaseMode, Usage,
    graph::Workflow,
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

/// What happens next.
pub(super) enum Step {
    /// A new event.
    Fresh(Event),
    /// The last event once more.
    Again,
}

/// Reads bytes as steps; at the end of the bytes there are no more.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    at: u64,
    /// A session has brought a policy. Once is enough: to resolve one takes as long as a hundred steps.
    brought: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, at: 0, brought: false }
    }

    pub(super) fn next(&mut self) -> Option<Step> {
        loop {
            let opcode = self.byte()?;
            match opcode % 32 {
                30 => return Some(Step::Again),
                31 => {
                    // What is not an event is no step; the next opcode follows.
                    if let Some(event) = self.raw() {
                        return Some(Step::Fresh(event));
                    }
                }
                kind => return Some(Step::Fresh(self.event(kind, opcode / 32))),
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// A choice; zero once the bytes have ended.
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

    /// `flavour` comes from the high bits of the opcode: session, time and envelope.
    fn event(&mut self, kind: u8, flavour: u8) -> Event {
        self.at += [1_000, 1_000, 1, 20_000, 1_000, 400_000, 1_000, 1_001][usize::from(flavour % 8)];
        let envelope = if flavour >= 4 { self.choice() } else { 0 };
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

    fn kind(&mut self, kind: u8) -> Kind {
        match kind {
            0..=7 => self.tool(kind),
            8..=13 => self.flow(kind),
            14..=20 => self.work(kind),
            21..=25 => self.people(kind),
            _ => self.session(kind),
        }
    }

    fn tool(&mut self, kind: u8) -> Kind {
        let call = Some(format!("c{}", self.choice() % 24));
        match kind {
            0..=3 => {
                let (tool, args) = self.call();
                Kind::ToolRequested { call, tool, args }
            }
            4..=6 => self.finished(call),
            _ => {
                let by = self.of(&[Denier::Human, Denier::Policy, Denier::Guard]);
                Kind::ToolDenied { call, by, tool: Some("bash".into()), args: Value::Null }
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

    fn finished(&mut self, call: Option<String>) -> Kind {
        let choice = self.choice();
        let output = json!(OUTPUTS[choice % OUTPUTS.len()]);
        let ok = [Some(true), Some(true), Some(false), None][choice / 64];
        let error = if ok == Some(false) { output.clone() } else { Value::Null };
        let tool = (choice % 16 == 15).then(|| "search".to_owned());
        Kind::ToolFinished { call, ok, output, error, duration_ms: Some(5), tool, args: Value::Null }
    }

    fn flow(&mut self, kind: u8) -> Kind {
        match kind {
            8 | 9 => {
                let (from, to) = (self.text(&NODES), self.text(&NODES));
                Kind::TransitionRequested { from, to, edge: None }
            }
            10 => Kind::TurnStarted {},
            11 => {
                let (output, structured) = (self.text(&OUTPUTS), json!({ "answer": self.of(&OUTPUTS) }));
                Kind::TurnFinished { output: Some(output), structured: Some(structured), duration_ms: None }
            }
            12 => {
                let text = self.text(&TEXTS);
                let origin = self.of(&[Origin::Human, Origin::Agent, Origin::Schedule]);
                Kind::UserMessage { text, origin }
            }
            _ => Kind::AssistantMessage { text: self.text(&TEXTS), structured: None, is_final: false },
        }
    }

    fn work(&mut self, kind: u8) -> Kind {
        match kind {
            14 | 15 => self.progress(),
            16 => {
                let kind = Some(self.text(&["malformed_json", "missing_field", "unknown_tool", "truncated"]));
                Kind::ValidationFailed { kind, expected: None, received: None, error: None }
            }
            17 => Kind::ValidationPassed {},
            18 => Kind::OperationFailed { operation: self.text(&NODES), key: None },
            19 => Kind::OperationSucceeded { operation: self.text(&NODES), key: None },
            _ => self.gate(),
        }
    }

    fn progress(&mut self) -> Kind {
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
        let better = [None, Some(Better::Up), Some(Better::Down)][choice % 3];
        Kind::Progress { signal, content, hash: None, value, failing, done, total: Some(6), better }
    }

    fn gate(&mut self) -> Kind {
        let choice = self.choice();
        let checks = CHECKS.iter().enumerate().map(|(at, name)| Check {
            name: (*name).to_owned(),
            passed: choice >> at & 1 == 1,
            skipped: choice >> (at + 3) & 1 == 1,
            output: OUTPUTS[choice % OUTPUTS.len()].to_owned(),
            ..Check::default()
        });
        Kind::GateChecked { request: None, checks: checks.collect() }
    }

    fn people(&mut self, kind: u8) -> Kind {
        match kind {
            21 => {
                let plan = (0..self.choice() % 3).map(|_| self.call()).collect::<Vec<_>>();
                let plan = plan.into_iter().map(|(tool, args)| PlanStep { tool, args }).collect();
                let ttl_ms = self.of(&[None, Some(0), Some(30_000)]);
                let requester = self.of(&[None, Some("ann")]).map(str::to_owned);
                Kind::ConfirmationRequested { plan, question: None, requester, ttl_ms, targets: Vec::new() }
            }
            22 | 23 => {
                let by = self.of(&[None, Some("ann"), Some("bob")]).map(str::to_owned);
                Kind::ConfirmationAnswered { text: Some(self.text(&TEXTS)), value: None, by, digest: None }
            }
            24 => Kind::QuestionAsked { text: self.text(&TEXTS) },
            _ => {
                let guard = Some(self.text(&GUARDS));
                let mode = self.of(&[ReleaseMode::Grant, ReleaseMode::Reset, ReleaseMode::Keep]);
                let n = self.of(&[None, Some(0), Some(2), Some(u64::MAX)]);
                Kind::HumanReleased { guard, trip: None, mode, n, by: None, why: None }
            }
        }
    }

    fn session(&mut self, kind: u8) -> Kind {
        match kind {
            26 => Kind::CompletionRequested { request: None },
            27 => self.of(&[Kind::Compaction {}, Kind::ApiRetry {}].each_ref()).clone(),
            28 => match self.choice() % 8 {
                0 => Kind::SessionEnded { outcome: None },
                1 => Kind::HumanStopped { by: None, why: None },
                _ => Kind::CompletionRequested { request: None },
            },
            _ => self.started(),
        }
    }

    fn started(&mut self) -> Kind {
        let choice = if self.brought { usize::MAX } else { self.choice() };
        let policy = match choice {
            0 => Some(json!("strict")),
            1 => Some(json!({"guards": {"repetition": {"limit": 2}}, "budgets": {"session": {"turns": 3}}})),
            2 => Some(json!({"guards": {"repetition": {"limit": "many"}}})),
            _ => None,
        };
        self.brought |= policy.is_some();
        let workflow = (self.choice() % 2 == 0)
            .then(|| Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "c"), ("c", "d")]));
        let parent = self.of(&[None, Some("default"), Some("child")]).map(str::to_owned);
        let reopen = self.choice() % 4 == 0;
        Kind::SessionStarted { policy, workflow, parent, labels: Map::new(), goal: None, reopen }
    }
}
