//! Splits an answer into clauses, and each clause into known phrases.
//!
//! People answer with curly quotes, emoji, missing accents, elongated words and stray marks. All of that is normalized
//! here, so that the rules in `answer.rs` see only senses. An unknown symbol, and everything inside quotation marks,
//! becomes an unknown word: it can invalidate a `yes`, but never create one.

use super::lexicon::{EMOJI, SINGLE_LETTERS, Sense, WORDS_AFTER_CONDITIONAL_SI, longest_phrase};

/// A word with this many equal letters in a row is treated as elongated: "yesss", "нееет".
const MIN_ELONGATION: usize = 3;

/// Symbols from here on are pictographs (dingbats, emoji), not marks that could negate a word.
const FIRST_PICTOGRAPH: char = '\u{2600}';

/// A part of the answer between punctuation marks. `None` is an unknown word.
#[derive(Default)]
pub(super) struct Clause {
    pub(super) senses: Vec<Option<Sense>>,
    pub(super) is_question: bool,
}

impl Clause {
    fn unknown() -> Self {
        Self { senses: vec![None], is_question: false }
    }
}

/// A word in its comparison form: lower case, without accents.
struct AnswerWord {
    text: String,
    /// "sí" is a `yes`, "si" may mean "if".
    accented: bool,
}

/// A token of an answer.
enum AnswerToken {
    Word(AnswerWord),
    Emoji(Sense),
    /// An unknown symbol or quotation: it invalidates a `yes`.
    Unknown,
    /// An unknown pictograph: also invalidates a `yes`, but does not affect the words next to it.
    UnknownEmoji,
    /// Punctuation that ends a clause.
    ClauseBreak,
    /// A question mark at the end of a clause.
    QuestionMark,
    /// A question mark at the start of a clause.
    InvertedQuestionMark,
}

/// The non-empty clauses of `text`.
pub(super) fn split_clauses(text: &str) -> Vec<Clause> {
    let pieces = tokenize(text);
    if let Some(sense) = single_letter_sense(&pieces) {
        return vec![Clause { senses: vec![Some(sense)], is_question: pieces.iter().any(is_question_mark) }];
    }
    let mut clauses = Vec::new();
    let mut current = Clause::default();
    let mut run: Vec<AnswerWord> = Vec::new();
    for piece in pieces {
        if let AnswerToken::Word(word) = piece {
            run.push(word);
            continue;
        }
        match_phrases(&mut run, &mut current.senses);
        match piece {
            AnswerToken::Emoji(sense) => current.senses.push(Some(sense)),
            AnswerToken::Unknown | AnswerToken::Word(_) => current.senses.push(None),
            AnswerToken::UnknownEmoji
            | AnswerToken::ClauseBreak
            | AnswerToken::QuestionMark
            | AnswerToken::InvertedQuestionMark => {
                current.is_question |= matches!(piece, AnswerToken::QuestionMark);
                end_clause(&mut clauses, std::mem::take(&mut current));
                if matches!(piece, AnswerToken::UnknownEmoji) {
                    clauses.push(Clause::unknown());
                }
                current.is_question = matches!(piece, AnswerToken::InvertedQuestionMark);
            }
        }
    }
    match_phrases(&mut run, &mut current.senses);
    end_clause(&mut clauses, current);
    clauses
}

/// The words of `text` outside quotation marks, in comparison form.
pub(super) fn folded_words(text: &str) -> impl Iterator<Item = String> {
    tokenize(text).into_iter().filter_map(|piece| match piece {
        AnswerToken::Word(word) => Some(word.text),
        _ => None,
    })
}

/// Adds a clause; a lone question mark belongs to the previous clause ("yes !?").
fn end_clause(clauses: &mut Vec<Clause>, clause: Clause) {
    match clauses.last_mut() {
        Some(last) if clause.senses.is_empty() => last.is_question |= clause.is_question,
        _ if clause.senses.is_empty() && !clause.is_question => {}
        _ => clauses.push(clause),
    }
}

fn is_question_mark(piece: &AnswerToken) -> bool {
    matches!(piece, AnswerToken::QuestionMark | AnswerToken::InvertedQuestionMark)
}

/// The sense of an answer that consists of a single letter.
fn single_letter_sense(pieces: &[AnswerToken]) -> Option<Sense> {
    let mut spoken =
        pieces.iter().filter(|piece| !is_question_mark(piece) && !matches!(piece, AnswerToken::ClauseBreak));
    let (Some(AnswerToken::Word(word)), None) = (spoken.next(), spoken.next()) else {
        return None;
    };
    SINGLE_LETTERS.iter().find(|(letter, _)| *letter == word.text).map(|(_, sense)| *sense)
}

/// Converts adjacent words to the senses of the longest matching phrases.
fn match_phrases(run: &mut Vec<AnswerWord>, senses: &mut Vec<Option<Sense>>) {
    let words: Vec<&str> = run.iter().map(|word| word.text.as_str()).collect();
    let mut rest = words.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let found = longest_phrase(rest);
        let taken = found.map_or(1, |(taken, _)| taken.max(1));
        let bare_si = *first == "si"
            && taken == 1
            && run.get(words.len() - rest.len()).is_some_and(|word| !word.accented);
        senses.push(match found {
            // Unaccented "si" before anything but agreement means "if".
            Some(_) if bare_si && !after.is_empty() && !continues_yes(after) => None,
            other => other.map(|(_, sense)| sense),
        });
        rest = rest.get(taken..).unwrap_or_default();
    }
    run.clear();
}

