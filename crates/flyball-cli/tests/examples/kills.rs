//! Killed with SIGKILL at random moments and taken up again, an example comes to the same end by the same decisions, and
//! no step that was finished runs twice.
//!
//! Three kills for each example, or as many as `FLYBALL_KILLS` says. The moments follow from a seed that is printed; a
//! seed of one's own is `FLYBALL_SEED`.

use crate::cases::{Case, Stage};
use crate::kit::{Entry, Live, Place, decisions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How many kills, unless said otherwise.
const KILLS: u64 = 3;
/// The most kills of one run.
const MOST_A_RUN: u64 = 3;
/// Taking it up again must come to an end.
const MOST_RESUMES: usize = 20;

/// Random numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
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

/// What an example comes to.
#[derive(Debug, PartialEq)]
struct Result {
    files: BTreeMap<String, String>,
    decisions: BTreeMap<String, Vec<Value>>,
}

fn result(case: &Case, place: &Place) -> Result {
    let sessions = place.sessions(case.session);
    let decisions = sessions.iter().map(|(name, entries)| {
        let mut all = decisions(entries);
        // How far a branch came that nobody waited for is a matter of luck; that it was given up is not.
        if all.last().is_some_and(|last| last["outcome"] == "abandoned") {
            all = vec!["abandoned".into()];
        }
        (name.clone(), all)
    });
    let decisions = decisions.collect();
    Result { files: place.files(case.session), decisions }
}

/// The steps that are under way in the store, by the keys that their programs log: begun, and not finished.
fn under_way(sessions: &BTreeMap<String, Vec<Entry>>) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for (session, entries) in sessions {
        let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in entries {
            let refused = ["block", "halt"].iter().any(|word| entry.decision["decision"] == *word);
            let (node, call) = (entry.node(), entry.event["call"].as_str().unwrap_or_default());
            let turn = turns.entry(node).or_insert(0);
            match entry.kind() {
                "turn.started" if !refused => {
                    *turn += 1;
                    open.insert(format!("node {session} {node} {turn}"));
                }
                "turn.finished" => _ = open.remove(&format!("node {session} {node} {turn}")),
                "tool.requested" if !refused => _ = open.insert(format!("call {session} {call}")),
                "tool.finished" => _ = open.remove(&format!("call {session} {call}")),
                // What the model calls complete is checked at once.
                "completion.requested" if !refused => {
                    _ = open.insert(format!("gate {session} {node} {turn}"))
                }
                "gate.checked" => _ = open.remove(&format!("gate {session} {node} {turn}")),
                _ => {}
            }
        }
        // A gate that is a node of its own begins with its turn.
        if let Some(last) = entries.last().filter(|entry| entry.kind() == "turn.started") {
            let turn = turns.get(last.node()).copied().unwrap_or_default();
            open.insert(format!("gate {session} {} {turn}", last.node()));
        }
    }
    open
}

/// Plays an example and kills it now and then. Gives how often, and how often each step was cut off by it.
fn play(
    case: &Case,
    place: &Place,
    random: &mut Random,
    plain: &Plain,
    kills: u64,
) -> (u64, BTreeMap<String, usize>) {
    let mut killed = 0;
    let mut cut: BTreeMap<String, usize> = BTreeMap::new();
    for (stage, code) in case.stages {
        let mut stage = *stage;
        let mut ended = None;
        for _ in 0..MOST_RESUMES {
            let args = case.args(stage);
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            if killed == kills || matches!(stage, Stage::Release(_)) {
                let ran = place.run(&words);
                assert_eq!(ran.code, *code, "{} {words:?}: {}{}", case.name, ran.out, ran.err);
                ended = Some(ran.code);
                break;
            }
            let live = Live::new(place.start(&words));
            if random.below(2) == 0 {
                live.wait_for(usize::try_from(random.below(plain.events + 1)).unwrap());
                live.go_on_for(Duration::from_micros(random.below(5_000)));
            } else {
                let micros = u64::try_from(plain.time.as_micros()).unwrap();
                live.go_on_for(Duration::from_micros(random.below(micros + 1)));
            }
            if let Some(exit) = live.kill() {
                assert_eq!(exit, *code, "{} {words:?}", case.name);
                ended = Some(exit);
                break;
            }
            killed += 1;
            let sessions = place.sessions(case.session);
            for key in under_way(&sessions) {
                *cut.entry(key).or_insert(0) += 1;
            }
            stage = next(case, stage, sessions.get(case.session).map_or(&[][..], Vec::as_slice));
        }
        assert_eq!(ended, Some(*code), "{}: it does not come to an end", case.name);
    }
    (killed, cut)
}

