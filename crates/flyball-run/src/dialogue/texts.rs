//! The sentences of a conversation in English, Russian and Spanish, and the operator's own in their place.
//!
//! What belongs to a confirmation (asked again, given up, what to change, cancelled) are the core's sentences; here are
//! those about slots. A replacement for one language (`dialogue.updated.es`) goes before one for all.

use flyball::confirm::{Language, Text, Texts};
use flyball::policy;
use std::collections::BTreeMap;

/// How much of a person's words is repeated to them.
const MAX_SHOWN_CHARS: usize = 200;

/// A sentence, with what belongs into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// A value was corrected.
    Updated {
        /// What the slot is called.
        slot: &'a str,
        /// Its new value.
        value: &'a str,
    },
    /// A value was changed.
    Changed {
        /// What the slot is called.
        slot: &'a str,
        /// Its new value.
        value: &'a str,
    },
    /// It is open what a value shall become.
    ChangeTo {
        /// What the slot is called.
        slot: &'a str,
    },
    /// Nothing of use was said; the question follows.
    AskAgain,
    /// A value does not fit.
    Invalid,
    /// It is no number.
    InvalidNumber,
    /// It is no day.
    InvalidDate,
    /// It is not among the values that there are.
    InvalidValue {
        /// All that there are.
        values: &'a str,
    },
    /// A question on the side that nobody has written an answer to.
    NoAnswer,
    /// Whether everything is right.
    Confirm {
        /// Everything.
        summary: &'a str,
    },
    /// A person takes over.
    HandOver,
    /// It does not get on, and a person takes over.
    NoProgress,
    /// What was to be done did not work.
    Failed {
        /// Why.
        error: &'a str,
    },
}

/// Key, English, Russian, Spanish.
const SENTENCES: [(&str, [&str; 3]); 13] = [
    (
        "dialogue.updated",
        [
            "Got it, I've updated {slot} to {value}.",
            "Принято, «{slot}»: теперь {value}.",
            "Entendido, «{slot}» es ahora {value}.",
        ],
    ),
    (
        "dialogue.changed",
        [
            "Done, I've changed {slot} to {value}.",
            "Готово, «{slot}»: теперь {value}.",
            "Hecho, «{slot}» es ahora {value}.",
        ],
    ),
    (
        "dialogue.change_to",
        [
            "What would you like to change {slot} to?",
            "На что изменить «{slot}»?",
            "¿A qué te gustaría cambiar «{slot}»?",
        ],
    ),
    (
        "dialogue.ask_again",
        ["I didn't understand.", "Не удалось понять ответ.", "No he entendido la respuesta."],
    ),
    ("dialogue.invalid", ["That does not fit.", "Это не подходит.", "Eso no encaja."]),
    ("dialogue.invalid_number", ["That is not a number.", "Это не число.", "Eso no es un número."]),
    (
        "dialogue.invalid_date",
        [
            "That is not a day; write it as 2026-12-09.",
            "Это не дата; напиши её как 2026-12-09.",
            "Eso no es una fecha; escríbela como 2026-12-09.",
        ],
    ),
    (
        "dialogue.invalid_value",
        ["It must be one of: {values}.", "Подходит одно из: {values}.", "Tiene que ser uno de: {values}."],
    ),
    (
        "dialogue.no_answer",
        ["I can't answer that here.", "На это я здесь ответить не могу.", "Eso no lo puedo responder aquí."],
    ),
    (
        "dialogue.confirm",
        [
            "{summary}. Is this information correct? (yes/no)",
            "{summary}. Всё верно? (да/нет)",
            "{summary}. ¿Es correcta esta información? (sí/no)",
        ],
    ),
    (
        "dialogue.hand_over",
        ["I am handing you over to a person.", "Передаю разговор человеку.", "Te paso con una persona."],
    ),
    (
        "dialogue.no_progress",
        [
            "We are not getting anywhere. I am handing you over to a person.",
            "Мы топчемся на месте. Передаю разговор человеку.",
            "No avanzamos. Te paso con una persona.",
        ],
    ),
    (
        "dialogue.failed",
        ["That did not work: {error}", "Не получилось: {error}", "No ha funcionado: {error}"],
    ),
];

/// Every key that the `texts:` of a workflow may have. Each may also end in `.en`, `.ru` or `.es`.
#[must_use]
pub fn known_keys() -> Vec<&'static str> {
    let core = flyball::confirm::known_keys().iter().copied();
    let plain = core.filter(|key| ![".en", ".ru", ".es"].iter().any(|end| key.ends_with(end)));
    plain.chain(SENTENCES.iter().map(|(key, _)| *key)).collect()
}

impl Line<'_> {
    const fn key(&self) -> &'static str {
        match self {
            Line::Updated { .. } => "dialogue.updated",
            Line::Changed { .. } => "dialogue.changed",
            Line::ChangeTo { .. } => "dialogue.change_to",
            Line::AskAgain => "dialogue.ask_again",
            Line::Invalid => "dialogue.invalid",
            Line::InvalidNumber => "dialogue.invalid_number",
            Line::InvalidDate => "dialogue.invalid_date",
            Line::InvalidValue { .. } => "dialogue.invalid_value",
            Line::NoAnswer => "dialogue.no_answer",
            Line::Confirm { .. } => "dialogue.confirm",
            Line::HandOver => "dialogue.hand_over",
            Line::NoProgress => "dialogue.no_progress",
            Line::Failed { .. } => "dialogue.failed",
        }
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        match *self {
            Line::Updated { slot, value } | Line::Changed { slot, value } => {
                vec![("{slot}", clean(slot)), ("{value}", clean(value))]
            }
            Line::ChangeTo { slot } => vec![("{slot}", clean(slot))],
            Line::InvalidValue { values } => vec![("{values}", values.to_owned())],
            Line::Confirm { summary } => vec![("{summary}", summary.to_owned())],
            Line::Failed { error } => vec![("{error}", clean(error))],
            _ => Vec::new(),
        }
    }
}