fn continues_yes(words: &[&str]) -> bool {
    let conditional = words.first().is_some_and(|word| WORDS_AFTER_CONDITIONAL_SI.contains(word));
    !conditional
        && longest_phrase(words).is_some_and(|(_, sense)| {
            matches!(sense, Sense::Yes | Sense::Okay | Sense::Polite | Sense::But | Sense::No)
        })
}

fn tokenize(text: &str) -> Vec<AnswerToken> {
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    let mut pieces = Vec::new();
    let mut word = AnswerWordBuilder::default();
    let mut quoted = false;
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(at + 1).copied().unwrap_or(' ');
        let inside_word = before.is_alphanumeric() && after.is_alphanumeric();
        if is_quote(c) && !(is_apostrophe(c) && inside_word) {
            word.finish(&mut pieces);
            quoted = !quoted;
            pieces.push(AnswerToken::Unknown);
        } else if quoted || is_apostrophe(c) || is_invisible(c) {
            // Quoted text is not the speaker's own answer.
        } else if c.is_alphanumeric() || is_combining(c) {
            word.push(c);
        } else {
            word.finish(&mut pieces);
            if let Some(piece) = classify_symbol(c, before, after) {
                pieces.push(piece);
            }
        }
    }
    word.finish(&mut pieces);
    pieces
}

fn classify_symbol(c: char, before: char, after: char) -> Option<AnswerToken> {
    let is_picture = c >= FIRST_PICTOGRAPH;
    let unknown = if is_picture { AnswerToken::UnknownEmoji } else { AnswerToken::Unknown };
    match c {
        '?' | '？' | '؟' | '‽' | '⁇' | '⁈' | '⁉' | '❓' | '❔' => Some(AnswerToken::QuestionMark),
        '¿' => Some(AnswerToken::InvertedQuestionMark),
        // "!yes" is a programmer's "not yes".
        '!' if !before.is_alphanumeric() && after.is_alphanumeric() => Some(AnswerToken::Unknown),
        ',' | '.' | '!' | '¡' | ';' | ':' | '…' | '—' | '–' | '(' | ')' | '[' | ']' | '\n' | '\r' | '、'
        | '，' | '。' | '！' => Some(AnswerToken::ClauseBreak),
        '-' if before.is_whitespace() && after.is_whitespace() => Some(AnswerToken::ClauseBreak),
        '-' | '/' | '*' | '_' => None,
        _ if c.is_whitespace() || c.is_control() => None,
        _ => Some(
            EMOJI
                .iter()
                .find(|(sign, _)| *sign == c)
                .map_or(unknown, |(_, sense)| AnswerToken::Emoji(*sense)),
        ),
    }
}

/// Marks that open or close a quotation, besides apostrophes outside a word.
const QUOTES: &str = "\"“”„‟«»‹›‚‘`″＂";

fn is_quote(c: char) -> bool {
    is_apostrophe(c) || QUOTES.contains(c)
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | 'ʼ' | '‛' | '′')
}

/// Characters that only modify their neighbor: joiners, variation selectors, skin tones, gender signs of an emoji.
/// Excludes direction overrides, which can change how a text looks.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{00ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe0e}' | '\u{fe0f}' | '\u{feff}')
        || matches!(c, '\u{1f3fb}'..='\u{1f3ff}' | '\u{2640}' | '\u{2642}')
}

/// Whether a character is a combining accent. Excludes strokes through a letter, which cross the word out.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{0333}' | '\u{0339}'..='\u{036f}')
}

#[derive(Default)]
struct AnswerWordBuilder {
    text: String,
    accented: bool,
}

impl AnswerWordBuilder {
    fn push(&mut self, c: char) {
        let folded = match c {
            'á' | 'à' | 'â' | 'ä' | 'ã' => 'a',
            'é' | 'è' | 'ê' | 'ë' => 'e',
            'í' | 'ì' | 'î' | 'ï' => 'i',
            'ó' | 'ò' | 'ô' | 'ö' | 'õ' => 'o',
            'ú' | 'ù' | 'û' | 'ü' => 'u',
            'ñ' => 'n',
            'ё' => 'е',
            // A decomposed "й" is a separate letter, not an accented "и".
            '\u{0306}' if self.text.ends_with('и') => {
                self.text.pop();
                'й'
            }
            _ if is_combining(c) => {
                self.accented = true;
                return;
            }
            other => other,
        };
        self.accented |= folded != c;
        self.text.push(folded);
    }

    fn finish(&mut self, pieces: &mut Vec<AnswerToken>) {
        let word = std::mem::take(self);
        if !word.text.is_empty() {
            pieces.push(AnswerToken::Word(AnswerWord {
                text: collapse_elongation(&word.text),
                accented: word.accented,
            }));
        }
    }
}

/// Collapses elongated letters: "yesss" becomes "yes".
fn collapse_elongation(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(letter) = rest.chars().next() {
        let tail = rest.trim_start_matches(letter);
        let run = (rest.len() - tail.len()) / letter.len_utf8();
        let kept = if run >= MIN_ELONGATION && letter.is_alphabetic() { 1 } else { run };
        text.extend(std::iter::repeat_n(letter, kept));
        rest = tail;
    }
    text
}
