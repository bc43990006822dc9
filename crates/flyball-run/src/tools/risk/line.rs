//! Takes a command line of a POSIX shell apart, as far as that is possible without running it.
//!
//! The splitting crates know words and quotes, but not which `;` or `>` is inside quotes and which is not, nor
//! here-documents or substitutions; so this is a small reader of its own. It never guesses: what it does not know for
//! sure is told as odd.

/// A word, without its quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether the shell will see exactly this text: no variable, pattern or substitution in it.
    pub(super) sure: bool,
    /// Whether a part of it was quoted; then it is no keyword.
    pub(super) quoted: bool,
}

/// What a redirection does to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Only reads it.
    Read,
    /// Writes over it.
    Over,
    /// Writes at its end.
    Append,
}

/// One simple command.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(Redirect, Word)>,
    /// What it reads from a here-document or here-string.
    pub(super) here: Option<String>,
}

/// A whole command line.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) commands: Vec<Command>,
    /// Command lines inside substitutions.
    pub(super) inner: Vec<String>,
    /// What nobody can tell before it runs.
    pub(super) odd: Option<&'static str>,
}

/// Takes a command line apart. `Err` says why that is impossible.
pub(super) fn parse(text: &str) -> Result<Line, &'static str> {
    let mut reader = Reader { chars: text.chars().collect(), ..Reader::default() };
    reader.read()?;
    Ok(reader.line)
}

