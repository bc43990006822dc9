//! Compares the audit with an enforcing governor: both must stop the same loops at the same points.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use flyball::{Event, PolicySource, Preset, Sessions, Verdict};
use flyball_integrations::audit::{AuditConfig, AuditSummary, AuditedRun, Auditor, FileFindings, LoopEnd};
use flyball_integrations::prices::PriceList;
use flyball_integrations::transcript::{TranscriptEvent, TranscriptFormat, TranscriptSummary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn audit_config() -> AuditConfig {
    AuditConfig::new(PolicySource::preset(Preset::Agent), PriceList::built_in().unwrap()).unwrap()
}

fn audit(config: &AuditConfig, lines: &[String]) -> FileFindings {
    let mut auditor = Auditor::new(config, "run.jsonl");
    for (at, line) in lines.iter().enumerate() {
        auditor.push(TranscriptEvent::from_event(
            Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error}")),
            at as u64 + 1,
        ));
    }
    auditor.finish()
}

fn single_run(findings: FileFindings) -> AuditedRun {
    assert_eq!(findings.runs.len(), 1);
    findings.runs.into_iter().next().unwrap()
}

/// Builds a history of calls and results, one second apart.
#[derive(Default)]
struct AuditHistory {
    lines: Vec<String>,
    calls: u64,
}

impl AuditHistory {
    fn push(&mut self, mut value: serde_json::Value) {
        value["at"] = serde_json::json!(1_700_000_000_000_u64 + self.lines.len() as u64 * 1000);
        self.lines.push(value.to_string());
    }

    fn call(&mut self, tool: &str, argument: &str, output: &str) {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        let usage = serde_json::json!({"tokens_in": 900, "tokens_out": 100, "cost_usd": 0.01});
        self.push(serde_json::json!({"type": "tool.requested", "call": call, "tool": tool, "args": {"x": argument}, "usage": usage}));
        self.push(serde_json::json!({"type": "tool.finished", "call": call, "ok": true, "output": output}));
    }

    fn write_files(&mut self, count: u64) {
        for _ in 0..count {
            let what = format!("file {}", self.calls);
            self.call("write_file", &what, "written");
        }
    }

    fn repeat_call(&mut self, count: u64) {
        for _ in 0..count {
            self.call("bash", "make test", "1 failing");
        }
    }

    fn audited_run(&self) -> AuditedRun {
        single_run(audit(&audit_config(), &self.lines))
    }
}

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut files: Vec<PathBuf> = ["guards", "original-systems"]
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

/// Whether a trip is not a loop: other guards, and a gate's plain rejection.
fn is_not_a_loop(trip: &flyball::Trip) -> bool {
    let counted = ["max_cycle_iterations", "max_steps"].contains(&trip.reason.as_str());
    match trip.guard.as_str() {
        "budget" => !counted,
        "gate" => trip.severity != flyball::TripSeverity::Halt,
        guard => ["confirmation", "rule", "human", "release"].contains(&guard),
    }
}

