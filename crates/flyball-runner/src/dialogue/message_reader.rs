//! Interprets messages by words and patterns. Deterministic: the same message in the same context has the same meaning.
//!
//! The core crate classifies yes, no, cancel and "yes, but"; an unclear answer never confirms. This module finds the
//! values in a message, and whether it corrects one or asks a side question.

use super::extract::{ExtractedValues, SlotValue, ValueSearch};
use super::phrases::{
    BUT, CHANGES, CORRECTIONS, FILLERS, HUMAN_REQUESTS, INSTEAD_OF, NOT, NOTHING, OPENINGS, QUESTIONS, WRONG,
};
use super::slot_matcher::{SlotMatcher, value_text};
use super::tokens::{
    MessageToken, contains_phrase, fold, fold_phrase, is_same_name, longest_match, phrase_at, tokenize,
};
use crate::workflow::spec::SlotKind;
use flyball::confirm::{ConfirmationAnswer, Language, classify_answer, detect_language};
use serde_json::{Map, Value};

/// Maximum length of a message; the rest is ignored.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// Maximum number of words before other values that still count as a value.
const MAX_LEADING_WORDS: usize = 6;

/// The reply that the last question asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedReply {
    /// Anything.
    Anything,
    /// The value of a slot, by index.
    Slot(usize),
    /// A confirmation.
    Confirmation,
    /// A change.
    Change,
}

/// Context for interpreting a message.
#[derive(Debug, Clone, Copy)]
pub struct MessageContext<'a> {
    /// Current values by slot name.
    pub values: &'a Map<String, Value>,
    /// The expected reply.
    pub expecting: ExpectedReply,
    /// Slots in the order in which they were filled, most recent last.
    pub recently_filled: &'a [usize],
}

/// How a value was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotEdit {
    /// Requested or volunteered.
    Fill,
    /// "No, I meant …".
    Correct,
    /// "Change … to …".
    Modify,
}

impl SlotEdit {
    /// Operation name that the guards count.
    #[must_use]
    pub const fn operation(self) -> &'static str {
        match self {
            SlotEdit::Fill => "collect_next_slot",
            SlotEdit::Correct => "correction",
            SlotEdit::Modify => "modification",
        }
    }
}

/// Meaning of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageMeaning {
    /// Not understood.
    Unclear,
    /// Cancels the conversation.
    Cancel,
    /// Asks for a person.
    Person,
    /// A side question, with the key of its answer if there is one.
    SideQuestion(Option<String>),
    /// A clear yes.
    Yes,
    /// A clear no.
    No,
    /// Values for slots.
    Values(SlotEdit, Vec<SlotValue>),
    /// A change without a new value, with the slot if it was named.
    Change(SlotEdit, Option<usize>),
}

/// Interprets messages.
#[derive(Debug, Clone)]
pub struct MessageReader {
    slots: Vec<SlotMatcher>,
    /// Keys of the answers to side questions.
    side_question_keys: Vec<String>,
}

/// A message being interpreted.
struct ParsedMessage<'a> {
    text: &'a str,
    tokens: Vec<MessageToken>,
    answer: ConfirmationAnswer,
    is_question: bool,
}

impl MessageReader {
    /// Reader for these slots, with the keys of the answers to side questions.
    #[must_use]
    pub fn new(slots: Vec<SlotMatcher>, answers: impl IntoIterator<Item = String>) -> Self {
        MessageReader { slots, side_question_keys: answers.into_iter().collect() }
    }

    /// The slots.
    #[must_use]
    pub fn slots(&self) -> &[SlotMatcher] {
        &self.slots
    }

