//! Cuts an answer into clauses and each clause into known phrases.
//!
//! People answer with curly quotes, emoji, missing accents, drawn-out words and stray marks. All of
//! that is settled here, once, so that the rules in `answer.rs` see nothing but senses. A sign that
//! is not known, and everything inside quotation marks, becomes an unknown word: it can spoil a
//! yes, never make one.

use super::words::{AFTER_IF, LONE_LETTERS, SIGNS, Sense, longest_phrase};

/// From this many equal letters in a row on, a word is taken as drawn out: "yesss", "нееет".
const DRAWN_OUT: usize = 3;

/// Signs from here on are pictures (dingbats, emoji), not marks that could turn a word round.
const FIRST_PICTURE: char = '\u{2600}';

/// A part of the answer between punctuation marks. `None` is a word that is not known.
#[derive(Default)]
pub(super) struct Clause {
    pub(super) senses: Vec<Option<Sense>>,
    pub(super) asks: bool,
}

impl Clause {
    fn unknown() -> Self {
        Self { senses: vec![None], asks: false }
    }
}

/// A word as it is compared: lower case, without accents.
struct Word {
    text: String,
    /// "sí" is a yes, "si" may be an "if".
    accented: bool,
}

/// What the characters of a text amount to.
enum Piece {
    Word(Word),
    Sign(Sense),
    /// A sign or a quotation that is not known: it takes a yes away.
    Unknown,
    /// A picture that is not known: the same, but the words beside it stand for themselves.
    Aside,
    /// Punctuation that ends a clause.
    Break,
    /// A question mark at the end of a clause.
    Asks,
    /// A question mark at the start of a clause.
    OpensQuestion,
}

/// The clauses of `text` that say something.
pub(super) fn clauses_of(text: &str) -> Vec<Clause> {
    let pieces = pieces_of(text);
    if let Some(sense) = lone_letter(&pieces) {
        return vec![Clause { senses: vec![Some(sense)], asks: pieces.iter().any(is_question) }];
    }
    let mut clauses = Vec::new();
    let mut current = Clause::default();
    let mut run: Vec<Word> = Vec::new();
    for piece in pieces {
        if let Piece::Word(word) = piece {
            run.push(word);
            continue;
        }
        read_run(&mut run, &mut current.senses);
        match piece {
            Piece::Sign(sense) => current.senses.push(Some(sense)),
            Piece::Unknown | Piece::Word(_) => current.senses.push(None),
            Piece::Aside | Piece::Break | Piece::Asks | Piece::OpensQuestion => {
                current.asks |= matches!(piece, Piece::Asks);
                end_clause(&mut clauses, std::mem::take(&mut current));
                if matches!(piece, Piece::Aside) {
                    clauses.push(Clause::unknown());
                }
                current.asks = matches!(piece, Piece::OpensQuestion);
            }
        }
    }
    read_run(&mut run, &mut current.senses);
    end_clause(&mut clauses, current);
    clauses
}

/// The words of `text` outside quotation marks, folded for comparison.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = String> {
    pieces_of(text).into_iter().filter_map(|piece| match piece {
        Piece::Word(word) => Some(word.text),
        _ => None,
    })
}

/// Keeps a clause; a question mark on its own belongs to the clause before it ("yes !?").
fn end_clause(clauses: &mut Vec<Clause>, clause: Clause) {
    match clauses.last_mut() {
        Some(last) if clause.senses.is_empty() => last.asks |= clause.asks,
        _ if clause.senses.is_empty() && !clause.asks => {}
        _ => clauses.push(clause),
    }
}

fn is_question(piece: &Piece) -> bool {
    matches!(piece, Piece::Asks | Piece::OpensQuestion)
}

/// The sense of an answer that is one letter and nothing else.
fn lone_letter(pieces: &[Piece]) -> Option<Sense> {
    let mut spoken = pieces.iter().filter(|piece| !is_question(piece) && !matches!(piece, Piece::Break));
    let (Some(Piece::Word(word)), None) = (spoken.next(), spoken.next()) else {
        return None;
    };
    LONE_LETTERS.iter().find(|(letter, _)| *letter == word.text).map(|(_, sense)| *sense)
}

/// Turns words that stand together into the senses of the longest phrases among them.
fn read_run(run: &mut Vec<Word>, senses: &mut Vec<Option<Sense>>) {
    let words: Vec<&str> = run.iter().map(|word| word.text.as_str()).collect();
    let mut rest = words.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let found = longest_phrase(rest);
        let taken = found.map_or(1, |(taken, _)| taken.max(1));
        let bare_si = *first == "si"
            && taken == 1
            && run.get(words.len() - rest.len()).is_some_and(|word| !word.accented);
        senses.push(match found {
            // Unaccented "si" before anything but agreement is an "if".
            Some(_) if bare_si && !after.is_empty() && !continues_yes(after) => None,
            other => other.map(|(_, sense)| sense),
        });
        rest = rest.get(taken..).unwrap_or_default();
    }
    run.clear();
}

