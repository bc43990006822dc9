//! The command line of a hook: writes it for a shell and parses it from settings.

use super::handlers::HandlerCommand;
use crate::hook::host::Host;

/// The command that a host's settings run for every event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// The program, quoted for a shell.
    pub program: String,
    /// The flags after the event, one word each.
    pub flags: Vec<String>,
}

impl HookCommand {
    /// A command without flags.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        HookCommand { program: program.into(), flags: Vec::new() }
    }

    /// The command line for one event. Installs with the same flags produce the same line, because some hosts ask the
    /// user to trust it.
    #[must_use]
    pub fn command_line(&self, host: Host, event: &str) -> String {
        let mut line = format!("{} hook {} --event {event}", self.program, host.as_str());
        for flag in &self.flags {
            line.push(' ');
            line.push_str(&shell_quote(flag));
        }
        line
    }

    /// The command lines for all events of the host, exactly as written to its settings.
    #[must_use]
    pub fn command_lines(&self, host: Host) -> Vec<String> {
        host.events().iter().map(|(event, _)| self.command_line(host, event)).collect()
    }

    /// Parses a command line. `None` if it was not written by [`HookCommand::command_line`].
    #[must_use]
    pub fn parse(host: Host, line: &HandlerCommand) -> Option<Self> {
        let (program, mut words) = match line {
            HandlerCommand::Shell(text) => {
                let (program, rest) = text.split_once(&format!(" hook {}", host.as_str()))?;
                (program.to_owned(), shell_words(rest)?)
            }
            HandlerCommand::Exec(words) => {
                let (program, rest) = words.split_first()?;
                let rest = rest.strip_prefix(&["hook".to_owned(), host.as_str().to_owned()])?;
                (program.clone(), rest.to_vec())
            }
        };
        let event = words.iter().position(|word| word == "--event")?;
        words.drain(event..(event + 2).min(words.len()));
        Some(HookCommand { program, flags: words })
    }
}

/// Quotes a word for a shell.
fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Splits a simple command into words as a shell does. `None` if the line uses operators, expansions, patterns or an
/// unclosed quote.
#[must_use]
pub fn shell_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '~' | '#' | '!'
            | '\n' | '\r' => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip_through_the_shell() {
        let flags =
            ["--store", "sqlite:/a b/it's.db", "--set", "guards.repetition.limit=3", "--preset", "$x"];
        let command = HookCommand {
            program: "\"/my place/flyball\"".to_owned(),
            flags: flags.map(str::to_owned).to_vec(),
        };
        let line = command.command_line(Host::Codex, "PreToolUse");
        assert_eq!(HookCommand::parse(Host::Codex, &HandlerCommand::Shell(line.clone())), Some(command));
        let words = shell_words(&line).unwrap();
        assert_eq!(words.first().map(String::as_str), Some("/my place/flyball"));
        assert_eq!(words.get(5..).unwrap(), flags);
    }

    #[test]
    fn lines_with_shell_syntax_are_not_split() {
        for line in ["a; b", "a && b", "a $(b)", "a > b", "a | b", "a \"$HOME\"", "a 'b", "a *", "a\nb"] {
            assert_eq!(shell_words(line), None, "{line}");
        }
        assert_eq!(
            shell_words("A=1 b  'c d'\"e\"\\ f"),
            Some(vec!["A=1".into(), "b".into(), "c de f".into()])
        );
    }
}
