//! The help screen of `flyball` with its command groups, and the examples below the help of each command.

use super::CliArgs;
use clap::builder::Styles;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// A heading of `flyball --help` and the commands below it.
struct CommandGroup {
    heading: &'static str,
    commands: &'static [&'static str],
}

const fn group(heading: &'static str, commands: &'static [&'static str]) -> CommandGroup {
    CommandGroup { heading, commands }
}

/// Every visible command is in exactly one group; a test compares this table with the parser.
const GROUPS: &[CommandGroup] = &[
    group("Guard agents", &["hook", "proxy", "mcp", "observe", "tell", "audit", "replay"]),
    group("Run workflows", &["run", "resume", "graph"]),
    group("Inspect sessions", &["top", "status", "list", "explain", "activity", "output"]),
    group("Control sessions", &["release", "approve", "deny", "stop", "send", "unlabel"]),
    group("Policies", &["init", "check", "config", "policy", "trust", "schema"]),
    group("Server", &["serve", "token", "outbox", "metrics"]),
    group("Setup and maintenance", &["doctor", "backup", "restore", "prune", "completions", "man"]),
];

/// Command lines shown below the help of a command. A test parses each of them.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("hook", &["flyball hook claude-code install", "flyball hook claude-code test"]),
    ("hook install", &["flyball hook claude-code install --user", "flyball hook codex install --dry-run"]),
    ("hook uninstall", &["flyball hook claude-code uninstall"]),
    ("hook test", &["flyball hook claude-code test"]),
    (
        "proxy",
        &[
            "flyball proxy --upstream https://api.openai.com",
            "flyball proxy --upstream https://api.anthropic.com --preset strict",
        ],
    ),
    (
        "mcp",
        &[
            "flyball mcp -- npx -y @modelcontextprotocol/server-filesystem .",
            "flyball mcp --url https://mcp.example.com/mcp --listen 127.0.0.1:8765",
        ],
    ),
    ("observe", &["flyball observe --preset agent < events.jsonl"]),
    (
        "tell",
        &["flyball tell progress signal=tests failing=a,b", "flyball tell gate.checked checks=build:passed"],
    ),
    ("audit", &["flyball audit ~/.claude/projects", "flyball audit transcripts --html report.html"]),
    ("replay", &["flyball replay events.jsonl --preset strict"]),
    ("run", &["flyball run workflow.yaml", "flyball run workflow.yaml --set budgets.session.runtime=2h"]),
    ("resume", &["flyball resume build-1", "flyball resume build-1 --skip"]),
    ("graph", &["flyball graph workflow.yaml", "flyball graph build-1 --format mermaid"]),
    ("top", &["flyball top"]),
    ("status", &["flyball status", "flyball status build-1"]),
    ("list", &["flyball list --blocked", "flyball list --json"]),
    ("explain", &["flyball explain build-1", "flyball explain transcript.jsonl --preset strict"]),
    ("activity", &["flyball activity --follow", "flyball activity build-1 --kind tool_call"]),
    ("output", &["flyball output 3f9a1c --search error"]),
    (
        "release",
        &[
            "flyball release build-1 --why 'fixed the failing test'",
            "flyball release build-1 --mode grant --n 5 --why 'almost done'",
        ],
    ),
    ("approve", &["flyball approve build-1"]),
    ("deny", &["flyball deny build-1 --why 'wrong environment'"]),
    ("stop", &["flyball stop build-1 --why 'wrong approach'"]),
    ("send", &["flyball send build-1 'Use the staging database'"]),
    ("unlabel", &["flyball unlabel build-1 --why 'reviewed and fixed'"]),
    ("init", &["flyball init"]),
    ("check", &["flyball check flyball.yaml", "flyball check workflow.yaml --json"]),
    ("config", &["flyball config --origin", "flyball config --preset strict --json"]),
    ("policy", &["flyball policy accept build-1 --why 'new limits agreed'"]),
    ("policy accept", &["flyball policy accept build-1 --why 'new limits agreed'"]),
    ("trust", &["flyball trust --dry-run", "flyball trust flyball.yaml"]),
    ("schema", &["flyball schema policy > flyball.schema.json", "flyball schema openapi"]),
    (
        "serve",
        &["flyball serve", "flyball serve --listen 0.0.0.0:7717 --tls-cert cert.pem --tls-key key.pem"],
    ),
    ("token", &["flyball token create ci --role agent", "flyball token list"]),
    (
        "token create",
        &["flyball token create ci --role agent --expires 30d", "flyball token create anna --role operator"],
    ),
    ("token list", &["flyball token list"]),
    ("token revoke", &["flyball token revoke 3f9a1c"]),
    ("outbox", &["flyball outbox --dead", "flyball outbox --deliver"]),
    ("metrics", &["flyball metrics"]),
    ("doctor", &["flyball doctor"]),
    ("backup", &["flyball backup flyball-backup.db"]),
    ("restore", &["flyball restore flyball-backup.db"]),
    ("prune", &["flyball prune --older-than 30d --dry-run"]),
    (
        "completions",
        &[
            "flyball completions bash > ~/.local/share/bash-completion/completions/flyball",
            "flyball completions fish > ~/.config/fish/completions/flyball.fish",
        ],
    ),
    ("man", &["flyball man | man -l -", "flyball man --out ~/.local/share/man/man1"]),
];

