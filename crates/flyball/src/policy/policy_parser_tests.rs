//! Tests of the parsers: positions, limits, and no panics.

use serde_json::json;

use super::super::{PolicyErrorCode, Preset, resolve};
use super::{MAX_TEXT_BYTES, PolicyFormat, parse};

fn path(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|p| (*p).to_owned()).collect()
}

#[test]
fn keys_have_line_and_column_in_every_format() {
    let yaml = "a:\n  b: {c: 1}\n  д:\n    - x\n    - y: 2\n";
    let json_text = "{\n \"a\": {\"b\": {\"c\": 1},\n  \"д\": [\"x\", {\"y\": 2}]}\n}";
    let toml = "[a]\nb = {c = 1}\n\"д\" = [\"x\", {y = 2}]\n";
    let tree = json!({"a": {"b": {"c": 1}, "д": ["x", {"y": 2}]}});
    type PositionCase<'t> = (PolicyFormat, &'t str, [(u32, u32); 5]);
    let cases: [PositionCase<'_>; 3] = [
        (PolicyFormat::Yaml, yaml, [(1, 1), (2, 3), (2, 7), (3, 3), (5, 7)]),
        (PolicyFormat::Json, json_text, [(2, 2), (2, 8), (2, 14), (3, 3), (3, 15)]),
        (PolicyFormat::Toml, toml, [(1, 2), (2, 1), (2, 6), (3, 1), (3, 14)]),
    ];
    for (format, text, places) in cases {
        let layer = parse(text, format, "f").unwrap();
        assert_eq!(layer.tree, tree, "{format:?}");
        let keys: [&[&str]; 5] = [&["a"], &["a", "b"], &["a", "b", "c"], &["a", "д"], &["a", "д", "1", "y"]];
        for (key, (line, column)) in keys.iter().zip(places) {
            let place = layer.positions.find(&path(key)).unwrap();
            assert_eq!((place.line, place.column), (line, column), "{format:?} {key:?}");
        }
    }
}

#[test]
fn yaml_scalars_follow_yaml_1_2() {
    let cases = [
        ("5", json!(5)),
        ("-5", json!(-5)),
        ("0x10", json!(16)),
        ("1.5", json!(1.5)),
        ("true", json!(true)),
        ("off", json!("off")),
        ("no", json!("no")),
        ("~", json!(null)),
        ("", json!(null)),
        ("'5'", json!("5")),
        ("!!str 5", json!("5")),
        ("4h", json!("4h")),
        ("1e3x", json!("1e3x")),
        (".inf", json!(".inf")),
        ("18446744073709551615", json!(u64::MAX)),
        ("|\n  a\n  b", json!("a\nb\n")),
    ];
    for (text, value) in cases {
        let layer = parse(&format!("k: {text}\n"), PolicyFormat::Yaml, "f").unwrap();
        assert_eq!(layer.tree["k"], value, "{text}");
    }
}

#[test]
fn the_format_is_guessed_from_the_name_or_the_first_line() {
    for (name, text, format) in [
        ("a.yaml", "{", PolicyFormat::Yaml),
        ("a.YML", "", PolicyFormat::Yaml),
        ("a.toml", "", PolicyFormat::Toml),
        ("a.json", "", PolicyFormat::Json),
        ("policy", "# c\n\n{\"a\": 1}", PolicyFormat::Json),
        ("policy", "# c\na = 1", PolicyFormat::Toml),
        ("policy", "[budgets]\n", PolicyFormat::Toml),
        ("policy", "a: b=c", PolicyFormat::Yaml),
        ("-", "", PolicyFormat::Yaml),
    ] {
        assert_eq!(PolicyFormat::guess(name, text), format, "{name} {text}");
    }
}

#[test]
fn malformed_text_is_rejected_with_a_position() {
    use PolicyErrorCode::{DuplicateKey, Syntax};
    let cases: &[(PolicyFormat, &str, PolicyErrorCode, u32)] = &[
        (PolicyFormat::Yaml, "a: [1, 2", Syntax, 2),
        (PolicyFormat::Yaml, "a: 1\n b: 2", Syntax, 2),
        (PolicyFormat::Yaml, "a: 1\na: 2", DuplicateKey, 2),
        (PolicyFormat::Yaml, "a: 1\n---\nb: 2", Syntax, 2),
        (PolicyFormat::Yaml, "a: !thing 1", Syntax, 1),
        (PolicyFormat::Yaml, "? [a]\n: b", Syntax, 1),
        (PolicyFormat::Yaml, "a: *b", Syntax, 1),
        (PolicyFormat::Yaml, "- a", Syntax, 1),
        (PolicyFormat::Json, "{\"a\": 1,}", Syntax, 1),
        (PolicyFormat::Json, "{\"a\": 1,\n\"a\": 2}", DuplicateKey, 2),
        (PolicyFormat::Json, "[1]", Syntax, 1),
        (PolicyFormat::Toml, "a = 1\nb = ", Syntax, 2),
        (PolicyFormat::Toml, "a = 1\na = 2", DuplicateKey, 2),
    ];
    for (format, text, code, line) in cases {
        let Err(errors) = parse(text, *format, "f") else {
            panic!("accepted: {text}");
        };
        let error = errors.iter().next().unwrap();
        assert_eq!((error.code, error.line), (*code, Some(*line)), "{text}: {error}");
        assert!(!error.message.is_empty() && !error.help.is_empty());
    }
}

