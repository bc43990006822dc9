//! Text to tree: places, bounds, and nothing that panics.

use serde_json::json;

use super::super::{Code, Preset, resolve};
use super::{Format, MAX_TEXT_BYTES, parse};

fn path(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|p| (*p).to_owned()).collect()
}

#[test]
fn every_key_has_its_line_and_column_in_every_format() {
    let yaml = "a:\n  b: {c: 1}\n  д:\n    - x\n    - y: 2\n";
    let json_text = "{\n \"a\": {\"b\": {\"c\": 1},\n  \"д\": [\"x\", {\"y\": 2}]}\n}";
    let toml = "[a]\nb = {c = 1}\n\"д\" = [\"x\", {y = 2}]\n";
    let tree = json!({"a": {"b": {"c": 1}, "д": ["x", {"y": 2}]}});
    type Case<'t> = (Format, &'t str, [(u32, u32); 5]);
    let cases: [Case<'_>; 3] = [
        (Format::Yaml, yaml, [(1, 1), (2, 3), (2, 7), (3, 3), (5, 7)]),
        (Format::Json, json_text, [(2, 2), (2, 8), (2, 14), (3, 3), (3, 15)]),
        (Format::Toml, toml, [(1, 2), (2, 1), (2, 6), (3, 1), (3, 14)]),
    ];
    for (format, text, places) in cases {
        let layer = parse(text, format, "f").unwrap();
        assert_eq!(layer.tree, tree, "{format:?}");
        let keys: [&[&str]; 5] = [&["a"], &["a", "b"], &["a", "b", "c"], &["a", "д"], &["a", "д", "1", "y"]];
        for (key, (line, column)) in keys.iter().zip(places) {
            let place = layer.places.find(&path(key)).unwrap();
            assert_eq!((place.line, place.column), (line, column), "{format:?} {key:?}");
        }
    }
}

#[test]
fn scalars_mean_the_same_in_yaml_as_in_its_standard() {
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
        let layer = parse(&format!("k: {text}\n"), Format::Yaml, "f").unwrap();
        assert_eq!(layer.tree["k"], value, "{text}");
    }
}

#[test]
fn the_format_is_guessed_from_the_name_or_the_first_line() {
    for (name, text, format) in [
        ("a.yaml", "{", Format::Yaml),
        ("a.YML", "", Format::Yaml),
        ("a.toml", "", Format::Toml),
        ("a.json", "", Format::Json),
        ("policy", "# c\n\n{\"a\": 1}", Format::Json),
        ("policy", "# c\na = 1", Format::Toml),
        ("policy", "[budgets]\n", Format::Toml),
        ("policy", "a: b=c", Format::Yaml),
        ("-", "", Format::Yaml),
    ] {
        assert_eq!(Format::guess(name, text), format, "{name} {text}");
    }
}

#[test]
fn bad_text_is_an_error_with_a_place() {
    use Code::{DuplicateKey, Syntax};
    let cases: &[(Format, &str, Code, u32)] = &[
        (Format::Yaml, "a: [1, 2", Syntax, 2),
        (Format::Yaml, "a: 1\n b: 2", Syntax, 2),
        (Format::Yaml, "a: 1\na: 2", DuplicateKey, 2),
        (Format::Yaml, "a: 1\n---\nb: 2", Syntax, 2),
        (Format::Yaml, "a: !thing 1", Syntax, 1),
        (Format::Yaml, "? [a]\n: b", Syntax, 1),
        (Format::Yaml, "a: *b", Syntax, 1),
        (Format::Yaml, "- a", Syntax, 1),
        (Format::Json, "{\"a\": 1,}", Syntax, 1),
        (Format::Json, "{\"a\": 1,\n\"a\": 2}", DuplicateKey, 2),
        (Format::Json, "[1]", Syntax, 1),
        (Format::Toml, "a = 1\nb = ", Syntax, 2),
        (Format::Toml, "a = 1\na = 2", DuplicateKey, 2),
    ];
    for (format, text, code, line) in cases {
        let Err(errors) = parse(text, *format, "f") else {
            panic!("accepted: {text}");
        };
        let error = errors.iter().next().unwrap();
        assert_eq!((error.code, error.line), (*code, Some(*line)), "{text}: {error}");
        assert!(!error.what.is_empty() && !error.help.is_empty());
    }
}

#[test]
fn texts_that_are_too_large_are_refused_quickly() {
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
        (Format::Yaml, &long),
        (Format::Yaml, &deep_yaml),
        (Format::Json, &deep_json),
        (Format::Toml, &deep_toml),
        (Format::Yaml, &wide),
        (Format::Yaml, &wide_list),
        (Format::Yaml, &bomb),
    ] {
        let errors = parse(text, format, "f").unwrap_err();
        assert_eq!(errors.iter().next().unwrap().code, Code::Syntax);
    }
}

#[test]
fn an_alias_stands_for_its_value() {
    let layer = parse("a: &x {limit: 3}\nb: *x\n", Format::Yaml, "f").unwrap();
    assert_eq!(layer.tree, json!({"a": {"limit": 3}, "b": {"limit": 3}}));
}

/// Pieces of real policies in random order, and random bytes: an answer, never a panic.
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
        for format in [Format::Yaml, Format::Toml, Format::Json] {
            if let Ok(layer) = parse(&text, format, "f") {
                let _ = resolve(&[layer], Preset::Agent);
            }
        }
    }
}

/// Random damage to a policy that is right.
#[test]
fn a_damaged_policy_never_panics() {
    let good = "version: 1\nguards: {repetition: {limit: 5}, cycle: off}\nnodes: {a: {max_visits: 2, turns: 3}}\nedges: {\"a->b\": {max_transitions: 4}}\nrules:\n  - {name: r, when: \"event.tool == 'x' && session.calls > 2\", decision: warn}\n";
    let bytes: Vec<char> = good.chars().collect();
    for at in 0..bytes.len() {
        for replacement in ["", "{", "\"", ":", "\n", "-", "0", "é"] {
            let mut text: String = bytes[..at].iter().collect();
            text.push_str(replacement);
            text.extend(&bytes[at + 1..]);
            if let Ok(layer) = parse(&text, Format::Yaml, "f") {
                let _ = resolve(&[layer], Preset::Workflow);
            }
        }
    }
}

#[test]
fn characters_that_hide_the_rest_of_a_file_are_errors_with_their_place() {
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
        for format in [Format::Yaml, Format::Toml, Format::Json] {
            let errors = parse(text, format, "flyball.yaml").unwrap_err();
            let first = errors.iter().next().unwrap();
            assert_eq!((first.code, first.line, first.column), (Code::Syntax, Some(2), Some(1)), "{text:?}");
            assert!(first.what.contains("U+"), "{}", first.what);
        }
    }
}

#[test]
fn a_second_document_and_a_late_document_marker_are_errors() {
    for text in [
        "preset: agent\n---\npreset: off\n",
        "preset: agent\n...\npreset: off\n",
        "--- {}\n--- {preset: off}\n",
    ] {
        assert!(parse(text, Format::Yaml, "flyball.yaml").is_err(), "{text:?}");
    }
}