    /// Interprets a message.
    #[must_use]
    pub fn read(&self, text: &str, known: &MessageContext<'_>) -> MessageMeaning {
        let end = text.char_indices().nth(MAX_MESSAGE_CHARS).map_or(text.len(), |(at, _)| at);
        let text = text.get(..end).unwrap_or(text).trim();
        let message = ParsedMessage {
            text,
            tokens: tokenize(text),
            answer: classify_answer(text),
            is_question: text.contains(['?', '¿']),
        };
        if let ExpectedReply::Slot(slot) = known.expecting
            && let Some(meaning) = self.exact_answer(&message, slot)
        {
            return meaning;
        }
        if message.answer == ConfirmationAnswer::Cancel {
            return MessageMeaning::Cancel;
        }
        if asks_for_human(&message) {
            return MessageMeaning::Person;
        }
        self.read_change(&message, known)
            .or_else(|| self.read_side_question(&message, known))
            .unwrap_or_else(|| self.read_answer(&message, known))
    }

    /// Answer that matches a constrained slot exactly; takes precedence over other meanings.
    fn exact_answer(&self, message: &ParsedMessage<'_>, slot: usize) -> Option<MessageMeaning> {
        let matcher = self.slots.get(slot).filter(|matcher| !matcher.accepts_any_text())?;
        let said = message.text.trim_end_matches(['.', '!', '?', ',', ' ']);
        matcher.parse_value(said)?;
        Some(MessageMeaning::Values(SlotEdit::Fill, vec![SlotValue { slot, text: said.to_owned() }]))
    }

