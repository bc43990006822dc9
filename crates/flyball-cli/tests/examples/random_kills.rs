//! Killed with SIGKILL at random times and resumed, an example reaches the same result with the same decisions, and no
//! finished step runs twice.
//!
//! Each example is killed three times, or `FLYBALL_KILLS` times. The kill times are derived from a printed seed; set
//! `FLYBALL_SEED` to use another one.

use crate::example_cases::{ExampleCase, ExampleStage};
use crate::example_harness::{ExampleDir, LiveRun, StoredEntry, comparable_decisions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Default number of kills.
const DEFAULT_KILLS: u64 = 3;
/// Maximum number of kills per run.
const MAX_KILLS_PER_RUN: u64 = 3;
/// Maximum number of resumes; a run must finish within it.
const MAX_RESUMES: usize = 20;

/// A pseudorandom number generator (SplitMix64).
struct KillRng(u64);

impl KillRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// The result of an example.
#[derive(Debug, PartialEq)]
struct ExampleResult {
    files: BTreeMap<String, String>,
    decisions: BTreeMap<String, Vec<Value>>,
}

fn collect_result(case: &ExampleCase, dir: &ExampleDir) -> ExampleResult {
    let sessions = dir.sessions(case.session);
    let decisions = sessions.iter().map(|(name, entries)| {
        let mut all = comparable_decisions(entries);
        // How far an abandoned branch got depends on timing; that it was abandoned does not.
        if all.last().is_some_and(|last| last["outcome"] == "abandoned") {
            all = vec!["abandoned".into()];
        }
        (name.clone(), all)
    });
    let decisions = decisions.collect();
    ExampleResult { files: dir.files(case.session), decisions }
}

/// The steps in progress according to the store, by the keys that their programs log: started and not finished.
fn steps_in_progress(sessions: &BTreeMap<String, Vec<StoredEntry>>) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for (session, entries) in sessions {
        let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in entries {
            let refused = ["block", "halt"].iter().any(|word| entry.decision["decision"] == *word);
            let (node, call) = (entry.node(), entry.event["call"].as_str().unwrap_or_default());
            let turn = turns.entry(node).or_insert(0);
            match entry.event_type() {
                "turn.started" if !refused => {
                    *turn += 1;
                    open.insert(format!("node {session} {node} {turn}"));
                }
                "turn.finished" => _ = open.remove(&format!("node {session} {node} {turn}")),
                "tool.requested" if !refused => _ = open.insert(format!("call {session} {call}")),
                "tool.finished" => _ = open.remove(&format!("call {session} {call}")),
                // A completion reported by the model is checked immediately.
                "completion.requested" if !refused => {
                    _ = open.insert(format!("gate {session} {node} {turn}"))
                }
                "gate.checked" => _ = open.remove(&format!("gate {session} {node} {turn}")),
                _ => {}
            }
        }
        // A gate that is a separate node starts with its turn.
        if let Some(last) = entries.last().filter(|entry| entry.event_type() == "turn.started") {
            let turn = turns.get(last.node()).copied().unwrap_or_default();
            open.insert(format!("gate {session} {} {turn}", last.node()));
        }
    }
    open
}

/// Runs an example and kills it at random times. Returns the number of kills, and how often each step was interrupted.
fn run_with_kills(
    case: &ExampleCase,
    dir: &ExampleDir,
    random: &mut KillRng,
    plain: &UninterruptedRun,
    kills: u64,
) -> (u64, BTreeMap<String, usize>) {
    let mut killed = 0;
    let mut cut: BTreeMap<String, usize> = BTreeMap::new();
    for (stage, code) in case.stages {
        let mut stage = *stage;
        let mut ended = None;
        for _ in 0..MAX_RESUMES {
            let args = case.args(stage);
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            if killed == kills || matches!(stage, ExampleStage::Release(_)) {
                let ran = dir.run(&words);
                assert_eq!(ran.code, *code, "{} {words:?}: {}{}", case.name, ran.out, ran.err);
                ended = Some(ran.code);
                break;
            }
            let live = LiveRun::new(dir.start(&words));
            if random.below(2) == 0 {
                live.wait_for(usize::try_from(random.below(plain.events + 1)).unwrap());
                live.wait_for_duration(Duration::from_micros(random.below(5_000)));
            } else {
                let micros = u64::try_from(plain.time.as_micros()).unwrap();
                live.wait_for_duration(Duration::from_micros(random.below(micros + 1)));
            }
            if let Some(exit) = live.kill() {
                assert_eq!(exit, *code, "{} {words:?}", case.name);
                ended = Some(exit);
                break;
            }
            killed += 1;
            let sessions = dir.sessions(case.session);
            for key in steps_in_progress(&sessions) {
                *cut.entry(key).or_insert(0) += 1;
            }
            stage = stage_after_kill(case, stage, sessions.get(case.session).map_or(&[][..], Vec::as_slice));
        }
        assert_eq!(ended, Some(*code), "{}: it does not finish", case.name);
    }
    (killed, cut)
}

