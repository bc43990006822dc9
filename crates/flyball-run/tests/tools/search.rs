//! The `search` tool.

use crate::kit::Place;
use flyball_run::process::Cancel;
use serde_json::json;
use std::time::Duration;

fn forest() -> Place {
    let place = Place::new("search");
    place.put("src/main.rs", "fn main() {\n    needle();\n}\n");
    place.put("src/deep/lib.rs", "// needle\n");
    place.put("docs/a.md", "The Needle (a.b)\n");
    place.put(".env", "needle=1\n");
    for left_out in [".git/config", ".hidden/x", "target/x", "node_modules/x/y", "src/target/x"] {
        place.put(left_out, "needle\n");
    }
    place.put("data.bin", b"needle\0\n");
    place
}

#[test]
fn it_finds_lines_in_the_order_of_the_names_without_what_is_left_out() {
    let text = forest().fine("search", &json!({"pattern": "needle"}));
    let wanted = ".env:1: needle=1\nsrc/deep/lib.rs:1: // needle\nsrc/main.rs:2:     needle();\n[1 left out: no text, \
                  more than 67108864 bytes, or not readable]";
    assert_eq!(text, wanted);
}

#[test]
fn plain_text_regular_expressions_case_paths_and_globs() {
    let place = forest();
    let found = |args: serde_json::Value| -> Vec<String> {
        let text = place.fine("search", &args);
        text.lines()
            .filter(|line| !line.starts_with('['))
            .map(|line| line.split(':').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(found(json!({"pattern": "(a.b)"})), ["docs/a.md"]);
    assert_eq!(found(json!({"pattern": "(axb)"})), Vec::<String>::new());
    assert_eq!(found(json!({"pattern": r"\(a.b\)$", "regex": true})), ["docs/a.md"]);
    assert_eq!(found(json!({"pattern": "needle", "ignore_case": true, "path": "docs"})), ["docs/a.md"]);
    assert_eq!(found(json!({"pattern": "needle", "path": "src/main.rs"})), ["src/main.rs"]);
    assert_eq!(found(json!({"pattern": "needle", "glob": "*.rs"})), ["src/deep/lib.rs", "src/main.rs"]);
    assert_eq!(found(json!({"pattern": "needle", "glob": "src/*.rs"})), ["src/main.rs"]);
    assert_eq!(
        found(json!({"pattern": "needle", "glob": "src/**/*.rs"})),
        ["src/deep/lib.rs", "src/main.rs"]
    );
    // Whoever names it means it.
    assert_eq!(found(json!({"pattern": "needle", "path": ".hidden"})), [".hidden/x"]);
    place.fails("search", &json!({"pattern": "(", "regex": true}), "bad_pattern");
    place.fails("search", &json!({"pattern": "x", "glob": "[a"}), "bad_pattern");
    place.fails("search", &json!({"pattern": "x", "path": "nowhere"}), "not_found");
}

#[test]
fn results_are_bounded_in_number_and_length() {
    let place = Place::new("many");
    place.put("a.txt", "needle\n".repeat(500));
    let text = place.fine("search", &json!({"pattern": "needle"}));
    assert_eq!(text.matches(": needle").count(), 200);
    assert!(
        text.ends_with("[the first 200 matches; there are more: narrow the pattern, path or glob]"),
        "{text}"
    );
    let text = place.fine("search", &json!({"pattern": "needle", "limit": 500}));
    assert_eq!((text.matches(": needle").count(), text.contains('[')), (500, false));

    place.put("a.txt", format!("{}needle{}\n", "é".repeat(50_000), "z".repeat(50_000)));
    let text = place.fine("search", &json!({"pattern": "needle"}));
    assert!(text.starts_with("a.txt:1: (from character 49901) …é") && text.contains("needle"), "{text}");
    assert!(text.chars().count() < 400, "{text}");
}

#[test]
fn a_search_out_of_time_says_so_and_keeps_what_it_found() {
    let place = forest();
    let output =
        place.toolbox.call("search", &json!({"pattern": "needle"}), Some(Duration::ZERO), &Cancel::new());
    assert_eq!((output.ok, output.code), (false, Some("deadline")));
    assert!(output.text.contains("[no match in 0 files]"), "{output:?}");
}
