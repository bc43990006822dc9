//! The audit against the governor: what it says would have been stopped is what a governor that does stop has stopped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use flyball::{Event, PolicySource, Preset, Sessions, Verdict};
use flyball_adapt::audit::{Auditor, Bench, End, Findings, Run, Survey};
use flyball_adapt::prices::Prices;
use flyball_adapt::source::{Format, Item, Summary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn bench() -> Bench {
    Bench::new(PolicySource::preset(Preset::Agent), Prices::shipped().unwrap()).unwrap()
}

fn audit(bench: &Bench, lines: &[String]) -> Findings {
    let mut auditor = Auditor::new(bench, "run.jsonl");
    for (at, line) in lines.iter().enumerate() {
        auditor.take(Item::plain(
            Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error}")),
            at as u64 + 1,
        ));
    }
    auditor.finish()
}

fn only(findings: Findings) -> Run {
    assert_eq!(findings.runs.len(), 1);
    findings.runs.into_iter().next().unwrap()
}

/// A history in the making: calls with their results, a second apart.
#[derive(Default)]
struct History {
    lines: Vec<String>,
    calls: u64,
}

impl History {
    fn line(&mut self, mut value: serde_json::Value) {
        value["at"] = serde_json::json!(1_700_000_000_000_u64 + self.lines.len() as u64 * 1000);
        self.lines.push(value.to_string());
    }

    fn call(&mut self, tool: &str, argument: &str, output: &str) {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        let usage = serde_json::json!({"tokens_in": 900, "tokens_out": 100, "cost_usd": 0.01});
        self.line(serde_json::json!({"type": "tool.requested", "call": call, "tool": tool, "args": {"x": argument}, "usage": usage}));
        self.line(serde_json::json!({"type": "tool.finished", "call": call, "ok": true, "output": output}));
    }

    fn work(&mut self, count: u64) {
        for _ in 0..count {
            let what = format!("file {}", self.calls);
            self.call("write_file", &what, "written");
        }
    }

    fn same(&mut self, count: u64) {
        for _ in 0..count {
            self.call("bash", "make test", "1 failing");
        }
    }

    fn run(&self) -> Run {
        only(audit(&bench(), &self.lines))
    }
}

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut files: Vec<PathBuf> = ["guards", "seeds"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.to_string_lossy().ends_with(".jsonl") && !path.to_string_lossy().contains(".decisions.")
        })
        .collect();
    files.sort();
    assert!(files.len() > 60, "{}", files.len());
    files
}

/// The guards whose refusals are no loops, and the gate's plain refusal.
fn is_no_loop(trip: &flyball::Trip) -> bool {
    let counted = ["max_cycle_iterations", "max_steps"].contains(&trip.reason.as_str());
    match trip.guard.as_str() {
        "budget" => !counted,
        "gate" => trip.severity != flyball::Severity::Halt,
        guard => ["confirmation", "rule", "human", "release"].contains(&guard),
    }
}

#[test]
fn the_first_stop_is_where_a_governor_that_stops_has_stopped_first() {
    let (mut stopped, mut quiet) = (0, 0);
    for path in fixtures() {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
        let mut first: BTreeMap<String, (u64, bool)> = BTreeMap::new();
        for line in &lines {
            let decision = sessions.step(&Event::from_json(line).unwrap()).unwrap();
            if decision.decision >= Verdict::Block {
                let a_loop = decision
                    .trips
                    .iter()
                    .any(|trip| trip.severity >= flyball::Severity::Block && !is_no_loop(trip));
                first.entry(decision.session.clone()).or_insert((decision.seq, a_loop));
            }
        }
        let findings = audit(&bench(), &lines);
        for run in &findings.runs {
            let found = run.loops.iter().find_map(|found| found.stop.as_ref()).map(|stop| stop.seq);
            match first.get(&run.session) {
                Some((seq, true)) => {
                    assert_eq!(found, Some(*seq), "{} {}", path.display(), run.session);
                    stopped += 1;
                }
                // Stopped for another reason first: what it would have come to is another story.
                Some((_, false)) => {}
                None => {
                    assert_eq!(found, None, "{} {}", path.display(), run.session);
                    quiet += 1;
                }
            }
        }
    }
    assert!(stopped >= 30 && quiet >= 20, "{stopped} {quiet}");
}

