//! Versions of the decision rules: histories recorded under version 1 keep their decisions, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test may panic on missing data")]

use flyball::policy::{PolicyFormat, parse};
use flyball::{Event, PolicySource, Preset, RulesVersion, SessionState, Sessions, Verdict};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rules-v1")
}

fn source(version: u64) -> PolicySource {
    let layer = parse(&format!("rules_version: {version}"), PolicyFormat::Yaml, "test").unwrap();
    PolicySource::new(vec![layer], Preset::Agent).unwrap()
}

/// The decisions of all lines, one JSON text each.
fn decisions(version: u64, lines: &str) -> Vec<String> {
    let mut sessions = Sessions::new(source(version));
    lines.lines().map(|line| sessions.step(&Event::from_json(line).unwrap()).unwrap().to_json()).collect()
}

#[test]
fn version_1_histories_keep_their_decisions() {
    let mut histories = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = name.strip_suffix(".decisions.jsonl") else { continue };
        let read = |suffix: &str| std::fs::read_to_string(folder().join(format!("{name}{suffix}"))).unwrap();
        let (events, recorded) = (read(".jsonl"), read(".decisions.jsonl"));
        let now = decisions(1, &events);
        assert_eq!(now, recorded.lines().collect::<Vec<_>>(), "{name}");
        histories += 1;
    }
    assert!(histories >= 60, "{histories}");
}

#[test]
fn a_session_keeps_the_version_it_started_under() {
    let events = r#"{"type":"human.stopped","by":"anna","why":"wrong branch"}"#;
    for version in [1, 2] {
        let mut sessions = Sessions::new(source(version));
        sessions.step(&Event::from_json(events).unwrap()).unwrap();
        let state = sessions.get("default").unwrap().state().clone();
        assert_eq!(state.rules_version().number(), version);
        let decoded = SessionState::decode(&state.encode().unwrap()).unwrap();
        assert_eq!(decoded, state);
        // Resumed under a policy with the other version, the session keeps its version.
        let other = source(3 - version);
        let resumed = flyball::Session::resume(&other, decoded).unwrap();
        assert_eq!(resumed.state().rules_version().number(), version);
    }
}

