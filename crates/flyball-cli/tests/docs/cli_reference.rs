//! Generates `docs/reference/cli.md` from the program's help with `FLYBALL_BLESS=1`, and compares it otherwise.

use crate::command_names::CommandHelp;
use crate::kit::{repo_root, test_dir};
use std::fmt::Write;

const PAGE: &str = "docs/reference/cli.md";
const INTRODUCTION: &str = "\
# Command line

This page is generated from `flyball help` (`FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs` writes it).

## Exit codes

| code | meaning |
|---|---|
| 0 | done; no guard tripped |
| 1 | error; stderr has `error[CODE]` and a `help:` line, see [Errors](../errors.md) |
| 2 | wrong usage |
| 3 | stopped by a guard |
| 4 | waiting for a person |
| 5 | blocked by a quality gate |
| 141 | the reader of stdout left early, for example `head` |

`--json` prints one JSON document, or one JSON object per line, on every command that prints results.

## Completions and manual pages

```sh
flyball completions bash > flyball.bash    # zsh, fish, powershell, elvish
flyball man --out man1                     # then: man -l man1/flyball.1
```
";

fn section(page: &mut String, path: &str, help: &CommandHelp, level: usize) {
    let text = help.text.trim_end();
    write!(page, "\n{} {path}\n\n```text\n{text}\n```\n", "#".repeat(level)).unwrap();
    for (name, sub) in &help.subcommands {
        section(page, &format!("{path} {name}"), sub, level + 1);
    }
}

#[test]
fn the_reference_of_the_command_line_is_current() {
    let tree = CommandHelp::tree(&test_dir("docs-reference"));
    let mut page = INTRODUCTION.to_owned();
    write!(page, "\n## flyball\n\n```text\n{}\n```\n", tree.text.trim_end()).unwrap();
    for (name, command) in &tree.subcommands {
        section(&mut page, &format!("flyball {name}"), command, 2);
    }
    assert!(tree.subcommands.len() > 30, "only {} commands found in the help", tree.subcommands.len());
    let path = repo_root().join(PAGE);
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "{PAGE} is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs");
}