/// What a person does after a kill: take it up again, or, if nothing of the command was stored, give it again.
fn next(case: &Case, stage: Stage, entries: &[Entry]) -> Stage {
    let said = |text: &str| entries.iter().any(|entry| entry.event["text"] == text);
    match stage {
        Stage::Run if entries.is_empty() => Stage::Run,
        Stage::Send(text) if !said(text) => Stage::Send(text),
        Stage::Release(_) => panic!("{}: nobody kills a release", case.name),
        _ => Stage::Resume,
    }
}

/// A step ran as often as without a kill, and once more for each time that it was cut off: a finished one never again.
fn none_twice(case: &Case, plain: &Plain, place: &Place, cut: &BTreeMap<String, usize>, what: &str) {
    let executions = place.executions();
    let keys: BTreeSet<&String> = executions.keys().chain(plain.executions.keys()).collect();
    for key in keys {
        let count = |all: &BTreeMap<String, usize>| all.get(key).copied().unwrap_or(0);
        let (ran, once, cut) = (count(&executions), count(&plain.executions), count(cut));
        let most = once + cut * case.tries;
        let told =
            format!("{what}: '{key}' ran {ran} times, {once} without a kill, and was cut off {cut} times");
        assert!((once..=most).contains(&ran), "{told}");
    }
}

/// The example without a kill.
struct Plain {
    result: Result,
    executions: BTreeMap<String, usize>,
    events: u64,
    time: Duration,
}

fn plain(case: &Case) -> Plain {
    let place = Place::new(&format!("kills-{}-plain", case.name));
    let begun = Instant::now();
    case.play(&place);
    let time = begun.elapsed();
    let result = result(case, &place);
    let events = result.decisions.values().map(Vec::len).sum::<usize>() as u64;
    let executions = place.executions();
    let _ = std::fs::remove_dir_all(&place.folder);
    Plain { result, executions, events, time }
}

fn check(name: &str) {
    let case = Case::named(name);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FLYBALL_KILLS").unwrap_or(KILLS);
    let seed = number("FLYBALL_SEED").unwrap_or(1);
    let plain = plain(&case);
    let (mut killed, mut run) = (0, 0_u64);
    while killed < kills {
        run += 1;
        let what = format!("{name}, run {run} of FLYBALL_SEED={seed}");
        let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(run));
        let place = Place::new(&format!("kills-{name}-{run}"));
        let most = (1 + random.below(MOST_A_RUN)).min(kills - killed);
        let (more, cut) = play(&case, &place, &mut random, &plain, most);
        #[allow(clippy::print_stdout, reason = "the seed and what was under way, for whoever runs it again")]
        {
            println!("{what}: {more} kills, under way then: {cut:?}");
        }
        killed += more;
        same(&plain.result, &result(&case, &place), &what);
        none_twice(&case, &plain, &place, &cut, &what);
        let _ = std::fs::remove_dir_all(&place.folder);
        assert!(run < 40 * kills, "{name}: it is over before it can be killed");
    }
}

fn same(expected: &Result, came_to: &Result, what: &str) {
    assert_eq!(expected.files, came_to.files, "{what}");
    let names = |result: &Result| result.decisions.keys().cloned().collect::<Vec<_>>();
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
            check($name);
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
