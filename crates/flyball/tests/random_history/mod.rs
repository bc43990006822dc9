//! Random histories for tests: seeded, varied and prone to loops.
//!
//! A history consists of blocks of a few events with small alphabets, each block repeated a few times, so that calls,
//! transitions, outputs, errors and questions repeat with various periods and guards trip. In addition: ids,
//! redeliveries and conflicts, rounds, usage, time jumps, releases, restarts, children and workflows.

use flyball::policy::{PolicyLayer, ValueOrigin};
use flyball::{Event, PolicySource, Preset};
use serde_json::{Map, Value, json};

/// SplitMix64: the only source of randomness in these tests.
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator with a fixed seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end.max(1)
    }

    /// True once in `of` times.
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of these.
    pub(crate) fn choose<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// One random history: a shared policy, and independent families of sessions. A family is a root with its children; its
/// events are lines of JSON, in order.
pub(crate) struct RandomHistory {
    /// The base policy of the sessions.
    pub(crate) source: PolicySource,
    /// The families.
    pub(crate) session_trees: Vec<Vec<String>>,
}

impl RandomHistory {
    /// The events of each family, parsed again.
    pub(crate) fn events(&self) -> Vec<Vec<Event>> {
        let read = |line: &String| Event::from_json(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.session_trees.iter().map(|lines| lines.iter().map(read).collect()).collect()
    }
}

/// The base policies; resolving them takes longer than a history, so it is done once.
pub(crate) fn policy_sources() -> Vec<PolicySource> {
    let presets = [Preset::Agent, Preset::Workflow, Preset::Strict, Preset::Observe];
    let own = policies().into_iter().filter(Value::is_object).map(|tree| {
        let layer = PolicyLayer::from_value(ValueOrigin::CommandLine, tree);
        PolicySource::new(vec![layer], Preset::Agent).unwrap_or_else(|errors| panic!("{errors}"))
    });
    presets.into_iter().map(PolicySource::preset).chain(own).collect()
}

/// Creates the history with this number.
pub(crate) fn random_history(number: u64, sources: &[PolicySource]) -> RandomHistory {
    let mut rng = Rng::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x666c_7962);
    let source = rng.choose(sources).clone();
    let count = *rng.choose(&[1, 1, 2, 2, 3]);
    let families = (0..count).map(|at| session_tree(&mut rng, at)).collect();
    RandomHistory { source, session_trees: families }
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

/// A possible inline policy of a session.
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

/// The state of one family while its events are generated.
struct HistoryGenerator<'a> {
    rng: &'a mut Rng,
    sessions: Vec<String>,
    lines: Vec<String>,
    now: u64,
    serial: u64,
    round: u64,
    /// The current source of transitions, so that walks are connected.
    current_node: &'static str,
}

fn session_tree(rng: &mut Rng, number: u64) -> Vec<String> {
    let root = format!("s{number}");
    let mut sessions = vec![root.clone()];
    if rng.one_in(4) {
        sessions.push(format!("{root}/child"));
    }
    let place = *rng.choose(&NODES);
    let mut maker = HistoryGenerator {
        rng,
        sessions,
        lines: Vec::new(),
        now: 1_760_000_000_000,
        serial: 0,
        round: 0,
        current_node: place,
    };
    if !maker.rng.one_in(5) {
        maker.start();
    }
    if maker.sessions.len() > 1 {
        let child = json!({"type": "session.started", "session": maker.sessions[1], "parent": root});
        maker.push(child);
    }
    let wanted = 8 + maker.rng.below(40) as usize;
    while maker.lines.len() < wanted {
        maker.repeat_block();
    }
    maker.lines
}

