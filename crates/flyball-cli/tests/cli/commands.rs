//! Output of each command: the effective policy with its origins, checks, drawings, explanations, exit codes.

use crate::command_harness::{run_flyball, test_dir};
use serde_json::Value;

fn repeated_calls(count: usize) -> String {
    let mut lines = vec![r#"{"type":"session.started","session":"s1","at":0}"#.to_owned()];
    for n in 1..=count {
        lines.push(format!(r#"{{"type":"tool.requested","session":"s1","at":{0},"call":"c{n}","tool":"bash","args":{{"command":"ls"}}}}"#, n * 1000));
        lines.push(format!(
            r#"{{"type":"tool.finished","session":"s1","at":{0},"call":"c{n}","ok":true,"output":"a b c"}}"#,
            n * 1000 + 500
        ));
    }
    lines.join("\n")
}

#[test]
fn exit_codes_reflect_the_outcome() {
    let dir = test_dir("exit-codes");
    let confirmation = r#"{"type":"confirmation.requested","plan":[{"tool":"delete_task","args":{"id":1}}],"question":"Sure?"}"#;
    let gate = r#"{"type":"gate.checked","checks":[{"name":"tests","passed":false,"output":"1 failed"}]}"#;
    let stop = r#"{"type":"human.stopped","by":"ann","why":"enough"}"#;
    let cases = [
        (repeated_calls(2), 0),
        (repeated_calls(4), 0),
        (repeated_calls(6), 3),
        (repeated_calls(8), 3),
        (confirmation.to_owned(), 4),
        (gate.to_owned(), 5),
        (stop.to_owned(), 3),
    ];
    for (events, code) in cases {
        std::fs::write(dir.join("events.jsonl"), &events).unwrap();
        let run = run_flyball(&dir, &["replay", "events.jsonl"], b"", &[]);
        assert_eq!(run.code, code, "{events}\n{}", run.out);
    }
}

#[test]
fn config_shows_every_value_with_its_origin_in_order_of_precedence() {
    let dir = test_dir("config");
    std::fs::write(
        dir.join("flyball.yaml"),
        "guards:\n  repetition: {limit: 7}\n  visits: {limit: 4}\nresilience: {max_runtime: 2h}\n",
    )
    .unwrap();
    let env = [("DEX_MAX_REPETITIONS", "9"), ("DEX_MAX_RUNTIME_HOURS", "1.5"), ("FLYBALL_STORE", "memory:")];
    let args = ["config", "--origin", "--json", "--set", "guards.visits.limit=6"];
    let run = run_flyball(&dir, &args, b"", &env);
    assert_eq!(run.code, 0, "{}", run.err);
    let all: Value = serde_json::from_str(&run.out).unwrap();
    let of = |key: &str| {
        (all[key]["value"].to_string(), all[key]["origin"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(of("guards.repetition.limit"), ("9".into(), "DEX_MAX_REPETITIONS".into()));
    assert_eq!(of("guards.visits.limit"), ("6".into(), "--set".into()));
    assert_eq!(of("budgets.session.runtime").1, "DEX_MAX_RUNTIME_HOURS");
    assert_eq!(of("guards.validation.limit").1, "default");
    // Without the environment the file applies, in any directory below it.
    std::fs::create_dir_all(dir.join("deep/below")).unwrap();
    let shown = run_flyball(&dir, &["trust", "--dry-run", "--json"], b"", &[]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let env = [("FLYBALL_TRUST", shown["digest"].as_str().unwrap())];
    let run = run_flyball(&dir.join("deep/below"), &["config", "--origin"], b"", &env);
    let line =
        run.out.lines().find(|line| line.starts_with("guards.repetition.limit = 7")).expect("the line");
    assert!(line.contains("flyball.yaml:2"), "{line}");
}

#[test]
fn settings_reach_the_decision() {
    let dir = test_dir("settings");
    std::fs::write(dir.join("events.jsonl"), repeated_calls(8)).unwrap();
    let first_block = |args: &[&str], env: &[(&str, &str)]| {
        let run = run_flyball(&dir, &[&["replay", "--json", "events.jsonl"], args].concat(), b"", env);
        run.out.lines().position(|line| {
            line.contains(r#""guard":"repetition""#) && line.contains(r#""decision":"block""#)
        })
    };
    // Event 1 starts the session; call n is event 2n.
    assert_eq!(first_block(&[], &[]), Some(11));
    assert_eq!(first_block(&["--set", "guards.repetition.limit=3"], &[]), Some(7));
    assert_eq!(first_block(&[], &[("DEX_MAX_REPETITIONS", "4")]), Some(9));
    assert_eq!(first_block(&["--set", "tools.bash.repetition.limit=2"], &[]), Some(5));
    assert_eq!(first_block(&["--preset", "observe"], &[]), None);
    assert_eq!(first_block(&["--preset", "off"], &[]), None);
}

#[test]
fn check_reports_contradictions_loops_and_worst_case_bounds() {
    let dir = test_dir("check");
    let workflow = "nodes: [plan, coder, verifier, ship]\nedges:\n  - {id: e1, from: plan, to: coder}\n  - {id: e2, from: coder, to: verifier}\n  - {id: e3, from: verifier, to: coder}\n  - {id: e4, from: verifier, to: ship}\nsignals: [tests]\npolicy:\n  budgets: {node: {turns: 4}, loop: {iterations: 8}}\n";
    std::fs::write(dir.join("workflow.yaml"), workflow).unwrap();
    let run = run_flyball(&dir, &["check", "workflow.yaml"], b"", &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("coder, verifier"), "{}", run.out);
    assert!(run.out.contains("restarts at coder via e3"), "{}", run.out);
    assert!(run.out.contains("warning["), "the node budget makes the loop budget unreachable: {}", run.out);
    assert!(run.out.contains("workflow.yaml:9:"), "with its place: {}", run.out);
    assert!(run.out.contains("transitions  at most "), "{}", run.out);
    assert!(run.out.contains("unbounded, because"), "no cost limit is set: {}", run.out);
    let run = run_flyball(&dir, &["check", "--json", "workflow.yaml"], b"", &[]);
    let all: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(all["loops"][0]["anchors"][0], "e3");
    assert!(all["bounds"]["turns"]["value"].is_u64(), "{}", run.out);
}

#[test]
fn check_names_the_line_of_a_broken_workflow() {
    let dir = test_dir("check-broken");
    let cases = [
        (
            "nodes: [a, b]\nedges:\n  - {from: a, to: b}\n  - {from: b, to: nowhere}\n",
            "workflow_unknown_node",
            "w.yaml:4:",
        ),
        ("nodes: [a, b, a]\nedges: []\n", "workflow_duplicate_node", "w.yaml:1:"),
        ("nodes: [a]\nedges:\n  - {from: a}\n", "workflow_syntax", "w.yaml:3:"),
    ];
    for (text, code, place) in cases {
        std::fs::write(dir.join("w.yaml"), text).unwrap();
        let run = run_flyball(&dir, &["check", "w.yaml"], b"", &[]);
        assert_eq!(run.code, 1, "{text}");
        assert!(run.err.starts_with(&format!("error[{code}]: {place}")), "{text}: {}", run.err);
    }
}

#[test]
fn graphs_are_drawn_in_every_format_with_badges() {
    let dir = test_dir("graph");
    let events = [
        r#"{"type":"session.started","session":"s","workflow":{"nodes":["coder","verifier"],"edges":[{"id":"e1","from":"coder","to":"verifier"},{"id":"e2","from":"verifier","to":"coder"}],"signals":["tests"]}}"#,
        r#"{"type":"transition.requested","session":"s","from":"coder","to":"verifier"}"#,
        r#"{"type":"progress","session":"s","signal":"tests","failing":["a","b","c"]}"#,
        r#"{"type":"transition.requested","session":"s","from":"verifier","to":"coder"}"#,
        r#"{"type":"transition.requested","session":"s","from":"coder","to":"verifier"}"#,
        r#"{"type":"progress","session":"s","signal":"tests","failing":["a"]}"#,
        r#"{"type":"transition.requested","session":"s","from":"verifier","to":"coder"}"#,
    ];
    std::fs::write(dir.join("events.jsonl"), events.join("\n")).unwrap();
    for (format, shape) in [("ascii", "coder"), ("svg", "<svg"), ("dot", "digraph"), ("mermaid", "flowchart")]
    {
        let run = run_flyball(&dir, &["graph", "events.jsonl", "--format", format], b"", &[]);
        assert_eq!(run.code, 0, "{format}: {}", run.err);
        assert!(run.out.contains(shape), "{format}: {}", run.out);
        assert!(run.out.contains("Loop 2/8"), "{format}: {}", run.out);
        assert!(run.out.contains("failing tests 3 → 1"), "{format}: {}", run.out);
    }
    let run = run_flyball(&dir, &["graph", "events.jsonl", "--json"], b"", &[]);
    let all: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(all["session"]["loops"][0]["badge"], "Loop 2/8");
}

#[test]
fn explain_shows_the_evidence() {
    let dir = test_dir("explain");
    std::fs::write(dir.join("events.jsonl"), repeated_calls(8)).unwrap();
    let run = run_flyball(&dir, &["explain", "events.jsonl"], b"", &[]);
    assert_eq!(run.code, 3, "{}", run.err);
    for part in [
        "s1 was halted at event 16",
        "identical parameters",
        "Evidence",
        r#"bash {"command":"ls"}"#,
        "a b c",
        "Suggested actions",
        "human.released",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.out.contains('\u{1b}'), "no color without a terminal");
    let run = run_flyball(&dir, &["explain", "--json", "events.jsonl"], b"", &[]);
    let all: Value = serde_json::from_str(run.out.trim()).unwrap();
    assert_eq!(all["decision"]["trips"][0]["reason"], "repetition_loop");
    assert_eq!(all["events"][0]["result"], "a b c");
    std::fs::write(dir.join("quiet.jsonl"), repeated_calls(1)).unwrap();
    let run = run_flyball(&dir, &["explain", "quiet.jsonl"], b"", &[]);
    assert_eq!((run.code, run.out.contains("nothing tripped")), (0, true), "{}", run.out);
}

#[test]
fn a_policy_in_toml_and_json_works_like_one_in_yaml() {
    let dir = test_dir("formats");
    std::fs::write(dir.join("events.jsonl"), repeated_calls(5)).unwrap();
    let texts = [
        ("p.yaml", "guards: {repetition: {limit: 3}}"),
        ("p.toml", "[guards.repetition]\nlimit = 3"),
        ("p.json", r#"{"guards":{"repetition":{"limit":3}}}"#),
    ];
    let mut outputs = Vec::new();
    for (name, text) in texts {
        std::fs::write(dir.join(name), text).unwrap();
        let run = run_flyball(&dir, &["replay", "--json", "events.jsonl", "--policy", name], b"", &[]);
        assert_eq!(run.err, "");
        outputs.push(run.out);
    }
    assert!(outputs[0].contains(r#""decision":"block""#));
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn custom_rules_decide() {
    let dir = test_dir("rules");
    let policy = "rules:\n  - {name: no-prod, when: \"event.type == 'tool.requested' && event.tool == 'deploy' && session.calls > 1\", decision: block, message: \"too late to deploy\"}\n";
    std::fs::write(dir.join("p.yaml"), policy).unwrap();
    let deploy = r#"{"type":"tool.requested","session":"s1","call":"d","tool":"deploy","args":{}}"#;
    std::fs::write(dir.join("events.jsonl"), format!("{}\n{deploy}", repeated_calls(2))).unwrap();
    let run = run_flyball(&dir, &["replay", "--json", "events.jsonl", "--policy", "p.yaml"], b"", &[]);
    let last: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["decision"], "block");
    assert_eq!(last["trips"][0]["message"], "too late to deploy");
    std::fs::write(
        dir.join("bad.yaml"),
        "rules:\n  - {name: broken, when: \"event.type ==\", decision: block}\n",
    )
    .unwrap();
    let run = run_flyball(&dir, &["check", "bad.yaml"], b"", &[]);
    assert!(run.err.starts_with("error[policy_rule]: bad.yaml:2:"), "{}", run.err);
}
