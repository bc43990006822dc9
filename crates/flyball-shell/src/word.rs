//! Words of a command, with the part of their text that is known before it runs.

/// A word of a command, without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellWord {
    /// The text, without parts that are known only at run time.
    pub text: String,
    /// Whether the program receives exactly this text as one argument.
    pub literal: bool,
    /// Whether part of it was quoted.
    pub quoted: bool,
    /// Whether it may expand to any number of arguments with any text: an unquoted variable or substitution.
    pub splits: bool,
    /// The known text before the first unknown part.
    pub(crate) head: String,
    /// The known text after the last unknown part.
    pub(crate) tail: String,
}

impl ShellWord {
    /// A word with exactly this text.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        ShellWord { text: text.to_owned(), literal: true, head: text.to_owned(), ..ShellWord::default() }
    }

    /// Any number of unknown arguments.
    #[must_use]
    pub fn unknown() -> Self {
        ShellWord { splits: true, ..ShellWord::default() }
    }

    /// The text, if it is known.
    #[must_use]
    pub fn known(&self) -> Option<&str> {
        self.literal.then_some(self.text.as_str())
    }

    /// Whether a program could treat it as an option.
    #[must_use]
    pub fn may_be_option(&self) -> bool {
        if self.literal {
            self.text.starts_with('-') && self.text != "-"
        } else {
            self.splits || self.head.is_empty() || self.head.starts_with('-')
        }
    }

    /// Whether the program could receive exactly this text.
    #[must_use]
    pub fn may_equal(&self, text: &str) -> bool {
        if self.literal {
            return self.text == text;
        }
        self.splits
            || (text.len() >= self.head.len() + self.tail.len()
                && text.starts_with(&self.head)
                && text.ends_with(&self.tail))
    }

    /// The word after a program has replaced `mark` in it with unknown text, as one argument.
    pub(crate) fn with_placeholder(&self, mark: &str) -> ShellWord {
        match (self.text.split_once(mark), self.text.rsplit_once(mark)) {
            (Some((head, _)), Some((_, tail))) if !mark.is_empty() => {
                ShellWord { literal: false, head: head.to_owned(), tail: tail.to_owned(), ..self.clone() }
            }
            _ => self.clone(),
        }
    }
}

/// Builds a word from literal text and unknown parts.
#[derive(Debug, Default)]
pub(crate) struct ShellWordBuilder {
    word: ShellWord,
    unknown: bool,
    /// Whether a bracket pattern has started; its end is not tracked, so no later text counts as known.
    bracket: bool,
}

impl ShellWordBuilder {
    pub(crate) fn push(&mut self, c: char) {
        self.word.text.push(c);
        if !self.unknown {
            self.word.head.push(c);
        } else if !self.bracket {
            self.word.tail.push(c);
        }
    }

    pub(crate) fn push_bracket_pattern(&mut self) {
        self.push_unknown(false);
        self.bracket = true;
    }

    /// Adds a part whose text is known only at run time.
    pub(crate) fn push_unknown(&mut self, splits: bool) {
        self.unknown = true;
        self.word.tail.clear();
        self.word.splits |= splits;
    }

    pub(crate) fn set_quoted(&mut self) {
        self.word.quoted = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.word.text.is_empty() && !self.unknown
    }

    pub(crate) fn finish(mut self) -> ShellWord {
        self.word.literal = !self.unknown;
        self.word
    }
}
