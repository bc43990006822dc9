//! The `search` tool.

use crate::harness::ToolHarness;
use flyball_runner::process::CancelToken;
use serde_json::json;
use std::time::Duration;

fn search_workspace() -> ToolHarness {
    let place = ToolHarness::new("search");
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
fn matches_are_sorted_and_exclude_skipped_directories() {
    let text = search_workspace().call_ok("search", &json!({"pattern": "needle"}));
    let wanted = ".env:1: needle=1\nsrc/deep/lib.rs:1: // needle\nsrc/main.rs:2:     needle();\n[1 skipped: not text, \
                  larger than 67108864 bytes, or unreadable]";
    assert_eq!(text, wanted);
}

#[test]
fn patterns_case_paths_and_globs_are_supported() {
    let place = search_workspace();
    let found = |args: serde_json::Value| -> Vec<String> {
        let text = place.call_ok("search", &args);
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
    // An explicit path includes hidden folders.
    assert_eq!(found(json!({"pattern": "needle", "path": ".hidden"})), [".hidden/x"]);
    place.call_err("search", &json!({"pattern": "(", "regex": true}), "bad_pattern");
    place.call_err("search", &json!({"pattern": "x", "glob": "[a"}), "bad_pattern");
    place.call_err("search", &json!({"pattern": "x", "path": "nowhere"}), "not_found");
}

#[test]
fn results_are_bounded() {
    let place = ToolHarness::new("many");
    place.put("a.txt", "needle\n".repeat(500));
    let text = place.call_ok("search", &json!({"pattern": "needle"}));
    assert_eq!(text.matches(": needle").count(), 200);
    assert!(
        text.ends_with("[first 200 matches; there are more: narrow the pattern, path or glob]"),
        "{text}"
    );
    let text = place.call_ok("search", &json!({"pattern": "needle", "limit": 500}));
    assert_eq!((text.matches(": needle").count(), text.contains('[')), (500, false));

    place.put("a.txt", format!("{}needle{}\n", "é".repeat(50_000), "z".repeat(50_000)));
    let text = place.call_ok("search", &json!({"pattern": "needle"}));
    assert!(text.starts_with("a.txt:1: (from character 49901) …é") && text.contains("needle"), "{text}");
    assert!(text.chars().count() < 400, "{text}");
}

#[test]
fn timed_out_search_reports_deadline_and_summary() {
    let place = search_workspace();
    let output = place.toolbox.call(
        "search",
        &json!({"pattern": "needle"}),
        Some(Duration::ZERO),
        &CancelToken::new(),
    );
    assert_eq!((output.ok, output.code), (false, Some("deadline")));
    assert!(output.text.contains("[no match in 0 files]"), "{output:?}");
}
