//! Parses a command with a bash grammar and flattens it into simple commands.
//!
//! The grammar is that of GNU Bash 5.3 (the crate `rable`, which is tested against bash's own parser). Only constructs
//! that the checks understand are translated; all others make the script unsupported.

use crate::launch::is_harmless_assignment;
use crate::word::{ShellWord, ShellWordBuilder};
use rable::{Node, NodeKind};

/// Maximum script length, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Stack size of the parser, in bytes.
const STACK_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of command and process substitutions. The parser recurses for each of them.
const MAX_SUBSTITUTIONS: usize = 12;
/// Maximum number of parentheses and braces, quoted or not.
const MAX_BRACKETS: usize = 200;
/// Maximum number of words that open a compound command.
const MAX_COMPOUNDS: usize = 40;
/// Words that open a compound command.
const COMPOUNDS: [&str; 10] = ["if", "elif", "while", "until", "for", "case", "select", "{", "[[", "!"];

/// A script as a list of simple commands in source order, including those in substitutions, loops and conditions.
#[derive(Debug, Default)]
pub struct ShellScript {
    /// The simple commands.
    pub commands: Vec<SimpleCommand>,
    /// A construct whose effect cannot be determined from the text.
    pub unsupported: Option<&'static str>,
    /// Whether a command or process substitution occurs.
    pub substitutes: bool,
}

/// One simple command.
#[derive(Debug, Default)]
pub struct SimpleCommand {
    /// Variables set before the program or alone.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments; empty for bare assignments and redirections.
    pub words: Vec<ShellWord>,
    /// Redirections.
    pub redirects: Vec<Redirect>,
    /// The text of its here-document or here-string.
    pub here: Option<String>,
}

/// A variable assignment.
#[derive(Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: ShellWord,
}

impl Assignment {
    /// Whether it affects only how programs print.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        self.value.known().is_some_and(|value| is_harmless_assignment(&self.name, value))
    }
}

/// A redirection of a stream to a file.
#[derive(Debug)]
pub struct Redirect {
    /// The effect on the file.
    pub kind: RedirectKind,
    /// The file.
    pub target: ShellWord,
}

/// The effect of a redirection on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// Reads it.
    Read,
    /// Replaces its content.
    Overwrite,
    /// Appends to it, or opens it for reading and writing.
    Append,
}

/// Parses a script.
///
/// # Errors
/// If it is not valid shell, or exceeds a limit.
pub fn parse(text: &str) -> Result<ShellScript, &'static str> {
    check_limits(text)?;
    // A separate stack: an overflow would abort the whole process, and if a hook crashes, the call runs.
    std::thread::scope(|scope| {
        let parser =
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || flatten(text));
        let parsed = parser.ok().and_then(|parser| parser.join().ok());
        parsed.unwrap_or(Err("the command could not be parsed"))
    })
}

fn flatten(text: &str) -> Result<ShellScript, &'static str> {
    let nodes = rable::parse(text, false).map_err(|_| "the command is not valid shell")?;
    let mut flattener = Flattener::default();
    for node in &nodes {
        flattener.node(node);
    }
    Ok(flattener.script)
}

/// Bounds the parser's depth before it starts, because it is recursive and the text is untrusted.
fn check_limits(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err("the command is too long");
    }
    // Shells disagree about these characters, and terminals hide them.
    if text.chars().any(|c| (c.is_control() || (c.is_whitespace() && c != ' ')) && c != '\n' && c != '\t') {
        return Err("the command contains control characters or unusual spaces");
    }
    let count = |part: &str| text.matches(part).count();
    if count("$(") + count("<(") + count(">(") + count("`").div_ceil(2) + count("${ ") > MAX_SUBSTITUTIONS {
        return Err("the command has too many substitutions");
    }
    if count("(") + count("{") + count("[") > MAX_BRACKETS {
        return Err("the command has too many brackets");
    }
    let words = text.split(|c: char| c.is_whitespace() || ";&|()".contains(c));
    if words.filter(|word| COMPOUNDS.contains(word)).count() > MAX_COMPOUNDS {
        return Err("the command is nested too deeply");
    }
    Ok(())
}

