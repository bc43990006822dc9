//! Tests of how gates are written in a workflow file.

use super::{GatesConfig, Span};
use crate::gates::gate::Results;
use crate::gates::options::Flaky;
use flyball_checks::CheckKind;
use flyball_checks::Format;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn read(value: Value) -> Result<GatesConfig, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn nowhere() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_gate_that_is_written_out_is_taken_as_it_is() {
    let config = read(json!({
        "gates": [
            {"name": "build", "argv": ["make"], "deadline": "90s"},
            {"name": "unit", "kind": "tests", "check": "tests", "argv": ["make", "test", "XML={results}"],
             "format": "junit", "needs": ["build"], "dir": "sub/folder", "env": {"A": "b"}, "may_skip": true,
             "required": true},
            {"name": "docs", "argv": ["make", "docs"], "deadline": 1500, "results": "out/docs.sarif",
             "format": "sarif"},
            {"name": "lint", "skip": "not yet"}
        ],
        "flaky": "fail", "rerun": false, "cascade": true
    }));
    let config = config.expect("right");
    let gates = config.gates(nowhere()).expect("gates");
    assert_eq!(gates.len(), 4, "nothing is detected if gates are listed");
    let [build, unit, docs, lint] = gates.as_slice() else { panic!("four gates") };
    assert_eq!(
        (build.kind, build.deadline, &*build.check),
        (CheckKind::Build, Duration::from_secs(90), "build")
    );
    assert_eq!((unit.kind, &*unit.check, unit.format), (CheckKind::Tests, "tests", Format::Junit));
    assert_eq!(unit.results, Results::Scratch("results".to_owned()));
    assert_eq!((unit.dir.clone(), unit.may_skip, unit.required), (PathBuf::from("sub/folder"), true, true));
    assert_eq!(docs.results, Results::File("out/docs.sarif".into()));
    assert_eq!((docs.kind, docs.deadline), (CheckKind::Custom, Duration::from_millis(1500)));
    assert_eq!(lint.skip.as_deref(), Some("not yet"));
    let options = config.options();
    assert_eq!((options.rerun, options.flaky, options.cascade), (false, Flaky::Fail, true));
}

#[test]
fn what_is_detected_can_be_changed_and_added_to() {
    // The folder of this crate is a Rust project, and cargo runs this test.
    let config = read(json!({
        "detect": true,
        "gates": [
            {"name": "build", "deadline": "20m"},
            {"name": "lint", "argv": ["true"]},
            {"name": "docs", "argv": ["true"], "needs": ["build"]}
        ]
    }));
    let gates = config.expect("right").gates(nowhere()).expect("gates");
    let find = |name: &str| gates.iter().find(|gate| gate.name == name).expect("there");
    assert_eq!(find("build").deadline, Duration::from_secs(1200));
    assert_eq!(find("build").argv.first().map(String::as_str), Some("cargo"));
    assert_eq!((find("lint").argv.clone(), find("lint").format), (vec!["true".to_owned()], Format::Auto));
    assert_eq!(find("docs").needs, ["build"]);
    assert!(gates.iter().any(|gate| gate.name == "tests"));
}

#[test]
fn an_empty_section_means_detection_once_more_and_a_warning() {
    let config = read(json!({})).expect("right");
    let options = config.options();
    assert_eq!((options.rerun, options.flaky, options.cascade), (true, Flaky::Warn, false));
    assert!(config.gates(nowhere()).expect("gates").iter().any(|gate| gate.name == "build"));
}

#[test]
fn mistakes_are_refused_with_words() {
    let wrong = [
        (json!({"gate": []}), "unknown field `gate`"),
        (json!({"gates": [{"name": "a", "comand": ["x"]}]}), "unknown field `comand`"),
        (json!({"gates": [{"argv": ["x"]}]}), "missing field `name`"),
        (json!({"gates": [{"name": "a", "kind": "test"}]}), "unknown variant `test`"),
        (json!({"gates": [{"name": "a", "format": "xml"}]}), "unknown variant `xml`"),
        (json!({"gates": [{"name": "a", "deadline": "5 parsecs"}]}), "'5 parsecs' is no length of time"),
        (json!({"gates": [{"name": "a", "deadline": 0}]}), "'0' is no length of time"),
        (json!({"flaky": "maybe"}), "unknown variant `maybe`"),
    ];
    for (value, expected) in wrong {
        let error = read(value).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
    let code = |value| read(value).expect("reads").gates(nowhere()).expect_err("refused").code;
    assert_eq!(code(json!({"gates": [{"name": "a", "argv": ["x"], "dir": "../up"}]})), "gate_outside");
    assert_eq!(code(json!({"gates": [{"name": "a", "argv": ["x"], "results": "/etc/x"}]})), "gate_outside");
    assert_eq!(code(json!({"detect": false, "gates": [{"name": "a"}]})), "gate_no_command");
}

#[test]
fn lengths_of_time_go_there_and_back() {
    for (text, ms) in [("90s", 90_000), ("10m", 600_000), ("4h", 14_400_000), ("250ms", 250), ("250", 250)] {
        assert_eq!(Span::read(text), Some(Span(Duration::from_millis(ms))), "{text}");
    }
    for text in ["", "s", "-1s", "1.5h", "99999999999999999999h"] {
        assert_eq!(Span::read(text), None, "{text}");
    }
    let config = read(json!({"gates": [{"name": "a", "argv": ["x"], "deadline": "600s"}]})).expect("right");
    let written = serde_json::to_value(&config).expect("JSON");
    assert_eq!(written["gates"][0]["deadline"], "10m");
    assert_eq!(read(written).expect("right"), config);
}
