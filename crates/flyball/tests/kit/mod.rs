//! Random histories for tests: seeded, varied and prone to loops.
//!
//! A history is made of blocks of a few events with small alphabets, each block repeated a few times, so that calls,
//! transitions, outputs, errors and questions repeat with all sorts of periods and guards do trip. Around that: ids,
//! redeliveries and conflicts, rounds, usage, jumps of time, releases, restarts, children and workflows.

use flyball::policy::{Layer, Origin};
use flyball::{Event, PolicySource, Preset};
use serde_json::{Map, Value, json};

/// SplitMix64: the whole test kit draws from this and nothing else.
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// One random history: a policy for all, and families of sessions that do not know of each other. A family is a root
/// with its children; its events are lines of JSON, in order.
pub(crate) struct History {
    /// The policy that sessions start from.
    pub(crate) source: PolicySource,
    /// The families.
    pub(crate) families: Vec<Vec<String>>,
}

impl History {
    /// The events of each family, read anew.
    pub(crate) fn events(&self) -> Vec<Vec<Event>> {
        let read = |line: &String| Event::from_json(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.families.iter().map(|lines| lines.iter().map(read).collect()).collect()
    }
}

/// The policies that sessions start from; resolving them takes longer than a history, so it is done once.
pub(crate) fn sources() -> Vec<PolicySource> {
    let presets = [Preset::Agent, Preset::Workflow, Preset::Strict, Preset::Observe];
    let own = policies().into_iter().filter(Value::is_object).map(|tree| {
        let layer = Layer::from_value(Origin::CommandLine, tree);
        PolicySource::new(vec![layer], Preset::Agent).unwrap_or_else(|errors| panic!("{errors}"))
    });
    presets.into_iter().map(PolicySource::preset).chain(own).collect()
}

/// Makes the history with this number.
pub(crate) fn history(number: u64, sources: &[PolicySource]) -> History {
    let mut rng = Rng::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x666c_7962);
    let source = rng.pick(sources).clone();
    let count = *rng.pick(&[1, 1, 2, 2, 3]);
    let families = (0..count).map(|at| family(&mut rng, at)).collect();
    History { source, families }
}

const TOOLS: [&str; 7] = ["bash", "grep", "read_file", "write_file", "wait_job", "task_delete", "search"];
const NODES: [&str; 5] = ["plan", "code", "test", "fix", "review"];
const TEXTS: [&str; 6] = [
    "Let me look at the file again.",
    "The tests fail because of the missing import, so I will add it and run them once more.",
    "ok",
    "go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on \
     go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on go on",
    "Done.",
    "",
];
const ANSWERS: [&str; 9] = [
    "Да",
    "yes",
    "no",
    "не удаляй",
    "cancel",
    "Скинь полный список задач.",
    "hmm",
    "yes, but only the first",
    "¿qué?",
];