#[test]
fn oversized_text_is_rejected() {
    let long = format!("a: {}", "x".repeat(MAX_TEXT_BYTES));
    let deep_yaml = format!("a: {}", "[".repeat(5_000));
    let deep_json = format!("{{\"a\": {}{}}}", "[".repeat(100), "]".repeat(100));
    let deep_toml = format!("a = {}{}", "[".repeat(60), "]".repeat(60));
    let wide: String = (0..2_000).map(|n| format!("k{n}: 1\n")).collect();
    let wide_list = format!("a: [{}]", "1,".repeat(1_500));
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..12 {
        let aliases = format!("*a{},", n - 1).repeat(9);
        bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
    }
    for (format, text) in [
        (PolicyFormat::Yaml, &long),
        (PolicyFormat::Yaml, &deep_yaml),
        (PolicyFormat::Json, &deep_json),
        (PolicyFormat::Toml, &deep_toml),
        (PolicyFormat::Yaml, &wide),
        (PolicyFormat::Yaml, &wide_list),
        (PolicyFormat::Yaml, &bomb),
    ] {
        let errors = parse(text, format, "f").unwrap_err();
        assert_eq!(errors.iter().next().unwrap().code, PolicyErrorCode::Syntax);
    }
}

#[test]
fn yaml_alias_expands_to_its_value() {
    let layer = parse("a: &x {limit: 3}\nb: *x\n", PolicyFormat::Yaml, "f").unwrap();
    assert_eq!(layer.tree, json!({"a": {"limit": 3}, "b": {"limit": 3}}));
}

/// Fragments of real policies in random order, and random bytes.
#[test]
fn random_text_never_panics() {
    const PIECES: [&str; 40] = [
        "a",
        ":",
        " ",
        "\n",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "'",
        "&x ",
        "*x",
        "!!str ",
        "|\n",
        "0",
        "-1",
        "off",
        "guards:\n",
        "  ",
        "\t",
        "# c\n",
        "---\n",
        "...\n",
        "? ",
        "=",
        "rules: [{name: a, when: 'event.x'}]\n",
        "nodes: {a: {",
        "é",
        "\u{feff}",
        "\\",
        "\r\n",
        "phases:\n",
        "1e999",
        "0x",
        "%YAML 1.2\n",
        "max_visits: 0",
        "edges: {\"a->b\": 1}",
        "~",
    ];
    let mut seed = 7_u64;
    let mut next = move |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % bound as u64).unwrap()
    };
    for round in 0..6_000 {
        let text = if round % 2 == 0 {
            (0..next(25)).map(|_| PIECES[next(PIECES.len())]).collect::<String>()
        } else {
            let bytes: Vec<u8> = (0..next(60)).map(|_| u8::try_from(next(256)).unwrap()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        for format in [PolicyFormat::Yaml, PolicyFormat::Toml, PolicyFormat::Json] {
            if let Ok(layer) = parse(&text, format, "f") {
                let _ = resolve(&[layer], Preset::Agent);
            }
        }
    }
}

/// A valid policy with random damage.
#[test]
fn a_damaged_policy_never_panics() {
    let good = "version: 1\nguards: {repetition: {limit: 5}, cycle: off}\nnodes: {a: {max_visits: 2, turns: 3}}\nedges: {\"a->b\": {max_transitions: 4}}\nrules:\n  - {name: r, when: \"event.tool == 'x' && session.calls > 2\", decision: warn}\n";
    let bytes: Vec<char> = good.chars().collect();
    for at in 0..bytes.len() {
        for replacement in ["", "{", "\"", ":", "\n", "-", "0", "é"] {
            let mut text: String = bytes[..at].iter().collect();
            text.push_str(replacement);
            text.extend(&bytes[at + 1..]);
            if let Ok(layer) = parse(&text, PolicyFormat::Yaml, "f") {
                let _ = resolve(&[layer], Preset::Workflow);
            }
        }
    }
}

#[test]
fn deceptive_characters_are_rejected_with_a_position() {
    let cases = [
        "preset: agent\n\0guards: {}\n",
        "preset: agent\n\u{1b}[2Kx: 1\n",
        "preset: agent\n\u{7f}\n",
        "preset: agent\n\u{85}\n",
        "preset: agent\n\u{feff}guards: {}\n",
        "preset: agent\n\u{202e}# x\n",
        "preset: agent\n\u{2028}x: 1\n",
    ];
    for text in cases {
        for format in [PolicyFormat::Yaml, PolicyFormat::Toml, PolicyFormat::Json] {
            let errors = parse(text, format, "flyball.yaml").unwrap_err();
            let first = errors.iter().next().unwrap();
            assert_eq!(
                (first.code, first.line, first.column),
                (PolicyErrorCode::Syntax, Some(2), Some(1)),
                "{text:?}"
            );
            assert!(first.message.contains("U+"), "{}", first.message);
        }
    }
}

#[test]
fn second_yaml_document_is_rejected() {
    for text in [
        "preset: agent\n---\npreset: off\n",
        "preset: agent\n...\npreset: off\n",
        "--- {}\n--- {preset: off}\n",
    ] {
        assert!(parse(text, PolicyFormat::Yaml, "flyball.yaml").is_err(), "{text:?}");
    }
}
