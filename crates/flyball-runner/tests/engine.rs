//! The engine with a real store: transitions, retries, branches, people, stalls and resumed runs.

mod common;

use common::RunHarness;
use flyball::{EventKind, ReleaseMode};
use flyball_runner::engine::{InterruptedStepPolicy, RunEnd, RunStop};

#[test]
fn each_outcome_follows_its_edge() {
    for (code, way) in [(0, "good"), (3, "half"), (4, "unsure"), (1, "bad")] {
        let place = RunHarness::new();
        let text = format!(
            "
nodes:
  - {{name: try, kind: command, run: exit {code}, partial: [3], unclear: [4],
     on_success: good, on_failure: bad, on_partial_success: half, on_unclear: unsure}}
  - {{name: good, kind: say, text: well, next: done}}
  - {{name: half, kind: say, text: half, next: done}}
  - {{name: unsure, kind: say, text: who knows, next: done}}
  - {{name: bad, kind: say, text: no, next: failed}}
"
        );
        let end = place.run(&text);
        assert_eq!(place.transitions("s").first().map(String::as_str), Some(way), "exit {code}");
        assert_eq!(end, if way == "bad" { RunEnd::Failed } else { RunEnd::Done }, "exit {code}");
    }
}

#[test]
fn retry_counts_as_visit_not_transition() {
    let place = RunHarness::new();
    let text = "
nodes:
  - {name: try, kind: command, run: 'echo x >> tries; test $(wc -l < tries) -ge 3', rerun: true,
     retry: {attempts: 5, backoff: fixed, initial: 1ms}, on_success: done, on_failure: failed}
";
    assert_eq!(place.run(text), RunEnd::Done);
    let types = place.event_types("s");
    assert_eq!(types.iter().filter(|name| *name == "turn.started").count(), 3);
    assert_eq!(place.transitions("s"), ["done"]);
}

#[test]
fn route_takes_the_first_matching_rule() {
    let text = |word: &str| {
        format!(
            "
nodes:
  - {{name: speak, kind: command, run: echo {word}, next: sort}}
  - name: sort
    kind: route
    rules:
      - {{when: \"event.output.contains('red')\", to: stop}}
      - {{when: \"event.vars.speak.outcome == 'success' && event.visits.speak == 1\", to: go}}
    otherwise: failed
  - {{name: stop, kind: say, text: stop, next: done}}
  - {{name: go, kind: say, text: go, next: done}}
"
        )
    };
    for (word, way) in [("red", "stop"), ("green", "go")] {
        let place = RunHarness::new();
        assert_eq!(place.run(&text(word)), RunEnd::Done);
        assert_eq!(place.transitions("s").get(1).map(String::as_str), Some(way));
    }
}

const BRANCHES: &str = "
nodes:
  - {name: begin, kind: command, run: 'true', on_success: [left, right]}
  - {name: left, kind: command, run: LEFT, next: meet, rerun: true}
  - {name: right, kind: command, run: RIGHT, next: meet, rerun: true}
  - {name: meet, kind: join, wait: WAIT, on_success: done, on_partial_success: half}
  - {name: half, kind: say, text: only some came, next: done}
";

fn branches(left: &str, right: &str, wait: &str) -> String {
    BRANCHES.replace("LEFT", left).replace("RIGHT", right).replace("WAIT", wait)
}

#[test]
fn join_all_waits_for_every_branch() {
    let place = RunHarness::new();
    assert_eq!(place.run(&branches("echo l > l", "echo r > r", "all")), RunEnd::Done);
    assert_eq!((place.file("l").trim(), place.file("r").trim()), ("l", "r"));
    assert_eq!(place.transitions("s/left.1"), ["left", "meet"]);
    assert_eq!(place.transitions("s/right.1"), ["right", "meet"]);
}

#[test]
fn join_any_cancels_slower_branches() {
    let place = RunHarness::new();
    assert_eq!(place.run(&branches("sleep 60; touch late", "'true'", "any")), RunEnd::Done);
    assert_eq!(place.file("late"), "");
    assert!(!place.folder.path().join("late").exists());
}

#[test]
fn join_timeout_continues_with_arrived_branches() {
    let place = RunHarness::new();
    let text = branches("sleep 60", "'true'", "all, timeout: 2s");
    assert_eq!(place.run(&text), RunEnd::Done);
    assert_eq!(place.transitions("s"), ["meet", "half", "done"]);
}

#[test]
fn halt_in_one_branch_does_not_stop_the_other() {
    let place = RunHarness::new();
    let text = "
policy: {guards: {visits: {limit: 2}}}
nodes:
  - {name: begin, kind: command, run: 'true', on_success: [loop, work]}
  - {name: loop, kind: command, run: 'false', rerun: true, on_success: meet, on_failure: loop}
  - {name: work, kind: command, run: 'touch finished', next: meet, rerun: true}
  - {name: meet, kind: join, next: done}
";
    let end = place.run(text);
    assert!(matches!(end, RunEnd::Stopped(RunStop::Blocked { .. } | RunStop::Halted(_))), "{end:?}");
    assert!(place.folder.path().join("finished").exists());
    assert_eq!(place.transitions("s/work.1"), ["work", "meet"]);
}

#[test]
fn question_can_be_answered_by_another_process() {
    let place = RunHarness::new();
    let text = "
nodes:
  - {name: ask, kind: human, ask: What is your name?, next: greet}
  - {name: greet, kind: command, run: [sh, -c, 'echo \"hello $0\" > greeting', '{{ask.output}}'], next: done}
";
    assert_eq!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput("What is your name?".to_owned())));
    // Asking again changes nothing.
    assert_eq!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput("What is your name?".to_owned())));
    place.send_message(text, "Ada");
    assert_eq!(place.run(text), RunEnd::Done);
    assert_eq!(place.file("greeting").trim(), "hello Ada");
}