#[test]
fn first_stop_matches_the_enforcing_governor() {
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
                    .any(|trip| trip.severity >= flyball::TripSeverity::Block && !is_not_a_loop(trip));
                first.entry(decision.session.clone()).or_insert((decision.seq, a_loop));
            }
        }
        let findings = audit(&audit_config(), &lines);
        for run in &findings.runs {
            let found = run.loops.iter().find_map(|found| found.stop.as_ref()).map(|stop| stop.seq);
            match first.get(&run.session) {
                Some((seq, true)) => {
                    assert_eq!(found, Some(*seq), "{} {}", path.display(), run.session);
                    stopped += 1;
                }
                // Stopped earlier for another reason, so the audited stop is never reached.
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
fn waste_starts_after_the_first_blocked_answer() {
    let mut history = AuditHistory::default();
    history.write_files(3);
    history.repeat_call(20);
    history.write_files(10);
    let run = history.audited_run();
    assert_eq!((run.spend.calls, run.spend.tokens, run.spend.cost_micro_usd), (33, 33_000, 330_000));
    let [found] = &run.loops[..] else { panic!("{:?}", run.loops) };
    let stop = found.stop.as_ref().unwrap();
    // Five calls run, the sixth is denied. Three other calls and five of the loop precede it, two lines each.
    assert_eq!((stop.decision, stop.line, stop.count, stop.limit), ("block", 17, 6, 5));
    assert_eq!((found.guard.as_str(), found.count, found.repeats), ("repetition", 20, Some(20)));
    // Saved: calls 6 to 20, and the answers that requested calls 7 to 20.
    assert_eq!((found.wasted.calls, found.wasted.tokens, found.wasted.cost_micro_usd), (15, 14_000, 140_000));
    // One second for the sixth call, then two for each of the remaining fourteen.
    assert_eq!(found.wasted.time_ms, 29_000);
    assert_eq!((found.end, found.calls_after), (LoopEnd::MovedOn, 10));
    assert_eq!(found.doubt, None, "fifteen repeats are not a false alarm");
    assert_eq!(found.lines, [7, 9, 11, 13, 15, 17]);
    assert_eq!(found.preview, r#"bash {"x":"make test"}"#);
    assert_eq!(run.savings(), found.wasted);
    assert_eq!(found.tools["bash"], found.wasted);
}

#[test]
fn loop_ends_with_the_run_or_with_a_user_message() {
    let mut history = AuditHistory::default();
    history.repeat_call(8);
    let run = history.audited_run();
    assert_eq!((run.loops[0].end, run.loops[0].wasted.calls), (LoopEnd::WithTheRun, 3));

    history.push(serde_json::json!({"type": "user.message", "text": "Stop that. Look at the config."}));
    history.write_files(8);
    history.repeat_call(7);
    let run = history.audited_run();
    let ends: Vec<(LoopEnd, u64)> = run.loops.iter().map(|found| (found.end, found.wasted.calls)).collect();
    assert_eq!(
        ends,
        [(LoopEnd::Person, 3), (LoopEnd::WithTheRun, 2)],
        "a person's message starts a new \
         count"
    );
    assert!(run.loops.iter().all(|found| found.doubt.is_none()));
}

#[test]
fn polling_call_with_a_new_result_is_doubtful() {
    let mut history = AuditHistory::default();
    for _ in 0..9 {
        history.call("job_status", "77", "running");
    }
    history.call("job_status", "77", "done: 12 files");
    history.write_files(2);
    let run = history.audited_run();
    let [found] = &run.loops[..] else { panic!("{:?}", run.loops) };
    assert_eq!(found.end, LoopEnd::NewResult);
    assert!(
        found.doubt.as_deref().unwrap().contains("returned a new result after 5 more calls"),
        "{found:?}"
    );
    assert_eq!((run.stopped_loops().count(), run.doubtful_loops().count(), run.savings().calls), (0, 1, 0));

    // The same calls without a new result are a loop.
    let mut history = AuditHistory::default();
    for _ in 0..9 {
        history.call("job_status", "77", "running");
    }
    let run = history.audited_run();
    assert_eq!((run.stopped_loops().count(), run.doubtful_loops().count(), run.savings().calls), (1, 0, 4));
}

#[test]
fn short_loop_followed_by_writes_is_doubtful() {
    let mut history = AuditHistory::default();
    history.repeat_call(6);
    history.write_files(7);
    let run = history.audited_run();
    assert_eq!(run.loops[0].wasted.calls, 1);
    assert!(
        run.loops[0].doubt.as_deref().unwrap().contains("ended without intervention"),
        "{:?}",
        run.loops[0]
    );

    let mut history = AuditHistory::default();
    history.repeat_call(6);
    for at in 0..7 {
        history.call("read_file", &format!("{at}"), &format!("text {at}"));
    }
    assert_eq!(history.audited_run().loops[0].doubt, None, "it continued reading without a result");
}

#[test]
fn warnings_save_nothing_and_disabled_guards_find_nothing() {
    let mut history = AuditHistory::default();
    history.repeat_call(4);
    history.write_files(1);
    let run = history.audited_run();
    assert_eq!((run.loops.len(), run.stopped_loops().count()), (1, 0));
    assert_eq!(run.savings(), Default::default());

    history.repeat_call(20);
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
        let run = single_run(audit(&AuditConfig::new(source, PriceList::empty()).unwrap(), lines));
        assert_eq!((run.stopped_loops().count(), !run.loops.is_empty()), (stops, found), "{set:?}");
        let halts =
            run.stopped_loops().filter(|found| found.stop.as_ref().unwrap().decision == "halt").count();
        assert_eq!(halts, usize::from(set[0].ends_with("halt")));
    }
}

#[test]
fn redelivered_events_count_once_and_invalid_ones_are_skipped() {
    let one = r#"{"type":"tool.requested","id":"e1","call":"c1","tool":"bash","args":{},"usage":{"tokens_in":10,"tokens_out":0}}"#;
    let other = r#"{"type":"tool.requested","id":"e1","call":"c2","tool":"grep","args":{}}"#;
    let bad = r#"{"type":"session.started","session":"b","policy":{"gaurds":{}}}"#;
    let lines: Vec<String> = [one, one, other, bad].map(str::to_owned).to_vec();
    let findings = audit(&audit_config(), &lines);
    assert_eq!((findings.runs.len(), findings.skipped_events), (1, 2));
    assert_eq!(
        findings.first_skipped.as_ref().map(|(line, error)| (*line, error.code.as_str())),
        Some((3, "event_conflict"))
    );
    let run = single_run(findings);
    assert_eq!((run.events, run.spend.calls, run.spend.tokens), (1, 1, 10));
}

#[test]
fn cost_comes_from_the_transcript_then_the_price_list() {
    let prices =
        PriceList::empty().with_overrides("models: {known: {input: 2.00, output: 10.00}}", "p.yaml").unwrap();
    let config = AuditConfig::new(PolicySource::preset(Preset::Agent), prices).unwrap();
    let mut auditor = Auditor::new(&config, "run.jsonl");
    let event = |usage: &str| {
        Event::from_json(&format!(r#"{{"type":"assistant.message","text":"","usage":{usage}}}"#)).unwrap()
    };
    let mut take = |usage: &str, model: Option<&str>| {
        let mut item = TranscriptEvent::from_event(event(usage), 1);
        item.model = model.map(Arc::from);
        auditor.push(item);
    };
    take(r#"{"tokens_in":1000,"tokens_out":100}"#, Some("known-20260101"));
    take(r#"{"tokens_in":1000,"tokens_out":100,"cost_usd":0.5}"#, Some("known"));
    take(r#"{"tokens_in":1000,"tokens_out":100}"#, Some("unheard-of"));
    take(r#"{"tokens_in":7,"tokens_out":0}"#, None);
    let findings = auditor.finish();
    let unpriced: Vec<(&str, u64)> =
        findings.unpriced.iter().map(|(model, tokens)| (model.as_str(), *tokens)).collect();
    assert_eq!(unpriced, [("", 7), ("unheard-of", 1100)]);
    let run = single_run(findings);
    assert_eq!((run.spend.tokens, run.spend.cost_micro_usd), (3_307, 2_000 + 1_000 + 500_000));
}

#[test]
fn previews_are_redacted() {
    let mut history = AuditHistory::default();
    for _ in 0..8 {
        history.call(
            "bash",
            "curl -H 'Authorization: Bearer sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789' x",
            "no",
        );
    }
    let preview = &history.audited_run().loops[0].preview;
    assert!(preview.contains("[redacted") && !preview.contains("AbCdEfGh"), "{preview}");
}

#[test]
fn summary_is_independent_of_order_and_sharding() {
    let summary = TranscriptSummary {
        format: TranscriptFormat::Flyball,
        lines: 1,
        skipped: 0,
        broken: 0,
        unfinished: false,
    };
    let all: Vec<FileFindings> = fixtures()
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let config = audit_config();
            let mut auditor = Auditor::new(&config, &name);
            for (at, line) in text.lines().enumerate() {
                auditor.push(TranscriptEvent::from_event(Event::from_json(line).unwrap(), at as u64));
            }
            auditor.finish()
        })
        .collect();
    let sum = |order: &mut dyn Iterator<Item = &FileFindings>, shares: usize| {
        let mut parts: Vec<AuditSummary> = (0..shares).map(|_| AuditSummary::default()).collect();
        for (at, findings) in order.enumerate() {
            parts[at % shares].add_file(findings, &summary, 1);
        }
        let mut whole = AuditSummary::default();
        parts.into_iter().for_each(|part| whole.merge(part));
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            whole.totals,
            whole.worst_loops(),
            whole.top_doubtful.as_slice(),
            whole.tools,
            whole.days
        )
    };
    let forward = sum(&mut all.iter(), 1);
    assert_eq!(forward, sum(&mut all.iter().rev(), 1));
    assert_eq!(forward, sum(&mut all.iter(), 3));
    assert_eq!(forward, sum(&mut all.iter().rev(), 7));
}