/// What a session may bring along as its policy.
fn policies() -> Vec<Value> {
    vec![
        json!("workflow"),
        json!("strict"),
        json!("simple"),
        json!("observe"),
        json!({"preset": "agent", "budgets": {
            "session": {"runtime": "2h", "turns": 6, "iterations": 12, "tokens": 60_000, "cost_usd": 1.5, "tool_calls": 30},
            "turn": {"timeout": "5m", "tokens": 9_000}, "node": {"turns": 3, "runtime": "20m"},
            "loop": {"iterations": 2, "runtime": "30m", "cost_usd": 0.5}, "message": {"transitions": 6, "tool_calls": 8}}}),
        json!({"preset": "workflow", "releases": {"grant": 1, "ceiling": 2}, "labels": {"prefix": "x-"},
            "tools": {"wait_job": {"effect": "poll"}, "bash": {"repetition": {"limit": 2}}, "search": {"effect": "read"},
                "task_delete": {"effect": "destructive"}},
            "nodes": {"test": {"max_visits": 2}, "fix": {"allow_cycles": true, "turns": 2}},
            "edges": {"fix->test": {"max_transitions": 2}},
            "guards": {"confirmation": {"unclear": 1, "ttl": "2m", "language": "es"}}}),
        json!({"preset": "complex", "on_stall": "spawn_reviewer",
            "guards": {"error_streak": {"same_error": 6, "any": 3}, "oscillation": {"repeats": 3}, "question": "warn"},
            "rules": [{"name": "late", "decision": "block", "message": "too many calls",
                "when": "event.type == 'tool.requested' && session.calls > 6"}]}),
        json!({"loop_prevention": {"enabled": true, "max_visits_default": 3, "max_transitions_default": 2,
            "cycle_detection_length": 2}, "phases": [{"name": "test", "max_visits": 2}],
            "resilience": {"max_runtime": "90m", "max_consecutive_repetitions": 2},
            "loop_policy": {"maxCycleIterations": 3, "turnTimeoutMs": 60_000, "onStall": "pause"}}),
        json!({"preset": "workflow", "guards": {"cycle": "warn", "recurrence": "warn", "repetition": "observe",
            "stall": "warn", "oscillation": "block", "error_streak": "warn", "monologue": "halt", "denial": "warn"}}),
    ]
}

fn workflows() -> Vec<Value> {
    let edges = |pairs: &[(&str, &str)]| -> Vec<Value> {
        pairs.iter().map(|(from, to)| json!({"from": from, "to": to})).collect()
    };
    vec![
        json!({"nodes": ["plan", "code", "test", "fix", "review"], "signals": ["diff", "tests"],
            "edges": edges(&[("plan", "code"), ("code", "test"), ("test", "fix"), ("fix", "test"), ("test", "review"), ("review", "plan")])}),
        json!({"edges": edges(&[("code", "test"), ("test", "code")]), "signals": ["tests"]}),
        json!({"edges": edges(&[("plan", "plan"), ("plan", "code"), ("code", "fix"), ("fix", "code")])}),
    ]
}

/// The state of one family while its events are made.
struct Maker<'a> {
    rng: &'a mut Rng,
    sessions: Vec<String>,
    lines: Vec<String>,
    now: u64,
    serial: u64,
    round: u64,
    /// Where transitions lead from, so that walks hang together.
    place: &'static str,
}

fn family(rng: &mut Rng, number: u64) -> Vec<String> {
    let root = format!("s{number}");
    let mut sessions = vec![root.clone()];
    if rng.once_in(4) {
        sessions.push(format!("{root}/child"));
    }
    let place = *rng.pick(&NODES);
    let mut maker =
        Maker { rng, sessions, lines: Vec::new(), now: 1_760_000_000_000, serial: 0, round: 0, place };
    if !maker.rng.once_in(5) {
        maker.start();
    }
    if maker.sessions.len() > 1 {
        let child = json!({"type": "session.started", "session": maker.sessions[1], "parent": root});
        maker.push(child);
    }
    let wanted = 8 + maker.rng.below(40) as usize;
    while maker.lines.len() < wanted {
        maker.block();
    }
    maker.lines
}

