//! Declared tools of a workflow.

use crate::harness::ToolHarness;
use flyball_runner::tools::{CommandTool, Risk, Toolbox, ToolboxOptions};
use serde_json::{Value, json};

fn tool(argv: &[&str], schema: Value) -> CommandTool {
    CommandTool {
        name: "greet".into(),
        description: "says hello".into(),
        schema,
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        risk: Some(Risk::Safe),
    }
}

fn fields() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["who"], "properties": {
        "who": {"type": "string"}, "times": {"type": "integer", "minimum": 1, "maximum": 9},
        "tone": {"type": "string", "enum": ["kind", "rude"]}, "list": {"type": "array", "items": {"type": "integer"}},
        "deep": {"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}},
    }})
}

fn harness(argv: &[&str]) -> ToolHarness {
    ToolHarness::with(
        "declared",
        ToolboxOptions { commands: vec![tool(argv, fields())], ..ToolboxOptions::default() },
    )
}

/// Prints each argument on its own line.
const PRINT_ARGS: [&str; 4] = ["sh", "-c", "for a; do printf '<%s>\\n' \"$a\"; done", "sh"];

fn print_args_harness(rest: &[&str]) -> ToolHarness {
    harness(&[&PRINT_ARGS, rest].concat())
}

#[test]
fn placeholders_are_single_arguments_without_a_shell() {
    let place = print_args_harness(&["hello", "--who={who}", "{who}", "{{{tone}}}"]);
    let args = json!({"who": "a b; touch hacked $(touch hacked) `touch hacked` * \"'", "tone": "kind"});
    let who = args["who"].as_str().expect("text");
    let text = place.call_ok("greet", &args);
    assert_eq!(text, format!("<hello>\n<--who={who}>\n<{who}>\n<{{kind}}>\n"));
    assert!(place.names().is_empty());
}

#[test]
fn numbers_and_lists_are_filled_in_and_missing_fields_dropped() {
    let place = print_args_harness(&["{who}", "{times}", "--list={list}", "--tone={tone}"]);
    let text = place.call_ok("greet", &json!({"who": "", "times": 3, "list": [1, 2]}));
    assert_eq!(text, "<>\n<3>\n<--list=[1,2]>\n", "an argument with a missing field is omitted");
}

#[test]
fn option_like_value_is_rejected_unless_safe() {
    let plain = print_args_harness(&["{who}"]);
    let words = plain.call_err("greet", &json!({"who": "--output=/etc/passwd"}), "looks_like_option");
    assert!(words.contains("'{who}'"), "{words}");
    assert_eq!(plain.call_ok("greet", &json!({"who": "-5"})), "<-5>\n");
    assert_eq!(print_args_harness(&["--", "{who}"]).call_ok("greet", &json!({"who": "-x"})), "<-->\n<-x>\n");
    assert_eq!(print_args_harness(&["--who={who}"]).call_ok("greet", &json!({"who": "-x"})), "<--who=-x>\n");
}

#[test]
fn arguments_are_validated_against_the_schema() {
    let place = print_args_harness(&["{who}"]);
    let cases = [
        (json!({}), "missing_field", "'who'"),
        (json!({"who": 1}), "wrong_type", "'who'"),
        (json!({"who": "x", "times": 0}), "wrong_type", "at least 1"),
        (json!({"who": "x", "times": 10}), "wrong_type", "at most 9"),
        (json!({"who": "x", "tone": "loud"}), "wrong_type", "\"kind\", \"rude\""),
        (json!({"who": "x", "list": [1, "2"]}), "wrong_type", "'list[1]'"),
        (json!({"who": "x", "deep": {}}), "missing_field", "'deep.a'"),
        (json!({"who": "x", "deep": {"a": 1}}), "wrong_type", "'deep.a'"),
        (json!({"who": "x", "whom": "y"}), "unknown_field", "'whom'"),
    ];
    for (args, code, named) in cases {
        let words = place.call_err("greet", &args, code);
        assert!(words.contains(named), "{words}");
    }
}

#[test]
fn runs_in_the_workspace_and_reports_failure() {
    let place = harness(&["sh", "-c", "pwd -P; exit 4"]);
    let output = place.call("greet", &json!({"who": "x"}));
    assert_eq!((output.code, output.text), (Some("exit_code"), format!("{}\n", place.work.display())));
    let missing = self::harness(&["no-such-program-here"]);
    missing.call_err("greet", &json!({"who": "x"}), "program_not_found");
}

#[test]
fn invalid_declarations_are_rejected() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let mut named = tool(&["true"], fields());
    named.name = "shell".into();
    let mut bad_name = tool(&["true"], fields());
    bad_name.name = "a b".into();
    let cases = [
        (named, "tool 'shell' is defined twice"),
        (bad_name, "its name"),
        (tool(&[], fields()), "its argv is empty"),
        (tool(&["{who}"], fields()), "the model must not choose it"),
        (tool(&["x", "{whom}"], fields()), "'whom'"),
        (tool(&["x", "{who"], fields()), "without '}'"),
        (tool(&["x", "who}"], fields()), "without '{'"),
        (tool(&["x"], json!({"type": "string"})), "\"object\""),
        (tool(&["x"], json!(true)), "\"object\""),
        (tool(&["x"], object(json!({"a": {"pattern": "x"}}))), "'pattern'"),
        (tool(&["x"], object(json!({"a": {"type": "text"}}))), "'type'"),
        (tool(&["x"], object(json!({"a": {"enum": []}}))), "'enum'"),
        (tool(&["x"], object(json!({"a": {"type": "array", "items": {"$ref": "#"}}}))), "'$ref'"),
        (tool(&["x"], json!({"type": "object", "required": ["a"]})), "requires 'a'"),
    ];
    for (tool, named) in cases {
        let options = ToolboxOptions { commands: vec![tool], ..ToolboxOptions::default() };
        let error = Toolbox::new(crate::harness::folder("bad"), options).expect_err("an error");
        assert_eq!(error.code, "bad_tool", "{error}");
        assert!(error.message.contains(named), "{error}");
    }
    let twice = ToolboxOptions {
        commands: vec![tool(&["true"], fields()), tool(&["true"], fields())],
        ..ToolboxOptions::default()
    };
    assert_eq!(Toolbox::new(crate::harness::folder("bad"), twice).expect_err("an error").code, "bad_tool");
}

#[test]
fn specs_list_every_tool_with_its_schema() {
    let place = print_args_harness(&["{who}"]);
    let specs = place.toolbox.specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["shell", "read", "write", "edit", "search", "greet"]);
    for spec in &specs {
        assert!(!spec.description.is_empty());
        assert_eq!(spec.schema["type"], "object");
    }
    assert_eq!(specs[5].schema, fields());
    assert_eq!(specs[0].schema["required"], json!(["command"]));
}

#[test]
fn only_selected_builtin_tools_are_offered() {
    let options = |names: &[&str]| ToolboxOptions {
        builtins: Some(names.iter().map(|n| (*n).to_owned()).collect()),
        ..ToolboxOptions::default()
    };
    let place = ToolHarness::with("chosen", options(&["read", "search"]));
    let names: Vec<String> = place.toolbox.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["read", "search"]);
    place.call_err("shell", &json!({"command": "ls"}), "unknown_tool");
    let error = Toolbox::new(crate::harness::folder("chosen"), options(&["reed"])).expect_err("an error");
    assert_eq!(error.code, "unknown_tool");
    let error = Toolbox::new("/no/such/folder".into(), ToolboxOptions::default()).expect_err("an error");
    assert_eq!(error.code, "bad_workspace");
}