#[derive(Default)]
struct Flattener {
    script: ShellScript,
}

impl Flattener {
    fn unsupported(&mut self, what: &'static str) {
        self.script.unsupported.get_or_insert(what);
    }

    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Empty | NodeKind::Comment { .. } => {}
            NodeKind::Command { assignments, words, redirects } => {
                self.command(assignments, words, redirects);
            }
            NodeKind::Pipeline { commands, .. } => commands.iter().for_each(|command| self.node(command)),
            NodeKind::List { items } => items.iter().for_each(|item| self.node(&item.command)),
            NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => self.node(pipeline),
            NodeKind::If { condition, then_body, else_body, redirects } => {
                self.node(condition);
                self.node(then_body);
                if let Some(body) = else_body {
                    self.node(body);
                }
                self.command(&[], &[], redirects);
            }
            NodeKind::While { condition, body, redirects }
            | NodeKind::Until { condition, body, redirects } => {
                self.node(condition);
                self.node(body);
                self.command(&[], &[], redirects);
            }
            NodeKind::For { var, words, body, redirects } => {
                for word in words.iter().flatten() {
                    self.word(word);
                }
                let assignments = vec![Assignment { name: var.clone(), value: ShellWord::unknown() }];
                self.script.commands.push(SimpleCommand { assignments, ..SimpleCommand::default() });
                self.node(body);
                self.command(&[], &[], redirects);
            }
            NodeKind::Subshell { body, redirects } | NodeKind::BraceGroup { body, redirects } => {
                self.node(body);
                self.command(&[], &[], redirects);
            }
            NodeKind::ConditionalExpr { body, redirects } => {
                self.condition(body);
                let words = vec![ShellWord::literal("[[")];
                self.script.commands.push(SimpleCommand { words, ..SimpleCommand::default() });
                self.command(&[], &[], redirects);
            }
            // The nested commands are listed too, because the most dangerous part determines the result.
            NodeKind::Case { patterns, .. } => {
                self.unsupported("a case statement");
                patterns.iter().filter_map(|pattern| pattern.body.as_ref()).for_each(|body| self.node(body));
            }
            NodeKind::Function { body, .. } => {
                self.unsupported("a function definition");
                self.node(body);
            }
            NodeKind::Coproc { command, .. } => {
                self.unsupported("a coprocess");
                self.node(command);
            }
            NodeKind::ForArith { body, .. } | NodeKind::Select { body, .. } => {
                self.unsupported("a loop that computes its values");
                self.node(body);
            }
            NodeKind::ArithmeticCommand { .. } => self.unsupported("an arithmetic command"),
            _ => self.unsupported("an unsupported construct"),
        }
    }

    fn command(&mut self, assignments: &[Node], words: &[Node], redirects: &[Node]) {
        let mut command = SimpleCommand::default();
        for node in assignments {
            let word = self.word(node);
            let name = word.head.split_once('=').map(|(name, _)| name.strip_suffix('+').unwrap_or(name));
            match name.filter(|name| is_identifier(name)).map(str::to_owned) {
                Some(name) => command.assignments.push(Assignment { value: after_equals(word), name }),
                None => self.unsupported("an assignment to a list or an element"),
            }
        }
        for node in words {
            let word = self.word(node);
            command.words.push(word);
        }
        for node in redirects {
            self.redirect(node, &mut command);
        }
        if !(command.assignments.is_empty() && command.words.is_empty() && command.redirects.is_empty()) {
            self.script.commands.push(command);
        }
    }

    fn redirect(&mut self, node: &Node, command: &mut SimpleCommand) {
        match &node.kind {
            NodeKind::HereDoc { content, quoted, complete, .. } => {
                if !complete {
                    self.unsupported("an unfinished here-document");
                }
                if !quoted && content.contains(['$', '`']) {
                    self.expansions(content);
                }
                command.here = Some(content.clone());
            }
            NodeKind::Redirect { varfd: Some(_), .. } => self.unsupported("a named file descriptor"),
            NodeKind::Redirect { op, target, .. } => {
                let target = self.word(target);
                if target.literal && target.text.is_empty() && !target.quoted {
                    self.unsupported("a redirection without a target");
                }
                let descriptor = target.literal
                    && !target.text.is_empty()
                    && target.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                let kind = match op.as_str() {
                    "<<<" => {
                        command.here = Some(target.text);
                        return;
                    }
                    ">&-" | "<&-" => return,
                    ">&" | "<&" if descriptor => return,
                    "<" => RedirectKind::Read,
                    ">" | ">|" | "&>" | ">&" => RedirectKind::Overwrite,
                    ">>" | "&>>" | "<>" => RedirectKind::Append,
                    _ => return self.unsupported("an unusual redirection"),
                };
                command.redirects.push(Redirect { kind, target });
            }
            _ => self.unsupported("an unusual redirection"),
        }
    }

    /// Collects the substitutions in a here-document, which is expanded like double-quoted text.
    fn expansions(&mut self, content: &str) {
        let quoted = format!(": \"{}\"", content.replace('"', "\\\""));
        match rable::parse(&quoted, false) {
            Ok(nodes) => nodes.iter().for_each(|node| self.node(node)),
            Err(_) => self.unsupported("a here-document with an invalid expansion"),
        }
    }

    fn word(&mut self, node: &Node) -> ShellWord {
        let NodeKind::Word { parts, .. } = &node.kind else {
            self.unsupported("an unsupported construct");
            return ShellWord::unknown();
        };
        let mut builder = ShellWordBuilder::default();
        let mut in_quotes = false;
        for part in parts {
            match &part.kind {
                NodeKind::WordLiteral { value } => self.literal(value, &mut in_quotes, &mut builder),
                NodeKind::AnsiCQuote { content, decoded } if has_simple_escapes(content) => {
                    builder.set_quoted();
                    decoded.chars().for_each(|c| builder.push(c));
                }
                NodeKind::BraceExpansion { content }
                    if !content.contains([
                        '$', '`', '(', '\\', '\'', '"', '<', '>', '|', '&', ';', ' ', '\t', '\n',
                    ]) =>
                {
                    builder.push_unknown(false);
                }
                NodeKind::ParamExpansion { param, op, arg } if is_plain_expansion(param, op, arg) => {
                    builder.push_unknown(!in_quotes || matches!(param.as_str(), "@" | "*"));
                }
                NodeKind::ParamLength { param } if is_parameter(param) => builder.push_unknown(false),
                NodeKind::CommandSubstitution { command, brace: false } => {
                    self.script.substitutes = true;
                    self.node(command);
                    builder.push_unknown(!in_quotes);
                }
                NodeKind::ProcessSubstitution { command, .. } => {
                    self.script.substitutes = true;
                    self.node(command);
                    // It expands to the path of a pipe, which no program treats as an option.
                    "/dev/fd/".chars().for_each(|c| builder.push(c));
                    builder.push_unknown(false);
                }
                NodeKind::AnsiCQuote { .. } => self.unsupported("text with escapes"),
                NodeKind::BraceExpansion { .. } => self.unsupported("a brace expansion with quotes"),
                NodeKind::ArithmeticExpansion { .. } | NodeKind::ArithDeprecated { .. } => {
                    self.unsupported("an arithmetic expansion");
                }
                _ => self.unsupported("an expansion that computes its value"),
            }
        }
        if in_quotes {
            self.unsupported("an unclosed quote");
        }
        builder.finish()
    }

    /// Handles text between two expansions, with its quotes.
    fn literal(&mut self, text: &str, in_quotes: &mut bool, builder: &mut ShellWordBuilder) {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' => {
                    *in_quotes = !*in_quotes;
                    builder.set_quoted();
                }
                '\\' if *in_quotes => match chars.next_if(|next| "$`\"\\\n".contains(*next)) {
                    Some('\n') => {}
                    Some(escaped) => builder.push(escaped),
                    None => builder.push('\\'),
                },
                '\\' => {
                    builder.set_quoted();
                    if let Some(escaped) = chars.next().filter(|next| *next != '\n') {
                        builder.push(escaped);
                    }
                }
                '\'' if !*in_quotes => {
                    builder.set_quoted();
                    loop {
                        match chars.next() {
                            Some('\'') => break,
                            Some(quoted) => builder.push(quoted),
                            None => return self.unsupported("an unclosed quote"),
                        }
                    }
                }
                // The parser returns every expansion as a separate part, so one left in the text was not recognized.
                '`' => return self.unsupported("an expansion that was not recognized"),
                '$' if chars
                    .peek()
                    .is_some_and(|next| next.is_ascii_alphanumeric() || "_{([@*#?$!-'\"".contains(*next))
                    && !(*in_quotes && matches!(chars.peek(), Some('"' | '\''))) =>
                {
                    return self.unsupported("an expansion that was not recognized");
                }
                // These characters end a word in bash. The parser keeps some of them after an opening bracket.
                ' ' | '\t' | '\n' | '<' | '>' | '|' | '&' | ';' if !*in_quotes => {
                    self.unsupported("a word with an unquoted operator");
                }
                '(' | ')' if !*in_quotes => self.unsupported("a list or a pattern in parentheses"),
                '*' | '?' if !*in_quotes => builder.push_unknown(false),
                // `[` alone is a program.
                '[' if !(*in_quotes || builder.is_empty() && chars.peek().is_none()) => {
                    builder.push_bracket_pattern();
                }
                '{' if !*in_quotes && builder.is_empty() && !chars.clone().any(|next| next == '}') => {
                    // A script block for shells other than bash.
                    self.unsupported("an opening brace");
                }
                _ => builder.push(c),
            }
        }
    }

    /// A `[[ … ]]` condition. Arithmetic comparisons and `-v` evaluate their operands, which may run commands.
    fn condition(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::CondAnd { left, right } | NodeKind::CondOr { left, right } => {
                self.condition(left);
                self.condition(right);
            }
            NodeKind::CondNot { operand: inner } | NodeKind::CondParen { inner } => self.condition(inner),
            NodeKind::UnaryTest { op, operand } if !matches!(op.as_str(), "-v" | "-R") => {
                self.condition(operand);
            }
            NodeKind::BinaryTest { op, left, right } if !is_arithmetic_test(op) => {
                self.condition(left);
                self.condition(right);
            }
            NodeKind::CondTerm { value, .. }
                if !value.contains("$(") && !value.contains(['`', '{', '<', '>', '&', ';']) => {}
            _ => self.unsupported("a condition that computes its value"),
        }
    }
}

