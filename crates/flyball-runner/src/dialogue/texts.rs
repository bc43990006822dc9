//! Texts of a conversation in English, Russian and Spanish, with overrides.
//!
//! The core crate has the texts of confirmations (asked again, aborted, what to change, cancelled); this module has
//! those about slots. An override for one language (`dialogue.updated.es`) takes precedence over one for all.

use flyball::confirm::{ConfirmationMessage, Language, MessageCatalog};
use flyball::policy;
use std::collections::BTreeMap;

/// Maximum length of quoted user text.
const MAX_SHOWN_CHARS: usize = 200;

/// A text with its placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialogueLine<'a> {
    /// A value was corrected.
    Updated {
        /// Slot label.
        slot: &'a str,
        /// Its new value.
        value: &'a str,
    },
    /// A value was changed.
    Changed {
        /// Slot label.
        slot: &'a str,
        /// Its new value.
        value: &'a str,
    },
    /// Asks for the new value of a slot.
    ChangeTo {
        /// Slot label.
        slot: &'a str,
    },
    /// Not understood; the question follows.
    AskAgain,
    /// A value is invalid.
    Invalid,
    /// Not a number.
    InvalidNumber,
    /// Not a date.
    InvalidDate,
    /// Not one of the allowed values.
    InvalidValue {
        /// All allowed values.
        values: &'a str,
    },
    /// A side question without a configured answer.
    NoAnswer,
    /// Asks for confirmation.
    Confirm {
        /// All values.
        summary: &'a str,
    },
    /// A person takes over.
    HandOver,
    /// No progress; a person takes over.
    NoProgress,
    /// The action failed.
    Failed {
        /// Error text.
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
    ("dialogue.invalid", ["That is not a valid value.", "Это не подходит.", "Eso no encaja."]),
    ("dialogue.invalid_number", ["That is not a number.", "Это не число.", "Eso no es un número."]),
    (
        "dialogue.invalid_date",
        [
            "That is not a date; write it as 2026-12-09.",
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

/// All keys allowed in `texts:` of a workflow. Each may also end in `.en`, `.ru` or `.es`.
#[must_use]
pub fn known_text_keys() -> Vec<&'static str> {
    let core = flyball::confirm::message_keys().iter().copied();
    let plain = core.filter(|key| ![".en", ".ru", ".es"].iter().any(|end| key.ends_with(end)));
    plain.chain(SENTENCES.iter().map(|(key, _)| *key)).collect()
}

impl DialogueLine<'_> {
    const fn key(&self) -> &'static str {
        match self {
            DialogueLine::Updated { .. } => "dialogue.updated",
            DialogueLine::Changed { .. } => "dialogue.changed",
            DialogueLine::ChangeTo { .. } => "dialogue.change_to",
            DialogueLine::AskAgain => "dialogue.ask_again",
            DialogueLine::Invalid => "dialogue.invalid",
            DialogueLine::InvalidNumber => "dialogue.invalid_number",
            DialogueLine::InvalidDate => "dialogue.invalid_date",
            DialogueLine::InvalidValue { .. } => "dialogue.invalid_value",
            DialogueLine::NoAnswer => "dialogue.no_answer",
            DialogueLine::Confirm { .. } => "dialogue.confirm",
            DialogueLine::HandOver => "dialogue.hand_over",
            DialogueLine::NoProgress => "dialogue.no_progress",
            DialogueLine::Failed { .. } => "dialogue.failed",
        }
    }

    fn placeholders(&self) -> Vec<(&'static str, String)> {
        match *self {
            DialogueLine::Updated { slot, value } | DialogueLine::Changed { slot, value } => {
                vec![("{slot}", single_line(slot)), ("{value}", single_line(value))]
            }
            DialogueLine::ChangeTo { slot } => vec![("{slot}", single_line(slot))],
            DialogueLine::InvalidValue { values } => vec![("{values}", values.to_owned())],
            DialogueLine::Confirm { summary } => vec![("{summary}", summary.to_owned())],
            DialogueLine::Failed { error } => vec![("{error}", single_line(error))],
            _ => Vec::new(),
        }
    }
}

/// Texts of one conversation, in the user's language.
#[derive(Debug, Clone)]
pub struct DialogueTexts {
    overrides: BTreeMap<String, String>,
    core: MessageCatalog,
    configured_language: policy::LanguageSetting,
    language: Language,
}

