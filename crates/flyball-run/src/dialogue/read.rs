//! What a message means, by words and patterns: the same words in the same place always mean the same.
//!
//! Yes, no, cancel and "yes, but" are the core's to understand; an unclear answer is never a yes. Here it is found out
//! which values a message holds, whether it corrects one, or asks something on the side.

use super::extract::{Finds, Found, Search};
use super::phrases::{
    BUT, CHANGES, FILLERS, INSTEAD_OF, MEANT, NOT, NOTHING, OPENINGS, PERSON, QUESTIONS, WRONG,
};
use super::slot::{Form, show};
use super::words::{Word, alike, folded, folded_phrase, holds, longest, phrase_at, words};
use crate::workflow::spec::SlotKind;
use flyball::confirm::{Answer, Language, language_of, understand};
use serde_json::{Map, Value};

/// More of a message than this is not read.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// What stands before other values and has more words than this is talk, not a value.
const MAX_LEADING_WORDS: usize = 6;

/// What the person was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expecting {
    /// Nothing in particular.
    Anything,
    /// The value of a slot, by its place.
    Slot(usize),
    /// Whether everything is right.
    Confirmation,
    /// What to change.
    Change,
}

/// What is known when a message is read.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The values so far, by the slot's name.
    pub values: &'a Map<String, Value>,
    /// What was asked.
    pub expecting: Expecting,
    /// The slots in the order in which they got their values, the last one last.
    pub recent: &'a [usize],
}

/// How a value came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It was asked for, or came along.
    Fill,
    /// "No, I meant …".
    Correct,
    /// "Change … to …".
    Modify,
}

impl Act {
    /// The name of the operation that the guards count.
    #[must_use]
    pub const fn operation(self) -> &'static str {
        match self {
            Act::Fill => "collect_next_slot",
            Act::Correct => "correction",
            Act::Modify => "modification",
        }
    }
}

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that could be understood.
    Unclear,
    /// Everything is taken back.
    Cancel,
    /// A person is wanted.
    Person,
    /// A question on the side; the key of its answer, if there is one.
    Side(Option<String>),
    /// A clear yes.
    Yes,
    /// A clear no.
    No,
    /// Values.
    Values(Act, Vec<Found>),
    /// Something is to be changed: which slot, if that was said; to what was not.
    Change(Act, Option<usize>),
}

/// Reads messages.
#[derive(Debug, Clone)]
pub struct Reader {
    forms: Vec<Form>,
    /// The keys of the answers to questions on the side.
    answers: Vec<String>,
}

/// A message that is being read.
struct Message<'a> {
    text: &'a str,
    words: Vec<Word>,
    answer: Answer,
    asks: bool,
}

impl Reader {
    /// A reader for these slots, with the keys of the answers to questions on the side.
    #[must_use]
    pub fn new(forms: Vec<Form>, answers: impl IntoIterator<Item = String>) -> Self {
        Reader { forms, answers: answers.into_iter().collect() }
    }

    /// The slots.
    #[must_use]
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// What a message means.
    #[must_use]
    pub fn read(&self, text: &str, known: &Known<'_>) -> Heard {
        let end = text.char_indices().nth(MAX_MESSAGE_CHARS).map_or(text.len(), |(at, _)| at);
        let text = text.get(..end).unwrap_or(text).trim();
        let message =
            Message { text, words: words(text), answer: understand(text), asks: text.contains(['?', '¿']) };
        if let Expecting::Slot(slot) = known.expecting
            && let Some(heard) = self.whole(&message, slot)
        {
            return heard;
        }
        if message.answer == Answer::Cancel {
            return Heard::Cancel;
        }
        if asks_for_a_person(&message) {
            return Heard::Person;
        }
        self.change(&message, known)
            .or_else(|| self.side(&message, known))
            .unwrap_or_else(|| self.answer(&message, known))
    }

    /// The answer to a question with a narrow answer, whatever else the words could mean.
    fn whole(&self, message: &Message<'_>, slot: usize) -> Option<Heard> {
        let form = self.forms.get(slot).filter(|form| !form.is_free())?;
        let said = message.text.trim_end_matches(['.', '!', '?', ',', ' ']);
        form.check(said)?;
        Some(Heard::Values(Act::Fill, vec![Found { slot, said: said.to_owned() }]))
    }