/// The parser with its complete help.
pub(crate) fn cli_command() -> Command {
    let command = with_examples(CliArgs::command(), "");
    let template = root_template(&command);
    command.help_template(template)
}

/// The parser without its hidden commands, for completions and manual pages.
pub(crate) fn visible_command() -> Command {
    let root = cli_command();
    let about = root.get_about().cloned().unwrap_or_default();
    let long_about = root.get_long_about().cloned().unwrap_or_default();
    let visible = Command::new("flyball").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    let visible = visible.about(about).long_about(long_about).disable_help_subcommand(true);
    visible.subcommands(root.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned())
}

fn heading(text: &str) -> String {
    let style = *Styles::default().get_header();
    format!("{style}{text}:{style:#}")
}

fn with_examples(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        with_examples(sub, path.trim())
    });
    let lines: String = examples(path).iter().map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() {
        return command;
    }
    command.after_help(format!("{}{lines}", heading("Examples")))
}

/// The examples of a command, by its path, such as `token create`.
pub(crate) fn examples(path: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(of, _)| *of == path).map_or(&[], |(_, lines)| lines)
}

/// The layout of `flyball --help`: the parser itself has no groups of commands.
fn root_template(command: &Command) -> String {
    let width = GROUPS.iter().flat_map(|group| group.commands).map(|name| name.len()).max().unwrap_or(0);
    let name_style = *Styles::default().get_literal();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for group in GROUPS {
        let _ = write!(text, "\n{}\n", heading(group.heading));
        for name in group.commands {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name_style}{name:width$}{name_style:#}  {about}");
        }
    }
    let _ = write!(text, "\n{}\n{{options}}\n\n", heading("Options"));
    text + "Run `flyball help COMMAND` for the options and examples of a command."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ineffective_flags::ineffective_flag;
    use clap::FromArgMatches;
    use std::collections::BTreeSet;

    /// Every visible command and subcommand by its path, such as `token create`.
    fn visible_commands(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            visible_commands(sub, &path, found);
            found.push((path, sub.clone()));
        }
    }

    fn all_commands() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        visible_commands(&cli_command(), "", &mut found);
        found
    }

    /// The words of a shell line up to a redirection or pipe.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                '<' | '>' | '|' if !quoted => break,
                ' ' if !quoted => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        assert!(!quoted, "{line}: open quote");
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_is_in_exactly_one_group_of_the_help() {
        let root = cli_command();
        let parser: BTreeSet<&str> =
            root.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let unique: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(grouped.len(), unique.len(), "a command is in two groups: {grouped:?}");
        assert_eq!(parser, unique);
        let help = cli_command().render_long_help().to_string();
        for name in parser {
            let about = root.find_subcommand(name).unwrap().get_about().unwrap().to_string();
            let row = help.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
            assert!(row.is_some_and(|row| row.ends_with(&about) && row.len() <= 80), "{name}: {row:?}");
        }
    }

    #[test]
    fn every_command_has_one_or_two_examples_that_parse() {
        let commands = all_commands();
        let paths: BTreeSet<&str> = commands.iter().map(|(path, _)| path.as_str()).collect();
        let with_examples: BTreeSet<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        assert_eq!(paths, with_examples);
        for (path, command) in &commands {
            let help = command.clone().render_help().to_string();
            let (_, examples) = help.rsplit_once("Examples:\n").unwrap_or_else(|| panic!("{path}: {help}"));
            let lines: Vec<&str> = examples.lines().map(str::trim).collect();
            assert!((1..=2).contains(&lines.len()), "{path}: {lines:?}");
            for line in lines {
                let words = shell_words(line);
                assert_eq!(words[0], "flyball", "{line}");
                let own: Vec<&str> = path.split(' ').collect();
                let mut rest = words.iter();
                assert!(own.iter().all(|name| rest.any(|word| word == name)), "{path}: {line}");
                let matches = cli_command().try_get_matches_from(&words);
                let mut matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                let args = CliArgs::from_arg_matches_mut(&mut matches).unwrap();
                assert_eq!(ineffective_flag(&args.command), None, "{line}");
            }
        }
    }

    #[test]
    fn command_descriptions_are_short() {
        for (path, command) in all_commands() {
            let about = command.get_about().unwrap_or_else(|| panic!("{path} has no help")).to_string();
            assert!(about.split_whitespace().count() <= 11, "{path}: {about}");
            assert!(!about.ends_with('.'), "{path}: {about}");
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{path}: {arg} has no help");
            }
        }
    }
}
