//! What a person's answer to a confirmation means.
//!
//! A destructive plan runs on a yes, so the reader is built to miss a yes rather than to invent
//! one. Searching for "да" inside the text once made "Скинь полный список задач." a yes; here only
//! whole words count, a yes must consist of known words from start to end, and any sign of refusal,
//! doubt, condition, question or quotation takes the yes away. What is not understood is
//! [`Answer::Unclear`], which asks again and runs nothing.
//!
//! The text is cut into clauses of known phrases (`clauses.rs`, `words.rs`); the rules here look
//! only at the senses of those phrases.

use super::clauses::{Clause, clauses_of, words_of};
use super::words::{DOUBT, Sense, language_of_word};
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

/// An answer is short. A longer text is not read at all and is [`Answer::Unclear`].
pub(super) const MAX_ANSWER_CHARS: usize = 200;

/// A yes of more phrases than this is talk, not an answer.
pub(super) const MAX_YES_PHRASES: usize = 6;

/// [`language_of`] looks at no more than this many characters.
pub(super) const MAX_LANGUAGE_CHARS: usize = 1_000;

/// What an answer in words means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A clear yes, without question, condition or limit.
    Yes,
    /// A clear no.
    No,
    /// The whole request is taken back.
    Cancel,
    /// The plan is wanted in another form ("yes, but …" included).
    Change,
    /// Anything else. It never counts as a yes.
    Unclear,
}

/// A language that answers are understood in and sentences are written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}

/// Understands a short answer in English, Russian or Spanish by whole words, with negation;
/// anything else is [`Answer::Unclear`], never [`Answer::Yes`].
pub fn understand(text: &str) -> Answer {
    if text.chars().nth(MAX_ANSWER_CHARS).is_some() {
        return Answer::Unclear;
    }
    let clauses = clauses_of(text);
    if takes_back(&clauses) {
        Answer::Cancel
    } else if wants_change(&clauses) {
        Answer::Change
    } else if opens_with_no(&clauses) {
        Answer::No
    } else if is_plain_yes(&clauses) {
        Answer::Yes
    } else {
        Answer::Unclear
    }
}

/// Whether a text replies to a yes-or-no question, clearly or not. What has no word of an answer in it is something
/// else: a new request, for example.
pub(crate) fn is_reply(text: &str) -> bool {
    use Sense::{Cancel, Hold, No, Not, Okay, Vague, Yes};
    if text.chars().nth(MAX_ANSWER_CHARS).is_some() {
        return false;
    }
    let replies = |sense: &Option<Sense>| is_in(*sense, &[Yes, Okay, No, Not, Cancel, Hold, Vague]);
    hesitates(text) || clauses_of(text).iter().any(|clause| clause.senses.iter().any(replies))
}

/// Whether a text has no words but those of doubt: "hmm", "maybe", "…".
fn hesitates(text: &str) -> bool {
    let once = |word: String| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.dedup();
        letters.into_iter().collect::<String>()
    };
    words_of(text).map(once).all(|word| DOUBT.contains(&word.as_str()))
}

/// Guesses the language of a text by script and telling words; `None` if it cannot tell.
pub fn language_of(text: &str) -> Option<Language> {
    let start: String = text.chars().take(MAX_LANGUAGE_CHARS).collect();
    let (mut english, mut russian, mut spanish) = (0_usize, 0_usize, 0_usize);
    if start.contains(['¿', '¡', 'ñ', 'Ñ']) {
        spanish += 1;
    }
    for word in words_of(&start) {
        if word.chars().any(is_cyrillic) {
            // A letter that Russian lacks means a neighbour language, which is not ours to guess.
            if word.chars().any(|c| is_cyrillic(c) && !('а'..='я').contains(&c)) {
                return None;
            }
            russian += 1;
            continue;
        }
        match language_of_word(&word) {
            Some(Language::En) => english += 1,
            Some(Language::Es) => spanish += 1,
            _ => {}
        }
    }
    if russian > english + spanish {
        Some(Language::Ru)
    } else if english > russian + spanish {
        Some(Language::En)
    } else if spanish > russian + english {
        Some(Language::Es)
    } else {
        None
    }
}

fn is_cyrillic(c: char) -> bool {
    ('\u{0400}'..='\u{052f}').contains(&c)
}

fn all_in(senses: &[Option<Sense>], allowed: &[Sense]) -> bool {
    senses.iter().all(|sense| is_in(*sense, allowed))
}

fn is_in(sense: Option<Sense>, allowed: &[Sense]) -> bool {
    sense.is_some_and(|sense| allowed.contains(&sense))
}

/// The senses from the first one that is not a mere opening, found behind openings of whole
/// clauses and of words; `None` if that place is a question and not a polite request.
fn main_part<'a>(
    clauses: &'a [Clause],
    clause_openings: &[Sense],
    word_openings: &[Sense],
) -> Option<&'a [Option<Sense>]> {
    let at = clauses.iter().position(|clause| !all_in(&clause.senses, clause_openings))?;
    let clause = clauses.get(at)?;
    let start = clause.senses.iter().position(|sense| !is_in(*sense, word_openings))?;
    let (opening, rest) = clause.senses.split_at_checked(start)?;
    let requested = opening.contains(&Some(Sense::Request));
    let asked = clauses.iter().take(at + 1).any(|clause| clause.asks);
    (requested || !asked).then_some(rest)
}