fn continues_yes(words: &[&str]) -> bool {
    let conditional = words.first().is_some_and(|word| AFTER_IF.contains(word));
    !conditional
        && longest_phrase(words).is_some_and(|(_, sense)| {
            matches!(sense, Sense::Yes | Sense::Okay | Sense::Polite | Sense::But | Sense::No)
        })
}

fn pieces_of(text: &str) -> Vec<Piece> {
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    let mut pieces = Vec::new();
    let mut word = WordBuilder::default();
    let mut quoted = false;
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(at + 1).copied().unwrap_or(' ');
        let inside_word = before.is_alphanumeric() && after.is_alphanumeric();
        if is_quote(c) && !(is_apostrophe(c) && inside_word) {
            word.finish(&mut pieces);
            quoted = !quoted;
            pieces.push(Piece::Unknown);
        } else if quoted || is_apostrophe(c) || is_invisible(c) {
            // A quotation is somebody else's word, whatever it says.
        } else if c.is_alphanumeric() || is_combining(c) {
            word.push(c);
        } else {
            word.finish(&mut pieces);
            if let Some(piece) = piece_of_sign(c, before, after) {
                pieces.push(piece);
            }
        }
    }
    word.finish(&mut pieces);
    pieces
}

fn piece_of_sign(c: char, before: char, after: char) -> Option<Piece> {
    let is_picture = c >= FIRST_PICTURE;
    let unknown = if is_picture { Piece::Aside } else { Piece::Unknown };
    match c {
        '?' | '？' | '؟' | '‽' | '⁇' | '⁈' | '⁉' | '❓' | '❔' => Some(Piece::Asks),
        '¿' => Some(Piece::OpensQuestion),
        // "!yes" is a programmer's "not yes".
        '!' if !before.is_alphanumeric() && after.is_alphanumeric() => Some(Piece::Unknown),
        ',' | '.' | '!' | '¡' | ';' | ':' | '…' | '—' | '–' | '(' | ')' | '[' | ']' | '\n' | '\r' | '、'
        | '，' | '。' | '！' => Some(Piece::Break),
        '-' if before.is_whitespace() && after.is_whitespace() => Some(Piece::Break),
        '-' | '/' | '*' | '_' => None,
        _ if c.is_whitespace() || c.is_control() => None,
        _ => {
            Some(SIGNS.iter().find(|(sign, _)| *sign == c).map_or(unknown, |(_, sense)| Piece::Sign(*sense)))
        }
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

/// Characters that only shape their neighbour: joiners, variation selectors, skin tones, gender
/// signs of an emoji. Direction overrides are not among them: they can make a text look different.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{00ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe0e}' | '\u{fe0f}' | '\u{feff}')
        || matches!(c, '\u{1f3fb}'..='\u{1f3ff}' | '\u{2640}' | '\u{2642}')
}

/// Accents that stand apart from their letter. A stroke through the letter is none: it crosses the
/// word out.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{0333}' | '\u{0339}'..='\u{036f}')
}

#[derive(Default)]
struct WordBuilder {
    text: String,
    accented: bool,
}

impl WordBuilder {
    fn push(&mut self, c: char) {
        let folded = match c {
            'á' | 'à' | 'â' | 'ä' | 'ã' => 'a',
            'é' | 'è' | 'ê' | 'ë' => 'e',
            'í' | 'ì' | 'î' | 'ï' => 'i',
            'ó' | 'ò' | 'ô' | 'ö' | 'õ' => 'o',
            'ú' | 'ù' | 'û' | 'ü' => 'u',
            'ñ' => 'n',
            'ё' => 'е',
            // A decomposed "й" is a letter of its own, not an accented "и".
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

    fn finish(&mut self, pieces: &mut Vec<Piece>) {
        let word = std::mem::take(self);
        if !word.text.is_empty() {
            pieces.push(Piece::Word(Word { text: draw_in(&word.text), accented: word.accented }));
        }
    }
}

/// "yesss" is "yes": a run of three equal letters or more is one letter.
fn draw_in(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(letter) = rest.chars().next() {
        let tail = rest.trim_start_matches(letter);
        let run = (rest.len() - tail.len()) / letter.len_utf8();
        let kept = if run >= DRAWN_OUT && letter.is_alphabetic() { 1 } else { run };
        text.extend(std::iter::repeat_n(letter, kept));
        rest = tail;
    }
    text
}