    fn value_search<'a>(
        &'a self,
        message: &'a ParsedMessage<'_>,
        known: &MessageContext<'_>,
        empty: &'a [usize],
        changing: bool,
    ) -> ValueSearch<'a> {
        let wanted = match known.expecting {
            ExpectedReply::Slot(slot) => Some(slot),
            _ => None,
        };
        let english = detect_language(message.text) == Some(Language::En);
        let (text, words) = (message.text, message.tokens.as_slice());
        ValueSearch {
            slots: &self.slots,
            text,
            tokens: words,
            asked_slot: wanted,
            empty_slots: empty,
            english,
            changing,
        }
    }

    fn empty_slots(&self, known: &MessageContext<'_>) -> Vec<usize> {
        let is_empty =
            |(_, matcher): &(usize, &SlotMatcher)| !known.values.contains_key(&matcher.slot().name);
        self.slots.iter().enumerate().filter(is_empty).map(|(slot, _)| slot).collect()
    }

    /// Interprets "No, I meant Lisbon", "change the date to …", "yes, but make it 2".
    fn read_change(&self, message: &ParsedMessage<'_>, known: &MessageContext<'_>) -> Option<MessageMeaning> {
        let wish = message.answer == ConfirmationAnswer::Change;
        if (message.is_question && !wish) || known.values.is_empty() {
            return None;
        }
        let empty = self.empty_slots(known);
        let search = self.value_search(message, known, &empty, true);
        if let Some(found) = self.read_replacement(message, known, &search) {
            return Some(MessageMeaning::Values(SlotEdit::Correct, vec![found]));
        }
        let (act, from) =
            find_change_phrase(&message.tokens).or_else(|| wish.then_some((SlotEdit::Modify, 0)))?;
        let finds = search.extract_from(from);
        if !finds.values.is_empty() {
            return Some(MessageMeaning::Values(act, finds.values));
        }
        // "Fix the roof" may also answer an open question.
        let open = matches!(known.expecting, ExpectedReply::Slot(slot) if self.accepts_any_text(slot));
        if let Some(slot) = finds.named_slots.first() {
            return Some(MessageMeaning::Change(act, Some(*slot)));
        }
        if open && act == SlotEdit::Modify {
            return None;
        }
        let from = skip_phrases(&message.tokens, from, FILLERS);
        if let Some(said) = search.text_between(from, message.tokens.len())
            && let Some(slot) = self.infer_slot(&said, known)
        {
            return Some(MessageMeaning::Values(act, vec![SlotValue { slot, text: said }]));
        }
        // "No, I meant it": clearly a change, but of an unknown slot.
        Some(MessageMeaning::Change(act, None))
    }

    fn accepts_any_text(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(SlotMatcher::accepts_any_text)
    }

    /// Interprets "Lisbon instead of Madrid", "not Madrid but Lisbon", "change Madrid to Lisbon": the old value
    /// determines the slot.
    fn read_replacement(
        &self,
        message: &ParsedMessage<'_>,
        known: &MessageContext<'_>,
        search: &ValueSearch<'_>,
    ) -> Option<SlotValue> {
        let words = &message.tokens;
        for (slot, matcher) in self.slots.iter().enumerate() {
            let Some(old) = known.values.get(&matcher.slot().name).map(value_text) else { continue };
            let length = fold(&old).split(' ').count();
            for at in 0..words.len() {
                let Some(place) = words.get(at..at + length) else { break };
                let spoken: Vec<&str> = place.iter().map(|word| word.text.as_str()).collect();
                if !is_same_name(&spoken.join(" "), &old) {
                    continue;
                }
                let said = new_value(words, at, at + length, search);
                if let Some(said) = said.filter(|said| !is_same_name(said, &old)) {
                    return Some(SlotValue { slot, text: said });
                }
            }
        }
        None
    }

    /// Infers the slot of an unnamed value. Among several free-text slots it is the one filled last, because that is
    /// what people correct.
    fn infer_slot(&self, said: &str, known: &MessageContext<'_>) -> Option<usize> {
        let filled = |slot: &usize| {
            self.slots.get(*slot).is_some_and(|matcher| known.values.contains_key(&matcher.slot().name))
        };
        let fits = |slot: &usize| {
            self.slots
                .get(*slot)
                .is_some_and(|matcher| !matcher.accepts_any_text() && matcher.parse_value(said).is_some())
        };
        let all: Vec<usize> = (0..self.slots.len()).filter(filled).collect();
        let strict: Vec<usize> = all.iter().copied().filter(fits).collect();
        let newest =
            |slots: &[usize]| known.recently_filled.iter().rev().find(|slot| slots.contains(slot)).copied();
        match strict.as_slice() {
            [only] => Some(*only),
            // A number cannot distinguish two number slots, unless one was just filled.
            [_, _, ..] => known.recently_filled.last().copied().filter(|last| strict.contains(last)),
            [] => {
                let free: Vec<usize> = all.into_iter().filter(|slot| self.accepts_any_text(*slot)).collect();
                newest(&free).or_else(|| free.first().copied().filter(|_| free.len() == 1))
            }
        }
    }

    /// Interprets a question unrelated to what was asked.
    fn read_side_question(
        &self,
        message: &ParsedMessage<'_>,
        known: &MessageContext<'_>,
    ) -> Option<MessageMeaning> {
        let mentioned = |key: &&String| contains_phrase(&message.tokens, &fold_phrase(key));
        let key = self.side_question_keys.iter().find(mentioned).cloned();
        let worded = longest_match(&message.tokens, QUESTIONS.iter().copied()).is_some();
        let empty = self.empty_slots(known);
        let finds = || self.value_search(message, known, &empty, false).extract_from(0);
        let aside = match known.expecting {
            // "Can you book a flight to Lisbon?" is a request, not a question.
            ExpectedReply::Anything => {
                (message.is_question || worded || key.is_some()) && finds().values.is_empty()
            }
            ExpectedReply::Slot(slot) if self.accepts_any_text(slot) => {
                let long = message.tokens.len() > 2;
                (message.is_question && (long || worded || key.is_some())) || (worded && key.is_some())
            }
            _ if message.is_question => true,
            ExpectedReply::Confirmation if message.answer != ConfirmationAnswer::Unclear => false,
            _ => (worded || key.is_some()) && finds().values.is_empty(),
        };
        aside.then_some(MessageMeaning::SideQuestion(key))
    }

    /// Interprets an answer to what was asked.
    fn read_answer(&self, message: &ParsedMessage<'_>, known: &MessageContext<'_>) -> MessageMeaning {
        let empty = self.empty_slots(known);
        let finds = self.value_search(message, known, &empty, false).extract_from(0);
        match known.expecting {
            ExpectedReply::Slot(slot) => self.read_slot_answer(message, known, slot, finds),
            ExpectedReply::Anything if finds.values.is_empty() => MessageMeaning::Unclear,
            ExpectedReply::Anything => MessageMeaning::Values(SlotEdit::Fill, finds.values),
            ExpectedReply::Confirmation => match message.answer {
                ConfirmationAnswer::Yes => MessageMeaning::Yes,
                _ if self.changes_any(&finds.values, known) => {
                    MessageMeaning::Values(SlotEdit::Correct, finds.values)
                }
                ConfirmationAnswer::No => MessageMeaning::No,
                _ if WRONG.iter().any(|word| contains_phrase(&message.tokens, word))
                    && !finds.named_slots.is_empty() =>
                {
                    MessageMeaning::Change(SlotEdit::Correct, finds.named_slots.first().copied())
                }
                _ => MessageMeaning::Unclear,
            },
            ExpectedReply::Change => {
                let nothing = NOTHING.iter().any(|word| contains_phrase(&message.tokens, word));
                if !finds.values.is_empty() {
                    MessageMeaning::Values(SlotEdit::Modify, finds.values)
                } else if let Some(slot) = finds.named_slots.first() {
                    MessageMeaning::Change(SlotEdit::Modify, Some(*slot))
                } else if message.answer == ConfirmationAnswer::No || nothing {
                    MessageMeaning::No
                } else if let Some(slot) = self
                    .infer_slot(message.text, known)
                    .filter(|_| message.answer == ConfirmationAnswer::Unclear)
                {
                    MessageMeaning::Values(
                        SlotEdit::Modify,
                        vec![SlotValue { slot, text: message.text.to_owned() }],
                    )
                } else {
                    MessageMeaning::Unclear
                }
            }
        }
    }

    /// Whether any value differs from the current one. "Yes, the 9th is right" changes nothing.
    fn changes_any(&self, values: &[SlotValue], known: &MessageContext<'_>) -> bool {
        values.iter().any(|found| {
            let Some(matcher) = self.slots.get(found.slot) else { return false };
            known.values.get(&matcher.slot().name) != matcher.parse_value(&found.text).as_ref()
        })
    }

    fn read_slot_answer(
        &self,
        message: &ParsedMessage<'_>,
        known: &MessageContext<'_>,
        slot: usize,
        finds: ExtractedValues,
    ) -> MessageMeaning {
        let ExtractedValues { mut values, first_token: first, .. } = finds;
        let has_it = values.iter().any(|found| found.slot == slot);
        if !has_it && let Some(said) = self.unnamed_value(message, known, slot, first) {
            values.insert(0, SlotValue { slot, text: said });
        }
        if values.is_empty() {
            MessageMeaning::Unclear
        } else {
            MessageMeaning::Values(SlotEdit::Fill, values)
        }
    }

    /// Value of the requested slot if nothing in the message names it.
    fn unnamed_value(
        &self,
        message: &ParsedMessage<'_>,
        known: &MessageContext<'_>,
        slot: usize,
        first: Option<usize>,
    ) -> Option<String> {
        let matcher = self.slots.get(slot)?;
        let empty = self.empty_slots(known);
        let search = self.value_search(message, known, &empty, false);
        if matcher.accepts_any_text() {
            // The text before the other values, or all of it.
            let end = first.unwrap_or(message.tokens.len());
            let said = match first {
                None => search.text_between(0, end).map(|_| strip_politeness(message.text)),
                Some(_) if end > MAX_LEADING_WORDS => None,
                Some(_) => search.text_between(0, end),
            };
            let says_something = skip_phrases(&message.tokens, 0, OPENINGS) < end;
            return said.filter(|said| {
                says_something && !said.is_empty() && classify_answer(said) == ConfirmationAnswer::Unclear
            });
        }
        let figures = message.tokens.iter().any(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let tried = match matcher.slot().kind {
            SlotKind::Number | SlotKind::Date => figures,
            SlotKind::Text => message.tokens.len() <= 4 && message.answer == ConfirmationAnswer::Unclear,
            SlotKind::YesNo => false,
        };
        (tried && first.is_none() && !message.tokens.is_empty()).then(|| message.text.to_owned())
    }
}

