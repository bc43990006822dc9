//! Generates the table of guards in `docs/guards.md` from what each guard says about itself with `FLYBALL_BLESS=1`, and
//! compares it otherwise.

use crate::kit::repo_root;
use flyball::policy::{GuardPolicies, Preset, resolve};
use serde_json::Value;
use std::fmt::Write;

const PAGE: &str = "docs/guards.md";
const BEGIN: &str = "<!-- guards -->\n";
const END: &str = "<!-- /guards -->";

/// The keys of a section with their defaults. The mode is explained above the table; what is off is left out.
fn keys(section: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Object(_) => format!("{{{}}}", keys(value)),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let keys =
        section.as_object().into_iter().flatten().filter(|(key, value)| *key != "mode" && *value != "off");
    keys.map(|(key, value)| format!("`{key}` {}", shown(value))).collect::<Vec<_>>().join(", ")
}

fn table() -> String {
    let effective = resolve(&[], Preset::Workflow).unwrap().effective;
    let mut text = "| guard | detects | keys (defaults) | staged reaction |\n|---|---|---|---|\n".to_owned();
    for (name, info) in flyball::guards() {
        let own = !GuardPolicies::NAMES.contains(&name);
        let (place, section) = if own {
            (format!(" (under `{name}s:`)"), &effective[format!("{name}s")])
        } else {
            (String::new(), &effective["guards"][name])
        };
        writeln!(text, "| `{name}`{place} | {} | {} | {} |", info.detects, keys(section), info.reaction)
            .unwrap();
    }
    text
}

#[test]
fn the_table_of_guards_is_current() {
    let path = repo_root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has markers for the guards");
    let (written, after) = rest.split_once(END).expect("the page has markers for the guards");
    let table = table();
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(written == table, "{PAGE} is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs");
}