/// Whether a `$'…'` text has only escapes that every shell decodes alike.
fn has_simple_escapes(content: &str) -> bool {
    let mut chars = content.chars();
    while let Some(c) = chars.next() {
        if c == '\\' && !chars.next().is_some_and(|escaped| "nt\\'\"".contains(escaped)) {
            return false;
        }
    }
    true
}

/// Whether an operator of `test` compares numbers.
pub(crate) fn is_arithmetic_test(op: &str) -> bool {
    matches!(op, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
}

/// Whether a text is the name of a variable.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_parameter(name: &str) -> bool {
    is_identifier(name)
        || matches!(name, "@" | "*" | "#" | "?" | "$" | "!" | "-")
        || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an expansion only reads a variable: no assignment, no evaluation, no nested expansion.
fn is_plain_expansion(param: &str, op: &Option<String>, arg: &Option<String>) -> bool {
    let arg = arg.as_deref().unwrap_or_default();
    let plain = match op.as_deref() {
        None => arg.is_empty(),
        Some(":-" | "-" | ":+" | "+" | "#" | "##" | "%" | "%%" | "/" | "//") => {
            !arg.contains(['$', '`', '(', '{', '}', '\\'])
        }
        Some(_) => false,
    };
    plain && is_parameter(param)
}

/// The value of an assignment word.
pub(crate) fn after_equals(mut word: ShellWord) -> ShellWord {
    let cut = |text: &str| text.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned());
    word.text = cut(&word.text);
    word.head = cut(&word.head);
    word
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