    fn search<'a>(
        &'a self,
        message: &'a Message<'_>,
        known: &Known<'_>,
        empty: &'a [usize],
        changing: bool,
    ) -> Search<'a> {
        let wanted = match known.expecting {
            Expecting::Slot(slot) => Some(slot),
            _ => None,
        };
        let english = language_of(message.text) == Some(Language::En);
        let (text, words) = (message.text, message.words.as_slice());
        Search { forms: &self.forms, text, words, wanted, empty, english, changing }
    }

    fn empty(&self, known: &Known<'_>) -> Vec<usize> {
        let is_empty = |(_, form): &(usize, &Form)| !known.values.contains_key(&form.slot().name);
        self.forms.iter().enumerate().filter(is_empty).map(|(slot, _)| slot).collect()
    }

    /// "No, I meant Lisbon", "change the date to …", "yes, but make it 2".
    fn change(&self, message: &Message<'_>, known: &Known<'_>) -> Option<Heard> {
        let wish = message.answer == Answer::Change;
        if (message.asks && !wish) || known.values.is_empty() {
            return None;
        }
        let empty = self.empty(known);
        let search = self.search(message, known, &empty, true);
        if let Some(found) = self.swapped(message, known, &search) {
            return Some(Heard::Values(Act::Correct, vec![found]));
        }
        let (act, from) = change_phrase(&message.words).or_else(|| wish.then_some((Act::Modify, 0)))?;
        let finds = search.from(from);
        if !finds.values.is_empty() {
            return Some(Heard::Values(act, finds.values));
        }
        // "Fix the roof" may just as well be the answer to an open question.
        let open = matches!(known.expecting, Expecting::Slot(slot) if self.is_free(slot));
        if let Some(slot) = finds.named.first() {
            return Some(Heard::Change(act, Some(*slot)));
        }
        if open && act == Act::Modify {
            return None;
        }
        let from = skip(&message.words, from, FILLERS);
        if let Some(said) = search.said(from, message.words.len())
            && let Some(slot) = self.meant(&said, known)
        {
            return Some(Heard::Values(act, vec![Found { slot, said }]));
        }
        // "No, I meant it": nothing to go by, but clearly a wish to change something.
        Some(Heard::Change(act, None))
    }

    fn is_free(&self, slot: usize) -> bool {
        self.forms.get(slot).is_some_and(Form::is_free)
    }

    /// "Lisbon instead of Madrid", "not Madrid but Lisbon", "change Madrid to Lisbon": the old value says which slot.
    fn swapped(&self, message: &Message<'_>, known: &Known<'_>, search: &Search<'_>) -> Option<Found> {
        let words = &message.words;
        for (slot, form) in self.forms.iter().enumerate() {
            let Some(old) = known.values.get(&form.slot().name).map(show) else { continue };
            let length = folded(&old).split(' ').count();
            for at in 0..words.len() {
                let Some(place) = words.get(at..at + length) else { break };
                let spoken: Vec<&str> = place.iter().map(|word| word.text.as_str()).collect();
                if !alike(&spoken.join(" "), &old) {
                    continue;
                }
                let said = new_value(words, at, at + length, search);
                if let Some(said) = said.filter(|said| !alike(said, &old)) {
                    return Some(Found { slot, said });
                }
            }
        }
        None
    }

    /// The slot that a value must belong to which came without a name. Of several that any words would do for it is the
    /// one that was filled last: that is what people correct.
    fn meant(&self, said: &str, known: &Known<'_>) -> Option<usize> {
        let filled = |slot: &usize| {
            self.forms.get(*slot).is_some_and(|form| known.values.contains_key(&form.slot().name))
        };
        let fits = |slot: &usize| {
            self.forms.get(*slot).is_some_and(|form| !form.is_free() && form.check(said).is_some())
        };
        let all: Vec<usize> = (0..self.forms.len()).filter(filled).collect();
        let strict: Vec<usize> = all.iter().copied().filter(fits).collect();
        let newest = |slots: &[usize]| known.recent.iter().rev().find(|slot| slots.contains(slot)).copied();
        match strict.as_slice() {
            [only] => Some(*only),
            // Two numbers are not told apart by a number; one that was just said is.
            [_, _, ..] => known.recent.last().copied().filter(|last| strict.contains(last)),
            [] => {
                let free: Vec<usize> = all.into_iter().filter(|slot| self.is_free(*slot)).collect();
                newest(&free).or_else(|| free.first().copied().filter(|_| free.len() == 1))
            }
        }
    }

    /// A question that has nothing to do with what was asked.
    fn side(&self, message: &Message<'_>, known: &Known<'_>) -> Option<Heard> {
        let spoken_of = |key: &&String| holds(&message.words, &folded_phrase(key));
        let key = self.answers.iter().find(spoken_of).cloned();
        let worded = longest(&message.words, QUESTIONS.iter().copied()).is_some();
        let empty = self.empty(known);
        let finds = || self.search(message, known, &empty, false).from(0);
        let aside = match known.expecting {
            // "Can you book a flight to Lisbon?" is a request, not a question.
            Expecting::Anything => (message.asks || worded || key.is_some()) && finds().values.is_empty(),
            Expecting::Slot(slot) if self.is_free(slot) => {
                let long = message.words.len() > 2;
                (message.asks && (long || worded || key.is_some())) || (worded && key.is_some())
            }
            _ if message.asks => true,
            Expecting::Confirmation if message.answer != Answer::Unclear => false,
            _ => (worded || key.is_some()) && finds().values.is_empty(),
        };
        aside.then_some(Heard::Side(key))
    }

    /// Neither a change nor a question: what was asked for.
    fn answer(&self, message: &Message<'_>, known: &Known<'_>) -> Heard {
        let empty = self.empty(known);
        let finds = self.search(message, known, &empty, false).from(0);
        match known.expecting {
            Expecting::Slot(slot) => self.for_slot(message, known, slot, finds),
            Expecting::Anything if finds.values.is_empty() => Heard::Unclear,
            Expecting::Anything => Heard::Values(Act::Fill, finds.values),
            Expecting::Confirmation => match message.answer {
                Answer::Yes => Heard::Yes,
                _ if self.changes_any(&finds.values, known) => Heard::Values(Act::Correct, finds.values),
                Answer::No => Heard::No,
                _ if WRONG.iter().any(|word| holds(&message.words, word)) && !finds.named.is_empty() => {
                    Heard::Change(Act::Correct, finds.named.first().copied())
                }
                _ => Heard::Unclear,
            },
            Expecting::Change => {
                let nothing = NOTHING.iter().any(|word| holds(&message.words, word));
                if !finds.values.is_empty() {
                    Heard::Values(Act::Modify, finds.values)
                } else if let Some(slot) = finds.named.first() {
                    Heard::Change(Act::Modify, Some(*slot))
                } else if message.answer == Answer::No || nothing {
                    Heard::No
                } else if let Some(slot) =
                    self.meant(message.text, known).filter(|_| message.answer == Answer::Unclear)
                {
                    Heard::Values(Act::Modify, vec![Found { slot, said: message.text.to_owned() }])
                } else {
                    Heard::Unclear
                }
            }
        }
    }

    /// Whether any of the values differs from what is known. "Yes, the 9th is right" changes nothing.
    fn changes_any(&self, values: &[Found], known: &Known<'_>) -> bool {
        values.iter().any(|found| {
            let Some(form) = self.forms.get(found.slot) else { return false };
            known.values.get(&form.slot().name) != form.check(&found.said).as_ref()
        })
    }

    fn for_slot(&self, message: &Message<'_>, known: &Known<'_>, slot: usize, finds: Finds) -> Heard {
        let Finds { mut values, first, .. } = finds;
        let has_it = values.iter().any(|found| found.slot == slot);
        if !has_it && let Some(said) = self.unnamed(message, known, slot, first) {
            values.insert(0, Found { slot, said });
        }
        if values.is_empty() { Heard::Unclear } else { Heard::Values(Act::Fill, values) }
    }

    /// The value of the slot that was asked for, when nothing in the message names it.
    fn unnamed(
        &self,
        message: &Message<'_>,
        known: &Known<'_>,
        slot: usize,
        first: Option<usize>,
    ) -> Option<String> {
        let form = self.forms.get(slot)?;
        let empty = self.empty(known);
        let search = self.search(message, known, &empty, false);
        if form.is_free() {
            // What stands before the other values; everything, if there are none.
            let end = first.unwrap_or(message.words.len());
            let said = match first {
                None => search.said(0, end).map(|_| tidy(message.text)),
                Some(_) if end > MAX_LEADING_WORDS => None,
                Some(_) => search.said(0, end),
            };
            let says_something = skip(&message.words, 0, OPENINGS) < end;
            return said
                .filter(|said| says_something && !said.is_empty() && understand(said) == Answer::Unclear);
        }
        let figures = message.words.iter().any(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let tried = match form.slot().kind {
            SlotKind::Number | SlotKind::Date => figures,
            SlotKind::Text => message.words.len() <= 4 && message.answer == Answer::Unclear,
            SlotKind::YesNo => false,
        };
        (tried && first.is_none() && !message.words.is_empty()).then(|| message.text.to_owned())
    }
}

