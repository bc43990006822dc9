//! Raw tool output, with and without an exit code, becomes parsed checks.

use super::parse_raw_checks;
use crate::check_tool::CheckTool;
use flyball::ErrorCode;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn parsed(check: Value) -> Value {
    let mut checks = [check];
    assert!(parse_raw_checks(&mut checks).expect("a parsable check"));
    let [check] = checks;
    check
}

fn raw(kind: &str, output: &str) -> Value {
    parsed(json!({"name": "the check", "kind": kind, "output": output}))
}

/// Every recorded run, sent as a client would send it.
#[test]
fn recorded_output_gives_the_recorded_outcome_with_and_without_the_exit_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gates");
    let (mut wrong, mut runs) = (Vec::new(), 0);
    for tool in fs::read_dir(&root).expect("fixtures").flatten().filter(|entry| entry.path().is_dir()) {
        let kind = tool.file_name().to_string_lossy().into_owned();
        for case in fs::read_dir(tool.path()).expect("a folder").flatten() {
            let text = |file: &str| fs::read_to_string(case.path().join(file)).unwrap_or_default();
            let json = |file: &str| serde_json::from_str::<Value>(&text(file)).expect("JSON");
            let (run, expected) = (json("run.json"), json("expected.json"));
            let wanted = expected["outcome"].as_str().expect("an outcome");
            let results = run["results"].as_str().map(&text).unwrap_or_default();
            let printed = format!("{}{}", text("stdout.txt"), text("stderr.txt"));
            let output = if results.trim().is_empty() { printed } else { format!("{printed}\n{results}\n") };
            let name = format!("{kind}/{}", case.file_name().to_string_lossy());
            let bare = raw(&kind, &output);
            let with_code =
                parsed(json!({"name": "c", "kind": kind, "output": output, "exit_code": run["exit"]}));
            for (how, check) in [("without a code", &bare), ("with a code", &with_code)] {
                let got = match (check["skipped"].as_bool(), check["passed"].as_bool()) {
                    (Some(true), _) => "skipped",
                    (_, Some(true)) => "passed",
                    _ => "failed",
                };
                // All its tests passed; only the exit code reveals the error after them.
                let needs_code = name == "vitest/late_error" && how == "without a code";
                if got != wanted && !needs_code {
                    wrong.push(format!("{name} {how}: {got}, wanted {wanted}: {}", check["details"]));
                }
                if got == "failed" && check["details"].as_array().is_none_or(Vec::is_empty) {
                    wrong.push(format!("{name} {how}: failed without details"));
                }
            }
            runs += 1;
        }
    }
    assert!(runs > 70, "{runs}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn success_text_passes_without_an_exit_code() {
    for (kind, output) in [
        ("pytest", "collected 5 items\n\ntests/test_a.py .....   [100%]\n\n===== 5 passed in 0.12s =====\n"),
        ("unittest", ".....\n----------\nRan 5 tests in 0.001s\n\nOK\n"),
        ("go-test", "ok  \texample.com/calc\t0.004s\n"),
        ("go_test", "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\nPASS\nok  \texample.com/calc\t0.004s\n"),
        ("jest", "PASS ./a.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\n"),
        ("vitest", " ✓ a.test.ts (2)\n\n Test Files  1 passed (1)\n      Tests  2 passed (2)\n"),
        ("mocha", "  adds\n    ✔ works\n\n  1 passing (4ms)\n"),
        ("node-test", "ℹ tests 3\nℹ pass 3\nℹ fail 0\n"),
        (
            "cargo-test",
            "\nrunning 1 test\ntest adds ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n",
        ),
        ("eslint", ""),
        (
            "eslint",
            "\n/p/a.js\n  1:1  warning  Unexpected console statement  no-console\n\n✖ 1 problem (0 errors, 1 warning)\n",
        ),
        ("tsc", ""),
        ("ruff", "All checks passed!\n"),
        ("mypy", "Success: no issues found in 3 source files\n"),
        ("pyright", "0 errors, 0 warnings, 0 informations \n"),
        (
            "cargo-build",
            "   Compiling a v0.1.0\n    Finished `dev` profile [unoptimized] target(s) in 0.10s\n",
        ),
        ("golangci-lint", "0 issues.\n"),
        ("go-vet", ""),
    ] {
        let check = raw(kind, output);
        assert_eq!(check["passed"], true, "{kind}: {check}");
    }
}