/// The sentences of one conversation, in the language of the one who talks.
#[derive(Debug, Clone)]
pub struct Speech {
    own: BTreeMap<String, String>,
    core: Texts,
    wanted: policy::Language,
    language: Language,
}

impl Speech {
    /// Sentences with these replacements: the policy's first, then the workflow's. `guess` is a text of the file whose
    /// language is spoken until somebody has said something.
    #[must_use]
    pub fn new(confirmation: &policy::Confirmation, texts: &BTreeMap<String, String>, guess: &str) -> Self {
        let mut all = confirmation.texts.clone();
        all.extend(texts.iter().map(|(key, text)| (key.clone(), text.clone())));
        let mut speech = Speech {
            own: all.clone(),
            core: Texts::new(all),
            wanted: confirmation.language,
            language: Language::En,
        };
        speech.heard(guess);
        speech
    }

    /// Somebody said something: from here on their language is spoken, if it can be told.
    pub fn heard(&mut self, text: &str) {
        self.language = match self.wanted {
            policy::Language::En => Language::En,
            policy::Language::Ru => Language::Ru,
            policy::Language::Es => Language::Es,
            policy::Language::Auto => flyball::confirm::language_of(text).unwrap_or(self.language),
        };
    }

    /// The language that is spoken.
    #[must_use]
    pub const fn language(&self) -> Language {
        self.language
    }

    /// A sentence about slots.
    #[must_use]
    pub fn line(&self, line: &Line<'_>) -> String {
        let key = line.key();
        let (code, at) = match self.language {
            Language::En => ("en", 0),
            Language::Ru => ("ru", 1),
            Language::Es => ("es", 2),
        };
        let own = self.own.get(&format!("{key}.{code}")).or_else(|| self.own.get(key));
        let built_in = SENTENCES.iter().find(|(known, _)| *known == key).and_then(|(_, texts)| texts.get(at));
        let template = own.map(String::as_str).or(built_in.copied()).unwrap_or_default();
        fill(template, &line.values())
    }

    /// A sentence of the core.
    #[must_use]
    pub fn text(&self, text: &Text<'_>) -> String {
        self.core.render(text, self.language)
    }
}

/// Puts values in place of names in one pass, so that a value cannot bring in a name.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (plain, from_brace) = rest.split_at(at);
        out.push_str(plain);
        let found = values.iter().find_map(|(name, value)| Some((value, from_brace.strip_prefix(name)?)));
        if let Some((value, after)) = found {
            out.push_str(value);
            rest = after;
        } else {
            out.push('{');
            rest = from_brace.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

/// One line, not too long, of what may have come from anywhere.
pub(crate) fn clean(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.chars().nth(MAX_SHOWN_CHARS).is_none() {
        return line;
    }
    let mut short: String = line.chars().take(MAX_SHOWN_CHARS - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::{Line, SENTENCES, Speech, known_keys};
    use flyball::confirm::Text;
    use flyball::policy::Confirmation;
    use std::collections::BTreeMap;

    fn speech(texts: &[(&str, &str)]) -> Speech {
        let texts: BTreeMap<String, String> =
            texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Speech::new(&Confirmation::default(), &texts, "")
    }

    #[test]
    fn the_language_follows_the_person_and_stays_when_it_cannot_be_told() {
        let mut speech = speech(&[]);
        let line = Line::Updated { slot: "date", value: "2026-12-09" };
        assert_eq!(speech.line(&line), "Got it, I've updated date to 2026-12-09.");
        speech.heard("Поменяй дату на 2026-12-09");
        assert_eq!(speech.line(&line), "Принято, «date»: теперь 2026-12-09.");
        speech.heard("Lisboa");
        assert_eq!(speech.text(&Text::WhatToChange), "Что ты хочешь изменить?");
        speech.heard("cambia la fecha por favor");
        assert_eq!(speech.line(&Line::ChangeTo { slot: "fecha" }), "¿A qué te gustaría cambiar «fecha»?");
    }

    #[test]
    fn the_operator_replaces_a_sentence_for_all_or_for_one_language() {
        let mut speech = speech(&[
            ("dialogue.hand_over", "Over to {slot}."),
            ("dialogue.hand_over.ru", "К человеку."),
            ("confirm.what_to_change", "Change what?"),
        ]);
        assert_eq!(speech.line(&Line::HandOver), "Over to {slot}.");
        assert_eq!(speech.text(&Text::WhatToChange), "Change what?");
        speech.heard("да");
        assert_eq!(speech.line(&Line::HandOver), "К человеку.");
    }

    #[test]
    fn what_people_say_cannot_bring_in_a_name_or_a_line() {
        let line = Line::Updated { slot: "{value}", value: "a\nb {slot}" };
        assert_eq!(speech(&[]).line(&line), "Got it, I've updated {value} to a b {slot}.");
    }

    #[test]
    fn every_sentence_has_three_languages_and_a_key_that_is_known() {
        for (key, texts) in SENTENCES {
            assert!(known_keys().contains(&key));
            assert!(texts.iter().all(|text| !text.is_empty()), "{key}");
        }
        assert!(known_keys().contains(&"confirm.aborted") && !known_keys().contains(&"confirm.aborted.es"));
    }
}