const PLAN: &str = "
nodes:
  - name: remove
    kind: confirm
    plan: [{tool: drop, args: {name: a}}, {tool: drop, args: {name: b}}]
    question: Remove a and b?
    on_success: done
    on_failure: failed
tools:
  drop: {description: removes, risk: destructive, argv: [sh, -c, 'echo dropped $0 >> log', '{name}'],
         schema: {type: object, properties: {name: {type: string}}, required: [name]}}
";

#[test]
fn confirmed_plan_runs_once_and_denied_plan_never() {
    for (answer, end, log) in [("yes", RunEnd::Done, "dropped a\ndropped b\n"), ("no", RunEnd::Failed, "")] {
        let place = RunHarness::new();
        assert!(matches!(place.run(PLAN), RunEnd::Stopped(RunStop::AwaitingInput(_))));
        place.send(
            PLAN,
            EventKind::ConfirmationAnswered {
                text: Some(answer.to_owned()),
                value: None,
                by: None,
                digest: None,
            },
        );
        assert_eq!(place.run(PLAN), end, "{answer}");
        assert_eq!(place.run(PLAN), end, "{answer}");
        assert_eq!(place.file("log"), log, "{answer}");
    }
}

#[test]
fn denied_transition_continues_after_release() {
    let place = RunHarness::new();
    let text = "
policy: {guards: {visits: {limit: 3}, stall: {mode: off}}}
nodes:
  - {name: work, kind: command, run: 'echo x >> n; test $(wc -l < n) -ge 5', rerun: true, on_success: done, on_failure: work}
";
    let end = place.run(text);
    let RunEnd::Stopped(RunStop::Blocked { decision, alternatives }) = end else { panic!("{end:?}") };
    assert_eq!(alternatives, ["done"]);
    assert_eq!(decision.trips.first().map(|trip| trip.guard.as_str()), Some("visits"));
    assert_eq!(place.file("n").lines().count(), 3);
    let release = EventKind::HumanReleased {
        guard: Some("visits".to_owned()),
        trip: None,
        mode: ReleaseMode::default(),
        n: None,
        by: Some("ada".to_owned()),
        why: Some("two more will do".to_owned()),
    };
    place.send(text, release);
    assert_eq!(place.run(text), RunEnd::Done);
    assert_eq!(place.file("n").lines().count(), 5);
}

