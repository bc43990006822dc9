//! The sentences said to a person while a plan waits for a confirmation.
//!
//! They stand in one place so that they can be read, translated and replaced without touching the
//! rules. The English sentences and the two Russian ones about deletion are relied on word for word
//! by people who search for them; the others are their counterparts. What a caller puts in (targets,
//! the question) is cleaned and bounded first, because it may come from a model.

use super::answer::Language;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;

/// Up to this many targets are named; of more only the number is told.
pub(super) const MAX_NAMED_TARGETS: usize = 3;

/// A target's name is cut after this many characters.
pub(super) const MAX_TARGET_CHARS: usize = 100;

/// A repeated question is cut after this many characters.
pub(super) const MAX_QUESTION_CHARS: usize = 300;

/// A replaced sentence is cut after this many characters, before anything is put into it.
pub(super) const MAX_OVERRIDE_CHARS: usize = 1_000;

/// A sentence to say, with what belongs into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text<'a> {
    /// The first question. Up to [`MAX_NAMED_TARGETS`] targets are named, of more the number is
    /// told, and without any the number of steps of the plan.
    Ask {
        /// What the plan acts on, best as titles that the person knows.
        targets: &'a [String],
        /// How many steps the plan has.
        steps: usize,
        /// Whether the plan deletes its targets, which cannot be undone.
        deletes: bool,
    },
    /// The answer was not understood; repeats what is being confirmed.
    AskAgain {
        /// The question that is still open.
        question: Option<&'a str>,
    },
    /// The person said yes.
    Confirmed,
    /// The person said no, or wants another version of the plan.
    WhatToChange,
    /// The person took the request back; nothing runs.
    Cancelled,
    /// Too many unclear answers; nothing runs.
    Aborted,
    /// Too many failed attempts of another operation.
    RetryAborted,
    /// The answer came after the confirmation had expired; nothing runs.
    Expired,
    /// Someone answered who may not.
    NotYours,
    /// An earlier question was dropped for a new one.
    Replaced,
    /// The person asked for something else, so the question was dropped.
    Dropped,
    /// The person talked about something else; the question stays open.
    StillWaiting {
        /// The question that is still open.
        question: Option<&'a str>,
    },
    /// An answer without an open question, for example a second yes.
    NothingPending,
}

macro_rules! keys {
    ($($key:literal),* $(,)?) => {
        &[$($key, concat!($key, ".en"), concat!($key, ".ru"), concat!($key, ".es")),*]
    };
}

const KEYS: &[&str] = keys![
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

/// Every key that [`Texts`] takes: `confirm.aborted` for all languages, `confirm.aborted.es` for
/// one of them.
pub fn known_keys() -> &'static [&'static str] {
    KEYS
}

/// The sentences, some of them replaced by the operator.
///
/// A replacement may hold `{targets}` (names or their number), `{steps}` and `{question}`. A
/// replacement for one language goes before one for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Texts {
    overrides: BTreeMap<String, String>,
}

impl Texts {
    /// Sentences with these replacements; a key outside [`known_keys`] has no effect.
    pub fn new(overrides: BTreeMap<String, String>) -> Self {
        Self { overrides }
    }

    /// The keys that replace nothing, most likely misspelt.
    pub fn unknown_keys(&self) -> Vec<&str> {
        let keys = self.overrides.keys().map(String::as_str);
        keys.filter(|key| !KEYS.contains(key)).collect()
    }

    /// The sentence in `language`, with the operator's replacement if there is one.
    pub fn render(&self, text: &Text<'_>, language: Language) -> String {
        let key = text.key();
        let own = self.overrides.get(&format!("{key}.{}", code(language)));
        match own.or_else(|| self.overrides.get(key)) {
            Some(template) => text.fill(&shorten(template, MAX_OVERRIDE_CHARS), language),
            None => text.fill(text.template(language), language),
        }
    }
}

