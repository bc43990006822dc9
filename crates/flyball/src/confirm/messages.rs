//! Messages to a person while a plan is awaiting approval.
//!
//! They are kept in one place so that they can be reviewed, translated and replaced without changing the rules. The
//! English messages and the two Russian ones about deletion must keep their exact wording, because users search for
//! them; the others are translations. Caller input (targets, the question) is sanitized and bounded first, because it
//! may come from a model.

use super::answer::Language;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;

/// Maximum number of targets that are named; beyond that, only their number is shown.
pub(super) const MAX_NAMED_TARGETS: usize = 3;

/// Maximum length of a target name, in characters.
pub(super) const MAX_TARGET_CHARS: usize = 100;

/// Maximum length of a repeated question, in characters.
pub(super) const MAX_QUESTION_CHARS: usize = 300;

/// Maximum length of an override, in characters, before substitution.
pub(super) const MAX_OVERRIDE_CHARS: usize = 1_000;

/// A message with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmationMessage<'a> {
    /// The initial question. Names up to [`MAX_NAMED_TARGETS`] targets, or shows their number; without targets, shows
    /// the number of steps.
    Ask {
        /// Targets of the plan, preferably as titles that the person knows.
        targets: &'a [String],
        /// Number of steps in the plan.
        steps: usize,
        /// Whether the plan deletes its targets, which cannot be undone.
        deletes: bool,
    },
    /// The answer was not understood; repeats the question.
    AskAgain {
        /// The question that is still open.
        question: Option<&'a str>,
    },
    /// The plan was approved.
    Confirmed,
    /// The person rejected the plan or wants to change it.
    WhatToChange,
    /// The person withdrew the request; nothing runs.
    Cancelled,
    /// Too many unclear answers; nothing runs.
    Aborted,
    /// Too many failed attempts of another operation.
    RetryAborted,
    /// The answer came after the confirmation had expired; nothing runs.
    Expired,
    /// Someone answered who is not allowed to.
    NotYours,
    /// A new question replaced the earlier one.
    Replaced,
    /// The person requested something else, so the question was dropped.
    Dropped,
    /// The message was not an answer; the question stays open.
    StillWaiting {
        /// The question that is still open.
        question: Option<&'a str>,
    },
    /// An answer without an open question, for example a repeated approval.
    NothingPending,
}

macro_rules! keys {
    ($($key:literal),* $(,)?) => {
        &[$($key, concat!($key, ".en"), concat!($key, ".ru"), concat!($key, ".es")),*]
    };
}

const MESSAGE_KEYS: &[&str] = keys![
    "confirm.ask_deletion",
    "confirm.ask_targets",
    "confirm.ask_plan",
    "confirm.ask_again",
    "confirm.confirmed",
    "confirm.what_to_change",
    "confirm.cancelled",
    "confirm.aborted",
    "confirm.retry_aborted",
    "confirm.expired",
    "confirm.not_yours",
    "confirm.replaced",
    "confirm.dropped",
    "confirm.still_waiting",
    "confirm.nothing_pending",
];

/// All keys of [`MessageCatalog`]: `confirm.aborted` for all languages, `confirm.aborted.es` for one language.
pub fn message_keys() -> &'static [&'static str] {
    MESSAGE_KEYS
}

/// The messages, with the operator's overrides.
///
/// An override may contain `{targets}` (names or their number), `{steps}` and `{question}`. An override for one
/// language takes precedence over one for all languages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageCatalog {
    overrides: BTreeMap<String, String>,
}

impl MessageCatalog {
    /// Creates a catalog with these overrides; a key outside [`message_keys`] has no effect.
    pub fn new(overrides: BTreeMap<String, String>) -> Self {
        Self { overrides }
    }

    /// Unknown override keys, most likely misspelled.
    pub fn unknown_keys(&self) -> Vec<&str> {
        let keys = self.overrides.keys().map(String::as_str);
        keys.filter(|key| !MESSAGE_KEYS.contains(key)).collect()
    }

