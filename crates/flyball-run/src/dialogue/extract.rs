//! Finding values in a message: by the name of their slot, by the word before them, by what they look like.
//!
//! A value is taken only if it is clear which slot it belongs to. What is left over is left alone.

use super::dates::{day_at, number};
use super::phrases::{AND, BEFORE_VERB, CONNECT, FILLERS, TRAILING};
use super::slot::Form;
use super::words::{Word, folded, longest, phrase_at};
use crate::workflow::spec::SlotKind;

/// A value that was found, in the person's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The place of its slot among the slots.
    pub slot: usize,
    /// What was said.
    pub said: String,
}

/// What was found in a message.
#[derive(Debug, Default)]
pub(super) struct Finds {
    pub(super) values: Vec<Found>,
    /// Slots that were named without a value.
    pub(super) named: Vec<usize>,
    /// The first word that belongs to any of it.
    pub(super) first: Option<usize>,
}

/// Looks through a message.
pub(super) struct Search<'a> {
    pub(super) forms: &'a [Form],
    pub(super) text: &'a str,
    pub(super) words: &'a [Word],
    /// The slot that was asked for: what fits several belongs to this one.
    pub(super) wanted: Option<usize>,
    /// Slots that have no value yet; a value that fits several belongs to the only one of these.
    pub(super) empty: &'a [usize],
    /// The message is in English.
    pub(super) english: bool,
    /// The message asks for a change, so that a name alone is enough to say where a value belongs.
    pub(super) changing: bool,
}

