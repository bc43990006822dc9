//! Extracts values from a message: by slot name, by the word before the value, or by shape.
//!
//! A value is taken only if its slot is unambiguous. The rest is ignored.

use super::dates::{date_at, parse_number_word};
use super::phrases::{AND, BEFORE_VERB, CONNECTORS, FILLERS, TRAILING};
use super::slot_matcher::SlotMatcher;
use super::tokens::{MessageToken, fold, longest_match, phrase_at};
use crate::workflow::spec::SlotKind;

/// An extracted value as the person wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotValue {
    /// Index of its slot.
    pub slot: usize,
    /// Text of the value.
    pub text: String,
}

/// Values extracted from a message.
#[derive(Debug, Default)]
pub(super) struct ExtractedValues {
    pub(super) values: Vec<SlotValue>,
    /// Slots named without a value.
    pub(super) named_slots: Vec<usize>,
    /// Index of the first token that belongs to a name or value.
    pub(super) first_token: Option<usize>,
}

/// Search for values in a message.
pub(super) struct ValueSearch<'a> {
    pub(super) slots: &'a [SlotMatcher],
    pub(super) text: &'a str,
    pub(super) tokens: &'a [MessageToken],
    /// The requested slot, which wins if a value matches several.
    pub(super) asked_slot: Option<usize>,
    /// Slots without a value. If exactly one of them matches, the value belongs to it.
    pub(super) empty_slots: &'a [usize],
    /// Whether the message is in English.
    pub(super) english: bool,
    /// Whether the message requests a change, so that a slot name alone determines the slot.
    pub(super) changing: bool,
}

