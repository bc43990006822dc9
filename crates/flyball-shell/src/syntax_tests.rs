//! Splitting commands into words, redirections and nested commands.

use super::{RedirectKind, parse};

fn texts(command: &str) -> Vec<Vec<String>> {
    let script = parse(command).unwrap_or_else(|why| panic!("{command}: {why}"));
    script
        .commands
        .iter()
        .map(|command| command.words.iter().map(|word| word.text.clone()).collect())
        .collect()
}

#[test]
fn quotes_and_escapes_are_removed() {
    assert_eq!(texts(r#"'r'm "-r" a\ b "c \"d\"" e"#), [["rm", "-r", "a b", "c \"d\"", "e"]]);
    assert_eq!(texts("cut -d$'\\t' f"), [["cut", "-d\t", "f"]]);
    assert_eq!(texts("echo 'a'\\''b'"), [["echo", "a'b"]]);
}

#[test]
fn commands_are_listed_in_source_order() {
    assert_eq!(texts("a | b && c; d & e"), [["a"], ["b"], ["c"], ["d"], ["e"]]);
    assert_eq!(texts("if a; then b; else c; fi"), [["a"], ["b"], ["c"]]);
    assert_eq!(texts("echo $(a) `b`"), [vec!["a"], vec!["b"], vec!["echo", "", ""]]);
}

#[test]
fn runtime_values_are_marked() {
    let script = parse(r#"ls a $x "$y" src/*.rs "b$z" {c,d} -[x]"#).expect("a command");
    let words = &script.commands[0].words;
    let literal: Vec<bool> = words.iter().map(|word| word.literal).collect();
    assert_eq!(literal, [true, true, false, false, false, false, false, false]);
    let splits: Vec<bool> = words.iter().map(|word| word.splits).collect();
    assert_eq!(splits, [false, false, true, false, false, false, false, false]);
    let options: Vec<bool> = words.iter().map(super::ShellWord::may_be_option).collect();
    assert_eq!(options, [false, false, true, true, false, false, true, true]);
}

#[test]
fn redirections_are_classified() {
    let script = parse("a <i >o >>p 2>&1 <<<text").expect("a command");
    let command = &script.commands[0];
    let kinds: Vec<(RedirectKind, &str)> =
        command.redirects.iter().map(|redirect| (redirect.kind, redirect.target.text.as_str())).collect();
    assert_eq!(
        kinds,
        [(RedirectKind::Read, "i"), (RedirectKind::Overwrite, "o"), (RedirectKind::Append, "p")]
    );
    assert_eq!(command.here.as_deref(), Some("text"));
}

#[test]
fn unsupported_constructs_are_named() {
    for command in [
        "f() { ls; }",
        "case x in x) ls;; esac",
        "(( 1 ))",
        "echo $((1))",
        "x=(a b)",
        "coproc ls",
        "echo ${x@P}",
    ] {
        assert!(parse(command).expect(command).unsupported.is_some(), "{command}");
    }
}