#[test]
fn changed_workflow_is_detected_on_resume() {
    let place = RunHarness::new();
    let text = "
nodes:
  - {name: one, kind: command, run: 'true', next: ask}
  - {name: ask, kind: human, ask: Well?, next: done}
";
    assert!(matches!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput(_))));
    let changed = text.replace("name: one", "name: other");
    let failure = place.try_run(&changed).unwrap_err();
    assert_eq!(failure.code, "run_diverged");
}

#[test]
fn ephemeral_run_makes_the_same_decisions() {
    let text = "
policy: {budgets: {loop: {iterations: 50}, message: {transitions: 0}}, guards: {visits: {mode: off}, transitions: {mode: off}, cycle: {mode: off}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: a}
";
    let ends = [RunHarness::new().run_ephemeral(text), RunHarness::new().run(text)];
    let halted = |end: &RunEnd| match end {
        RunEnd::Stopped(RunStop::Halted(decision)) => (decision.seq, decision.trips.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(halted(&ends[0]), halted(&ends[1]));
}

#[test]
fn speculated_events_are_stored_in_order() {
    let place = RunHarness::new();
    let text = "
policy: {preset: off}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: c}
  - {name: c, kind: command, run: 'true', next: done}
";
    assert_eq!(place.run(text), RunEnd::Done);
    assert_eq!(place.transitions("s"), ["b", "c", "done"]);
    let live = place.listener.live_events.lock().unwrap();
    let numbers: Vec<u64> = live.iter().map(|past| past.decision.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn interrupted_command_reruns_only_if_allowed() {
    let text = |rerun: bool| {
        format!(
            "
nodes:
  - {{name: work, kind: command, run: 'echo x >> n; test -e go', rerun: {rerun}, on_success: done, on_failure: failed}}
"
        )
    };
    // The start of the turn is stored, but not its end.
    let cut = |place: &RunHarness, text: &str| {
        place.store_interrupted_run(text, "work", vec![EventKind::TurnStarted {}]);
        std::fs::write(place.folder.path().join("go"), "").unwrap();
    };
    let mut place = RunHarness::new();
    cut(&place, &text(false));
    assert_eq!(
        place.run(&text(false)),
        RunEnd::Stopped(RunStop::StepOutcomeUnknown { step: "work".to_owned() })
    );
    assert_eq!(place.file("n"), "");
    place.on_interrupted_step = InterruptedStepPolicy::Rerun;
    assert_eq!(place.run(&text(false)), RunEnd::Done);
    let place = RunHarness::new();
    cut(&place, &text(true));
    assert_eq!(place.run(&text(true)), RunEnd::Done);
    assert_eq!(place.file("n").lines().count(), 1);
    let mut place = RunHarness::new();
    cut(&place, &text(false));
    place.on_interrupted_step = InterruptedStepPolicy::Skip;
    assert_eq!(place.run(&text(false)), RunEnd::Failed);
    assert_eq!(place.file("n"), "");
}

#[test]
fn tool_call_skipped_after_a_crash_is_replayed_as_skipped() {
    let text = "
workspace: work
nodes:
  - {name: call, kind: tool, tool: shell, args: {command: 'echo x >> n'}, on_interrupt: skip, next: ask}
  - {name: ask, kind: human, ask: Well?, next: done}
";
    let place = RunHarness::new();
    let requested = EventKind::ToolRequested {
        call: Some("call-1".to_owned()),
        tool: "shell".to_owned(),
        args: serde_json::json!({"command": "echo x >> n"}),
    };
    place.store_interrupted_run(text, "call", vec![EventKind::TurnStarted {}, requested]);
    assert_eq!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput("Well?".to_owned())));
    let stored = place.event_types("s");
    assert_eq!(stored[3], "turn.finished", "{stored:?}");
    // A second resume reaches the same place without running the call or recording anything.
    assert_eq!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput("Well?".to_owned())));
    assert_eq!(place.event_types("s"), stored);
    assert_eq!(place.file("work/n"), "");
    place.send_message(text, "go on");
    assert_eq!(place.run(text), RunEnd::Done);
}

