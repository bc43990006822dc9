//! The `shell` tool: output, ends, time, cancel.

use crate::kit::Place;
use flyball_run::process::Cancel;
use flyball_run::tools::ToolboxOptions;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_command_runs_in_the_workspace_and_both_streams_come_back() {
    let place = Place::new("shell");
    let text = place.fine("shell", &json!({"command": "pwd -P; echo oops >&2"}));
    assert!(text.contains(&format!("{}\n", place.work.display())) && text.contains("oops\n"), "{text}");
}

#[test]
fn a_failed_command_keeps_its_output_and_names_its_code() {
    let place = Place::new("shell");
    let output = place.call("shell", &json!({"command": "echo half; exit 3"}));
    assert_eq!((output.ok, output.text.as_str(), output.code), (false, "half\n", Some("exit_code")));
    assert!(output.error.expect("words").contains("exited with code 3"));
    let words = place.fails("shell", &json!({"command": "kill -9 $$"}), "signal");
    assert!(words.contains("signal 9"), "{words}");
}

#[test]
fn the_shortest_of_all_deadlines_counts() {
    let forever = Duration::from_secs(60);
    let short = Duration::from_secs(1);
    let sleep = json!({"command": "echo begun; sleep 600"});
    let asked = json!({"command": "echo begun; sleep 600", "timeout_ms": 1000});
    let begun = Instant::now();
    let own = Place::with("time", ToolboxOptions { deadline: short, ..ToolboxOptions::default() });
    let wide = Place::new("time");
    let outputs = [
        own.toolbox.call("shell", &sleep, Some(forever), &Cancel::new()),
        wide.toolbox.call("shell", &sleep, Some(short), &Cancel::new()),
        wide.toolbox.call("shell", &asked, Some(forever), &Cancel::new()),
    ];
    for output in outputs {
        assert_eq!((output.code, output.text.as_str()), (Some("deadline"), "begun\n"), "{output:?}");
        assert!(output.duration_ms >= 1_000);
    }
    assert!(begun.elapsed() < forever);
}

#[test]
fn a_cancelled_call_ends_and_none_begins_after_it() {
    let place = Place::new("cancel");
    let cancel = Cancel::new();
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
fn what_does_not_fit_into_memory_is_counted() {
    let place = Place::with("keep", ToolboxOptions { keep: 10, ..ToolboxOptions::default() });
    let text = place.fine("shell", &json!({"command": "echo 0123456789abcdef"}));
    assert_eq!(text, "0123456789\n[7 more bytes of output were not kept]");
}

#[test]
fn the_environment_of_the_options_is_set() {
    let env = vec![("COLOUR".to_owned(), "blue".to_owned())];
    let place = Place::with("env", ToolboxOptions { env, ..ToolboxOptions::default() });
    assert_eq!(place.fine("shell", &json!({"command": "echo $COLOUR"})), "blue\n");
}

#[test]
fn mistakes_in_the_arguments_name_the_field_before_anything_runs() {
    let place = Place::new("args");
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
        let words = place.fails(tool, &args, code);
        assert!(words.contains(named), "{words}");
        let checked = place.toolbox.check(tool, &args).expect_err("a mistake");
        assert_eq!(checked.code, code);
    }
    assert!(place.names().is_empty(), "something was run: {:?}", place.names());
    let words = place.fails("bash", &json!({}), "unknown_tool");
    assert!(words.contains("shell, read, write, edit, search"), "{words}");
}