#[test]
fn text_without_a_success_marker_does_not_pass() {
    for (kind, output) in [
        ("pytest", ""),
        ("cargo-test", "sh: 1: cargo: not found\n"),
        ("jest", "npm ERR! missing script: test\n"),
        ("go-test", "10 failed, 3 passed\n"),
        ("eslint", "Oops! Something went wrong! :(\n"),
        ("mypy", "Found 10 errors in 2 files (checked 3 source files)\n"),
        ("tsc", "error TS5083: Cannot read file '/p/tsconfig.json'.\n"),
        ("pyright", "10 errors, 0 warnings\n"),
        ("auto", "some words\n"),
        ("custom", ""),
    ] {
        let check = raw(kind, output);
        assert_eq!((&check["passed"], &check["skipped"]), (&json!(false), &Value::Null), "{kind}: {check}");
        assert!(!check["details"].as_array().expect("details").is_empty(), "{kind} has no details");
    }
}

#[test]
fn failures_include_their_locations() {
    let pytest = "FAILED tests/test_calc.py::test_add - assert 4 == 5\n1 failed, 2 passed in 0.03s\n";
    assert!(raw("pytest", pytest)["details"].to_string().contains("test_add"));
    let tsc = "src/a.ts(2,3): error TS2322: Type 'string' is not assignable to type 'number'.\n";
    assert_eq!(
        raw("tsc", tsc)["details"],
        json!(["src/a.ts:2: Type 'string' is not assignable to type 'number'. [TS2322]"])
    );
    let ruff = "/repo/a.py:1:8: F401 `os` imported but unused\n";
    assert_eq!(raw("ruff", ruff)["details"], json!(["/repo/a.py:1: `os` imported but unused [F401]"]));
}

#[test]
fn document_after_other_output_is_found() {
    let json = r#"[{"filePath":"/p/a.js","messages":[{"ruleId":"no-undef","severity":2,"message":"'x' is not defined.","line":3,"column":1}],"errorCount":1}]"#;
    let output = format!("\n> app@1.0.0 lint\n> eslint -f json .\n\n{json}\n\nnpm ERR! code 1\n");
    let check = raw("eslint", &output);
    assert_eq!((&check["passed"], &check["parsed"]), (&json!(false), &json!("eslint")), "{check}");
    assert_eq!(check["details"], json!(["/p/a.js:3: 'x' is not defined. [no-undef]"]));
}

#[test]
fn success_with_failures_fails_and_failure_without_findings_reports_the_output_tail() {
    let failing = "running 1 test\ntest adds ... FAILED\n\nfailures:\n\n---- adds stdout ----\npanicked at src/lib.rs:4:5:\nboom\n\nfailures:\n    adds\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let check = parsed(json!({"name": "tests", "kind": "cargo-test", "output": failing, "passed": true}));
    assert_eq!(check["passed"], false);
    let check = parsed(
        json!({"name": "build", "kind": "cargo-build", "output": "x\nno space left\n", "exit_code": 101}),
    );
    assert_eq!(check["details"], json!(["exited with code 101: x; no space left [build]"]));
}

#[test]
fn parsed_skipped_and_kindless_checks_are_unchanged() {
    let checks = [
        json!({"name": "tests", "passed": false, "output": "x"}),
        json!({"name": "tests", "kind": "cargo-test", "details": ["t"], "output": "x"}),
        json!({"name": "lint", "kind": "eslint", "skipped": true, "skip_reason": "off"}),
        json!({"name": "lint", "kind": "lint", "passed": true, "parsed": "eslint", "details": []}),
    ];
    let mut read = checks.clone();
    assert_eq!(parse_raw_checks(&mut read), Ok(false));
    assert_eq!(read, checks);
    let once = raw("tsc", "a.ts(1,1): error TS1: x\n");
    let mut twice = [once.clone()];
    assert_eq!(parse_raw_checks(&mut twice), Ok(false));
    assert_eq!(twice, [once]);
}

#[test]
fn unknown_kind_is_rejected_with_a_suggestion() {
    let error = parse_raw_checks(&mut [json!({"name": "t", "kind": "cargo-tset", "output": ""})])
        .expect_err("refused");
    assert_eq!(error.code, ErrorCode::UnknownCheckKind);
    assert!(error.message.contains("`checks[0].kind` is `cargo-tset`"), "{}", error.message);
    assert!(error.help.starts_with("did you mean `cargo-test`?"), "{}", error.help);
    for check in [
        json!({"name": "t", "kind": 7}),
        json!({"name": "t", "kind": "jest", "output": ["a"]}),
        json!({"name": "t", "kind": "jest", "exit_code": "1"}),
        json!({"name": "t", "kind": "jest", "passed": "yes"}),
    ] {
        assert_eq!(parse_raw_checks(&mut [check]).expect_err("refused").code, ErrorCode::WrongType);
    }
}

#[test]
fn tool_names_ignore_case_and_separators() {
    for name in CheckTool::names() {
        assert_eq!(CheckTool::from_name(name).map(|tool| tool.name), Some(name));
        assert_eq!(
            CheckTool::from_name(&name.to_uppercase().replace('-', "_")).map(|tool| tool.name),
            Some(name)
        );
    }
}
