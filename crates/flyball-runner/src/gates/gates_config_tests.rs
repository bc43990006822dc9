//! Tests of gate settings in a workflow file.

use super::{GateDuration, GatesConfig};
use crate::gates::gate::ResultsLocation;
use crate::gates::options::FlakyPolicy;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn read(value: Value) -> Result<GatesConfig, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn missing_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn explicit_gate_is_used_as_written() {
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
    let gates = config.gates(missing_dir()).expect("gates");
    assert_eq!(gates.len(), 4, "nothing is detected if gates are listed");
    let [build, unit, docs, lint] = gates.as_slice() else { panic!("four gates") };
    assert_eq!(
        (build.kind, build.deadline, &*build.check),
        (CheckKind::Build, Duration::from_secs(90), "build")
    );
    assert_eq!((unit.kind, &*unit.check, unit.format), (CheckKind::Tests, "tests", ResultsFormat::Junit));
    assert_eq!(unit.results, ResultsLocation::Scratch("results".to_owned()));
    assert_eq!((unit.dir.clone(), unit.may_skip, unit.required), (PathBuf::from("sub/folder"), true, true));
    assert_eq!(docs.results, ResultsLocation::File("out/docs.sarif".into()));
    assert_eq!((docs.kind, docs.deadline), (CheckKind::Custom, Duration::from_millis(1500)));
    assert_eq!(lint.skip.as_deref(), Some("not yet"));
    let options = config.options();
    assert_eq!((options.rerun, options.flaky, options.cascade), (false, FlakyPolicy::Fail, true));
}

#[test]
fn detected_gates_can_be_overridden_and_extended() {
    // The folder of this crate is a Rust project, and cargo runs this test.
    let config = read(json!({
        "detect": true,
        "gates": [
            {"name": "build", "deadline": "20m"},
            {"name": "lint", "argv": ["true"]},
            {"name": "docs", "argv": ["true"], "needs": ["build"]}
        ]
    }));
    let gates = config.expect("right").gates(missing_dir()).expect("gates");
    let find = |name: &str| gates.iter().find(|gate| gate.name == name).expect("there");
    assert_eq!(find("build").deadline, Duration::from_secs(1200));
    assert_eq!(find("build").argv.first().map(String::as_str), Some("cargo"));
    assert_eq!(
        (find("lint").argv.clone(), find("lint").format),
        (vec!["true".to_owned()], ResultsFormat::Auto)
    );
    assert_eq!(find("docs").needs, ["build"]);
    assert!(gates.iter().any(|gate| gate.name == "tests"));
}

#[test]
fn empty_section_enables_detection_rerun_and_flaky_warning() {
    let config = read(json!({})).expect("right");
    let options = config.options();
    assert_eq!((options.rerun, options.flaky, options.cascade), (true, FlakyPolicy::Warn, false));
    assert!(config.gates(missing_dir()).expect("gates").iter().any(|gate| gate.name == "build"));
}

#[test]
fn invalid_gate_config_is_rejected_with_a_message() {
    let wrong = [
        (json!({"gate": []}), "unknown field `gate`"),
        (json!({"gates": [{"name": "a", "comand": ["x"]}]}), "unknown field `comand`"),
        (json!({"gates": [{"argv": ["x"]}]}), "missing field `name`"),
        (json!({"gates": [{"name": "a", "kind": "test"}]}), "unknown variant `test`"),
        (json!({"gates": [{"name": "a", "format": "xml"}]}), "unknown variant `xml`"),
        (json!({"gates": [{"name": "a", "deadline": "5 parsecs"}]}), "invalid duration '5 parsecs'"),
        (json!({"gates": [{"name": "a", "deadline": 0}]}), "invalid duration '0'"),
        (json!({"flaky": "maybe"}), "unknown variant `maybe`"),
    ];
    for (value, expected) in wrong {
        let error = read(value).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
    let code = |value| read(value).expect("reads").gates(missing_dir()).expect_err("refused").code;
    assert_eq!(
        code(json!({"gates": [{"name": "a", "argv": ["x"], "dir": "../up"}]})),
        "gate_outside_workspace"
    );
    assert_eq!(
        code(json!({"gates": [{"name": "a", "argv": ["x"], "results": "/etc/x"}]})),
        "gate_outside_workspace"
    );
    assert_eq!(code(json!({"detect": false, "gates": [{"name": "a"}]})), "gate_no_command");
}

#[test]
fn durations_round_trip() {
    for (text, ms) in [
        ("90s", 90_000),
        ("10m", 600_000),
        ("4h", 14_400_000),
        ("250ms", 250),
        ("1.5h", 5_400_000),
        ("250", 250),
    ] {
        assert_eq!(GateDuration::parse(text), Some(GateDuration(Duration::from_millis(ms))), "{text}");
    }
    for text in ["", "s", "-1s", "0s", "99999999999999999999h"] {
        assert_eq!(GateDuration::parse(text), None, "{text}");
    }
    let config = read(json!({"gates": [{"name": "a", "argv": ["x"], "deadline": "600s"}]})).expect("right");
    let written = serde_json::to_value(&config).expect("JSON");
    assert_eq!(written["gates"][0]["deadline"], "10m");
    assert_eq!(read(written).expect("right"), config);
}