impl DialogueTexts {
    /// Texts with overrides from the policy and the workflow; the workflow's win. `guess` is a text of the file whose
    /// language is used until the user writes something.
    #[must_use]
    pub fn new(
        confirmation: &policy::ConfirmationPolicy,
        texts: &BTreeMap<String, String>,
        guess: &str,
    ) -> Self {
        let mut all = confirmation.texts.clone();
        all.extend(texts.iter().map(|(key, text)| (key.clone(), text.clone())));
        let mut dialogue_texts = DialogueTexts {
            overrides: all.clone(),
            core: MessageCatalog::new(all),
            configured_language: confirmation.language,
            language: Language::En,
        };
        dialogue_texts.detect_language(guess);
        dialogue_texts
    }

    /// Switches to the language of a message, if it can be detected.
    pub fn detect_language(&mut self, text: &str) {
        self.language = match self.configured_language {
            policy::LanguageSetting::En => Language::En,
            policy::LanguageSetting::Ru => Language::Ru,
            policy::LanguageSetting::Es => Language::Es,
            policy::LanguageSetting::Auto => flyball::confirm::detect_language(text).unwrap_or(self.language),
        };
    }

    /// Current language.
    #[must_use]
    pub const fn language(&self) -> Language {
        self.language
    }

    /// Renders a text about slots.
    #[must_use]
    pub fn render_line(&self, line: &DialogueLine<'_>) -> String {
        let key = line.key();
        let (code, at) = match self.language {
            Language::En => ("en", 0),
            Language::Ru => ("ru", 1),
            Language::Es => ("es", 2),
        };
        let own = self.overrides.get(&format!("{key}.{code}")).or_else(|| self.overrides.get(key));
        let built_in = SENTENCES.iter().find(|(known, _)| *known == key).and_then(|(_, texts)| texts.get(at));
        let template = own.map(String::as_str).or(built_in.copied()).unwrap_or_default();
        fill_placeholders(template, &line.placeholders())
    }

    /// Renders a text of the core crate.
    #[must_use]
    pub fn render_core_text(&self, text: &ConfirmationMessage<'_>) -> String {
        self.core.render(text, self.language)
    }
}

/// Replaces placeholders in one pass, so that a value cannot inject one.
fn fill_placeholders(template: &str, values: &[(&str, String)]) -> String {
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

/// Collapses untrusted text to one line of limited length.
pub(crate) fn single_line(text: &str) -> String {
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
    use super::{DialogueLine, DialogueTexts, SENTENCES, known_text_keys};
    use flyball::confirm::ConfirmationMessage;
    use flyball::policy::ConfirmationPolicy;
    use std::collections::BTreeMap;

    fn test_texts(texts: &[(&str, &str)]) -> DialogueTexts {
        let texts: BTreeMap<String, String> =
            texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        DialogueTexts::new(&ConfirmationPolicy::default(), &texts, "")
    }

    #[test]
    fn language_follows_the_user_and_is_kept_when_undetected() {
        let mut texts = test_texts(&[]);
        let line = DialogueLine::Updated { slot: "date", value: "2026-12-09" };
        assert_eq!(texts.render_line(&line), "Got it, I've updated date to 2026-12-09.");
        texts.detect_language("Поменяй дату на 2026-12-09");
        assert_eq!(texts.render_line(&line), "Принято, «date»: теперь 2026-12-09.");
        texts.detect_language("Lisboa");
        assert_eq!(texts.render_core_text(&ConfirmationMessage::WhatToChange), "Что ты хочешь изменить?");
        texts.detect_language("cambia la fecha por favor");
        assert_eq!(
            texts.render_line(&DialogueLine::ChangeTo { slot: "fecha" }),
            "¿A qué te gustaría cambiar «fecha»?"
        );
    }

    #[test]
    fn texts_are_overridden_globally_or_per_language() {
        let mut texts = test_texts(&[
            ("dialogue.hand_over", "Over to {slot}."),
            ("dialogue.hand_over.ru", "К человеку."),
            ("confirm.what_to_change", "Change what?"),
        ]);
        assert_eq!(texts.render_line(&DialogueLine::HandOver), "Over to {slot}.");
        assert_eq!(texts.render_core_text(&ConfirmationMessage::WhatToChange), "Change what?");
        texts.detect_language("да");
        assert_eq!(texts.render_line(&DialogueLine::HandOver), "К человеку.");
    }

    #[test]
    fn user_values_cannot_inject_placeholders_or_line_breaks() {
        let line = DialogueLine::Updated { slot: "{value}", value: "a\nb {slot}" };
        assert_eq!(test_texts(&[]).render_line(&line), "Got it, I've updated {value} to a b {slot}.");
    }

    #[test]
    fn every_text_has_three_languages_and_a_known_key() {
        for (key, texts) in SENTENCES {
            assert!(known_text_keys().contains(&key));
            assert!(texts.iter().all(|text| !text.is_empty()), "{key}");
        }
        assert!(
            known_text_keys().contains(&"confirm.aborted")
                && !known_text_keys().contains(&"confirm.aborted.es")
        );
    }
}