/// The operator's command after a kill: resume, or the same command again if nothing of it was stored.
fn stage_after_kill(case: &ExampleCase, stage: ExampleStage, entries: &[StoredEntry]) -> ExampleStage {
    let said = |text: &str| entries.iter().any(|entry| entry.event["text"] == text);
    match stage {
        ExampleStage::Run if entries.is_empty() => ExampleStage::Run,
        ExampleStage::Send(text) if !said(text) => ExampleStage::Send(text),
        ExampleStage::Release(_) => panic!("{}: a release is never killed", case.name),
        _ => ExampleStage::Resume,
    }
}

/// Checks that a step ran as often as without kills, plus once for each interruption; a finished step never runs again.
fn assert_no_step_repeated(
    case: &ExampleCase,
    plain: &UninterruptedRun,
    dir: &ExampleDir,
    cut: &BTreeMap<String, usize>,
    what: &str,
) {
    let executions = dir.execution_counts();
    let keys: BTreeSet<&String> = executions.keys().chain(plain.executions.keys()).collect();
    for key in keys {
        let count = |all: &BTreeMap<String, usize>| all.get(key).copied().unwrap_or(0);
        let (ran, once, cut) = (count(&executions), count(&plain.executions), count(cut));
        let most = once + cut * case.max_gate_runs;
        let message = format!(
            "{what}: '{key}' ran {ran} times, {once} without a kill, and was interrupted {cut} times"
        );
        assert!((once..=most).contains(&ran), "{message}");
    }
}

/// The example without kills.
struct UninterruptedRun {
    result: ExampleResult,
    executions: BTreeMap<String, usize>,
    events: u64,
    time: Duration,
}

fn run_uninterrupted(case: &ExampleCase) -> UninterruptedRun {
    let dir = ExampleDir::new(&format!("kills-{}-plain", case.name));
    let begun = Instant::now();
    case.run_all_stages(&dir);
    let time = begun.elapsed();
    let result = collect_result(case, &dir);
    let events = result.decisions.values().map(Vec::len).sum::<usize>() as u64;
    let executions = dir.execution_counts();
    let _ = std::fs::remove_dir_all(&dir.folder);
    UninterruptedRun { result, executions, events, time }
}

fn check_example(name: &str) {
    let case = ExampleCase::by_name(name);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FLYBALL_KILLS").unwrap_or(DEFAULT_KILLS);
    let seed = number("FLYBALL_SEED").unwrap_or(1);
    let plain = run_uninterrupted(&case);
    let (mut killed, mut run) = (0, 0_u64);
    while killed < kills {
        run += 1;
        let what = format!("{name}, run {run} of FLYBALL_SEED={seed}");
        let mut random = KillRng(seed.wrapping_mul(1_000_003).wrapping_add(run));
        let dir = ExampleDir::new(&format!("kills-{name}-{run}"));
        let most = (1 + random.below(MAX_KILLS_PER_RUN)).min(kills - killed);
        let (more, cut) = run_with_kills(&case, &dir, &mut random, &plain, most);
        #[allow(
            clippy::print_stdout,
            reason = "prints the seed and the interrupted steps, to reproduce a \
             failure"
        )]
        {
            println!("{what}: {more} kills, in progress: {cut:?}");
        }
        killed += more;
        assert_same_result(&plain.result, &collect_result(&case, &dir), &what);
        assert_no_step_repeated(&case, &plain, &dir, &cut, &what);
        let _ = std::fs::remove_dir_all(&dir.folder);
        assert!(run < 40 * kills, "{name}: it finishes before it can be killed");
    }
}

fn assert_same_result(expected: &ExampleResult, came_to: &ExampleResult, what: &str) {
    assert_eq!(expected.files, came_to.files, "{what}");
    let names = |result: &ExampleResult| result.decisions.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(expected), names(came_to), "{what}");
    for (session, decisions) in &expected.decisions {
        let others = &came_to.decisions[session];
        for (at, (one, other)) in decisions.iter().zip(others).enumerate() {
            assert_eq!(one, other, "{what}: session {session}, event {}", at + 1);
        }
        assert_eq!(decisions.len(), others.len(), "{what}: session {session}");
    }
}

macro_rules! killed {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            check_example($name);
        }
    )*};
}

killed! {
    fix_until_green: "fix-until-green",
    fix_until_green_stuck: "fix-until-green-stuck",
    ralph: "ralph",
    ralph_never: "ralph-never",
    issues: "issues",
    issues_bounce: "issues-bounce",
    coder_verifier: "coder-verifier",
    planner_reviewer: "planner-reviewer",
    planner_quorum: "planner-quorum",
    tasks: "tasks",
    booking: "booking",
    docs_writer: "docs-writer",
}