impl Search<'_> {
    /// Everything that can be told apart, from a word on.
    pub(super) fn from(&self, start: usize) -> Finds {
        let mut taken: Vec<bool> = (0..self.words.len()).map(|at| at < start).collect();
        let mut finds = Finds::default();
        self.by_name(&mut taken, &mut finds);
        self.by_mark(&mut taken, &mut finds);
        self.by_look(&mut taken, &mut finds);
        finds.first = (start..self.words.len()).find(|at| taken.get(*at) == Some(&true));
        finds.values.sort_by_key(|found| self.place(found));
        finds
    }

    /// Where a value stands in the message, so that the last one that was said is the last one that is taken.
    fn place(&self, found: &Found) -> usize {
        self.text.find(&found.said).unwrap_or(self.text.len())
    }

    fn rest(&self, at: usize) -> &[Word] {
        self.words.get(at..).unwrap_or_default()
    }

    /// The words from one place to another as they were written, without what does not end a value.
    pub(super) fn said(&self, from: usize, to: usize) -> Option<String> {
        let mut to = to;
        while to > from {
            let ends = |phrase: &&str| {
                let length = phrase.split(' ').count();
                let at = to.checked_sub(length).filter(|at| *at >= from);
                at.is_some_and(|at| phrase_at(self.rest(at), phrase) == Some(length))
            };
            let Some(phrase) = TRAILING.iter().find(|phrase| ends(phrase)) else { break };
            to -= phrase.split(' ').count();
        }
        let (first, last) = (self.words.get(from)?, self.words.get(to.checked_sub(1)?)?);
        if to <= from {
            return None;
        }
        self.text.get(first.start..last.end).map(str::to_owned)
    }

    fn name_at(&self, at: usize) -> Option<(usize, usize)> {
        let all = self.forms.iter().enumerate().filter_map(|(slot, form)| {
            let (length, _) = longest(self.rest(at), form.names.iter().map(String::as_str))?;
            Some((length, slot))
        });
        only_longest(all)
    }

    fn mark_at(&self, at: usize) -> Option<(usize, usize)> {
        let verb = at.checked_sub(1).and_then(|before| self.words.get(before));
        if verb.is_some_and(|word| BEFORE_VERB.contains(&word.text.as_str())) {
            return None;
        }
        let all = self.forms.iter().enumerate().filter_map(|(slot, form)| {
            // "A" is a place's word in Spanish and an article in English.
            let marks = form.marks.iter().map(String::as_str).filter(|mark| *mark != "a" || !self.english);
            let (length, _) = longest(self.rest(at), marks)?;
            Some((length, slot))
        });
        only_longest(all)
    }

    /// Whether a day begins here that some slot could want.
    fn day_here(&self, at: usize) -> bool {
        self.forms.iter().any(|form| form.slot().kind == SlotKind::Date) && day_at(self.rest(at)).is_some()
    }

    /// Where a value that begins at a word ends.
    fn end_of(&self, from: usize, taken: &[bool]) -> usize {
        let ends = |at: &usize| {
            let joined = self.words.get(*at).is_some_and(|word| AND.contains(&word.text.as_str()));
            let next = self.skip(*at + 1, FILLERS);
            self.words.get(*at).is_some_and(|word| word.after_break)
                || taken.get(*at) == Some(&true)
                || self.name_at(*at).is_some()
                || self.mark_at(*at).is_some()
                || self.day_here(*at)
                || (joined && (self.name_at(next).is_some() || self.mark_at(*at + 1).is_some()))
        };
        (from + 1..self.words.len()).find(ends).unwrap_or(self.words.len())
    }

    fn skip(&self, at: usize, phrases: &[&str]) -> usize {
        let mut at = at;
        while let Some((length, _)) = longest(self.rest(at), phrases.iter().copied()) {
            at += length;
        }
        at
    }

    /// "the date is 2026-12-09", "destination: Lisbon", "change the seats to 3".
    fn by_name(&self, taken: &mut [bool], finds: &mut Finds) {
        let mut at = 0;
        while at < self.words.len() {
            let Some((length, slot)) = self.name_at(at).filter(|_| taken.get(at) == Some(&false)) else {
                at += 1;
                continue;
            };
            let connected = self.skip(at + length, CONNECT);
            let colon = self.words.get(at + length).is_some_and(|word| word.after_break);
            let clear = self.changing || colon || connected > at + length;
            let end = if connected < self.words.len() { self.end_of(connected, taken) } else { connected };
            let value = self.value(slot, connected, end, clear);
            let upto = match value {
                Some((said, upto)) => {
                    put(finds, Found { slot, said });
                    upto
                }
                None => {
                    finds.named.push(slot);
                    at + length
                }
            };
            cover(taken, at, upto);
            at = upto.max(at + 1);
        }
    }

    /// The value of a slot in a piece of the message, and where it ends.
    fn value(&self, slot: usize, from: usize, to: usize, clear: bool) -> Option<(String, usize)> {
        let form = self.forms.get(slot)?;
        if form.is_free() {
            return if clear { Some((self.said(from, to)?, to)) } else { None };
        }
        for at in from..to {
            if let Some(length) = self.looks_like(form, at) {
                return Some((self.said_exactly(at, at + length)?, at + length));
            }
        }
        let words = self.words.get(from..to)?;
        let figures = words.iter().any(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let tried = match form.slot().kind {
            SlotKind::Number | SlotKind::Date => figures,
            SlotKind::Text => clear && words.len() <= 3,
            SlotKind::YesNo => false,
        };
        if tried { Some((self.said(from, to)?, to)) } else { None }
    }

    fn said_exactly(&self, from: usize, to: usize) -> Option<String> {
        let (first, last) = (self.words.get(from)?, self.words.get(to.checked_sub(1)?)?);
        self.text.get(first.start..last.end).map(str::to_owned)
    }

    /// "from Madrid to Lisbon on 2026-12-09 for 2".
    fn by_mark(&self, taken: &mut [bool], finds: &mut Finds) {
        let mut at = 0;
        while at < self.words.len() {
            let Some((length, slot)) = self.mark_at(at).filter(|_| taken.get(at) == Some(&false)) else {
                at += 1;
                continue;
            };
            let from = at + length;
            let free = from < self.words.len() && taken.get(from) == Some(&false);
            let end = if free { self.end_of(from, taken) } else { from };
            let strict = self.forms.get(slot).is_some_and(|form| !form.is_free());
            // What is no day or number there belongs to somebody else: "for my mother".
            let fits = |at: usize| self.forms.get(slot).and_then(|form| self.looks_like(form, at));
            let value = match (strict, free) {
                (_, false) => None,
                (true, _) => fits(from)
                    .and_then(|length| Some((self.said_exactly(from, from + length)?, from + length))),
                (false, _) => self.value(slot, from, end, true),
            };
            if let Some((said, upto)) = value {
                put(finds, Found { slot, said });
                cover(taken, at, upto);
                at = upto;
            } else {
                at = from;
            }
        }
    }

    /// How many words at a place look like a value of a slot.
    fn looks_like(&self, form: &Form, at: usize) -> Option<usize> {
        let rest = self.rest(at);
        let slot = form.slot();
        if !slot.values.is_empty() && slot.kind == SlotKind::Text {
            let values: Vec<String> = slot.values.iter().map(|value| folded(value)).collect();
            return longest(rest, values.iter().map(String::as_str)).map(|(length, _)| length);
        }
        match slot.kind {
            SlotKind::Date => day_at(rest).map(|(length, _)| length),
            SlotKind::Number => number(&rest.first()?.text).map(|_| 1),
            SlotKind::Text if !form.is_free() => {
                let word = rest.first()?;
                form.check(self.text.get(word.start..word.end)?).map(|_| 1)
            }
            SlotKind::Text | SlotKind::YesNo => None,
        }
    }

    /// A day, a number, a listed value that stands alone: taken if only one slot can want it, and it is the only one.
    fn by_look(&self, taken: &mut [bool], finds: &mut Finds) {
        for (slot, form) in self.forms.iter().enumerate() {
            let has_one = finds.values.iter().any(|found| found.slot == slot);
            if form.is_free() || has_one || !self.is_the_one(slot, finds) {
                continue;
            }
            let places: Vec<(usize, usize)> = (0..self.words.len())
                .filter(|at| taken.get(*at) == Some(&false))
                .filter_map(|at| Some((at, self.looks_like(form, at)?)))
                .filter(|(at, _)| form.slot().kind != SlotKind::Number || self.counts(*at, slot))
                .collect();
            let [(at, length)] = places.as_slice() else { continue };
            if let Some(said) = self.said_exactly(*at, at + length) {
                let at = *at;
                put(finds, Found { slot, said });
                cover(taken, at, at + length);
            }
        }
    }

    /// Whether a number stands for itself: it is no part of a day, and no "the one that I like".
    fn counts(&self, at: usize, slot: usize) -> bool {
        let figure =
            self.words.get(at).is_some_and(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        !self.day_here(at) && (figure || self.changing || self.wanted == Some(slot))
    }

    /// Whether a value that looks like this slot's can only be this slot's.
    fn is_the_one(&self, slot: usize, finds: &Finds) -> bool {
        let Some(form) = self.forms.get(slot) else { return false };
        let open = |other: &usize| !finds.values.iter().any(|found| found.slot == *other);
        let alike: Vec<usize> = (0..self.forms.len())
            .filter(open)
            .filter(|other| self.forms.get(*other).is_some_and(|other| same_look(form, other)))
            .collect();
        if let [only] = alike.as_slice() {
            return *only == slot;
        }
        if let Some(wanted) = self.wanted.filter(|wanted| alike.contains(wanted)) {
            return wanted == slot;
        }
        let empty: Vec<&usize> = alike.iter().filter(|other| self.empty.contains(other)).collect();
        !self.changing && matches!(empty.as_slice(), [only] if **only == slot)
    }
}

/// Whether the same words could belong to both.
fn same_look(one: &Form, other: &Form) -> bool {
    let listed = |form: &Form| form.slot().kind == SlotKind::Text && !form.slot().values.is_empty();
    if listed(one) && listed(other) {
        let values: Vec<String> = one.slot().values.iter().map(|value| folded(value)).collect();
        return other.slot().values.iter().any(|value| values.contains(&folded(value)));
    }
    !one.is_free() && !other.is_free() && one.slot().kind == other.slot().kind && listed(one) == listed(other)
}

/// The longest; nothing if two slots claim the same.
fn only_longest(all: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
    let all: Vec<(usize, usize)> = all.collect();
    let most = all.iter().map(|(length, _)| *length).max()?;
    let mut of_most = all.into_iter().filter(|(length, _)| *length == most);
    match (of_most.next(), of_most.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// The last of several values for one slot is the one that was meant.
fn put(finds: &mut Finds, found: Found) {
    finds.values.retain(|known| known.slot != found.slot);
    finds.values.push(found);
}

fn cover(taken: &mut [bool], from: usize, to: usize) {
    taken.iter_mut().take(to).skip(from).for_each(|taken| *taken = true);
}
