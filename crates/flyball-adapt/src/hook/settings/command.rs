//! The command line of a hook: how it is written for a shell, and how it is read back from settings.

use super::handlers::Line;
use crate::hook::host::Host;

/// The command that a host's settings run, for all of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// The program, as a shell reads it.
    pub program: String,
    /// The flags behind the event, one word each.
    pub flags: Vec<String>,
}

impl HookCommand {
    /// A command without flags.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        HookCommand { program: program.into(), flags: Vec::new() }
    }

    /// The line for one event. It is the same after every install with the same flags, because some hosts ask their
    /// user to trust it.
    #[must_use]
    pub fn line(&self, host: Host, event: &str) -> String {
        let mut line = format!("{} hook {} --event {event}", self.program, host.as_str());
        for flag in &self.flags {
            line.push(' ');
            line.push_str(&quoted(flag));
        }
        line
    }

    /// The lines of all events of the host, exactly as its settings get them.
    #[must_use]
    pub fn lines(&self, host: Host) -> Vec<String> {
        host.events().iter().map(|(event, _)| self.line(host, event)).collect()
    }

    /// Reads a line back. `None` if it is not one that [`HookCommand::line`] writes.
    #[must_use]
    pub fn read(host: Host, line: &Line) -> Option<Self> {
        let (program, mut words) = match line {
            Line::Shell(text) => {
                let (program, rest) = text.split_once(&format!(" hook {}", host.as_str()))?;
                (program.to_owned(), shell_words(rest)?)
            }
            Line::Exec(words) => {
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

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a simple command, as a shell takes them apart. `None` if the line needs more of a shell than that:
/// operators, expansions, patterns, or a quote that does not end.
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
    fn flags_survive_the_shell_and_are_read_back() {
        let flags =
            ["--store", "sqlite:/a b/it's.db", "--set", "guards.repetition.limit=3", "--preset", "$x"];
        let command = HookCommand {
            program: "\"/my place/flyball\"".to_owned(),
            flags: flags.map(str::to_owned).to_vec(),
        };
        let line = command.line(Host::Codex, "PreToolUse");
        assert_eq!(HookCommand::read(Host::Codex, &Line::Shell(line.clone())), Some(command));
        let words = shell_words(&line).unwrap();
        assert_eq!(words.first().map(String::as_str), Some("/my place/flyball"));
        assert_eq!(words.get(5..).unwrap(), flags);
    }

    #[test]
    fn lines_that_need_a_whole_shell_are_not_taken_apart() {
        for line in ["a; b", "a && b", "a $(b)", "a > b", "a | b", "a \"$HOME\"", "a 'b", "a *", "a\nb"] {
            assert_eq!(shell_words(line), None, "{line}");
        }
        assert_eq!(
            shell_words("A=1 b  'c d'\"e\"\\ f"),
            Some(vec!["A=1".into(), "b".into(), "c de f".into()])
        );
    }
}
