//! `docs/conformance.md`: the table as a page, written anew with `FLYBALL_BLESS=1` and compared otherwise.

use crate::kit::root;
use crate::table::{Path, Scenario, reasons, scenarios};
use std::fmt::Write;

fn cell(scenario: &Scenario, path: Path) -> &str {
    scenario.not.get(&path).map_or("✓", String::as_str)
}

fn page() -> String {
    let all = scenarios();
    let carried = |path: Path| all.iter().filter(|scenario| cell(scenario, path) == "✓").count();
    let mut text = String::from(
        "# Conformance: the same protection on every path\n\n\
         This page is generated from `fixtures/conformance/*.json` by the tests that run it (`cargo test -p flyball-cli --test\n\
         conformance`; `cargo xtask bless` writes it). Every scenario is a list of events with the decision, the trips, the effects and\n\
         the state that each must lead to. ✓ means that the path carries the scenario and everything is as wanted, stored rows included.\n\
         Any other word is the name of the reason why the path cannot carry it; the test fails if a path could, or if a reason is\n\
         missing. How to add a scenario: [CONTRIBUTING.md](../CONTRIBUTING.md).\n\n",
    );
    writeln!(text, "{} scenarios.\n\n| path | what it is | carries |\n|---|---|---|", all.len()).unwrap();
    for path in Path::ALL {
        writeln!(text, "| `{path}` | {} | {} |", path.about(), carried(path)).unwrap();
    }
    text.push_str("\n## Scenarios\n\n| scenario |");
    for path in Path::ALL {
        write!(text, " {path} |").unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(Path::ALL.len()));
    text.push('\n');
    for scenario in &all {
        write!(text, "| `{}`: {} |", scenario.name, scenario.says).unwrap();
        for path in Path::ALL {
            write!(text, " {} |", cell(scenario, path)).unwrap();
        }
        text.push('\n');
    }
    text.push_str("\n## Reasons\n\n| reason | why the path does not carry it |\n|---|---|\n");
    for (name, sentence) in reasons() {
        writeln!(text, "| {name} | {sentence} |").unwrap();
    }
    text
}

#[test]
fn the_page_is_up_to_date() {
    let path = root().join("docs/conformance.md");
    let (page, written) = (page(), std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        page == written,
        "docs/conformance.md is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test conformance page::"
    );
}