impl Text<'_> {
    /// The sentence in `language`, as it comes without replacements.
    pub fn render(&self, language: Language) -> String {
        self.fill(self.template(language), language)
    }

    /// The key that replaces this sentence in all languages.
    pub fn key(&self) -> &'static str {
        match self {
            Text::Ask { targets: [], .. } => "confirm.ask_plan",
            Text::Ask { deletes: true, .. } => "confirm.ask_deletion",
            Text::Ask { .. } => "confirm.ask_targets",
            Text::AskAgain { .. } => "confirm.ask_again",
            Text::Confirmed => "confirm.confirmed",
            Text::WhatToChange => "confirm.what_to_change",
            Text::Cancelled => "confirm.cancelled",
            Text::Aborted => "confirm.aborted",
            Text::RetryAborted => "confirm.retry_aborted",
            Text::Expired => "confirm.expired",
            Text::NotYours => "confirm.not_yours",
            Text::Replaced => "confirm.replaced",
            Text::Dropped => "confirm.dropped",
            Text::StillWaiting { .. } => "confirm.still_waiting",
            Text::NothingPending => "confirm.nothing_pending",
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
            Text::Ask { targets: [], .. } => {
                "Confirm the plan: {steps}. It may be irreversible. Are you sure?"
            }
            Text::Ask { deletes: true, .. } => {
                "Confirm the deletion: {targets}. This action is irreversible. Are you sure?"
            }
            Text::Ask { .. } => "Confirm the operation on: {targets}. It may be irreversible. Are you sure?",
            Text::AskAgain { .. } => "I didn't understand. Is this information correct? (yes/no)",
            Text::Confirmed => "Great! Processing your request...",
            Text::WhatToChange => "What would you like to change?",
            Text::Cancelled => "Okay, the operation is cancelled. Can I help with something else?",
            Text::Aborted => {
                "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"
            }
            Text::RetryAborted => "I'm having trouble processing this. Let's start over.",
            Text::Expired => "Your confirmation came too late, so nothing was done. You will be asked again.",
            Text::NotYours => {
                "Only the person who asked for this can confirm it. The question is still open."
            }
            Text::Replaced => {
                "The earlier question was dropped because a new one came. Nothing of it was done."
            }
            Text::Dropped => {
                "I dropped the earlier question because you asked for something else. Nothing of it was done."
            }
            Text::StillWaiting { .. } => "I am still waiting for your answer. (yes/no)",
            Text::NothingPending => "Nothing is waiting for your approval, so nothing was done.",
        }
    }

    fn russian(&self) -> &'static str {
        match self {
            Text::Ask { targets: [], .. } => "Подтверди план: {steps}. Он может быть необратимым. Уверен?",
            Text::Ask { deletes: true, .. } => {
                "Подтверди удаление: {targets}. Это действие необратимо. Уверен?"
            }
            Text::Ask { .. } => "Подтверди операцию: {targets}. Она может быть необратимой. Уверен?",
            Text::AskAgain { .. } => "Не удалось понять ответ. Всё верно? (да/нет)",
            Text::Confirmed => "Отлично! Выполняю запрос...",
            Text::WhatToChange => "Что ты хочешь изменить?",
            Text::Cancelled => "Хорошо, операция отменена. Могу помочь с чем-то другим?",
            Text::Aborted => "Не получается понять твой ответ. Давай начнём сначала. Что ты хочешь сделать?",
            Text::RetryAborted => "Не получается это обработать. Давай начнём сначала.",
            Text::Expired => {
                "Подтверждение пришло слишком поздно, поэтому ничего не сделано. Вопрос будет задан ещё раз."
            }
            Text::NotYours => "Подтвердить может только тот, кто об этом попросил. Вопрос остаётся открытым.",
            Text::Replaced => "Прежний вопрос снят, потому что появился новый. По нему ничего не сделано.",
            Text::Dropped => {
                "Прежний вопрос снят, потому что пришёл новый запрос. По нему ничего не сделано."
            }
            Text::StillWaiting { .. } => "Я всё ещё жду твоего ответа. (да/нет)",
            Text::NothingPending => "Сейчас ничего не ждёт твоего подтверждения, поэтому ничего не сделано.",
        }
    }

    fn spanish(&self) -> &'static str {
        match self {
            Text::Ask { targets: [], .. } => {
                "Confirma el plan: {steps}. Puede ser irreversible. ¿Quieres continuar?"
            }
            Text::Ask { deletes: true, .. } => {
                "Confirma la eliminación: {targets}. Esta acción es irreversible. ¿Quieres continuar?"
            }
            Text::Ask { .. } => {
                "Confirma la operación: {targets}. Puede ser irreversible. ¿Quieres continuar?"
            }
            Text::AskAgain { .. } => "No he entendido la respuesta. ¿Es correcta esta información? (sí/no)",
            Text::Confirmed => "¡Perfecto! Procesando tu solicitud...",
            Text::WhatToChange => "¿Qué te gustaría cambiar?",
            Text::Cancelled => "De acuerdo, la operación está cancelada. ¿Puedo ayudarte con otra cosa?",
            Text::Aborted => {
                "No consigo entender tu confirmación. Empecemos de nuevo. ¿Qué te gustaría hacer?"
            }
            Text::RetryAborted => "No consigo procesar esto. Empecemos de nuevo.",
            Text::Expired => {
                "Tu confirmación llegó demasiado tarde y no se ha hecho nada. Se te preguntará de nuevo."
            }
            Text::NotYours => "Solo puede confirmarlo quien lo pidió. La pregunta sigue abierta.",
            Text::Replaced => {
                "La pregunta anterior se descartó porque llegó una nueva. No se ha hecho nada de ella."
            }
            Text::Dropped => {
                "La pregunta anterior se descartó porque pediste otra cosa. No se ha hecho nada de ella."
            }
            Text::StillWaiting { .. } => "Sigo esperando tu respuesta. (sí/no)",
            Text::NothingPending => "No hay nada pendiente de tu aprobación, así que no se ha hecho nada.",
        }
    }

    fn fill(&self, template: &str, language: Language) -> String {
        match *self {
            Text::Ask { targets, steps, .. } => {
                let targets = describe_targets(targets, language);
                substitute(
                    template,
                    &[("{targets}", &targets), ("{steps}", &describe_steps(steps, language))],
                )
            }
            Text::AskAgain { question } | Text::StillWaiting { question } => {
                fill_question(template, question)
            }
            _ => template.to_owned(),
        }
    }
}