    /// Renders the message in `language`, using the operator's override if there is one.
    pub fn render(&self, text: &ConfirmationMessage<'_>, language: Language) -> String {
        let key = text.key();
        let own = self.overrides.get(&format!("{key}.{}", language_code(language)));
        match own.or_else(|| self.overrides.get(key)) {
            Some(template) => text.fill(&truncate(template, MAX_OVERRIDE_CHARS), language),
            None => text.fill(text.template(language), language),
        }
    }
}

impl ConfirmationMessage<'_> {
    /// Renders the message in `language` without overrides.
    pub fn render(&self, language: Language) -> String {
        self.fill(self.template(language), language)
    }

    /// The override key of this message for all languages.
    pub fn key(&self) -> &'static str {
        match self {
            ConfirmationMessage::Ask { targets: [], .. } => "confirm.ask_plan",
            ConfirmationMessage::Ask { deletes: true, .. } => "confirm.ask_deletion",
            ConfirmationMessage::Ask { .. } => "confirm.ask_targets",
            ConfirmationMessage::AskAgain { .. } => "confirm.ask_again",
            ConfirmationMessage::Confirmed => "confirm.confirmed",
            ConfirmationMessage::WhatToChange => "confirm.what_to_change",
            ConfirmationMessage::Cancelled => "confirm.cancelled",
            ConfirmationMessage::Aborted => "confirm.aborted",
            ConfirmationMessage::RetryAborted => "confirm.retry_aborted",
            ConfirmationMessage::Expired => "confirm.expired",
            ConfirmationMessage::NotYours => "confirm.not_yours",
            ConfirmationMessage::Replaced => "confirm.replaced",
            ConfirmationMessage::Dropped => "confirm.dropped",
            ConfirmationMessage::StillWaiting { .. } => "confirm.still_waiting",
            ConfirmationMessage::NothingPending => "confirm.nothing_pending",
        }
    }

    fn template(&self, language: Language) -> &'static str {
        match language {
            Language::En => self.english(),
            Language::Ru => self.russian(),
            Language::Es => self.spanish(),
        }
    }

    fn english(&self) -> &'static str {
        match self {
            ConfirmationMessage::Ask { targets: [], .. } => {
                "Confirm the plan: {steps}. It may be irreversible. Are you sure?"
            }
            ConfirmationMessage::Ask { deletes: true, .. } => {
                "Confirm the deletion: {targets}. This action is irreversible. Are you sure?"
            }
            ConfirmationMessage::Ask { .. } => {
                "Confirm the operation on: {targets}. It may be irreversible. Are you sure?"
            }
            ConfirmationMessage::AskAgain { .. } => {
                "I didn't understand. Is this information correct? (yes/no)"
            }
            ConfirmationMessage::Confirmed => "Great! Processing your request...",
            ConfirmationMessage::WhatToChange => "What would you like to change?",
            ConfirmationMessage::Cancelled => {
                "Okay, the operation is cancelled. Can I help with something else?"
            }
            ConfirmationMessage::Aborted => {
                "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"
            }
            ConfirmationMessage::RetryAborted => "I'm having trouble processing this. Let's start over.",
            ConfirmationMessage::Expired => {
                "Your confirmation came too late, so nothing was done. You will be asked again."
            }
            ConfirmationMessage::NotYours => {
                "Only the person who asked for this can confirm it. The question is still open."
            }
            ConfirmationMessage::Replaced => {
                "The earlier question was dropped because a new one came. Nothing of it was done."
            }
            ConfirmationMessage::Dropped => {
                "I dropped the earlier question because you asked for something else. Nothing of it was done."
            }
            ConfirmationMessage::StillWaiting { .. } => "I am still waiting for your answer. (yes/no)",
            ConfirmationMessage::NothingPending => {
                "Nothing is waiting for your approval, so nothing was done."
            }
        }
    }

    fn russian(&self) -> &'static str {
        match self {
            ConfirmationMessage::Ask { targets: [], .. } => {
                "Подтверди план: {steps}. Он может быть необратимым. Уверен?"
            }
            ConfirmationMessage::Ask { deletes: true, .. } => {
                "Подтверди удаление: {targets}. Это действие необратимо. Уверен?"
            }
            ConfirmationMessage::Ask { .. } => {
                "Подтверди операцию: {targets}. Она может быть необратимой. Уверен?"
            }
            ConfirmationMessage::AskAgain { .. } => "Не удалось понять ответ. Всё верно? (да/нет)",
            ConfirmationMessage::Confirmed => "Отлично! Выполняю запрос...",
            ConfirmationMessage::WhatToChange => "Что ты хочешь изменить?",
            ConfirmationMessage::Cancelled => "Хорошо, операция отменена. Могу помочь с чем-то другим?",
            ConfirmationMessage::Aborted => {
                "Не получается понять твой ответ. Давай начнём сначала. Что ты хочешь сделать?"
            }
            ConfirmationMessage::RetryAborted => "Не получается это обработать. Давай начнём сначала.",
            ConfirmationMessage::Expired => {
                "Подтверждение пришло слишком поздно, поэтому ничего не сделано. Вопрос будет задан ещё раз."
            }
            ConfirmationMessage::NotYours => {
                "Подтвердить может только тот, кто об этом попросил. Вопрос остаётся открытым."
            }
            ConfirmationMessage::Replaced => {
                "Прежний вопрос снят, потому что появился новый. По нему ничего не сделано."
            }
            ConfirmationMessage::Dropped => {
                "Прежний вопрос снят, потому что пришёл новый запрос. По нему ничего не сделано."
            }
            ConfirmationMessage::StillWaiting { .. } => "Я всё ещё жду твоего ответа. (да/нет)",
            ConfirmationMessage::NothingPending => {
                "Сейчас ничего не ждёт твоего подтверждения, поэтому ничего не сделано."
            }
        }
    }

    fn spanish(&self) -> &'static str {
        match self {
            ConfirmationMessage::Ask { targets: [], .. } => {
                "Confirma el plan: {steps}. Puede ser irreversible. ¿Quieres continuar?"
            }
            ConfirmationMessage::Ask { deletes: true, .. } => {
                "Confirma la eliminación: {targets}. Esta acción es irreversible. ¿Quieres continuar?"
            }
            ConfirmationMessage::Ask { .. } => {
                "Confirma la operación: {targets}. Puede ser irreversible. ¿Quieres continuar?"
            }
            ConfirmationMessage::AskAgain { .. } => {
                "No he entendido la respuesta. ¿Es correcta esta información? (sí/no)"
            }
            ConfirmationMessage::Confirmed => "¡Perfecto! Procesando tu solicitud...",
            ConfirmationMessage::WhatToChange => "¿Qué te gustaría cambiar?",
            ConfirmationMessage::Cancelled => {
                "De acuerdo, la operación está cancelada. ¿Puedo ayudarte con otra cosa?"
            }
            ConfirmationMessage::Aborted => {
                "No consigo entender tu confirmación. Empecemos de nuevo. ¿Qué te gustaría hacer?"
            }
            ConfirmationMessage::RetryAborted => "No consigo procesar esto. Empecemos de nuevo.",
            ConfirmationMessage::Expired => {
                "Tu confirmación llegó demasiado tarde y no se ha hecho nada. Se te preguntará de nuevo."
            }
            ConfirmationMessage::NotYours => {
                "Solo puede confirmarlo quien lo pidió. La pregunta sigue abierta."
            }
            ConfirmationMessage::Replaced => {
                "La pregunta anterior se descartó porque llegó una nueva. No se ha hecho nada de ella."
            }
            ConfirmationMessage::Dropped => {
                "La pregunta anterior se descartó porque pediste otra cosa. No se ha hecho nada de ella."
            }
            ConfirmationMessage::StillWaiting { .. } => "Sigo esperando tu respuesta. (sí/no)",
            ConfirmationMessage::NothingPending => {
                "No hay nada pendiente de tu aprobación, así que no se ha hecho nada."
            }
        }
    }

    fn fill(&self, template: &str, language: Language) -> String {
        match *self {
            ConfirmationMessage::Ask { targets, steps, .. } => {
                let targets = describe_targets(targets, language);
                substitute(
                    template,
                    &[("{targets}", &targets), ("{steps}", &describe_steps(steps, language))],
                )
            }
            ConfirmationMessage::AskAgain { question } | ConfirmationMessage::StillWaiting { question } => {
                fill_question(template, question)
            }
            _ => template.to_owned(),
        }
    }
}