#[test]
fn a_stored_policy_without_a_version_is_under_version_1() {
    let stored = PolicySource::from_json(r#"{"preset":"agent","layers":[]}"#).unwrap();
    assert_eq!(stored.base().rules_version, RulesVersion::V1);
    assert_eq!(stored.to_json(), r#"{"layers":[],"preset":"agent"}"#);
    let latest = PolicySource::preset(Preset::Agent);
    let read_back = PolicySource::from_json(&latest.to_json()).unwrap();
    assert_eq!(read_back.base().rules_version, RulesVersion::LATEST);
    assert_eq!(read_back.to_json(), latest.to_json());
}

fn step_line(sessions: &mut Sessions, line: &str) -> flyball::Decision {
    sessions.step(&Event::from_json(line).unwrap()).unwrap()
}

#[test]
fn releasing_a_guard_does_not_lift_a_stop_by_a_person() {
    let mut sessions = Sessions::new(source(2));
    let call = r#"{"type":"tool.requested","tool":"bash","args":{"command":"ls"}}"#;
    for _ in 0..8 {
        step_line(&mut sessions, call);
    }
    assert_eq!(step_line(&mut sessions, call).decision, Verdict::Halt);
    step_line(&mut sessions, r#"{"type":"human.stopped","by":"anna","why":"wrong branch"}"#);
    let released =
        step_line(&mut sessions, r#"{"type":"human.released","guard":"repetition","by":"ben","why":"ok"}"#);
    assert_eq!(released.decision, Verdict::Warn);
    assert_eq!(released.trips[0].message, "the session is still stopped by anna: wrong branch");
    let refused =
        step_line(&mut sessions, r#"{"type":"tool.requested","tool":"bash","args":{"command":"pwd"}}"#);
    assert_eq!(refused.decision, Verdict::Halt);
    assert_eq!(refused.trips[0].message, "stopped by anna: wrong branch");
    // A release without a guard name does not lift a stop either.
    let unnamed = step_line(&mut sessions, r#"{"type":"human.released","by":"ben","why":"ok"}"#);
    assert_eq!(unnamed.state, flyball::SessionPhase::Halted);
    let lifted =
        step_line(&mut sessions, r#"{"type":"human.released","guard":"human","by":"ben","why":"fixed"}"#);
    assert_eq!(lifted.state, flyball::SessionPhase::Running);
    assert_eq!(lifted.effects[0].fields["text"], "ben lifted the stop by anna (wrong branch): fixed");
    let after =
        step_line(&mut sessions, r#"{"type":"tool.requested","tool":"bash","args":{"command":"pwd"}}"#);
    assert_eq!(after.decision, Verdict::Allow);
}

#[test]
fn cached_allow_is_not_returned_after_a_stop() {
    let mut sessions = Sessions::new(source(2));
    let call = r#"{"type":"tool.requested","id":"e1","call":"c1","tool":"bash","args":{"command":"ls"}}"#;
    assert_eq!(step_line(&mut sessions, call).decision, Verdict::Allow);
    step_line(&mut sessions, r#"{"type":"human.stopped","by":"anna","why":"wrong branch"}"#);
    let again = step_line(&mut sessions, call);
    assert_eq!(again.decision, Verdict::Halt);
    assert_eq!((again.seq, sessions.get("default").unwrap().state().seq()), (1, 2));
    step_line(&mut sessions, r#"{"type":"human.released","guard":"human","by":"anna","why":"fixed"}"#);
    assert_eq!(step_line(&mut sessions, call).decision, Verdict::Allow);
}

#[test]
fn a_reused_call_id_is_a_new_request() {
    // Open forever, with or without new event ids: each one is counted, and the sixth is blocked.
    for id in [|n: usize| format!(r#""id":"e{n}","#), |_| String::new()] {
        let mut sessions = Sessions::new(source(2));
        let verdicts: Vec<Verdict> = (0..6)
            .map(|n| {
                let id = id(n);
                let line = format!(
                    r#"{{"type":"tool.requested",{id}"call":"c1","tool":"bash","args":{{"command":"ls"}}}}"#
                );
                step_line(&mut sessions, &line).decision
            })
            .collect();
        assert_eq!(verdicts[0], Verdict::Allow);
        assert_eq!(verdicts[5], Verdict::Block);
        assert_eq!(sessions.get("default").unwrap().state().seq(), 6);
    }
}

#[test]
fn constant_round_or_api_retries_do_not_disable_detection() {
    let requested =
        r#"{"type":"tool.requested","call":"c1","round":1,"tool":"bash","args":{"command":"ls"}}"#;
    let finished = r#"{"type":"tool.finished","call":"c1","ok":true,"output":"a b c"}"#;
    let retry = r#"{"type":"api.retry"}"#;
    for between in [vec![finished], vec![], vec![finished, retry], vec![retry]] {
        let mut sessions = Sessions::new(source(2));
        let calls = (1..=40).take_while(|_| {
            let refused = step_line(&mut sessions, requested).decision >= Verdict::Block;
            between.iter().for_each(|line| drop(step_line(&mut sessions, line)));
            !refused
        });
        let ran = calls.count();
        assert!(ran <= 24, "{ran} calls ran with {between:?} in between");
    }
    // The same error of different calls, all in one round.
    let mut sessions = Sessions::new(source(2));
    let ran = (1..=80)
        .take_while(|n| {
            let line = format!(r#"{{"type":"tool.requested","call":"c{n}","round":1,"tool":"read","args":{{"path":"f{n}"}}}}"#);
            let refused = step_line(&mut sessions, &line).decision >= Verdict::Block;
            let line = format!(r#"{{"type":"tool.finished","call":"c{n}","ok":false,"error":"permission denied"}}"#);
            continues_after(&mut sessions, &line, refused)
        })
        .count();
    assert!(ran <= 40, "{ran} failing calls ran");
}

fn continues_after(sessions: &mut Sessions, line: &str, refused: bool) -> bool {
    !refused && step_line(sessions, line).decision < Verdict::Halt
}

#[test]
fn equal_calls_in_one_round_count_as_one() {
    let mut sessions = Sessions::new(source(2));
    for n in 0..4 {
        let line = format!(
            r#"{{"type":"tool.requested","call":"c{n}","round":1,"tool":"bash","args":{{"command":"ls"}}}}"#
        );
        assert_eq!(step_line(&mut sessions, &line).decision, Verdict::Allow);
    }
}

#[test]
fn a_progress_signal_does_not_guess_its_direction_from_its_name() {
    let rising = |version: u64, better: &str| {
        let mut sessions = Sessions::new(source(version));
        let lines = [1, 5, 9, 14, 15]
            .map(|value| format!(r#"{{"type":"progress","signal":"tests_passed","value":{value}{better}}}"#));
        lines.map(|line| step_line(&mut sessions, &line).decision)
    };
    assert_eq!(rising(1, "").iter().max(), Some(&Verdict::Halt));
    assert_eq!(rising(2, "").iter().max(), Some(&Verdict::Allow));
    assert_eq!(rising(2, r#","better":"up""#).iter().max(), Some(&Verdict::Allow));
    assert_eq!(rising(2, r#","better":"down""#).iter().max(), Some(&Verdict::Halt));
    // A number that does not change is a stall in either direction.
    let mut sessions = Sessions::new(source(2));
    let stuck = [0; 3].map(|_| {
        step_line(&mut sessions, r#"{"type":"progress","signal":"tests_passed","value":7}"#).decision
    });
    assert_eq!(stuck[2], Verdict::Halt);
    // The built-in signal counts failing tests.
    let mut sessions = Sessions::new(source(2));
    let rising = [1, 5, 9, 14].map(|value| {
        step_line(&mut sessions, &format!(r#"{{"type":"progress","signal":"tests","value":{value}}}"#))
            .decision
    });
    assert_eq!(rising.iter().max(), Some(&Verdict::Halt));
}

#[test]
fn an_unknown_direction_is_an_error() {
    let line = r#"{"type":"progress","signal":"score","value":1,"better":"sideways"}"#;
    assert!(Event::from_json(line).is_err());
}

#[test]
fn a_state_stored_before_versions_existed_continues_under_version_1() {
    let mut states = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "state") {
            continue;
        }
        let read = |extension: &str| std::fs::read_to_string(path.with_extension(extension)).unwrap();
        let (events, recorded) = (read("jsonl"), read("decisions.jsonl"));
        let (events, recorded): (Vec<_>, Vec<_>) = (events.lines().collect(), recorded.lines().collect());
        let state = SessionState::decode(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(state.rules_version(), RulesVersion::V1);
        let rewritten = SessionState::decode(&state.encode().unwrap()).unwrap();
        assert_eq!(rewritten, state, "{}", path.display());
        let name = Event::from_json(events[0]).unwrap().session;
        let mut sessions = Sessions::new(source(2));
        sessions.insert(name, flyball::Session::resume(&source(2), rewritten).unwrap());
        let half = events.len() - events.len() / 2;
        for (event, recorded) in events.iter().zip(&recorded).skip(half) {
            assert_eq!(step_line(&mut sessions, event).to_json(), **recorded, "{}", path.display());
        }
        states += 1;
    }
    assert_eq!(states, 17);
}

fn effect_text(decision: &flyball::Decision, effect: &str, field: &str) -> Option<String> {
    let found = decision.effects.iter().find(|found| found.effect == effect)?;
    found.fields.get(field)?.as_str().map(str::to_owned)
}

#[test]
fn restarts_exclude_only_a_bounded_amount_of_time() {
    let hour = 3_600_000_u64;
    let layer = parse("budgets: {session: {runtime: 4h}}", PolicyFormat::Yaml, "test").unwrap();
    let runs = |between: &dyn Fn(u64) -> Vec<String>| {
        let mut sessions = Sessions::new(PolicySource::new(vec![layer.clone()], Preset::Agent).unwrap());
        (1..1_000_u64)
            .take_while(|n| {
                let at = n * hour;
                between(at).iter().for_each(|line| drop(step_line(&mut sessions, line)));
                let call = format!(
                    r#"{{"type":"tool.requested","at":{at},"tool":"read","args":{{"path":"f{n}"}}}}"#
                );
                step_line(&mut sessions, &call).decision < Verdict::Block
            })
            .count()
    };
    let event = |kind: &str, at: u64| format!(r#"{{"type":"{kind}","at":{at}}}"#);
    assert!(runs(&|_| Vec::new()) <= 5);
    // Work after the end consumes time like any other work.
    assert!(runs(&|at| if at == hour { vec![event("session.ended", at)] } else { Vec::new() }) <= 5);
    for kinds in [&["session.started"][..], &["session.ended", "session.started"]] {
        let ran = runs(&|at| kinds.iter().map(|kind| event(kind, at)).collect());
        assert!(ran <= 110, "{ran} hours of work with {kinds:?} between the calls");
    }
    // A person who returns days later consumes nothing, as before.
    assert_eq!(runs(&|at| vec![event("user.message", at)]), 999);
}

#[test]
fn session_keeps_its_first_parent() {
    for (version, after) in [(1, Verdict::Allow), (2, Verdict::Halt)] {
        let mut sessions = Sessions::new(source(version));
        step_line(&mut sessions, r#"{"type":"session.started","session":"top"}"#);
        step_line(&mut sessions, r#"{"type":"session.started","session":"free"}"#);
        step_line(&mut sessions, r#"{"type":"session.started","session":"child","parent":"top"}"#);
        step_line(&mut sessions, r#"{"type":"human.stopped","session":"top","by":"anna","why":"enough"}"#);
        step_line(&mut sessions, r#"{"type":"session.started","session":"child","parent":"free"}"#);
        let call = r#"{"type":"tool.requested","session":"child","tool":"bash","args":{}}"#;
        assert_eq!(step_line(&mut sessions, call).decision, after, "version {version}");
    }
}

#[test]
fn compaction_between_equal_calls_resets_nothing() {
    let mut sessions = Sessions::new(source(2));
    let ran = (0..12).take_while(|_| {
        let line = r#"{"type":"tool.requested","tool":"bash","args":{"command":"ls"}}"#;
        let refused = step_line(&mut sessions, line).decision >= Verdict::Block;
        step_line(&mut sessions, r#"{"type":"compaction"}"#);
        !refused
    });
    assert_eq!(ran.count(), 5);
}

#[test]
fn person_message_is_interpreted_by_context() {
    let plan = r#"{"type":"confirmation.requested","question":"Delete a.txt?","plan":[{"tool":"delete","args":{"file":"a.txt"}}]}"#;
    let say = |sessions: &mut Sessions, text: &str| {
        step_line(sessions, &format!(r#"{{"type":"person.message","text":"{text}","by":"chat:anna"}}"#))
    };
    for (text, read, effect) in [
        ("yes", "plan_answer", "plan.approved"),
        ("no", "plan_answer", "plan.rejected"),
        ("cancel", "plan_answer", "plan.rejected"),
        ("yes, if it is cheap", "plan_answer", "say"),
        ("send me the full list of tasks", "new_request", "plan.replaced"),
    ] {
        let mut sessions = Sessions::new(source(2));
        step_line(&mut sessions, plan);
        let said = say(&mut sessions, text);
        assert_eq!(effect_text(&said, "person.message", "as").as_deref(), Some(read), "{text}: {said:?}");
        assert!(said.effects.iter().any(|found| found.effect == effect), "{text}: {said:?}");
    }
    let mut sessions = Sessions::new(source(2));
    assert_eq!(
        effect_text(&say(&mut sessions, "hello"), "person.message", "as").as_deref(),
        Some("user_message")
    );
    step_line(&mut sessions, r#"{"type":"question.asked","text":"Which day?"}"#);
    // A prompt relayed by a host is not an answer.
    step_line(&mut sessions, r#"{"type":"user.message","text":"and now?","relayed_by":"desk"}"#);
    assert_eq!(
        effect_text(&say(&mut sessions, "Monday"), "person.message", "as").as_deref(),
        Some("question_answer")
    );
    assert_eq!(
        effect_text(&say(&mut sessions, "thanks"), "person.message", "as").as_deref(),
        Some("user_message")
    );
    // The answered plan is the one that was shown, and only the requester may answer.
    for extra in [r#","digest":"0123""#, r#","by":"chat:ben""#] {
        let mut sessions = Sessions::new(source(2));
        step_line(&mut sessions, &plan.replace(r#""plan""#, r#""requester":"chat:anna","plan""#));
        let line = format!(r#"{{"type":"person.message","text":"yes"{extra}}}"#);
        let said = step_line(&mut sessions, &line);
        assert_eq!(
            (said.decision, said.state),
            (Verdict::Block, flyball::SessionPhase::AwaitingConfirmation),
            "{extra}"
        );
    }
    // A stop stays active no matter what a person writes in the chat.
    let mut sessions = Sessions::new(source(2));
    step_line(&mut sessions, plan);
    step_line(&mut sessions, r#"{"type":"human.stopped","by":"ben","why":"enough"}"#);
    assert_eq!(say(&mut sessions, "yes").decision, Verdict::Halt);
    let state = sessions.get("default").unwrap().state().clone();
    assert_eq!(SessionState::decode(&state.encode().unwrap()).unwrap(), state);
}
