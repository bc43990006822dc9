//! The phrases by which people correct themselves, ask for changes, ask something on the side, or ask for a person.
//!
//! Data, kept apart from the rules in `read.rs`, so that a speaker of a language can check and extend it. Written the
//! way messages are folded: lower case, no accents, no apostrophes, `е` for `ё`. The longest phrase wins. Yes, no and
//! cancel are not here: those words are the core's.

/// What may stand before the point of a message and changes nothing.
#[rustfmt::skip]
pub(super) const OPENINGS: &[&str] = &[
    "no", "yes", "ok", "okay", "yeah", "sure", "but", "please", "sorry", "wait", "oh", "well", "and", "hm", "hmm", "mm", "mmm", "uh", "um", "er",
    "i want to", "i would like to", "id like to", "can you", "could you", "can we", "could we", "lets", "let us",
    "нет", "да", "но", "пожалуйста", "извини", "извините", "ой", "подожди", "а", "хочу", "можно", "давай", "ладно",
    "можешь", "ну", "хм", "гм", "э", "эм", "мм", "ммм",
    "si", "pero", "por favor", "perdon", "espera", "y", "quiero", "puedes", "podemos", "vale", "bueno", "ah", "eh",
];

/// Asks for another value: a modification.
#[rustfmt::skip]
pub(super) const CHANGES: &[&str] = &[
    "change", "set", "make", "update", "switch", "modify", "edit", "correct", "fix", "move",
    "измени", "измените", "изменить", "поменяй", "поменяйте", "поменять", "замени", "замените", "заменить",
    "исправь", "исправьте", "поправь", "поставь", "поставьте", "сделай", "сделайте", "пусть будет", "пусть",
    "cambia", "cambie", "cambiar", "cambialo", "cambiala", "modifica", "modificar", "corrige", "corregir", "pon",
    "ponlo", "haz", "hazlo", "que sea", "que sean", "actualiza",
];

/// Takes back what was said: a correction. The value follows.
#[rustfmt::skip]
pub(super) const MEANT: &[&str] = &[
    "i meant", "i mean", "i meant to say", "i said", "i wanted to say", "actually", "rather", "better", "make that",
    "я имел в виду", "я имела в виду", "имел в виду", "имела в виду", "я хотел сказать", "я хотела сказать",
    "я сказал", "я сказала", "точнее", "вернее", "лучше",
    "quise decir", "queria decir", "me referia a", "me refiero a", "mejor", "mas bien", "digo", "dije",
];

/// Between the new value and the old one, or before the old one.
pub(super) const INSTEAD_OF: &[&str] =
    &["instead of", "rather than", "and not", "вместо", "а не", "en vez de", "en lugar de", "y no"];

/// Before the old value; the new one follows after one of [`BUT`].
pub(super) const NOT: &[&str] = &["not", "не", "no"];

/// Between the old value and the new one.
pub(super) const BUT: &[&str] = &["but", "а", "sino"];

/// Between the name of a slot and its value.
#[rustfmt::skip]
pub(super) const CONNECT: &[&str] = &[
    "to", "into", "as", "is", "are", "be", "should be", "will be", "to be", "must be", "with",
    "на", "это", "будет", "должна быть", "должен быть", "должно быть",
    "a", "por", "es", "sea", "sean", "en", "como", "debe ser",
];

/// Small words that may stand between a phrase and what it is about.
#[rustfmt::skip]
pub(super) const FILLERS: &[&str] = &[
    "the", "my", "it", "that", "this", "them", "its", "it is", "to",
    "мою", "мой", "мое", "это", "его", "ее", "на", "все-таки",
    "la", "el", "los", "las", "mi", "lo", "de", "del", "que", "a", "por", "en",
];

/// Words that do not end a name or a value.
#[rustfmt::skip]
pub(super) const TRAILING: &[&str] = &[
    "on", "for", "at", "in", "with", "and", "by", "the", "a", "please", "instead", "too", "also", "then", "thanks",
    "thank you", "now", "на", "в", "для", "и", "с", "со", "пожалуйста", "лучше", "спасибо", "теперь", "тогда",
    "el", "para", "y", "con", "en", "por favor", "mejor", "la", "gracias", "ahora", "entonces", "dia",
];

/// After these, "to", "a" and the like begin a verb and not a place.
pub(super) const BEFORE_VERB: &[&str] =
    &["want", "like", "need", "have", "love", "wish", "try", "able", "going", "voy", "vamos", "va"];

/// Joins two values.
pub(super) const AND: &[&str] = &["and", "и", "y", "e"];

/// Nothing at all.
pub(super) const NOTHING: &[&str] = &["nothing", "ничего", "nada", "none", "nichts"];

/// Says that something is not right.
#[rustfmt::skip]
pub(super) const WRONG: &[&str] = &[
    "wrong", "incorrect", "not right", "неверн*", "неправильн*", "не та", "не тот", "не то", "mal", "equivocad*",
    "incorrect*",
];

/// At the start of a question.
#[rustfmt::skip]
pub(super) const QUESTIONS: &[&str] = &[
    "what", "whats", "when", "how", "why", "where", "which", "who", "is it", "is there", "are there", "do you",
    "does", "can i", "could i", "tell me",
    "что", "когда", "как", "почему", "где", "сколько", "какой", "какая", "какое", "какие", "кто", "зачем", "есть ли",
    "можно ли", "скажи", "скажите",
    "que", "cuando", "como", "por que", "donde", "cuanto", "cuanta", "cuantos", "cual", "quien", "hay", "puedo",
    "dime",
];

/// A whole message that asks for a person.
#[rustfmt::skip]
pub(super) const PERSON: &[&str] = &[
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
