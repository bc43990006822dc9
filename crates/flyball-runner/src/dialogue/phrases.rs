//! Phrases for corrections, changes, side questions and requests for a person.
//!
//! This is data, separate from the rules in `message_reader.rs`, so that a speaker of a language can check and extend
//! it. Phrases are written as messages are folded: lower case, no accents, no apostrophes, `е` for `ё`. The longest
//! phrase wins. Yes, no and cancel are in the core crate.

/// Opening words without meaning.
#[rustfmt::skip]
pub(super) const OPENINGS: &[&str] = &[
    "no", "yes", "ok", "okay", "yeah", "sure", "but", "please", "sorry", "wait", "oh", "well", "and", "hm", "hmm", "mm", "mmm", "uh", "um", "er",
    "i want to", "i would like to", "id like to", "can you", "could you", "can we", "could we", "lets", "let us",
    "нет", "да", "но", "пожалуйста", "извини", "извините", "ой", "подожди", "а", "хочу", "можно", "давай", "ладно",
    "можешь", "ну", "хм", "гм", "э", "эм", "мм", "ммм",
    "si", "pero", "por favor", "perdon", "espera", "y", "quiero", "puedes", "podemos", "vale", "bueno", "ah", "eh",
];

/// Requests another value: a modification.
#[rustfmt::skip]
pub(super) const CHANGES: &[&str] = &[
    "change", "set", "make", "update", "switch", "modify", "edit", "correct", "fix", "move",
    "измени", "измените", "изменить", "поменяй", "поменяйте", "поменять", "замени", "замените", "заменить",
    "исправь", "исправьте", "поправь", "поставь", "поставьте", "сделай", "сделайте", "пусть будет", "пусть",
    "cambia", "cambie", "cambiar", "cambialo", "cambiala", "modifica", "modificar", "corrige", "corregir", "pon",
    "ponlo", "haz", "hazlo", "que sea", "que sean", "actualiza",
];

/// Revises an earlier statement: a correction. The value follows.
#[rustfmt::skip]
pub(super) const CORRECTIONS: &[&str] = &[
    "i meant", "i mean", "i meant to say", "i said", "i wanted to say", "actually", "rather", "better", "make that",
    "я имел в виду", "я имела в виду", "имел в виду", "имела в виду", "я хотел сказать", "я хотела сказать",
    "я сказал", "я сказала", "точнее", "вернее", "лучше",
    "quise decir", "queria decir", "me referia a", "me refiero a", "mejor", "mas bien", "digo", "dije",
];

/// Between the new and the old value, or before the old one.
pub(super) const INSTEAD_OF: &[&str] =
    &["instead of", "rather than", "and not", "вместо", "а не", "en vez de", "en lugar de", "y no"];

/// Before the old value; the new one follows one of [`BUT`].
pub(super) const NOT: &[&str] = &["not", "не", "no"];

/// Between the old and the new value.
pub(super) const BUT: &[&str] = &["but", "а", "sino"];

/// Between a slot name and its value.
#[rustfmt::skip]
pub(super) const CONNECTORS: &[&str] = &[
    "to", "into", "as", "is", "are", "be", "should be", "will be", "to be", "must be", "with",
    "на", "это", "будет", "должна быть", "должен быть", "должно быть",
    "a", "por", "es", "sea", "sean", "en", "como", "debe ser",
];

/// Filler words between a phrase and its object.
#[rustfmt::skip]
pub(super) const FILLERS: &[&str] = &[
    "the", "my", "it", "that", "this", "them", "its", "it is", "to",
    "мою", "мой", "мое", "это", "его", "ее", "на", "все-таки",
    "la", "el", "los", "las", "mi", "lo", "de", "del", "que", "a", "por", "en",
];

/// Words that cannot end a name or a value.
#[rustfmt::skip]
pub(super) const TRAILING: &[&str] = &[
    "on", "for", "at", "in", "with", "and", "by", "the", "a", "please", "instead", "too", "also", "then", "thanks",
    "thank you", "now", "на", "в", "для", "и", "с", "со", "пожалуйста", "лучше", "спасибо", "теперь", "тогда",
    "el", "para", "y", "con", "en", "por favor", "mejor", "la", "gracias", "ahora", "entonces", "dia",
];

/// After these words, "to", "a" and the like introduce a verb, not a place.
pub(super) const BEFORE_VERB: &[&str] =
    &["want", "like", "need", "have", "love", "wish", "try", "able", "going", "voy", "vamos", "va"];

/// Joins two values.
pub(super) const AND: &[&str] = &["and", "и", "y", "e"];

/// Means that nothing should change.
pub(super) const NOTHING: &[&str] = &["nothing", "ничего", "nada", "none", "nichts"];

/// Says that something is wrong.
#[rustfmt::skip]
pub(super) const WRONG: &[&str] = &[
    "wrong", "incorrect", "not right", "неверн*", "неправильн*", "не та", "не тот", "не то", "mal", "equivocad*",
    "incorrect*",
];

/// Start of a question.
#[rustfmt::skip]
pub(super) const QUESTIONS: &[&str] = &[
    "what", "whats", "when", "how", "why", "where", "which", "who", "is it", "is there", "are there", "do you",
    "does", "can i", "could i", "tell me",
    "что", "когда", "как", "почему", "где", "сколько", "какой", "какая", "какое", "какие", "кто", "зачем", "есть ли",
    "можно ли", "скажи", "скажите",
    "que", "cuando", "como", "por que", "donde", "cuanto", "cuanta", "cuantos", "cual", "quien", "hay", "puedo",
    "dime",
];

/// Complete messages that ask for a person.
#[rustfmt::skip]
pub(super) const HUMAN_REQUESTS: &[&str] = &[
    "human", "a human", "operator", "agent", "human agent", "a person", "real person", "a real person",
    "talk to a human", "talk to a person", "speak to a human", "speak to a person", "speak to someone",
    "talk to someone", "talk to an agent", "speak to an agent", "talk to the operator", "call a human",
    "call the operator", "get me a human",
    "оператор", "оператора", "человек", "человека", "позови человека", "позови оператора", "позовите оператора",
    "поговорить с человеком", "поговорить с оператором", "соедини с оператором", "соедините с оператором",
    "нужен оператор", "нужен человек",
    "operador", "un operador", "una persona", "un humano", "hablar con una persona", "hablar con un humano",
    "hablar con un operador", "hablar con alguien", "un agente",
];