/// A free answer without the politeness at its end.
fn tidy(text: &str) -> String {
    let mut text = text.trim_end_matches(['.', '!', '?', ',', ' ']);
    for polite in ["please", "пожалуйста", "por favor"] {
        let cut = text.len().checked_sub(polite.len());
        if let Some(end) = cut.and_then(|at| text.get(at..))
            && folded(end) == polite
        {
            text = cut.and_then(|at| text.get(..at)).unwrap_or(text).trim_end_matches([',', ' ']);
        }
    }
    text.to_owned()
}

fn skip(words: &[Word], at: usize, phrases: &[&str]) -> usize {
    let mut at = at;
    while let Some((length, _)) = longest(words.get(at..).unwrap_or_default(), phrases.iter().copied()) {
        at += length;
    }
    at
}

/// The phrase that asks for a change, and where what it is about begins.
fn change_phrase(words: &[Word]) -> Option<(Act, usize)> {
    let start = skip(words, 0, OPENINGS);
    // It may also begin after a comma: "yes that's fine, but make it 2".
    let clauses = (start..words.len()).filter(|at| {
        let first = *at == start;
        let after = words.get(*at).is_some_and(|word| word.after_break);
        let but = at.checked_sub(1).and_then(|at| words.get(at));
        first || after || but.is_some_and(|word| OPENINGS.contains(&word.text.as_str()))
    });
    for at in clauses {
        let rest = words.get(at..).unwrap_or_default();
        if let Some((length, _)) = longest(rest, MEANT.iter().copied()) {
            return Some((Act::Correct, at + length));
        }
        if let Some((length, _)) = longest(rest, CHANGES.iter().copied()) {
            return Some((Act::Modify, at + length));
        }
    }
    None
}