impl Maker<'_> {
    fn start(&mut self) {
        let mut event = json!({"type": "session.started"});
        if self.rng.once_in(7) {
            event["policy"] = self.rng.pick(&policies()).clone();
        }
        if self.rng.once_in(2) {
            event["workflow"] = self.rng.pick(&workflows()).clone();
        }
        if self.rng.once_in(4) {
            event["reopen"] = json!(true);
        }
        let session = self.sessions[0].clone();
        self.push_for(&session, event);
    }

    /// A few events, several times.
    fn block(&mut self) {
        if self.rng.once_in(40) {
            return self.start();
        }
        let length = *self.rng.pick(&[1, 1, 1, 2, 2, 3, 4]);
        let passes = *self.rng.pick(&[1, 1, 2, 3, 4, 6, 9]);
        let theme = self.rng.below(9);
        let templates: Vec<Vec<Value>> = (0..length).map(|_| self.template(theme)).collect();
        let session = self.rng.pick(&self.sessions).clone();
        let parallel = self.rng.once_in(6);
        for _ in 0..passes {
            for template in &templates {
                self.serial += 1;
                let call = format!("c{}", self.serial);
                for event in template {
                    let mut event = event.clone();
                    if event.get("call").is_some() {
                        event["call"] = json!(call);
                    }
                    if parallel {
                        event["round"] = json!(self.round);
                    }
                    self.push_for(&session, event);
                }
            }
            self.round += u64::from(!self.rng.once_in(3));
            self.disturb(&session);
        }
    }

    /// Now and then something that is not part of the block: a redelivery, a conflict, a person.
    fn disturb(&mut self, session: &str) {
        if self.rng.once_in(8) && !self.lines.is_empty() {
            let back = self.rng.below(12) as usize;
            let at = self.lines.len().saturating_sub(1 + back);
            let line = self.lines[at].clone();
            if line.contains("\"id\"") || line.contains("tool.requested") {
                self.lines.push(line);
            }
        }
        if self.rng.once_in(60) {
            let id = format!("e{}", self.rng.below(self.lines.len() as u64 + 1));
            self.push_for(session, json!({"type": "user.message", "text": "another body", "id": id}));
        }
        if self.rng.once_in(9) {
            let release = self.release();
            self.push_for(session, release);
        }
    }

    fn release(&mut self) -> Value {
        let mut event = json!({"type": "human.released", "by": "ana", "why": "looked at it"});
        let guards = [
            "budget",
            "visits",
            "transitions",
            "cycle",
            "repetition",
            "stall",
            "gate",
            "question",
            "confirmation",
            "human",
            "no-guard",
        ];
        if self.rng.once_in(3) {
            event["guard"] = json!(self.rng.pick(&guards));
        }
        if self.rng.once_in(2) {
            event["mode"] = json!(self.rng.pick(&["grant", "reset", "keep"]));
        }
        if self.rng.once_in(4) {
            event["n"] = json!(self.rng.below(4));
        }
        event
    }

    fn push(&mut self, event: Value) {
        let session = event["session"].as_str().unwrap_or("s0").to_owned();
        self.push_for(&session, event);
    }

    /// Gives an event its envelope and writes it down.
    fn push_for(&mut self, session: &str, event: Value) {
        let Value::Object(mut map) = event else { return };
        map.insert("session".to_owned(), json!(session));
        self.stamp(&mut map);
        if self.rng.once_in(4) && !map.contains_key("id") {
            map.insert("id".to_owned(), json!(format!("e{}", self.lines.len())));
        }
        if self.rng.once_in(5) {
            let usage = json!({"tokens_in": self.rng.below(4_000), "tokens_out": self.rng.below(900), "cost_usd": 0.25});
            map.insert("usage".to_owned(), usage);
        }
        self.lines.push(Value::Object(map).to_string());
    }

    fn stamp(&mut self, map: &mut Map<String, Value>) {
        if self.rng.once_in(10) {
            return;
        }
        let step = *self.rng.pick(&[0, 1, 20, 400, 1_000, 1_000, 5_000, 30_000, 60_000, 400_000]);
        self.now += if self.rng.once_in(120) { 3 * 3_600_000 } else { step };
        let at = if self.rng.once_in(15) { self.now - 70_000 } else { self.now };
        map.insert("at".to_owned(), json!(at));
    }

    /// One act of a block: an event, or a call with its end.
    fn template(&mut self, theme: u64) -> Vec<Value> {
        let kind = if self.rng.once_in(4) { self.rng.below(9) } else { theme };
        match kind {
            0 | 1 => self.call(),
            2 => vec![self.transition()],
            3 => self.turn(),
            4 => vec![self.progress()],
            5 => self.model(),
            6 => self.gate(),
            7 if self.rng.once_in(6) => self.unheard(),
            7 => vec![self.dialogue()],
            _ => vec![self.rare()],
        }
    }

    fn call(&mut self) -> Vec<Value> {
        let tool = *self.rng.pick(&TOOLS);
        let args = match self.rng.below(4) {
            0 => json!({"command": self.rng.pick(&["ls", "cat a", "rm b", "cargo test"])}),
            1 => json!({"path": "a.rs", "line": self.rng.below(3)}),
            2 => json!({}),
            _ => json!({"q": self.rng.pick(&["x", "y"]), "deep": {"b": 1, "a": [1, 2]}}),
        };
        let asked = json!({"type": "tool.requested", "call": "?", "tool": tool, "args": args});
        let ended = match self.rng.below(12) {
            0..=4 => {
                json!({"type": "tool.finished", "call": "?", "ok": true, "output": self.rng.pick(&["same", "12 passed", ""])})
            }
            5 | 6 => {
                json!({"type": "tool.finished", "call": "?", "ok": true, "output": format!("line {}", self.rng.number())})
            }
            7 | 8 => {
                json!({"type": "tool.finished", "call": "?", "ok": false, "error": self.rng.pick(&["no such file", "timed out", "denied by host"])})
            }
            9 => json!({"type": "tool.finished", "call": "?", "ok": false, "error": "Exit code 1"}),
            10 => {
                json!({"type": "tool.denied", "call": "?", "by": self.rng.pick(&["human", "policy", "guard"])})
            }
            _ => return vec![asked],
        };
        if self.rng.once_in(5) {
            let said = json!({"type": "assistant.message", "text": self.rng.pick(&TEXTS)});
            return vec![said, asked, ended];
        }
        vec![asked, ended]
    }

    fn transition(&mut self) -> Value {
        let from = if self.rng.once_in(8) { *self.rng.pick(&NODES) } else { self.place };
        let to = *self.rng.pick(&NODES);
        self.place = to;
        json!({"type": "transition.requested", "from": from, "to": to})
    }

    fn turn(&mut self) -> Vec<Value> {
        let node = *self.rng.pick(&NODES);
        let started = json!({"type": "turn.started", "node": node});
        let mut ended = json!({"type": "turn.finished", "node": node, "output": self.rng.pick(&["LGTM", "patch A", "patch B", ""])});
        if self.rng.once_in(3) {
            ended["structured"] = json!({"next": self.rng.pick(&NODES)});
        }
        if self.rng.once_in(8) {
            ended["duration_ms"] = json!(900_000);
        }
        if self.rng.once_in(6) { vec![started] } else { vec![started, ended] }
    }

    fn progress(&mut self) -> Value {
        let mut event =
            json!({"type": "progress", "signal": self.rng.pick(&["diff", "tests", "checklist", "docs"])});
        match self.rng.below(5) {
            0 => event["hash"] = json!(self.rng.pick(&["aa", "bb"])),
            1 => event["content"] = json!(self.rng.pick(&["+let a = 1;", "+let a = 2;", ""])),
            2 => event["value"] = json!(self.rng.below(5)),
            3 => event["failing"] = json!(["t1", "t2", "t3"][..self.rng.below(4) as usize]),
            _ => {
                event["done"] = json!(self.rng.below(4));
                event["total"] = json!(5);
            }
        }
        event
    }

    /// What the model says and how it reads.
    fn model(&mut self) -> Vec<Value> {
        vec![match self.rng.below(8) {
            0..=3 => {
                json!({"type": "assistant.message", "text": self.rng.pick(&TEXTS), "final": self.rng.once_in(3)})
            }
            4 | 5 => {
                json!({"type": "validation.failed", "kind": self.rng.pick(&["malformed_json", "truncated"]), "error": "unexpected end"})
            }
            6 => json!({"type": "validation.passed"}),
            _ => {
                json!({"type": self.rng.pick(&["operation.failed", "operation.failed", "operation.failed", "operation.requested", "operation.succeeded"]),
                "operation": self.rng.pick(&["confirmation", "correction", "sync"])})
            }
        }]
    }

    fn gate(&mut self) -> Vec<Value> {
        let checks: Vec<Value> = ["tests", "lint", "build", "docs updated"]
            .iter()
            .map(|name| match self.rng.below(6) {
                0 => json!({"name": name, "passed": false, "details": [format!("d{}", self.rng.below(3))]}),
                1 => json!({"name": name, "passed": false, "skipped": true, "skip_reason": "not configured"}),
                2 => json!({"name": name, "passed": false, "output": format!("run {} failed", self.rng.number())}),
                _ => json!({"name": name, "passed": true, "output": "ok"}),
            })
            .collect();
        vec![json!({"type": "completion.requested"}), json!({"type": "gate.checked", "checks": checks})]
    }

    /// What people are asked and what they answer.
    fn dialogue(&mut self) -> Value {
        match self.rng.below(6) {
            0 => {
                let plan = json!([{"tool": self.rng.pick(&TOOLS), "args": {"uid": self.rng.below(2)}}]);
                let mut event =
                    json!({"type": "confirmation.requested", "plan": plan, "targets": ["a", "b"]});
                if self.rng.once_in(2) {
                    event["question"] =
                        json!(self.rng.pick(&["Delete a and b?", "Подтверди удаление: a, b. Уверен?"]));
                }
                if self.rng.once_in(2) {
                    event["requester"] = json!("ana");
                }
                if self.rng.once_in(4) {
                    event["ttl_ms"] = json!(1_000);
                }
                event
            }
            kind @ 1..=3 => {
                let kind = if kind == 3 { "person.message" } else { "confirmation.answered" };
                let mut event = json!({"type": kind, "text": self.rng.pick(&ANSWERS)});
                if self.rng.once_in(2) {
                    event["by"] = json!(self.rng.pick(&["ana", "ana", "bob"]));
                }
                event
            }
            4 => {
                json!({"type": "question.asked", "text": self.rng.pick(&["Which branch?", "which branch", "Sure?"])})
            }
            _ => json!({"type": "user.message", "text": self.rng.pick(&ANSWERS),
                "origin": self.rng.pick(&["human", "human", "agent", "schedule"])}),
        }
    }

    /// A question that gets no clear answer, perhaps until it is given up.
    fn unheard(&mut self) -> Vec<Value> {
        let plan = json!([{"tool": self.rng.pick(&TOOLS), "args": {"uid": self.rng.below(2)}}]);
        let mut events = vec![json!({"type": "confirmation.requested", "plan": plan, "question": "Sure?"})];
        for _ in 0..2 + self.rng.below(4) {
            events.push(json!({"type": "confirmation.answered", "text": self.rng.pick(&["hmm", "¿qué?"])}));
        }
        events
    }

    fn rare(&mut self) -> Value {
        match self.rng.below(8) {
            0 => json!({"type": "compaction"}),
            1 => json!({"type": "api.retry"}),
            2 => self.release(),
            3 => json!({"type": "human.stopped", "by": "ana", "why": "enough"}),
            4 if self.rng.once_in(3) => json!({"type": "session.ended", "outcome": "done"}),
            5 => {
                json!({"type": "tool.finished", "tool": self.rng.pick(&TOOLS), "args": {}, "ok": self.rng.once_in(2), "output": "late"})
            }
            6 => json!({"type": "tool.denied", "tool": self.rng.pick(&TOOLS), "args": {}, "by": "human"}),
            _ => json!({"type": "user.message", "text": "and now?"}),
        }
    }
}

/// All families in one order: each keeps its own order, who comes next is drawn.
pub(crate) fn interleaved<'a>(families: &'a [Vec<Event>], rng: &mut Rng) -> Vec<&'a Event> {
    let mut rest: Vec<_> = families.iter().map(|events| events.iter().peekable()).collect();
    let mut all = Vec::new();
    loop {
        rest.retain_mut(|events| events.peek().is_some());
        if rest.is_empty() {
            return all;
        }
        let at = rng.below(rest.len() as u64) as usize;
        all.extend(rest[at].next());
    }
}