/// A person must see again what the yes would be to, so the question goes to the end of a template
/// that has no place for it.
fn fill_question(template: &str, question: Option<&str>) -> String {
    let question = clean(question.unwrap_or_default(), MAX_QUESTION_CHARS);
    if template.contains("{question}") {
        substitute(template, &[("{question}", &question)]).trim().to_owned()
    } else if question.is_empty() {
        template.to_owned()
    } else {
        format!("{template} {question}")
    }
}

/// Puts values in place of names in one pass, so that a value cannot bring in a placeholder.
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
        return count(
            targets.len(),
            language,
            ["item", "items"],
            ["объект", "объекта", "объектов"],
            ["elemento", "elementos"],
        );
    }
    let names: Vec<String> = targets.iter().map(|target| name_target(target, language)).collect();
    names.join(", ")
}

/// A target without a readable name is still told, so that the yes covers what was shown.
fn name_target(target: &str, language: Language) -> String {
    let name = clean(target, MAX_TARGET_CHARS);
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
    count(steps, language, ["step", "steps"], ["шаг", "шага", "шагов"], ["paso", "pasos"])
}

/// A number with its noun in the right form.
fn count(n: usize, language: Language, en: [&str; 2], ru: [&str; 3], es: [&str; 2]) -> String {
    let noun = match language {
        Language::En => choose_two(n, en),
        Language::Ru => choose_russian(n, ru),
        Language::Es => choose_two(n, es),
    };
    format!("{n} {noun}")
}

fn choose_two(n: usize, [one, many]: [&str; 2]) -> &str {
    if n == 1 { one } else { many }
}

/// 1, 21, 101 шаг; 2–4, 22 шага; 0, 5–20, 111 шагов.
fn choose_russian(n: usize, [one, few, many]: [&str; 3]) -> &str {
    match (n % 10, n % 100) {
        (_, 11..=14) => many,
        (1, _) => one,
        (2..=4, _) => few,
        _ => many,
    }
}

/// One line without control and direction characters, at most `limit` characters.
fn clean(text: &str, limit: usize) -> String {
    // Reading is bounded too, so that a text of nothing but control characters stays cheap.
    let mut out = String::new();
    for c in text.chars().take(limit.saturating_mul(4)) {
        if c.is_whitespace() {
            if !out.ends_with(' ') && !out.is_empty() {
                out.push(' ');
            }
        } else if !c.is_control() && !is_direction_or_hidden(c) {
            out.push(c);
        }
    }
    shorten(out.trim_end(), limit)
}

/// Characters that hide or reorder what a person reads.
fn is_direction_or_hidden(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Cuts between characters, and shows that it did.
fn shorten(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn code(language: Language) -> &'static str {
    match language {
        Language::En => "en",
        Language::Ru => "ru",
        Language::Es => "es",
    }
}
