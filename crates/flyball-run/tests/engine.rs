//! The engine over a real store: ways, retries, branches, people, stalls, and runs that are taken up again.

mod kit;

use flyball::{Kind, ReleaseMode};
use flyball_run::engine::{CutOff, End, Stop};
use kit::Place;

#[test]
fn each_outcome_leads_its_own_way() {
    for (code, way) in [(0, "good"), (3, "half"), (4, "unsure"), (1, "bad")] {
        let place = Place::new();
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
        assert_eq!(place.trail("s").first().map(String::as_str), Some(way), "exit {code}");
        assert_eq!(end, if way == "bad" { End::Failed } else { End::Done }, "exit {code}");
    }
}

#[test]
fn a_retry_is_a_visit_and_not_a_transition() {
    let place = Place::new();
    let text = "
nodes:
  - {name: try, kind: command, run: 'echo x >> tries; test $(wc -l < tries) -ge 3', rerun: true,
     retry: {attempts: 5, backoff: fixed, initial: 1ms}, on_success: done, on_failure: failed}
";
    assert_eq!(place.run(text), End::Done);
    let types = place.types("s");
    assert_eq!(types.iter().filter(|name| *name == "turn.started").count(), 3);
    assert_eq!(place.trail("s"), ["done"]);
}

#[test]
fn a_router_takes_the_first_rule_that_holds() {
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
        let place = Place::new();
        assert_eq!(place.run(&text(word)), End::Done);
        assert_eq!(place.trail("s").get(1).map(String::as_str), Some(way));
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
fn a_join_waits_for_all_of_its_branches() {
    let place = Place::new();
    assert_eq!(place.run(&branches("echo l > l", "echo r > r", "all")), End::Done);
    assert_eq!((place.file("l").trim(), place.file("r").trim()), ("l", "r"));
    assert_eq!(place.trail("s/left.1"), ["left", "meet"]);
    assert_eq!(place.trail("s/right.1"), ["right", "meet"]);
}

#[test]
fn a_join_for_any_stops_the_slower_branch() {
    let place = Place::new();
    assert_eq!(place.run(&branches("sleep 60; touch late", "'true'", "any")), End::Done);
    assert_eq!(place.file("late"), "");
    assert!(!place.folder.path().join("late").exists());
}

#[test]
fn a_join_with_a_time_limit_goes_on_with_those_who_came() {
    let place = Place::new();
    let text = branches("sleep 60", "'true'", "all, timeout: 2s");
    assert_eq!(place.run(&text), End::Done);
    assert_eq!(place.trail("s"), ["meet", "half", "done"]);
}

#[test]
fn a_halt_in_one_branch_leaves_the_other_alone() {
    let place = Place::new();
    let text = "
policy: {guards: {visits: {limit: 2}}}
nodes:
  - {name: begin, kind: command, run: 'true', on_success: [loop, work]}
  - {name: loop, kind: command, run: 'false', rerun: true, on_success: meet, on_failure: loop}
  - {name: work, kind: command, run: 'touch finished', next: meet, rerun: true}
  - {name: meet, kind: join, next: done}
";
    let end = place.run(text);
    assert!(matches!(end, End::Stopped(Stop::Blocked { .. } | Stop::Halted(_))), "{end:?}");
    assert!(place.folder.path().join("finished").exists());
    assert_eq!(place.trail("s/work.1"), ["work", "meet"]);
}

#[test]
fn a_question_is_answered_in_another_process() {
    let place = Place::new();
    let text = "
nodes:
  - {name: ask, kind: human, ask: What is your name?, next: greet}
  - {name: greet, kind: command, run: [sh, -c, 'echo \"hello $0\" > greeting', '{{ask.output}}'], next: done}
";
    assert_eq!(place.run(text), End::Stopped(Stop::Asks("What is your name?".to_owned())));
    // Nothing has changed by asking again.
    assert_eq!(place.run(text), End::Stopped(Stop::Asks("What is your name?".to_owned())));
    place.says(text, "Ada");
    assert_eq!(place.run(text), End::Done);
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
fn a_plan_runs_once_after_a_yes_and_not_at_all_after_a_no() {
    for (answer, end, log) in [("yes", End::Done, "dropped a\ndropped b\n"), ("no", End::Failed, "")] {
        let place = Place::new();
        assert!(matches!(place.run(PLAN), End::Stopped(Stop::Asks(_))));
        place.send(
            PLAN,
            Kind::ConfirmationAnswered { text: Some(answer.to_owned()), value: None, by: None, digest: None },
        );
        assert_eq!(place.run(PLAN), end, "{answer}");
        assert_eq!(place.run(PLAN), end, "{answer}");
        assert_eq!(place.file("log"), log, "{answer}");
    }
}

#[test]
fn a_refused_way_can_be_released_by_a_person() {
    let place = Place::new();
    let text = "
policy: {guards: {visits: {limit: 3}, stall: {mode: off}}}
nodes:
  - {name: work, kind: command, run: 'echo x >> n; test $(wc -l < n) -ge 5', rerun: true, on_success: done, on_failure: work}
";
    let end = place.run(text);
    let End::Stopped(Stop::Blocked { decision, alternatives }) = end else { panic!("{end:?}") };
    assert_eq!(alternatives, ["done"]);
    assert_eq!(decision.trips.first().map(|trip| trip.guard.as_str()), Some("visits"));
    assert_eq!(place.file("n").lines().count(), 3);
    let release = Kind::HumanReleased {
        guard: Some("visits".to_owned()),
        trip: None,
        mode: ReleaseMode::default(),
        n: None,
        by: Some("ada".to_owned()),
        why: Some("two more will do".to_owned()),
    };
    place.send(text, release);
    assert_eq!(place.run(text), End::Done);
    assert_eq!(place.file("n").lines().count(), 5);
}

#[test]
fn a_workflow_that_was_changed_under_a_run_is_noticed() {
    let place = Place::new();
    let text = "
nodes:
  - {name: one, kind: command, run: 'true', next: ask}
  - {name: ask, kind: human, ask: Well?, next: done}
";
    assert!(matches!(place.run(text), End::Stopped(Stop::Asks(_))));
    let changed = text.replace("name: one", "name: other");
    let failure = place.try_run(&changed).unwrap_err();
    assert_eq!(failure.code, "run_diverged");
}

#[test]
fn a_run_that_keeps_nothing_decides_the_same() {
    let text = "
policy: {budgets: {loop: {iterations: 50}, message: {transitions: 0}}, guards: {visits: {mode: off}, transitions: {mode: off}, cycle: {mode: off}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: a}
";
    let ends = [Place::new().run_bare(text), Place::new().run(text)];
    let halted = |end: &End| match end {
        End::Stopped(Stop::Halted(decision)) => (decision.seq, decision.trips.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(halted(&ends[0]), halted(&ends[1]));
}

#[test]
fn what_was_looked_ahead_to_is_stored_before_anything_leaves() {
    let place = Place::new();
    let text = "
policy: {preset: off}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: c}
  - {name: c, kind: command, run: 'true', next: done}
";
    assert_eq!(place.run(text), End::Done);
    assert_eq!(place.trail("s"), ["b", "c", "done"]);
    let live = place.seen.live.lock().unwrap();
    let numbers: Vec<u64> = live.iter().map(|past| past.decision.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_command_that_was_cut_off_is_run_again_only_if_that_is_allowed() {
    let text = |rerun: bool| {
        format!(
            "
nodes:
  - {{name: work, kind: command, run: 'echo x >> n; test -e go', rerun: {rerun}, on_success: done, on_failure: failed}}
"
        )
    };
    // The begin of the turn is stored, and its end is not.
    let cut = |place: &Place, text: &str| {
        let plan = place.plan(text);
        for kind in [
            Kind::SessionStarted {
                policy: None,
                workflow: Some(plan.graph.clone()),
                parent: None,
                labels: serde_json::Map::new(),
                goal: None,
                reopen: false,
            },
            Kind::TurnStarted {},
        ] {
            let mut event = flyball::Event::new("s", kind);
            if event.kind.name() == "turn.started" {
                event.node = Some("work".to_owned());
            }
            let number = if event.node.is_some() { 2 } else { 1 };
            event.extra.insert("run".to_owned(), serde_json::json!(number));
            event.at = Some(1_763_200_000_000 + number);
            place.recorder(&plan).submit(flyball_journal::Incoming::new(event)).unwrap();
        }
        std::fs::write(place.folder.path().join("go"), "").unwrap();
    };
    let mut place = Place::new();
    cut(&place, &text(false));
    assert_eq!(place.run(&text(false)), End::Stopped(Stop::CutOff { step: "work".to_owned() }));
    assert_eq!(place.file("n"), "");
    place.cut_off = CutOff::Rerun;
    assert_eq!(place.run(&text(false)), End::Done);
    let place = Place::new();
    cut(&place, &text(true));
    assert_eq!(place.run(&text(true)), End::Done);
    assert_eq!(place.file("n").lines().count(), 1);
    let mut place = Place::new();
    cut(&place, &text(false));
    place.cut_off = CutOff::Skip;
    assert_eq!(place.run(&text(false)), End::Failed);
    assert_eq!(place.file("n"), "");
}

#[test]
fn the_time_between_two_processes_is_not_time_at_work() {
    let place = Place::new();
    let text = "
policy: {budgets: {session: {runtime: 60s}}}
nodes:
  - {name: one, kind: command, run: 'true', next: ask}
  - {name: ask, kind: human, ask: Well?, next: two}
  - {name: two, kind: command, run: 'true', next: done}
";
    assert!(matches!(place.run(text), End::Stopped(Stop::Asks(_))));
    place.now.fetch_add(3_600_000, std::sync::atomic::Ordering::Relaxed);
    place.says(text, "go on");
    place.now.fetch_add(3_600_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(place.run(text), End::Done);
}

#[test]
fn a_budget_for_one_message_goes_on_with_the_next_message() {
    let place = Place::new();
    let text = "
policy: {budgets: {message: {transitions: 3}}, guards: {stall: {mode: off}}}
nodes:
  - {name: a, kind: route, rules: [], otherwise: b}
  - {name: b, kind: route, rules: [], otherwise: c}
  - {name: c, kind: route, rules: [], otherwise: d}
  - {name: d, kind: command, run: 'true', next: done}
";
    let end = place.run(text);
    assert!(matches!(end, End::Stopped(Stop::Blocked { .. })), "{end:?}");
    assert_eq!(place.trail("s"), ["b", "c", "d"]);
    place.says(text, "go on");
    assert_eq!(place.run(text), End::Done);
}

#[test]
fn a_file_that_differs_only_in_a_time_stamp_is_no_progress() {
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
    let end = Place::new().run(&text(&stamped));
    assert!(
        matches!(&end, End::Stopped(Stop::Halted(decision)) if decision.trips[0].reason == "stalled"),
        "{end:?}"
    );
    let port = format!("{count} echo \"port 4915$n\" > out.txt");
    let end = Place::new().run(&text(&port));
    let Stop::Halted(decision) = (match end {
        End::Stopped(stop) => stop,
        other => panic!("{other:?}"),
    }) else {
        panic!("no halt")
    };
    assert_eq!(decision.trips[0].reason, "max_cycle_iterations", "{decision:?}");
}