/// "Cancel", "ok, stop", "can you cancel it?". A real yes beside it makes it unclear, because
/// "yes, cancel" may confirm a plan that cancels something.
fn takes_back(clauses: &[Clause]) -> bool {
    use Sense::{Act, Cancel, Halt, Hold, No, Okay, Polite, Request, Thing, Wish, Yes};
    if clauses.iter().any(|clause| clause.senses.contains(&Some(Yes))) {
        return false;
    }
    let openings = [Polite, Wish, Request, Okay, Hold];
    let Some(rest) = main_part(clauses, &[Polite, Okay, No, Hold], &openings) else {
        return false;
    };
    match rest.split_first() {
        Some((Some(Cancel), _)) => true,
        Some((Some(Halt), after)) => all_in(after, &[Polite, Thing, Act]),
        _ => false,
    }
}

/// "Change the date", "I want to edit it", "the other one instead", "yes, but …".
fn wants_change(clauses: &[Clause]) -> bool {
    use Sense::{But, Change, Hold, Instead, No, Okay, Polite, Request, Wish, Yes};
    let asks = clauses.iter().any(|clause| clause.asks);
    let instead = clauses.iter().any(|clause| clause.senses.contains(&Some(Instead)));
    if instead && !asks {
        return true;
    }
    let openings = [Polite, Wish, Request, Okay, Yes, Hold, But];
    let rest = main_part(clauses, &[Polite, Okay, Yes, No, Hold], &openings);
    let starts_with_change = matches!(rest.and_then(<[_]>::first), Some(Some(Change)));
    starts_with_change || (!asks && is_yes_with_limit(clauses))
}

/// "Yes, but only the first". "Yes, but no" limits nothing and stays unclear.
fn is_yes_with_limit(clauses: &[Clause]) -> bool {
    use Sense::{Act, But, Cancel, Okay, Polite, Thing, Yes};
    let senses: Vec<Option<Sense>> =
        clauses.iter().flat_map(|clause| clause.senses.iter().copied()).collect();
    let Some(at) = senses.iter().position(|sense| *sense == Some(But)) else {
        return false;
    };
    let Some((before, after)) = senses.split_at_checked(at) else {
        return false;
    };
    let agreed = before.iter().any(|sense| is_in(*sense, &[Yes, Okay]));
    agreed
        && all_in(before, &[Yes, Okay, Polite, Act, Thing])
        && !after.contains(&Some(Cancel))
        && !is_clear_no(after)
}

/// "No", "please don't", and "no, …" whatever follows: to stop by mistake is cheap.
fn opens_with_no(clauses: &[Clause]) -> bool {
    use Sense::{Hold, Polite};
    clauses
        .iter()
        .find(|clause| clause.asks || !all_in(&clause.senses, &[Polite, Hold]))
        .is_some_and(|clause| !clause.asks && is_clear_no(&clause.senses))
}

/// A refusal made of known words. After "no I …", "no don't …" the rest may be unknown.
fn is_clear_no(senses: &[Option<Sense>]) -> bool {
    use Sense::{
        Act, But, Cancel, Change, Halt, Hold, Instead, No, Not, Okay, Polite, Request, Thing, Vague, Wish,
        Yes,
    };
    let mut refused = false;
    let mut previous = None;
    for sense in senses.iter().copied() {
        let after_not = previous == Some(Not);
        match sense {
            Some(Yes | Okay) if !after_not => return false,
            Some(Not | No | Hold) if after_not => return false,
            Some(Vague | Cancel | Change | Instead | Request | Halt) => return false,
            Some(No | Not) => refused = true,
            _ => {}
        }
        previous = sense;
    }
    let known = all_in(senses, &[No, Not, Yes, Okay, But, Polite, Thing, Act, Wish, Hold]);
    let start = senses.iter().position(|sense| !is_in(*sense, &[Polite, Hold])).unwrap_or(0);
    let mut opening = senses.iter().skip(start).copied();
    let emphatic = opening.next() == Some(Some(No))
        && opening.next().is_some_and(|next| is_in(next, &[Wish, Not, Hold, No]));
    refused && (known || emphatic)
}

/// Known words from start to end, at least one yes, and nothing that could take it back.
fn is_plain_yes(clauses: &[Clause]) -> bool {
    let mut phrases = 0;
    let mut agreed = false;
    let mut named_act = false;
    for clause in clauses {
        if clause.asks {
            return false;
        }
        for sense in &clause.senses {
            phrases += 1;
            match sense {
                Some(Sense::Yes | Sense::Okay) => agreed = true,
                Some(Sense::Act) => named_act = true,
                Some(Sense::Polite) => {}
                // "this ok" may be a question; "ok, this" is not.
                Some(Sense::Thing) if agreed || named_act => {}
                _ => return false,
            }
        }
    }
    agreed && phrases <= MAX_YES_PHRASES
}
