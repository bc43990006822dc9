//! Generates `docs/conformance.md` with `FLYBALL_BLESS=1`, and compares it otherwise.

use crate::command_harness::repo_root;
use crate::scenario_table::{ConformancePath, Scenario, load_reasons, load_scenarios};
use std::fmt::Write;

fn cell(scenario: &Scenario, path: ConformancePath) -> &str {
    scenario.unsupported.get(&path).map_or("✓", String::as_str)
}

fn render_page() -> String {
    let all = load_scenarios();
    let carried = |path: ConformancePath| all.iter().filter(|scenario| cell(scenario, path) == "✓").count();
    let mut text = String::from(
        "# Conformance: the same protection on every path\n\n\
         This page is generated from `fixtures/conformance/*.json` by the tests that run it (`cargo test -p flyball-cli --test\n\
         conformance`; `cargo xtask bless` writes it). A scenario is a list of events, each with the expected decision, trips,\n\
         effects and state. ✓ means that the path supports the scenario with the expected results, stored rows included. Any\n\
         other word names the reason why the path does not support it; the test fails if the path could, or if a reason is\n\
         missing. How to add a scenario: [CONTRIBUTING.md](../CONTRIBUTING.md).\n\n",
    );
    writeln!(text, "{} scenarios.\n\n| path | description | scenarios |\n|---|---|---|", all.len()).unwrap();
    for path in ConformancePath::ALL {
        writeln!(text, "| `{path}` | {} | {} |", path.description(), carried(path)).unwrap();
    }
    text.push_str("\n## Scenarios\n\n| scenario |");
    for path in ConformancePath::ALL {
        write!(text, " {path} |").unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(ConformancePath::ALL.len()));
    text.push('\n');
    for scenario in &all {
        write!(text, "| `{}`: {} |", scenario.name, scenario.summary).unwrap();
        for path in ConformancePath::ALL {
            write!(text, " {} |", cell(scenario, path)).unwrap();
        }
        text.push('\n');
    }
    text.push_str("\n## Reasons\n\n| reason | why the path does not support the scenario |\n|---|---|\n");
    for (name, sentence) in load_reasons() {
        writeln!(text, "| {name} | {sentence} |").unwrap();
    }
    text
}

#[test]
fn conformance_page_is_up_to_date() {
    let path = repo_root().join("docs/conformance.md");
    let (page, written) = (render_page(), std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        page == written,
        "docs/conformance.md is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test conformance \
         docs_page::"
    );
}