#[test]
fn only_the_loop_itself_counts_and_the_first_refused_answer_is_already_paid_for() {
    let mut history = History::default();
    history.work(3);
    history.same(20);
    history.work(10);
    let run = history.run();
    assert_eq!((run.spend.calls, run.spend.tokens, run.spend.cost_micro_usd), (33, 33_000, 330_000));
    let [found] = &run.loops[..] else { panic!("{:?}", run.loops) };
    let stop = found.stop.as_ref().unwrap();
    // Five run, the sixth is refused: three calls and five of the loop come before it, two lines each.
    assert_eq!((stop.decision, stop.line, stop.count, stop.limit), ("block", 17, 6, 5));
    assert_eq!((found.guard.as_str(), found.count, found.repeats), ("repetition", 20, Some(20)));
    // Calls 6 to 20 are saved, and the answers that asked for calls 7 to 20.
    assert_eq!((found.after.calls, found.after.tokens, found.after.cost_micro_usd), (15, 14_000, 140_000));
    // The sixth call's own second, then two for each of fourteen.
    assert_eq!(found.after.time_ms, 29_000);
    assert_eq!((found.end, found.calls_after), (End::MovedOn, 10));
    assert_eq!(found.doubt, None, "fifteen calls are no accident");
    assert_eq!(found.lines, [7, 9, 11, 13, 15, 17]);
    assert_eq!(found.preview, r#"bash {"x":"make test"}"#);
    assert_eq!(run.saved(), found.after);
    assert_eq!(found.tools["bash"], found.after);
}

#[test]
fn a_loop_that_goes_on_to_the_end_and_one_that_a_person_ends() {
    let mut history = History::default();
    history.same(8);
    let run = history.run();
    assert_eq!((run.loops[0].end, run.loops[0].after.calls), (End::WithTheRun, 3));

    history.line(serde_json::json!({"type": "user.message", "text": "Stop that. Look at the config."}));
    history.work(8);
    history.same(7);
    let run = history.run();
    let ends: Vec<(End, u64)> = run.loops.iter().map(|found| (found.end, found.after.calls)).collect();
    assert_eq!(ends, [(End::Person, 3), (End::WithTheRun, 2)], "what a person asks for begins anew");
    assert!(run.loops.iter().all(|found| found.doubt.is_none()));
}

#[test]
fn a_call_that_waits_and_gets_its_answer_is_doubtful_and_not_counted() {
    let mut history = History::default();
    for _ in 0..9 {
        history.call("job_status", "77", "running");
    }
    history.call("job_status", "77", "done: 12 files");
    history.work(2);
    let run = history.run();
    let [found] = &run.loops[..] else { panic!("{:?}", run.loops) };
    assert_eq!(found.end, End::NewResult);
    assert!(found.doubt.as_deref().unwrap().contains("told something new after 5 more calls"), "{found:?}");
    assert_eq!((run.stopped().count(), run.doubtful().count(), run.saved().calls), (0, 1, 0));

    // The same without an answer is a loop.
    let mut history = History::default();
    for _ in 0..9 {
        history.call("job_status", "77", "running");
    }
    let run = history.run();
    assert_eq!((run.stopped().count(), run.doubtful().count(), run.saved().calls), (1, 0, 4));
}

#[test]
fn a_row_that_leaves_off_by_itself_and_gets_somewhere_is_doubtful() {
    let mut history = History::default();
    history.same(6);
    history.work(7);
    let run = history.run();
    assert_eq!(run.loops[0].after.calls, 1);
    assert!(run.loops[0].doubt.as_deref().unwrap().contains("left off by itself"), "{:?}", run.loops[0]);

    let mut history = History::default();
    history.same(6);
    for at in 0..7 {
        history.call("read_file", &format!("{at}"), &format!("text {at}"));
    }
    assert_eq!(history.run().loops[0].doubt, None, "it read on and came to nothing");
}

#[test]
fn what_was_only_warned_of_saves_nothing_and_a_guard_that_is_off_finds_nothing() {
    let mut history = History::default();
    history.same(4);
    history.work(1);
    let run = history.run();
    assert_eq!((run.loops.len(), run.stopped().count()), (1, 0));
    assert_eq!(run.saved(), Default::default());

    history.same(20);
    let lines = &history.lines;
    for (set, stops, found) in
        [("warn", 0, true), ("observe", 0, false), ("off", 0, false), ("halt", 1, true)]
    {
        let set = [
            format!("guards.repetition.mode={set}"),
            "guards.recurrence.mode=off".to_owned(),
            "guards.cycle.mode=off".to_owned(),
        ];
        let source =
            PolicySource::new(vec![flyball::policy::from_set(&set).unwrap()], Preset::Agent).unwrap();
        let run = only(audit(&Bench::new(source, Prices::none()).unwrap(), lines));
        assert_eq!((run.stopped().count(), !run.loops.is_empty()), (stops, found), "{set:?}");
        let halts = run.stopped().filter(|found| found.stop.as_ref().unwrap().decision == "halt").count();
        assert_eq!(halts, usize::from(set[0].ends_with("halt")));
    }
}

#[test]
fn an_event_that_comes_twice_counts_once_and_one_that_cannot_be_used_is_left_out() {
    let one = r#"{"type":"tool.requested","id":"e1","call":"c1","tool":"bash","args":{},"usage":{"tokens_in":10,"tokens_out":0}}"#;
    let other = r#"{"type":"tool.requested","id":"e1","call":"c2","tool":"grep","args":{}}"#;
    let bad = r#"{"type":"session.started","session":"b","policy":{"gaurds":{}}}"#;
    let lines: Vec<String> = [one, one, other, bad].map(str::to_owned).to_vec();
    let findings = audit(&bench(), &lines);
    assert_eq!((findings.runs.len(), findings.left_out), (1, 2));
    assert_eq!(
        findings.first_left_out.as_ref().map(|(line, error)| (*line, error.code.as_str())),
        Some((3, "event_conflict"))
    );
    let run = only(findings);
    assert_eq!((run.events, run.spend.calls, run.spend.tokens), (1, 1, 10));
}

#[test]
fn money_comes_from_the_transcript_then_from_the_list_and_is_never_made_up() {
    let prices = Prices::none().with("models: {known: {input: 2.00, output: 10.00}}", "p.yaml").unwrap();
    let bench = Bench::new(PolicySource::preset(Preset::Agent), prices).unwrap();
    let mut auditor = Auditor::new(&bench, "run.jsonl");
    let event = |usage: &str| {
        Event::from_json(&format!(r#"{{"type":"assistant.message","text":"","usage":{usage}}}"#)).unwrap()
    };
    let mut take = |usage: &str, model: Option<&str>| {
        let mut item = Item::plain(event(usage), 1);
        item.model = model.map(Arc::from);
        auditor.take(item);
    };
    take(r#"{"tokens_in":1000,"tokens_out":100}"#, Some("known-20260101"));
    take(r#"{"tokens_in":1000,"tokens_out":100,"cost_usd":0.5}"#, Some("known"));
    take(r#"{"tokens_in":1000,"tokens_out":100}"#, Some("unheard-of"));
    take(r#"{"tokens_in":7,"tokens_out":0}"#, None);
    let findings = auditor.finish();
    let unpriced: Vec<(&str, u64)> =
        findings.unpriced.iter().map(|(model, tokens)| (model.as_str(), *tokens)).collect();
    assert_eq!(unpriced, [("", 7), ("unheard-of", 1100)]);
    let run = only(findings);
    assert_eq!((run.spend.tokens, run.spend.cost_micro_usd), (3_307, 2_000 + 1_000 + 500_000));
}

#[test]
fn secrets_are_not_shown() {
    let mut history = History::default();
    for _ in 0..8 {
        history.call(
            "bash",
            "curl -H 'Authorization: Bearer sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789' x",
            "no",
        );
    }
    let preview = &history.run().loops[0].preview;
    assert!(preview.contains("[redacted") && !preview.contains("AbCdEfGh"), "{preview}");
}

#[test]
fn the_sum_does_not_depend_on_the_order_or_on_who_adds_it_up() {
    let summary = Summary { format: Format::Flyball, lines: 1, skipped: 0, broken: 0, unfinished: false };
    let all: Vec<Findings> = fixtures()
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bench = bench();
            let mut auditor = Auditor::new(&bench, &name);
            for (at, line) in text.lines().enumerate() {
                auditor.take(Item::plain(Event::from_json(line).unwrap(), at as u64));
            }
            auditor.finish()
        })
        .collect();
    let sum = |order: &mut dyn Iterator<Item = &Findings>, shares: usize| {
        let mut parts: Vec<Survey> = (0..shares).map(|_| Survey::default()).collect();
        for (at, findings) in order.enumerate() {
            parts[at % shares].take(findings, &summary, 1);
        }
        let mut whole = Survey::default();
        parts.into_iter().for_each(|part| whole.merge(part));
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            whole.all,
            whole.worst(),
            whole.doubts.list(),
            whole.tools,
            whole.days
        )
    };
    let forward = sum(&mut all.iter(), 1);
    assert_eq!(forward, sum(&mut all.iter().rev(), 1));
    assert_eq!(forward, sum(&mut all.iter(), 3));
    assert_eq!(forward, sum(&mut all.iter().rev(), 7));
}
