//! Meaning of a person's answer to a confirmation.
//!
//! A destructive plan runs after a `yes`, so the classifier prefers to miss a `yes` over inventing one. A substring
//! search for "да" once read "Скинь полный список задач." as a `yes`. Here only whole words count, a `yes` must consist
//! of known words from start to end, and any sign of refusal, doubt, condition, question or quotation cancels it.
//! Anything else is [`ConfirmationAnswer::Unclear`], which asks again and runs nothing.
//!
//! The text is split into clauses of known phrases (`clauses.rs`, `lexicon.rs`); the rules here use only the senses of
//! those phrases.

use super::clauses::{Clause, folded_words, split_clauses};
use super::lexicon::{HESITATION_WORDS, Sense, detect_word_language};
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

/// Maximum length of an answer. A longer text is not read and is [`ConfirmationAnswer::Unclear`].
pub(super) const MAX_ANSWER_CHARS: usize = 200;

/// Maximum number of phrases in a `yes`; more is conversation, not an answer.
pub(super) const MAX_YES_PHRASES: usize = 6;

/// Maximum number of characters that [`detect_language`] reads.
pub(super) const MAX_LANGUAGE_CHARS: usize = 1_000;

/// Meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationAnswer {
    /// A clear yes, without question, condition or restriction.
    Yes,
    /// A clear no.
    No,
    /// The whole request is withdrawn.
    Cancel,
    /// A different version of the plan is wanted ("yes, but …" included).
    Change,
    /// Anything else. Never counts as a `yes`.
    Unclear,
}

/// A language in which answers are understood and messages are written.
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

/// Classifies a short answer in English, Russian or Spanish by whole words, with negation. Anything else is
/// [`ConfirmationAnswer::Unclear`], never [`ConfirmationAnswer::Yes`].
pub fn classify_answer(text: &str) -> ConfirmationAnswer {
    if text.chars().nth(MAX_ANSWER_CHARS).is_some() {
        return ConfirmationAnswer::Unclear;
    }
    let clauses = split_clauses(text);
    if is_cancel(&clauses) {
        ConfirmationAnswer::Cancel
    } else if is_change(&clauses) {
        ConfirmationAnswer::Change
    } else if is_no(&clauses) {
        ConfirmationAnswer::No
    } else if is_yes(&clauses) {
        ConfirmationAnswer::Yes
    } else {
        ConfirmationAnswer::Unclear
    }
}

/// Whether a text replies to a question that expects yes or no, clearly or not. A text without any answer word is
/// something else, for example a new request.
pub(crate) fn is_reply(text: &str) -> bool {
    use Sense::{Cancel, Hold, No, Not, Okay, Vague, Yes};
    if text.chars().nth(MAX_ANSWER_CHARS).is_some() {
        return false;
    }
    let replies = |sense: &Option<Sense>| is_in(*sense, &[Yes, Okay, No, Not, Cancel, Hold, Vague]);
    is_hesitation(text) || split_clauses(text).iter().any(|clause| clause.senses.iter().any(replies))
}

/// Whether a text consists only of words of doubt: "hmm", "maybe", "…".
fn is_hesitation(text: &str) -> bool {
    let once = |word: String| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.dedup();
        letters.into_iter().collect::<String>()
    };
    folded_words(text).map(once).all(|word| HESITATION_WORDS.contains(&word.as_str()))
}

/// Guesses the language of a text by script and marker words; `None` if unknown.
pub fn detect_language(text: &str) -> Option<Language> {
    let start: String = text.chars().take(MAX_LANGUAGE_CHARS).collect();
    let (mut english, mut russian, mut spanish) = (0_usize, 0_usize, 0_usize);
    if start.contains(['¿', '¡', 'ñ', 'Ñ']) {
        spanish += 1;
    }
    for word in folded_words(&start) {
        if word.chars().any(is_cyrillic) {
            // A letter that Russian lacks indicates a related language, which is not supported.
            if word.chars().any(|c| is_cyrillic(c) && !('а'..='я').contains(&c)) {
                return None;
            }
            russian += 1;
            continue;
        }
        match detect_word_language(&word) {
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

/// The senses after leading openers (whole clauses and words); `None` if that clause is a question and not a polite
/// request.
fn skip_openings<'a>(
    clauses: &'a [Clause],
    clause_openings: &[Sense],
    word_openings: &[Sense],
) -> Option<&'a [Option<Sense>]> {
    let at = clauses.iter().position(|clause| !all_in(&clause.senses, clause_openings))?;
    let clause = clauses.get(at)?;
    let start = clause.senses.iter().position(|sense| !is_in(*sense, word_openings))?;
    let (opening, rest) = clause.senses.split_at_checked(start)?;
    let requested = opening.contains(&Some(Sense::Request));
    let asked = clauses.iter().take(at + 1).any(|clause| clause.is_question);
    (requested || !asked).then_some(rest)
}

/// "Cancel", "ok, stop", "can you cancel it?". An explicit yes next to it makes it unclear, because "yes, cancel" may
/// confirm a plan that cancels something.
fn is_cancel(clauses: &[Clause]) -> bool {
    use Sense::{Act, Cancel, Halt, Hold, No, Okay, Polite, Request, Thing, Wish, Yes};
    if clauses.iter().any(|clause| clause.senses.contains(&Some(Yes))) {
        return false;
    }
    let openings = [Polite, Wish, Request, Okay, Hold];
    let Some(rest) = skip_openings(clauses, &[Polite, Okay, No, Hold], &openings) else {
        return false;
    };
    match rest.split_first() {
        Some((Some(Cancel), _)) => true,
        Some((Some(Halt), after)) => all_in(after, &[Polite, Thing, Act]),
        _ => false,
    }
}

/// "Change the date", "I want to edit it", "the other one instead", "yes, but …".
fn is_change(clauses: &[Clause]) -> bool {
    use Sense::{But, Change, Hold, Instead, No, Okay, Polite, Request, Wish, Yes};
    let asks = clauses.iter().any(|clause| clause.is_question);
    let instead = clauses.iter().any(|clause| clause.senses.contains(&Some(Instead)));
    if instead && !asks {
        return true;
    }
    let openings = [Polite, Wish, Request, Okay, Yes, Hold, But];
    let rest = skip_openings(clauses, &[Polite, Okay, Yes, No, Hold], &openings);
    let starts_with_change = matches!(rest.and_then(<[_]>::first), Some(Some(Change)));
    starts_with_change || (!asks && is_yes_with_limit(clauses))
}

/// "Yes, but only the first". "Yes, but no" is not a restriction and stays unclear.
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

/// "No", "please don't", and "no, …" with any continuation: stopping by mistake is cheap.
fn is_no(clauses: &[Clause]) -> bool {
    use Sense::{Hold, Polite};
    clauses
        .iter()
        .find(|clause| clause.is_question || !all_in(&clause.senses, &[Polite, Hold]))
        .is_some_and(|clause| !clause.is_question && is_clear_no(&clause.senses))
}

/// A refusal made of known words. After "no I …" or "no don't …" the rest may be unknown.
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

/// Known words from start to end, at least one yes, and nothing that could negate it.
fn is_yes(clauses: &[Clause]) -> bool {
    let mut phrases = 0;
    let mut agreed = false;
    let mut named_act = false;
    for clause in clauses {
        if clause.is_question {
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