impl ValueSearch<'_> {
    /// Extracts all unambiguous values, starting at a token.
    pub(super) fn extract_from(&self, start: usize) -> ExtractedValues {
        let mut taken: Vec<bool> = (0..self.tokens.len()).map(|at| at < start).collect();
        let mut finds = ExtractedValues::default();
        self.extract_by_name(&mut taken, &mut finds);
        self.extract_by_prefix(&mut taken, &mut finds);
        self.extract_by_shape(&mut taken, &mut finds);
        finds.first_token = (start..self.tokens.len()).find(|at| taken.get(*at) == Some(&true));
        finds.values.sort_by_key(|found| self.position_of(found));
        finds
    }

    /// Position of a value in the message, so that the last one mentioned wins.
    fn position_of(&self, found: &SlotValue) -> usize {
        self.text.find(&found.text).unwrap_or(self.text.len())
    }

    fn tokens_from(&self, at: usize) -> &[MessageToken] {
        self.tokens.get(at..).unwrap_or_default()
    }

    /// Text between two tokens as written, without trailing filler words.
    pub(super) fn text_between(&self, from: usize, to: usize) -> Option<String> {
        let mut to = to;
        while to > from {
            let ends = |phrase: &&str| {
                let length = phrase.split(' ').count();
                let at = to.checked_sub(length).filter(|at| *at >= from);
                at.is_some_and(|at| phrase_at(self.tokens_from(at), phrase) == Some(length))
            };
            let Some(phrase) = TRAILING.iter().find(|phrase| ends(phrase)) else { break };
            to -= phrase.split(' ').count();
        }
        let (first, last) = (self.tokens.get(from)?, self.tokens.get(to.checked_sub(1)?)?);
        if to <= from {
            return None;
        }
        self.text.get(first.start..last.end).map(str::to_owned)
    }

    fn name_at(&self, at: usize) -> Option<(usize, usize)> {
        let all = self.slots.iter().enumerate().filter_map(|(slot, matcher)| {
            let (length, _) = longest_match(self.tokens_from(at), matcher.names.iter().map(String::as_str))?;
            Some((length, slot))
        });
        unique_longest(all)
    }

    fn prefix_at(&self, at: usize) -> Option<(usize, usize)> {
        let verb = at.checked_sub(1).and_then(|before| self.tokens.get(before));
        if verb.is_some_and(|word| BEFORE_VERB.contains(&word.text.as_str())) {
            return None;
        }
        let all = self.slots.iter().enumerate().filter_map(|(slot, matcher)| {
            // "A" precedes a place in Spanish, but is an article in English.
            let prefixes =
                matcher.prefixes.iter().map(String::as_str).filter(|prefix| *prefix != "a" || !self.english);
            let (length, _) = longest_match(self.tokens_from(at), prefixes)?;
            Some((length, slot))
        });
        unique_longest(all)
    }

    /// Whether a date starts here that some slot could take.
    fn is_date_at(&self, at: usize) -> bool {
        self.slots.iter().any(|matcher| matcher.slot().kind == SlotKind::Date)
            && date_at(self.tokens_from(at)).is_some()
    }

    /// End of a value that starts at a token.
    fn value_end(&self, from: usize, taken: &[bool]) -> usize {
        let ends = |at: &usize| {
            let joined = self.tokens.get(*at).is_some_and(|word| AND.contains(&word.text.as_str()));
            let next = self.skip_phrases(*at + 1, FILLERS);
            self.tokens.get(*at).is_some_and(|word| word.after_break)
                || taken.get(*at) == Some(&true)
                || self.name_at(*at).is_some()
                || self.prefix_at(*at).is_some()
                || self.is_date_at(*at)
                || (joined && (self.name_at(next).is_some() || self.prefix_at(*at + 1).is_some()))
        };
        (from + 1..self.tokens.len()).find(ends).unwrap_or(self.tokens.len())
    }

    fn skip_phrases(&self, at: usize, phrases: &[&str]) -> usize {
        let mut at = at;
        while let Some((length, _)) = longest_match(self.tokens_from(at), phrases.iter().copied()) {
            at += length;
        }
        at
    }

    /// Extracts "the date is 2026-12-09", "destination: Lisbon", "change the seats to 3".
    fn extract_by_name(&self, taken: &mut [bool], finds: &mut ExtractedValues) {
        let mut at = 0;
        while at < self.tokens.len() {
            let Some((length, slot)) = self.name_at(at).filter(|_| taken.get(at) == Some(&false)) else {
                at += 1;
                continue;
            };
            let connected = self.skip_phrases(at + length, CONNECTORS);
            let colon = self.tokens.get(at + length).is_some_and(|word| word.after_break);
            let clear = self.changing || colon || connected > at + length;
            let end =
                if connected < self.tokens.len() { self.value_end(connected, taken) } else { connected };
            let value = self.slot_value(slot, connected, end, clear);
            let upto = match value {
                Some((said, upto)) => {
                    replace_value(finds, SlotValue { slot, text: said });
                    upto
                }
                None => {
                    finds.named_slots.push(slot);
                    at + length
                }
            };
            mark_taken(taken, at, upto);
            at = upto.max(at + 1);
        }
    }

    /// Value of a slot in a range of tokens, and where it ends.
    fn slot_value(&self, slot: usize, from: usize, to: usize, clear: bool) -> Option<(String, usize)> {
        let matcher = self.slots.get(slot)?;
        if matcher.accepts_any_text() {
            return if clear { Some((self.text_between(from, to)?, to)) } else { None };
        }
        for at in from..to {
            if let Some(length) = self.matching_length(matcher, at) {
                return Some((self.exact_text_between(at, at + length)?, at + length));
            }
        }
        let words = self.tokens.get(from..to)?;
        let figures = words.iter().any(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let tried = match matcher.slot().kind {
            SlotKind::Number | SlotKind::Date => figures,
            SlotKind::Text => clear && words.len() <= 3,
            SlotKind::YesNo => false,
        };
        if tried { Some((self.text_between(from, to)?, to)) } else { None }
    }

    fn exact_text_between(&self, from: usize, to: usize) -> Option<String> {
        let (first, last) = (self.tokens.get(from)?, self.tokens.get(to.checked_sub(1)?)?);
        self.text.get(first.start..last.end).map(str::to_owned)
    }

    /// Extracts "from Madrid to Lisbon on 2026-12-09 for 2".
    fn extract_by_prefix(&self, taken: &mut [bool], finds: &mut ExtractedValues) {
        let mut at = 0;
        while at < self.tokens.len() {
            let Some((length, slot)) = self.prefix_at(at).filter(|_| taken.get(at) == Some(&false)) else {
                at += 1;
                continue;
            };
            let from = at + length;
            let free = from < self.tokens.len() && taken.get(from) == Some(&false);
            let end = if free { self.value_end(from, taken) } else { from };
            let strict = self.slots.get(slot).is_some_and(|matcher| !matcher.accepts_any_text());
            // Text that is not a date or number belongs elsewhere: "for my mother".
            let fits = |at: usize| self.slots.get(slot).and_then(|matcher| self.matching_length(matcher, at));
            let value = match (strict, free) {
                (_, false) => None,
                (true, _) => fits(from)
                    .and_then(|length| Some((self.exact_text_between(from, from + length)?, from + length))),
                (false, _) => self.slot_value(slot, from, end, true),
            };
            if let Some((said, upto)) = value {
                replace_value(finds, SlotValue { slot, text: said });
                mark_taken(taken, at, upto);
                at = upto;
            } else {
                at = from;
            }
        }
    }

    /// Number of tokens at a position that look like a value of a slot.
    fn matching_length(&self, matcher: &SlotMatcher, at: usize) -> Option<usize> {
        let rest = self.tokens_from(at);
        let slot = matcher.slot();
        if !slot.values.is_empty() && slot.kind == SlotKind::Text {
            let values: Vec<String> = slot.values.iter().map(|value| fold(value)).collect();
            return longest_match(rest, values.iter().map(String::as_str)).map(|(length, _)| length);
        }
        match slot.kind {
            SlotKind::Date => date_at(rest).map(|(length, _)| length),
            SlotKind::Number => parse_number_word(&rest.first()?.text).map(|_| 1),
            SlotKind::Text if !matcher.accepts_any_text() => {
                let word = rest.first()?;
                matcher.parse_value(self.text.get(word.start..word.end)?).map(|_| 1)
            }
            SlotKind::Text | SlotKind::YesNo => None,
        }
    }

    /// Extracts a standalone date, number or listed value if it is the only one and only one slot can take it.
    fn extract_by_shape(&self, taken: &mut [bool], finds: &mut ExtractedValues) {
        for (slot, matcher) in self.slots.iter().enumerate() {
            let has_one = finds.values.iter().any(|found| found.slot == slot);
            if matcher.accepts_any_text() || has_one || !self.is_only_candidate(slot, finds) {
                continue;
            }
            let places: Vec<(usize, usize)> = (0..self.tokens.len())
                .filter(|at| taken.get(*at) == Some(&false))
                .filter_map(|at| Some((at, self.matching_length(matcher, at)?)))
                .filter(|(at, _)| {
                    matcher.slot().kind != SlotKind::Number || self.is_standalone_number(*at, slot)
                })
                .collect();
            let [(at, length)] = places.as_slice() else { continue };
            if let Some(said) = self.exact_text_between(*at, at + length) {
                let at = *at;
                replace_value(finds, SlotValue { slot, text: said });
                mark_taken(taken, at, at + length);
            }
        }
    }

    /// Whether a number is standalone: not part of a date, and not "one" used as a pronoun.
    fn is_standalone_number(&self, at: usize, slot: usize) -> bool {
        let figure =
            self.tokens.get(at).is_some_and(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        !self.is_date_at(at) && (figure || self.changing || self.asked_slot == Some(slot))
    }

    /// Whether a value of this shape can only belong to this slot.
    fn is_only_candidate(&self, slot: usize, finds: &ExtractedValues) -> bool {
        let Some(matcher) = self.slots.get(slot) else { return false };
        let open = |other: &usize| !finds.values.iter().any(|found| found.slot == *other);
        let alike: Vec<usize> = (0..self.slots.len())
            .filter(open)
            .filter(|other| self.slots.get(*other).is_some_and(|other| same_shape(matcher, other)))
            .collect();
        if let [only] = alike.as_slice() {
            return *only == slot;
        }
        if let Some(wanted) = self.asked_slot.filter(|wanted| alike.contains(wanted)) {
            return wanted == slot;
        }
        let empty: Vec<&usize> = alike.iter().filter(|other| self.empty_slots.contains(other)).collect();
        !self.changing && matches!(empty.as_slice(), [only] if **only == slot)
    }
}

/// Whether the same text could belong to both slots.
fn same_shape(one: &SlotMatcher, other: &SlotMatcher) -> bool {
    let listed =
        |matcher: &SlotMatcher| matcher.slot().kind == SlotKind::Text && !matcher.slot().values.is_empty();
    if listed(one) && listed(other) {
        let values: Vec<String> = one.slot().values.iter().map(|value| fold(value)).collect();
        return other.slot().values.iter().any(|value| values.contains(&fold(value)));
    }
    !one.accepts_any_text()
        && !other.accepts_any_text()
        && one.slot().kind == other.slot().kind
        && listed(one) == listed(other)
}

/// The longest match; `None` if two slots tie.
fn unique_longest(all: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
    let all: Vec<(usize, usize)> = all.collect();
    let most = all.iter().map(|(length, _)| *length).max()?;
    let mut of_most = all.into_iter().filter(|(length, _)| *length == most);
    match (of_most.next(), of_most.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Adds a value; the last one for a slot wins.
fn replace_value(finds: &mut ExtractedValues, found: SlotValue) {
    finds.values.retain(|known| known.slot != found.slot);
    finds.values.push(found);
}

fn mark_taken(taken: &mut [bool], from: usize, to: usize) {
    taken.iter_mut().take(to).skip(from).for_each(|taken| *taken = true);
}