#[derive(Default)]
struct Reader {
    chars: Vec<char>,
    at: usize,
    line: Line,
    command: Command,
    /// Here-documents whose text begins with the next line: the word that ends it, whether tabs are cut off, whether
    /// it is taken as it stands, and the command that reads it.
    waiting: Vec<(String, bool, bool, usize)>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek(0);
        self.at += usize::from(next.is_some());
        next
    }

    /// Goes on if this is what comes next.
    fn take(&mut self, wanted: &str) -> bool {
        let found = wanted.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
        self.at += if found { wanted.chars().count() } else { 0 };
        found
    }

    fn odd(&mut self, what: &'static str) {
        self.line.odd.get_or_insert(what);
    }

    fn read(&mut self) -> Result<(), &'static str> {
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' => self.at += 1,
                '\n' => {
                    self.at += 1;
                    self.finish();
                    self.here_documents();
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '<' | '>' => self.redirect()?,
                '&' if self.peek(1) == Some('>') => self.redirect()?,
                '(' => {
                    if !self.command.words.is_empty() {
                        self.odd("it defines a function or a list");
                    }
                    self.at += 1;
                    self.finish();
                }
                ';' if self.take(";;") => self.odd("it has a case"),
                ';' | '&' | '|' | ')' => {
                    self.at += 1;
                    self.finish();
                }
                _ => self.word_or_number()?,
            }
        }
        self.finish();
        Ok(())
    }

    fn finish(&mut self) {
        let command = std::mem::take(&mut self.command);
        // Also an empty one, so that a here-document finds its command by number.
        self.line.commands.push(command);
    }

    /// A word; a number that stands directly before a redirection belongs to that.
    fn word_or_number(&mut self) -> Result<(), &'static str> {
        let word = self.word()?;
        let number = !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit()) && !word.quoted;
        if !(number && matches!(self.peek(0), Some('<' | '>'))) {
            self.command.words.push(word);
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Word, &'static str> {
        let mut word = Word { sure: true, ..Word::default() };
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    loop {
                        match self.next().ok_or("a quote is not closed")? {
                            '\'' => break,
                            c => word.text.push(c),
                        }
                    }
                }
                '"' => {
                    self.at += 1;
                    self.double(&mut word)?;
                }
                '\\' => {
                    self.at += 1;
                    word.quoted = true;
                    match self.next() {
                        None | Some('\n') => {}
                        Some(c) => word.text.push(c),
                    }
                }
                '$' => self.dollar(&mut word)?,
                '`' => self.backtick(&mut word)?,
                '*' | '?' | '[' | '{' => {
                    self.at += 1;
                    // Alone they are programs or brackets, and mean themselves.
                    let alone = word.text.is_empty() && self.peek(0).is_none_or(char::is_whitespace);
                    let brackets = c == '[' && word.text.is_empty() && self.peek(0) == Some('[');
                    word.sure &= alone || brackets || (c == '[' && word.text == "[");
                    word.text.push(c);
                }
                _ => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
        Ok(word)
    }

    /// The rest of a text in double quotes.
    fn double(&mut self, word: &mut Word) -> Result<(), &'static str> {
        word.quoted = true;
        loop {
            match self.peek(0).ok_or("a quote is not closed")? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '$' => self.dollar(word)?,
                '`' => self.backtick(word)?,
                '\\' if matches!(self.peek(1), Some('$' | '`' | '"' | '\\' | '\n')) => {
                    let escaped = self.peek(1).filter(|c| *c != '\n');
                    self.at += 2;
                    word.text.extend(escaped);
                }
                c => {
                    self.at += 1;
                    word.text.push(c);
                }
            }
        }
    }

    /// Something that begins with a dollar.
    fn dollar(&mut self, word: &mut Word) -> Result<(), &'static str> {
        self.at += 1;
        match self.peek(0) {
            Some('(') => {
                self.at += 1;
                self.substitution(word)?;
            }
            Some('{') => {
                self.at += 1;
                let mut name = String::new();
                loop {
                    match self.next().ok_or("a brace is not closed")? {
                        '}' => break,
                        c => name.push(c),
                    }
                }
                word.sure = false;
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !plain && !matches!(name.as_str(), "@" | "*" | "#" | "?") {
                    self.odd("it computes with a variable");
                }
            }
            Some('\'') => self.odd("it has a text with escapes"),
            Some(c) if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
                word.sure = false;
                self.at += 1;
                if c.is_ascii_alphabetic() || c == '_' {
                    while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                        self.at += 1;
                    }
                }
            }
            _ => word.text.push('$'),
        }
        Ok(())
    }

    /// The rest of `$(…)`, `<(…)` or `>(…)`.
    fn substitution(&mut self, word: &mut Word) -> Result<(), &'static str> {
        let start = self.at;
        let mut depth = 1;
        while depth > 0 {
            match self.next().ok_or("a bracket is not closed")? {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => self.at += 1,
                quote @ ('\'' | '"') => loop {
                    match self.next().ok_or("a quote is not closed")? {
                        '\\' if quote == '"' => self.at += 1,
                        c if c == quote => break,
                        _ => {}
                    }
                },
                _ => {}
            }
        }
        self.inside(start, self.at - 1, word);
        Ok(())
    }

    fn backtick(&mut self, word: &mut Word) -> Result<(), &'static str> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.next().ok_or("a quote is not closed")? {
                '`' => break,
                '\\' => self.at += 1,
                _ => {}
            }
        }
        self.inside(start, self.at - 1, word);
        Ok(())
    }

    /// Notes a command line inside the line.
    fn inside(&mut self, start: usize, end: usize, word: &mut Word) {
        word.sure = false;
        let inner: String = self.chars.get(start..end).unwrap_or_default().iter().collect();
        self.line.inner.push(inner);
        self.odd("it puts the output of one command into another");
    }

    fn redirect(&mut self) -> Result<(), &'static str> {
        if self.take("<(") || self.take(">(") {
            let mut word = Word::default();
            self.substitution(&mut word)?;
            self.command.words.push(word);
            return Ok(());
        }
        if self.take("<<<") {
            let word = self.target()?;
            self.command.here = Some(word.text);
            return Ok(());
        }
        if self.take("<<") {
            let tabs = self.take("-");
            let end = self.target()?;
            self.waiting.push((end.text, tabs, end.quoted, self.line.commands.len()));
            return Ok(());
        }
        let kind = if self.take("&>>") || self.take(">>") {
            Redirect::Append
        } else if self.take(">&") || self.take("<&") {
            // Of a number or a dash it is a copy of a stream; of a name it is a file.
            let copy = self.peek(0).is_some_and(|c| c.is_ascii_digit() || c == '-');
            if copy { Redirect::Read } else { Redirect::Over }
        } else if self.take("&>") || self.take(">|") || self.take(">") {
            Redirect::Over
        } else if self.take("<>") {
            Redirect::Append
        } else {
            self.at += 1;
            Redirect::Read
        };
        let target = self.target()?;
        self.command.redirects.push((kind, target));
        Ok(())
    }

    /// The word after a redirection.
    fn target(&mut self) -> Result<Word, &'static str> {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        if self.peek(0).is_none_or(|c| "\n;&|()<>".contains(c)) {
            return Err("a redirection has no target");
        }
        self.word()
    }

    /// Reads the texts of the here-documents that were announced on the line before.
    fn here_documents(&mut self) {
        for (end, tabs, verbatim, command) in std::mem::take(&mut self.waiting) {
            let mut text = String::new();
            while self.peek(0).is_some() {
                let mut line = String::new();
                while let Some(c) = self.next().filter(|c| *c != '\n') {
                    line.push(c);
                }
                let bare = if tabs { line.trim_start_matches('\t') } else { &line };
                if bare == end {
                    break;
                }
                text.push_str(bare);
                text.push('\n');
            }
            if !verbatim {
                self.expansions(&text);
            }
            if let Some(command) = self.line.commands.get_mut(command) {
                command.here = Some(text);
            }
        }
    }

    /// Notes the substitutions in a here-document, which is read like a text in double quotes.
    fn expansions(&mut self, text: &str) {
        let quoted: String = format!("{}\"", text.replace('"', "\\\""));
        let mut reader = Reader { chars: quoted.chars().collect(), ..Reader::default() };
        if reader.double(&mut Word::default()).is_err() {
            self.odd("it has a here-document that cannot be read");
        }
        self.line.inner.append(&mut reader.line.inner);
        if let Some(odd) = reader.line.odd {
            self.odd(odd);
        }
    }
}
