//! The `shell` tool: output, exit, timeout and cancellation.

use crate::harness::ToolHarness;
use flyball_runner::process::CancelToken;
use flyball_runner::tools::ToolboxOptions;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn command_runs_in_workspace_and_returns_both_streams() {
    let place = ToolHarness::new("shell");
    let text = place.call_ok("shell", &json!({"command": "pwd -P; echo oops >&2"}));
    assert!(text.contains(&format!("{}\n", place.work.display())) && text.contains("oops\n"), "{text}");
}

#[test]
fn failed_command_keeps_output_and_exit_code() {
    let place = ToolHarness::new("shell");
    let output = place.call("shell", &json!({"command": "echo half; exit 3"}));
    assert_eq!((output.ok, output.text.as_str(), output.code), (false, "half\n", Some("exit_code")));
    assert!(output.error.expect("words").contains("exited with code 3"));
    let words = place.call_err("shell", &json!({"command": "kill -9 $$"}), "signal");
    assert!(words.contains("signal 9"), "{words}");
}

#[test]
fn shortest_deadline_applies() {
    let forever = Duration::from_secs(60);
    let short = Duration::from_secs(1);
    let sleep = json!({"command": "echo begun; sleep 600"});
    let asked = json!({"command": "echo begun; sleep 600", "timeout_ms": 1000});
    let begun = Instant::now();
    let own = ToolHarness::with("time", ToolboxOptions { deadline: short, ..ToolboxOptions::default() });
    let wide = ToolHarness::new("time");
    let outputs = [
        own.toolbox.call("shell", &sleep, Some(forever), &CancelToken::new()),
        wide.toolbox.call("shell", &sleep, Some(short), &CancelToken::new()),
        wide.toolbox.call("shell", &asked, Some(forever), &CancelToken::new()),
    ];
    for output in outputs {
        assert_eq!((output.code, output.text.as_str()), (Some("deadline"), "begun\n"), "{output:?}");
        assert!(output.duration_ms >= 1_000);
    }
    assert!(begun.elapsed() < forever);
}

#[test]
fn cancel_ends_the_call_and_blocks_later_calls() {
    let place = ToolHarness::new("cancel");
    let cancel = CancelToken::new();
    let other = cancel.clone();
    let flag = place.work.join("flag");
    let presser = std::thread::spawn(move || {
        while !flag.exists() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        other.cancel();
    });
    let output = place.toolbox.call("shell", &json!({"command": "touch flag; sleep 600"}), None, &cancel);
    assert_eq!(output.code, Some("cancelled"));
    presser.join().expect("the thread");
    for (tool, args) in [
        ("shell", json!({"command": "touch late"})),
        ("write", json!({"path": "late", "content": ""})),
        ("search", json!({"pattern": "x"})),
    ] {
        assert_eq!(place.toolbox.call(tool, &args, None, &cancel).code, Some("cancelled"));
    }
    assert_eq!(place.names(), ["flag"]);
}

#[test]
fn dropped_output_bytes_are_counted() {
    let place =
        ToolHarness::with("keep", ToolboxOptions { max_output_bytes: 10, ..ToolboxOptions::default() });
    let text = place.call_ok("shell", &json!({"command": "echo 0123456789abcdef"}));
    assert_eq!(text, "0123456789\n[7 more bytes of output were dropped]");
}

#[test]
fn configured_environment_is_set() {
    let env = vec![("COLOR".to_owned(), "blue".to_owned())];
    let place = ToolHarness::with("env", ToolboxOptions { env, ..ToolboxOptions::default() });
    assert_eq!(place.call_ok("shell", &json!({"command": "echo $COLOR"})), "blue\n");
}

#[test]
fn invalid_arguments_are_rejected_before_running() {
    let place = ToolHarness::new("args");
    let cases = [
        ("shell", json!({}), "missing_field", "'command'"),
        ("shell", json!(null), "missing_field", "'command'"),
        ("shell", json!({"command": 7}), "wrong_type", "'command'"),
        ("shell", json!({"command": ""}), "wrong_type", "'command'"),
        ("shell", json!(["touch x"]), "wrong_type", "an array"),
        ("shell", json!({"command": "touch x", "timeout_ms": "5"}), "wrong_type", "'timeout_ms'"),
        ("shell", json!({"command": "touch x", "timeout_ms": 0}), "wrong_type", "'timeout_ms'"),
        ("shell", json!({"command": "touch x", "timeout_ms": 1.5}), "wrong_type", "'timeout_ms'"),
        ("shell", json!({"command": "touch x", "timeout": 5}), "unknown_field", "'timeout'"),
        ("read", json!({"offset": 1}), "missing_field", "'path'"),
        ("read", json!({"path": "x", "offset": 0}), "wrong_type", "'offset'"),
        ("write", json!({"path": "x"}), "missing_field", "'content'"),
        ("edit", json!({"path": "x", "old": "a"}), "missing_field", "'new'"),
        ("edit", json!({"path": "x", "old": "a", "new": "b", "all": "yes"}), "wrong_type", "'all'"),
        ("search", json!({"pattern": "x", "limit": 5000}), "wrong_type", "'limit'"),
        ("bash", json!({"command": "ls"}), "unknown_tool", "'bash'"),
    ];
    for (tool, args, code, named) in cases {
        let words = place.call_err(tool, &args, code);
        assert!(words.contains(named), "{words}");
        let checked = place.toolbox.validate_call(tool, &args).expect_err("an error");
        assert_eq!(checked.code, code);
    }
    assert!(place.names().is_empty(), "a program ran: {:?}", place.names());
    let words = place.call_err("bash", &json!({}), "unknown_tool");
    assert!(words.contains("shell, read, write, edit, search"), "{words}");
}