/// Removes trailing politeness from a free-text answer.
fn strip_politeness(text: &str) -> String {
    let mut text = text.trim_end_matches(['.', '!', '?', ',', ' ']);
    for polite in ["please", "пожалуйста", "por favor"] {
        let cut = text.len().checked_sub(polite.len());
        if let Some(end) = cut.and_then(|at| text.get(at..))
            && fold(end) == polite
        {
            text = cut.and_then(|at| text.get(..at)).unwrap_or(text).trim_end_matches([',', ' ']);
        }
    }
    text.to_owned()
}

fn skip_phrases(words: &[MessageToken], at: usize, phrases: &[&str]) -> usize {
    let mut at = at;
    while let Some((length, _)) = longest_match(words.get(at..).unwrap_or_default(), phrases.iter().copied())
    {
        at += length;
    }
    at
}

/// Finds the phrase that requests a change, and where its object starts.
fn find_change_phrase(words: &[MessageToken]) -> Option<(SlotEdit, usize)> {
    let start = skip_phrases(words, 0, OPENINGS);
    // It may also follow a comma: "yes that's fine, but make it 2".
    let clauses = (start..words.len()).filter(|at| {
        let first = *at == start;
        let after = words.get(*at).is_some_and(|word| word.after_break);
        let but = at.checked_sub(1).and_then(|at| words.get(at));
        first || after || but.is_some_and(|word| OPENINGS.contains(&word.text.as_str()))
    });
    for at in clauses {
        let rest = words.get(at..).unwrap_or_default();
        if let Some((length, _)) = longest_match(rest, CORRECTIONS.iter().copied()) {
            return Some((SlotEdit::Correct, at + length));
        }
        if let Some((length, _)) = longest_match(rest, CHANGES.iter().copied()) {
            return Some((SlotEdit::Modify, at + length));
        }
    }
    None
}