/// Fills in the question. A person must see what they approve, so it is appended to a template without a placeholder.
fn fill_question(template: &str, question: Option<&str>) -> String {
    let question = sanitize(question.unwrap_or_default(), MAX_QUESTION_CHARS);
    if template.contains("{question}") {
        substitute(template, &[("{question}", &question)]).trim().to_owned()
    } else if question.is_empty() {
        template.to_owned()
    } else {
        format!("{template} {question}")
    }
}

/// Substitutes all placeholders in one pass, so that a value cannot introduce another placeholder.
fn substitute(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (plain, from_brace) = rest.split_at(at);
        out.push_str(plain);
        let found = values
            .iter()
            .find_map(|(name, value)| from_brace.strip_prefix(name).map(|after| (*value, after)));
        let (value, after) = found.unwrap_or_else(|| from_brace.split_at(1));
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn describe_targets(targets: &[String], language: Language) -> String {
    if targets.len() > MAX_NAMED_TARGETS {
        return format_count(
            targets.len(),
            language,
            ["item", "items"],
            ["объект", "объекта", "объектов"],
            ["elemento", "elementos"],
        );
    }
    let names: Vec<String> = targets.iter().map(|target| target_name(target, language)).collect();
    names.join(", ")
}

/// A target without a readable name is still listed, so that the approval covers everything that was shown.
fn target_name(target: &str, language: Language) -> String {
    let name = sanitize(target, MAX_TARGET_CHARS);
    if !name.is_empty() {
        return name;
    }
    match language {
        Language::En => "(no name)",
        Language::Ru => "(без имени)",
        Language::Es => "(sin nombre)",
    }
    .to_owned()
}

fn describe_steps(steps: usize, language: Language) -> String {
    format_count(steps, language, ["step", "steps"], ["шаг", "шага", "шагов"], ["paso", "pasos"])
}

/// A number with its correctly inflected noun.
fn format_count(n: usize, language: Language, en: [&str; 2], ru: [&str; 3], es: [&str; 2]) -> String {
    let noun = match language {
        Language::En => pluralize(n, en),
        Language::Ru => pluralize_russian(n, ru),
        Language::Es => pluralize(n, es),
    };
    format!("{n} {noun}")
}

fn pluralize(n: usize, [one, many]: [&str; 2]) -> &str {
    if n == 1 { one } else { many }
}

/// 1, 21, 101 шаг; 2–4, 22 шага; 0, 5–20, 111 шагов.
fn pluralize_russian(n: usize, [one, few, many]: [&str; 3]) -> &str {
    match (n % 10, n % 100) {
        (_, 11..=14) => many,
        (1, _) => one,
        (2..=4, _) => few,
        _ => many,
    }
}

/// Sanitizes text to one line without control or bidirectional characters, at most `limit` characters.
fn sanitize(text: &str, limit: usize) -> String {
    // Bound the input as well, so that a text of only control characters stays cheap.
    let mut out = String::new();
    for c in text.chars().take(limit.saturating_mul(4)) {
        if c.is_whitespace() {
            if !out.ends_with(' ') && !out.is_empty() {
                out.push(' ');
            }
        } else if !c.is_control() && !is_bidi_or_hidden(c) {
            out.push(c);
        }
    }
    truncate(out.trim_end(), limit)
}

/// Whether a character hides or reorders visible text.
fn is_bidi_or_hidden(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Truncates between characters and marks the cut with an ellipsis.
fn truncate(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn language_code(language: Language) -> &'static str {
    match language {
        Language::En => "en",
        Language::Ru => "ru",
        Language::Es => "es",
    }
}