/// The value that takes the place of the one that stands between two words.
fn new_value(words: &[Word], from: usize, to: usize, search: &Search<'_>) -> Option<String> {
    let before = |phrases: &[&str]| {
        phrases.iter().find_map(|phrase| {
            let length = phrase.split(' ').count();
            let at = from.checked_sub(length)?;
            (phrase_at(words.get(at..from)?, phrase) == Some(length)).then_some(at)
        })
    };
    let after = |phrases: &[&str]| {
        longest(words.get(to..).unwrap_or_default(), phrases.iter().copied()).map(|(length, _)| length)
    };
    if let Some(at) = before(INSTEAD_OF) {
        let start = skip(words, skip(words, 0, OPENINGS), MEANT);
        // Before it, or, if it comes first, after it.
        return search.said(start, at).or_else(|| search.said(skip(words, to, FILLERS), words.len()));
    }
    if before(NOT).is_some() {
        let start = after(BUT).map_or(to, |length| to + length);
        return search.said(start, words.len());
    }
    let named =
        change_phrase(words).filter(|(act, at)| *act == Act::Modify && skip(words, *at, FILLERS) == from);
    let length = named.and_then(|_| after(&["to", "for", "with", "на", "a", "por"]))?;
    search.said(to + length, words.len())
}

fn asks_for_a_person(message: &Message<'_>) -> bool {
    let words = &message.words;
    let wishes =
        ["i need", "i want", "get me", "give me", "мне", "хочу", "нужен", "quiero", "necesito", "con"];
    let start = skip(words, skip(words, 0, OPENINGS), &wishes);
    [skip(words, 0, OPENINGS), start].into_iter().any(|at| {
        let rest = words.get(at..).unwrap_or_default();
        longest(rest, PERSON.iter().copied()).is_some_and(|(length, _)| {
            let left = skip(rest, length, &["please", "пожалуйста", "por favor", "now", "сейчас", "ahora"]);
            left == rest.len()
        })
    })
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