#[test]
fn interrupted_tool_call_reruns_only_if_allowed() {
    let text = "
workspace: work
nodes:
  - {name: call, kind: tool, tool: shell, args: {command: 'echo x >> n'}, on_success: done, on_failure: failed}
";
    let requested = || EventKind::ToolRequested {
        call: Some("call-1".to_owned()),
        tool: "shell".to_owned(),
        args: serde_json::json!({"command": "echo x >> n"}),
    };
    let cases = [
        (
            InterruptedStepPolicy::Ask,
            RunEnd::Stopped(RunStop::StepOutcomeUnknown { step: "call: shell".to_owned() }),
            "",
        ),
        (InterruptedStepPolicy::Rerun, RunEnd::Done, "x\n"),
        (InterruptedStepPolicy::Skip, RunEnd::Failed, ""),
    ];
    for (policy, end, written) in cases {
        let mut place = RunHarness::new();
        place.on_interrupted_step = policy;
        place.store_interrupted_run(text, "call", vec![EventKind::TurnStarted {}, requested()]);
        assert_eq!(place.run(text), end);
        assert_eq!(place.file("work/n"), written);
        let notes = place.listener.notes.lock().unwrap();
        assert_eq!(*notes, ["a call to 'shell' was running when the run was interrupted"]);
    }
}

#[test]
fn idle_time_between_processes_is_not_counted() {
    let place = RunHarness::new();
    let text = "
policy: {budgets: {session: {runtime: 60s}}}
nodes:
  - {name: one, kind: command, run: 'true', next: ask}
  - {name: ask, kind: human, ask: Well?, next: two}
  - {name: two, kind: command, run: 'true', next: done}
";
    assert!(matches!(place.run(text), RunEnd::Stopped(RunStop::AwaitingInput(_))));
    place.now.fetch_add(3_600_000, std::sync::atomic::Ordering::Relaxed);
    place.send_message(text, "go on");
    place.now.fetch_add(3_600_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(place.run(text), RunEnd::Done);
}

#[test]
fn message_budget_resets_with_the_next_message() {
    let place = RunHarness::new();
    let text = "
policy: {budgets: {message: {transitions: 3}}, guards: {stall: {mode: off}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: c}
  - {name: c, kind: route, rules: [], otherwise: d}
  - {name: d, kind: command, run: 'true', next: done}
";
    let end = place.run(text);
    assert!(matches!(end, RunEnd::Stopped(RunStop::Blocked { .. })), "{end:?}");
    assert_eq!(place.transitions("s"), ["b", "c", "d"]);
    place.send_message(text, "go on");
    assert_eq!(place.run(text), RunEnd::Done);
}

#[test]
fn timestamp_only_change_is_no_progress() {
    let text = |command: &str| {
        format!(
            "
workspace: work
signals: [{{name: diff, after: write}}]
nodes:
  - {{name: write, kind: command, run: '{command}', rerun: true, next: test}}
  - {{name: test, kind: command, run: 'false', rerun: true, on_success: done, on_failure: write}}
"
        )
    };
    let count = "n=$(cat ../n 2>/dev/null || echo 0); n=$((n+1)); echo $n > ../n; echo $n; ";
    let stamped = format!("{count} echo \"built at 2026-11-15T12:00:0${{n}}Z\" > out.txt");
    let end = RunHarness::new().run(&text(&stamped));
    assert!(
        matches!(&end, RunEnd::Stopped(RunStop::Halted(decision)) if decision.trips[0].reason == "stalled"),
        "{end:?}"
    );
    let port = format!("{count} echo \"port 4915$n\" > out.txt");
    let end = RunHarness::new().run(&text(&port));
    let RunStop::Halted(decision) = (match end {
        RunEnd::Stopped(stop) => stop,
        other => panic!("{other:?}"),
    }) else {
        panic!("no halt")
    };
    assert_eq!(decision.trips[0].reason, "max_cycle_iterations", "{decision:?}");
}
