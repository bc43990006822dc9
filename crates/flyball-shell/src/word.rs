//! Words of a command, as far as their text is known before the command runs.

/// A word of a command, without its quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The text, without the parts that are known only at run time.
    pub text: String,
    /// Whether the program receives exactly this text as one argument.
    pub literal: bool,
    /// Whether a part of it was quoted.
    pub quoted: bool,
    /// Whether it may become any number of arguments with any text: an unquoted variable or substitution.
    pub splits: bool,
    /// The known text before the first unknown part.
    pub(crate) head: String,
    /// The known text after the last unknown part.
    pub(crate) tail: String,
}

impl Word {
    /// A word with exactly this text.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Word { text: text.to_owned(), literal: true, head: text.to_owned(), ..Word::default() }
    }

    /// Arguments that nothing is known about.
    #[must_use]
    pub fn unknown() -> Self {
        Word { splits: true, ..Word::default() }
    }

    /// The text, if it is known.
    #[must_use]
    pub fn known(&self) -> Option<&str> {
        self.literal.then_some(self.text.as_str())
    }

    /// Whether a program could take it for an option.
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

    /// The word after a program has replaced `mark` in it with something unknown, as one argument.
    pub(crate) fn with_placeholder(&self, mark: &str) -> Word {
        match (self.text.split_once(mark), self.text.rsplit_once(mark)) {
            (Some((head, _)), Some((_, tail))) if !mark.is_empty() => {
                Word { literal: false, head: head.to_owned(), tail: tail.to_owned(), ..self.clone() }
            }
            _ => self.clone(),
        }
    }
}

/// Builds a word from literal text and unknown parts.
#[derive(Debug, Default)]
pub(crate) struct WordBuilder {
    word: Word,
    unknown: bool,
    /// A bracket pattern has begun; where it ends is not tracked, so no later text counts as known.
    bracket: bool,
}

impl WordBuilder {
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

    /// A part whose text is known only at run time.
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

    pub(crate) fn finish(mut self) -> Word {
        self.word.literal = !self.unknown;
        self.word
    }
}