/// The value that replaces the one between two tokens.
fn new_value(words: &[MessageToken], from: usize, to: usize, search: &ValueSearch<'_>) -> Option<String> {
    let before = |phrases: &[&str]| {
        phrases.iter().find_map(|phrase| {
            let length = phrase.split(' ').count();
            let at = from.checked_sub(length)?;
            (phrase_at(words.get(at..from)?, phrase) == Some(length)).then_some(at)
        })
    };
    let after = |phrases: &[&str]| {
        longest_match(words.get(to..).unwrap_or_default(), phrases.iter().copied()).map(|(length, _)| length)
    };
    if let Some(at) = before(INSTEAD_OF) {
        let start = skip_phrases(words, skip_phrases(words, 0, OPENINGS), CORRECTIONS);
        // Before the phrase or, if the phrase comes first, after it.
        return search
            .text_between(start, at)
            .or_else(|| search.text_between(skip_phrases(words, to, FILLERS), words.len()));
    }
    if before(NOT).is_some() {
        let start = after(BUT).map_or(to, |length| to + length);
        return search.text_between(start, words.len());
    }
    let named = find_change_phrase(words)
        .filter(|(act, at)| *act == SlotEdit::Modify && skip_phrases(words, *at, FILLERS) == from);
    let length = named.and_then(|_| after(&["to", "for", "with", "на", "a", "por"]))?;
    search.text_between(to + length, words.len())
}

fn asks_for_human(message: &ParsedMessage<'_>) -> bool {
    let words = &message.tokens;
    let wishes =
        ["i need", "i want", "get me", "give me", "мне", "хочу", "нужен", "quiero", "necesito", "con"];
    let start = skip_phrases(words, skip_phrases(words, 0, OPENINGS), &wishes);
    [skip_phrases(words, 0, OPENINGS), start].into_iter().any(|at| {
        let rest = words.get(at..).unwrap_or_default();
        longest_match(rest, HUMAN_REQUESTS.iter().copied()).is_some_and(|(length, _)| {
            let left =
                skip_phrases(rest, length, &["please", "пожалуйста", "por favor", "now", "сейчас", "ahora"]);
            left == rest.len()
        })
    })
}

#[cfg(test)]
#[path = "message_reader_tests.rs"]
mod tests;
