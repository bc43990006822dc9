//! Every `flyball` command and flag named on a page exists, in command blocks and in inline code.

use crate::blocks::{Page, all_pages, blocks};
use crate::kit::{run_flyball, test_dir};
use std::collections::BTreeMap;
use std::path::Path;

/// A command as described by its help.
#[derive(Debug, Default)]
pub(crate) struct CommandHelp {
    /// The output of `flyball help COMMAND`.
    pub(crate) text: String,
    pub(crate) subcommands: BTreeMap<String, CommandHelp>,
}

impl CommandHelp {
    /// The whole command tree, from the program's help.
    pub(crate) fn tree(folder: &Path) -> Self {
        Self::load(folder, &[]).expect("`flyball help` works")
    }

    fn load(folder: &Path, path: &[&str]) -> Option<Self> {
        let run = run_flyball(folder, &[&["help"], path].concat(), b"", &[]);
        if run.code != 0 {
            return None;
        }
        let mut help = CommandHelp { text: run.out, subcommands: BTreeMap::new() };
        let listed: Vec<String> = listed_names(&help.text).map(str::to_owned).collect();
        for name in listed {
            if let Some(sub) = Self::load(folder, &[path, &[name.as_str()]].concat()) {
                help.subcommands.insert(name, sub);
            }
        }
        Some(help)
    }

    fn has_flag(&self, flag: &str) -> bool {
        let part = |c: char| c.is_alphanumeric() || c == '-';
        self.text.split(|c: char| !part(c)).any(|word| word == flag)
    }
}

/// Names in the lists of a help text. Arguments are listed too; a name is a command if it has help.
fn listed_names(help: &str) -> impl Iterator<Item = &str> {
    let rows = help.lines().take_while(|line| *line != "Options:" && *line != "Arguments:");
    let names = rows.filter_map(|line| {
        let row = line.strip_prefix("  ")?;
        row.split(' ').next().filter(|name| !name.is_empty() && *name != "help")
    });
    names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
}

/// The words of every `flyball` call in a shell text. Quoted words stay together; comments are skipped.
fn calls(shell: &str) -> Vec<Vec<String>> {
    let text = shell.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in text.lines() {
        for command in split_commands(line) {
            let words = words(&command);
            let program =
                words.iter().position(|word| !word.contains('=') && word != "time" && word != "exec");
            let words = &words[program.unwrap_or(words.len())..];
            let arguments = match words {
                [program, rest @ ..] if program == "flyball" => rest,
                [cargo, run, rest @ ..] if cargo == "cargo" && run == "run" => {
                    let Some(at) = rest.iter().position(|word| word == "--") else { continue };
                    &rest[at + 1..]
                }
                _ => continue,
            };
            found.push(arguments.to_vec());
        }
    }
    found
}

/// The simple commands of a line, split at unquoted pipes, lists and substitutions.
fn split_commands(line: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut quote = None;
    let mut previous = ' ';
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && previous == ' ' => break,
            None if "|;&(){}`".contains(c) => {
                commands.push(String::new());
                previous = ' ';
                continue;
            }
            None => {}
        }
        previous = c;
        commands.last_mut().unwrap().push(c);
    }
    commands
}

fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The reason why a call cannot work: it names an unknown command or flag.
fn problem(tree: &CommandHelp, call: &[String]) -> Option<String> {
    let mut path: Vec<&CommandHelp> = vec![tree];
    for word in call.iter().take_while(|word| *word != "--") {
        let here = path.last().unwrap();
        if let Some(flag) = word.strip_prefix("--") {
            let flag = format!("--{}", flag.split(['=', '[', ']']).next().unwrap_or_default());
            if !path.iter().any(|command| command.has_flag(&flag)) {
                return Some(format!("{flag} is not a flag of this command"));
            }
        } else if let Some(command) = here.subcommands.get(word) {
            path.push(command);
        } else if path.len() == 1
            && word != "help"
            && !word.starts_with('-')
            && word.chars().all(is_command_char)
        {
            return Some(format!("`{word}` is not a command"));
        }
    }
    None
}

/// Whether a character belongs to a command name. Uppercase words and `…` are placeholders.
fn is_command_char(c: char) -> bool {
    c.is_ascii_lowercase() || c == '-'
}

/// All shell text of a page: command blocks, and inline code that starts with `flyball`.
fn shell_texts(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = page.text.clone();
    for block in blocks(&page.text) {
        match block.language.as_str() {
            "sh" | "bash" => found.push((block.line, block.text.clone())),
            "console" => {
                let typed: Vec<&str> =
                    block.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
                found.push((block.line, typed.join("\n")));
            }
            _ => {}
        }
        // Blanked out, to keep line numbers and so that no backtick in a block pairs with one in the text.
        let blank: String =
            rest[block.span.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        let blank = blank + &" ".repeat(block.span.len());
        rest.replace_range(block.span.clone(), &blank[..block.span.len()]);
    }
    let rest = rest.replace("```", "   ");
    let mut at = 1;
    for (odd, span) in rest.split('`').enumerate() {
        if odd % 2 == 1 && span.starts_with("flyball ") {
            found.push((at, span.replace('\n', " ")));
        }
        at += span.matches('\n').count();
    }
    found
}

#[test]
fn every_command_and_flag_that_a_page_names_exists() {
    let folder = test_dir("docs-commands");
    let tree = CommandHelp::tree(&folder);
    let (mut problems, mut seen) = (Vec::new(), 0);
    for page in all_pages() {
        for (line, text) in shell_texts(&page) {
            for call in calls(&text) {
                seen += 1;
                if let Some(problem) = problem(&tree, &call) {
                    problems.push(format!("{}:{line}: flyball {}: {problem}", page.name, call.join(" ")));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    assert!(seen > 200, "only {seen} commands were found: were the pages read?");
}

#[test]
fn commands_are_found_in_shell_text() {
    let found = calls(
        "A=1 flyball list --blocked | head; flyball stop s --why 'a | b' # flyball nonsense\nx=$(flyball token \\\n create a)\ncargo run --release -- run x",
    );
    let found: Vec<String> = found.iter().map(|call| call.join(" ")).collect();
    assert_eq!(found, ["list --blocked", "stop s --why a | b", "token create a", "run x"]);
}

#[test]
fn wrong_commands_and_flags_are_reported() {
    let tree = CommandHelp::tree(&test_dir("docs-wrong-commands"));
    let check = |line: &str| problem(&tree, &calls(line)[0]);
    for right in
        ["flyball list --blocked", "flyball hook --preset strict claude-code install", "flyball mcp -- x --y"]
    {
        assert_eq!(check(right), None, "{right}");
    }
    assert_eq!(check("flyball lst").as_deref(), Some("`lst` is not a command"));
    assert_eq!(check("flyball list --blockd").as_deref(), Some("--blockd is not a flag of this command"));
    assert_eq!(
        check("flyball token create x --blocked").as_deref(),
        Some(
            "--blocked is not a flag of this \
         command"
        )
    );
}