impl HistoryGenerator<'_> {
    fn start(&mut self) {
        let mut event = json!({"type": "session.started"});
        if self.rng.one_in(7) {
            event["policy"] = self.rng.choose(&policies()).clone();
        }
        if self.rng.one_in(2) {
            event["workflow"] = self.rng.choose(&workflows()).clone();
        }
        if self.rng.one_in(4) {
            event["reopen"] = json!(true);
        }
        let session = self.sessions[0].clone();
        self.push_for(&session, event);
    }

    /// A few events, repeated.
    fn repeat_block(&mut self) {
        if self.rng.one_in(40) {
            return self.start();
        }
        let length = *self.rng.choose(&[1, 1, 1, 2, 2, 3, 4]);
        let passes = *self.rng.choose(&[1, 1, 2, 3, 4, 6, 9]);
        let theme = self.rng.below(9);
        let templates: Vec<Vec<Value>> = (0..length).map(|_| self.template(theme)).collect();
        let session = self.rng.choose(&self.sessions).clone();
        let parallel = self.rng.one_in(6);
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
            self.round += u64::from(!self.rng.one_in(3));
            self.disturb(&session);
        }
    }

    /// Occasionally something outside the block: a redelivery, a conflict, a person.
    fn disturb(&mut self, session: &str) {
        if self.rng.one_in(8) && !self.lines.is_empty() {
            let back = self.rng.below(12) as usize;
            let at = self.lines.len().saturating_sub(1 + back);
            let line = self.lines[at].clone();
            if line.contains("\"id\"") || line.contains("tool.requested") {
                self.lines.push(line);
            }
        }
        if self.rng.one_in(60) {
            let id = format!("e{}", self.rng.below(self.lines.len() as u64 + 1));
            self.push_for(session, json!({"type": "user.message", "text": "another body", "id": id}));
        }
        if self.rng.one_in(9) {
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
        if self.rng.one_in(3) {
            event["guard"] = json!(self.rng.choose(&guards));
        }
        if self.rng.one_in(2) {
            event["mode"] = json!(self.rng.choose(&["grant", "reset", "keep"]));
        }
        if self.rng.one_in(4) {
            event["n"] = json!(self.rng.below(4));
        }
        event
    }

    fn push(&mut self, event: Value) {
        let session = event["session"].as_str().unwrap_or("s0").to_owned();
        self.push_for(&session, event);
    }

    /// Adds the envelope to an event and records it.
    fn push_for(&mut self, session: &str, event: Value) {
        let Value::Object(mut map) = event else { return };
        map.insert("session".to_owned(), json!(session));
        self.stamp(&mut map);
        if self.rng.one_in(4) && !map.contains_key("id") {
            map.insert("id".to_owned(), json!(format!("e{}", self.lines.len())));
        }
        if self.rng.one_in(5) {
            let usage = json!({"tokens_in": self.rng.below(4_000), "tokens_out": self.rng.below(900), "cost_usd": 0.25});
            map.insert("usage".to_owned(), usage);
        }
        self.lines.push(Value::Object(map).to_string());
    }

    fn stamp(&mut self, map: &mut Map<String, Value>) {
        if self.rng.one_in(10) {
            return;
        }
        let step = *self.rng.choose(&[0, 1, 20, 400, 1_000, 1_000, 5_000, 30_000, 60_000, 400_000]);
        self.now += if self.rng.one_in(120) { 3 * 3_600_000 } else { step };
        let at = if self.rng.one_in(15) { self.now - 70_000 } else { self.now };
        map.insert("at".to_owned(), json!(at));
    }

    /// One act of a block: an event, or a call with its result.
    fn template(&mut self, theme: u64) -> Vec<Value> {
        let kind = if self.rng.one_in(4) { self.rng.below(9) } else { theme };
        match kind {
            0 | 1 => self.call(),
            2 => vec![self.transition()],
            3 => self.turn(),
            4 => vec![self.progress()],
            5 => self.model_response(),
            6 => self.gate(),
            7 if self.rng.one_in(6) => self.unclear_confirmation(),
            7 => vec![self.dialogue()],
            _ => vec![self.rare_event()],
        }
    }

    fn call(&mut self) -> Vec<Value> {
        let tool = *self.rng.choose(&TOOLS);
        let args = match self.rng.below(4) {
            0 => json!({"command": self.rng.choose(&["ls", "cat a", "rm b", "cargo test"])}),
            1 => json!({"path": "a.rs", "line": self.rng.below(3)}),
            2 => json!({}),
            _ => json!({"q": self.rng.choose(&["x", "y"]), "deep": {"b": 1, "a": [1, 2]}}),
        };
        let asked = json!({"type": "tool.requested", "call": "?", "tool": tool, "args": args});
        let ended = match self.rng.below(12) {
            0..=4 => {
                json!({"type": "tool.finished", "call": "?", "ok": true, "output": self.rng.choose(&["same", "12 passed", ""])})
            }
            5 | 6 => {
                json!({"type": "tool.finished", "call": "?", "ok": true, "output": format!("line {}", self.rng.next_u64())})
            }
            7 | 8 => {
                json!({"type": "tool.finished", "call": "?", "ok": false, "error": self.rng.choose(&["no such file", "timed out", "denied by host"])})
            }
            9 => json!({"type": "tool.finished", "call": "?", "ok": false, "error": "Exit code 1"}),
            10 => {
                json!({"type": "tool.denied", "call": "?", "by": self.rng.choose(&["human", "policy", "guard"])})
            }
            _ => return vec![asked],
        };
        if self.rng.one_in(5) {
            let said = json!({"type": "assistant.message", "text": self.rng.choose(&TEXTS)});
            return vec![said, asked, ended];
        }
        vec![asked, ended]
    }

    fn transition(&mut self) -> Value {
        let from = if self.rng.one_in(8) { *self.rng.choose(&NODES) } else { self.current_node };
        let to = *self.rng.choose(&NODES);
        self.current_node = to;
        json!({"type": "transition.requested", "from": from, "to": to})
    }

    fn turn(&mut self) -> Vec<Value> {
        let node = *self.rng.choose(&NODES);
        let started = json!({"type": "turn.started", "node": node});
        let mut ended = json!({"type": "turn.finished", "node": node, "output": self.rng.choose(&["LGTM", "patch A", "patch B", ""])});
        if self.rng.one_in(3) {
            ended["structured"] = json!({"next": self.rng.choose(&NODES)});
        }
        if self.rng.one_in(8) {
            ended["duration_ms"] = json!(900_000);
        }
        if self.rng.one_in(6) { vec![started] } else { vec![started, ended] }
    }

    fn progress(&mut self) -> Value {
        let mut event =
            json!({"type": "progress", "signal": self.rng.choose(&["diff", "tests", "checklist", "docs"])});
        match self.rng.below(5) {
            0 => event["hash"] = json!(self.rng.choose(&["aa", "bb"])),
            1 => event["content"] = json!(self.rng.choose(&["+let a = 1;", "+let a = 2;", ""])),
            2 => event["value"] = json!(self.rng.below(5)),
            3 => event["failing"] = json!(["t1", "t2", "t3"][..self.rng.below(4) as usize]),
            _ => {
                event["done"] = json!(self.rng.below(4));
                event["total"] = json!(5);
            }
        }
        event
    }

    /// A model message or a parse result.
    fn model_response(&mut self) -> Vec<Value> {
        vec![match self.rng.below(8) {
            0..=3 => {
                json!({"type": "assistant.message", "text": self.rng.choose(&TEXTS), "final": self.rng.one_in(3)})
            }
            4 | 5 => {
                json!({"type": "validation.failed", "kind": self.rng.choose(&["malformed_json", "truncated"]), "error": "unexpected end"})
            }
            6 => json!({"type": "validation.passed"}),
            _ => {
                json!({"type": self.rng.choose(&["operation.failed", "operation.failed", "operation.failed", "operation.requested", "operation.succeeded"]),
                "operation": self.rng.choose(&["confirmation", "correction", "sync"])})
            }
        }]
    }

    fn gate(&mut self) -> Vec<Value> {
        let checks: Vec<Value> = ["tests", "lint", "build", "docs updated"]
            .iter()
            .map(|name| match self.rng.below(6) {
                0 => json!({"name": name, "passed": false, "details": [format!("d{}", self.rng.below(3))]}),
                1 => json!({"name": name, "passed": false, "skipped": true, "skip_reason": "not configured"}),
                2 => json!({"name": name, "passed": false, "output": format!("run {} failed", self.rng.next_u64())}),
                _ => json!({"name": name, "passed": true, "output": "ok"}),
            })
            .collect();
        vec![json!({"type": "completion.requested"}), json!({"type": "gate.checked", "checks": checks})]
    }

    /// Questions to people and their answers.
    fn dialogue(&mut self) -> Value {
        match self.rng.below(6) {
            0 => {
                let plan = json!([{"tool": self.rng.choose(&TOOLS), "args": {"uid": self.rng.below(2)}}]);
                let mut event =
                    json!({"type": "confirmation.requested", "plan": plan, "targets": ["a", "b"]});
                if self.rng.one_in(2) {
                    event["question"] =
                        json!(self.rng.choose(&["Delete a and b?", "Подтверди удаление: a, b. Уверен?"]));
                }
                if self.rng.one_in(2) {
                    event["requester"] = json!("ana");
                }
                if self.rng.one_in(4) {
                    event["ttl_ms"] = json!(1_000);
                }
                event
            }
            kind @ 1..=3 => {
                let kind = if kind == 3 { "person.message" } else { "confirmation.answered" };
                let mut event = json!({"type": kind, "text": self.rng.choose(&ANSWERS)});
                if self.rng.one_in(2) {
                    event["by"] = json!(self.rng.choose(&["ana", "ana", "bob"]));
                }
                event
            }
            4 => {
                json!({"type": "question.asked", "text": self.rng.choose(&["Which branch?", "which branch", "Sure?"])})
            }
            _ => json!({"type": "user.message", "text": self.rng.choose(&ANSWERS),
                "origin": self.rng.choose(&["human", "human", "agent", "schedule"])}),
        }
    }

    /// A question without a clear answer, possibly until it is aborted.
    fn unclear_confirmation(&mut self) -> Vec<Value> {
        let plan = json!([{"tool": self.rng.choose(&TOOLS), "args": {"uid": self.rng.below(2)}}]);
        let mut events = vec![json!({"type": "confirmation.requested", "plan": plan, "question": "Sure?"})];
        for _ in 0..2 + self.rng.below(4) {
            events.push(json!({"type": "confirmation.answered", "text": self.rng.choose(&["hmm", "¿qué?"])}));
        }
        events
    }

    fn rare_event(&mut self) -> Value {
        match self.rng.below(8) {
            0 => json!({"type": "compaction"}),
            1 => json!({"type": "api.retry"}),
            2 => self.release(),
            3 => json!({"type": "human.stopped", "by": "ana", "why": "enough"}),
            4 if self.rng.one_in(3) => json!({"type": "session.ended", "outcome": "done"}),
            5 => {
                json!({"type": "tool.finished", "tool": self.rng.choose(&TOOLS), "args": {}, "ok": self.rng.one_in(2), "output": "late"})
            }
            6 => json!({"type": "tool.denied", "tool": self.rng.choose(&TOOLS), "args": {}, "by": "human"}),
            _ => json!({"type": "user.message", "text": "and now?"}),
        }
    }
}

/// All families interleaved: each keeps its order, and the next one is drawn at random.
pub(crate) fn interleave<'a>(families: &'a [Vec<Event>], rng: &mut Rng) -> Vec<&'a Event> {
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
