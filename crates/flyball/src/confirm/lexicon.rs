//! The words of an answer, by language and by their effect on the answer.
//!
//! This data is separate from the rules in `answer.rs`, so that a speaker of a language can review or extend it without
//! reading code. Every entry is written in comparison form: lower case, no accents (`si` for `sí`), `е` for `ё`, no
//! apostrophes (`dont`). An entry of several words is a phrase; the longest phrase wins, so `never mind` is not a
//! `never`.
//!
//! Two rules prevent a false `yes`, and tests enforce them: a `yes` phrase never contains a word of refusal, and no
//! entry has two senses.

use super::answer::Language;

/// Effect of a known word or phrase on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sense {
    /// A `yes` by itself: "yes", "да", "confirmo".
    Yes,
    /// A `yes` by itself that also opens other answers: "ok, cancel", "ладно, отмена".
    Okay,
    /// A `no` by itself: "no", "нет".
    No,
    /// Negates what follows: "not", "don't", "не".
    Not,
    /// Withdraws the request: "cancel", "забудь".
    Cancel,
    /// Withdraws the request only with nothing unknown after it: Spanish "para" also means "for".
    Halt,
    /// Requests a different version of the plan, at the start of a clause: "change …".
    Change,
    /// Requests a different version of the plan, anywhere in a clause: "… instead".
    Instead,
    /// Restricts a `yes`: "but", "except", "только".
    But,
    /// Politeness and filler without effect.
    Polite,
    /// The object of the act: "it", "их"; harmless next to a `yes` or an act.
    Thing,
    /// The act itself: "delete", "удаляй". It may accompany a `yes` or a `no` but is neither, because it may also be a
    /// new request.
    Act,
    /// The speaker and their wish: "I want to", "мне надо"; fits a `no`, a cancel or a change.
    Wish,
    /// Opens a polite request: "can you", "можно".
    Request,
    /// Asks to wait: not a `yes`, and compatible with a `no`.
    Hold,
    /// Looks like a `yes` or a `no` but is neither: "don't know", "no problem", "да ну".
    Vague,
}

/// A list of words with one sense. Words without a language do not indicate one.
pub(super) struct PhraseGroup {
    pub(super) language: Option<Language>,
    pub(super) sense: Sense,
    pub(super) phrases: &'static [&'static str],
}

const fn any(sense: Sense, entries: &'static [&'static str]) -> PhraseGroup {
    PhraseGroup { language: None, sense, phrases: entries }
}

const fn en(sense: Sense, entries: &'static [&'static str]) -> PhraseGroup {
    PhraseGroup { language: Some(Language::En), sense, phrases: entries }
}

const fn ru(sense: Sense, entries: &'static [&'static str]) -> PhraseGroup {
    PhraseGroup { language: Some(Language::Ru), sense, phrases: entries }
}

const fn es(sense: Sense, entries: &'static [&'static str]) -> PhraseGroup {
    PhraseGroup { language: Some(Language::Es), sense, phrases: entries }
}

/// Single letters that answer a "y/n" question, only if nothing else was said: in a sentence, "y" is Spanish for "and".
pub(super) const SINGLE_LETTERS: &[(&str, Sense)] =
    &[("y", Sense::Yes), ("д", Sense::Yes), ("n", Sense::No), ("н", Sense::No)];

/// Words of doubt and hesitation, with repeated letters written once (`hm` for `hmmm`). A message of only these words
/// is an unclear answer, not a request. They are not senses: no answer changes its meaning because of them.
pub(super) const HESITATION_WORDS: &[&str] = &[
    "hm",
    "m",
    "um",
    "uh",
    "er",
    "eh",
    "ah",
    "huh",
    "maybe",
    "perhaps",
    "posibly",
    "probably",
    "duno",
    "idk",
    "depends",
    "what",
    "хм",
    "гм",
    "м",
    "э",
    "эм",
    "возможно",
    "наверное",
    "наверно",
    "вероятно",
    "может",
    "быть",
    "что",
    "quizas",
    "quiza",
    "tal",
    "vez",
    "depende",
    "acaso",
    "que",
];

/// Symbols that answer like a word.
pub(super) const EMOJI: &[(char, Sense)] = &[
    ('👍', Sense::Yes),
    ('✅', Sense::Yes),
    ('✔', Sense::Yes),
    ('☑', Sense::Yes),
    ('👌', Sense::Yes),
    ('🆗', Sense::Yes),
    ('👎', Sense::No),
    ('❌', Sense::No),
    ('✖', Sense::No),
    ('❎', Sense::No),
    ('🚫', Sense::No),
    ('⛔', Sense::No),
    ('🙅', Sense::No),
    ('🛑', Sense::Cancel),
    ('🙏', Sense::Polite),
    ('🙂', Sense::Polite),
    ('😊', Sense::Polite),
];

/// Words after which an unaccented Spanish "si" means "if": "si es correcto", "si lo confirmo".
pub(super) const WORDS_AFTER_CONDITIONAL_SI: &[&str] =
    &["es", "lo", "esta", "estoy", "todo", "eso", "asi", "que"];

/// All words known to the classifier.
#[rustfmt::skip] // one word per line would take a thousand lines
pub(super) const PHRASE_GROUPS: &[PhraseGroup] = &[
    any(Sense::Okay, &["ok", "okay", "okey", "oki", "okie"]),
    any(Sense::No, &["no"]),
    any(Sense::Polite, &["super"]),
    // English
    en(Sense::Yes, &[
        "yes", "yeah", "yep", "yup", "yea", "aye", "uh huh", "sure", "sure thing", "of course", "certainly",
        "absolutely", "definitely", "affirmative", "indeed", "exactly", "correct", "confirm", "confirmed",
        "i confirm", "agree", "agreed", "i agree", "approve", "approved", "i approve", "accept", "accepted",
        "i accept", "proceed", "please proceed", "continue", "go ahead", "go ahead and", "go for it", "go on",
        "do it", "do that", "do so", "just do it", "please do", "carry on", "keep going", "make it so",
        "make it happen",
        "by all means", "ship it", "lgtm", "sounds good", "looks good", "looks right", "looks correct",
        "thats right", "thats correct", "that is right", "that is correct", "its correct", "it is correct",
        "this is correct", "im sure", "i am sure", "yes i am", "yes i do", "yes you may",
        "yes you can", "yes it is", "you may proceed", "hell yes", "heck yes", "yes sir", "lets do it",
        "lets go", "that works", "works for me",
    ]),
    en(Sense::Okay, &[
        "fine", "alright", "all right", "thats fine", "its fine", "thats ok", "thats okay", "very well",
    ]),
    en(Sense::No, &[
        "nope", "nah", "nay", "never", "negative", "no way", "no go", "not now", "not yet", "not today",
        "not really", "not at all", "of course not", "absolutely not", "definitely not", "certainly not",
        "hell no", "heck no", "disagree", "i disagree", "incorrect", "wrong", "thats wrong", "refuse",
        "i refuse", "decline", "reject", "deny", "leave it", "leave it alone", "leave it as is", "leave them",
        "keep it", "keep them", "no need", "uh uh", "no sir", "dont you dare",
    ]),
    en(Sense::Not, &[
        "not", "dont", "do not", "please do not", "cannot", "cant", "can not", "wont", "will not", "shouldnt",
        "should not", "mustnt", "must not", "id rather not", "rather not", "without",
    ]),
    en(Sense::Cancel, &[
        "cancel", "cancelled", "canceled", "stop", "abort", "never mind", "nevermind", "nvm", "forget it",
        "forget about it", "forget that", "quit", "exit", "drop it", "scrap it", "scratch that",
        "call it off", "changed my mind", "i changed my mind", "ive changed my mind",
        "i have changed my mind",
    ]),
    en(Sense::Change, &[
        "change", "modify", "edit", "amend", "alter", "adjust", "make it", "correct it", "correct that",
        "correct this", "correct them", "correct these", "correct those", "correct all", "correct both",
        "correct everything", "please correct",
    ]),
    en(Sense::Instead, &["instead"]),
    en(Sense::But, &["but", "however", "except", "only", "although", "though"]),
    en(Sense::Polite, &[
        "please", "pls", "plz", "thanks", "thank you", "thx", "well", "oh", "now", "right now", "great",
        "good", "perfect", "excellent",
    ]),
    en(Sense::Thing, &[
        "it", "that", "this", "them", "these", "those", "both", "all", "all of them", "everything",
        "the operation", "the deletion", "the plan",
    ]),
    en(Sense::Act, &[
        "delete", "remove", "erase", "send", "run", "execute", "apply", "start", "submit", "deploy", "create",
    ]),
    en(Sense::Wish, &[
        "i", "we", "want", "want to", "wanna", "need", "need to", "id like to", "i would like to", "lets",
        "do", "to",
    ]),
    en(Sense::Request, &["can you", "could you", "can we", "could we", "can i", "could i", "would you"]),
    en(Sense::Hold, &["wait", "hold on", "hang on", "oops", "sorry", "actually", "hey"]),
    en(Sense::Vague, &[
        "dont know", "do not know", "not sure", "not exactly", "not quite", "not bad", "not all",
        "not everything", "dont mind", "do not mind", "dont care", "do not care", "dont worry", "no problem",
        "no worries", "no doubt", "no idea", "no matter", "no one", "no objection", "no objections",
        "no comment", "why not", "cant wait", "not a problem", "no rush",
    ]),
    // Russian
    ru(Sense::Yes, &[
        "да", "ага", "угу", "конечно", "ну конечно", "подтверждаю", "подтверждено", "подтверждаем",
        "согласен", "согласна", "согласны", "верно", "все верно", "правильно", "все правильно", "точно",
        "так точно", "именно", "разумеется", "безусловно", "естественно", "уверен", "уверена", "я уверен",
        "я уверена", "валяй", "действуй", "действуйте", "поехали", "вперед", "делай", "делайте", "сделай",
        "сделайте", "выполняй", "выполняйте", "продолжай", "продолжайте", "одобряю", "разрешаю", "принимаю",
        "я согласен", "я согласна", "я подтверждаю", "само собой",
    ]),
    ru(Sense::Okay, &["ок", "окей", "оки", "хорошо", "ладно", "давай", "давайте", "добро"]),
    ru(Sense::No, &[
        "нет", "неа", "не а", "нетушки", "никогда", "ни за что", "ни в коем случае", "никак нет",
        "конечно нет", "конечно же нет", "нет конечно", "разумеется нет", "точно нет", "не сейчас",
        "сейчас не надо", "сейчас нет",
        "не сегодня", "пока нет", "пока не надо", "еще нет", "лучше не надо", "лучше нет", "давай не будем",
        "давай не надо", "против", "я против", "отказываюсь", "нельзя", "неверно", "неправильно",
        "несогласен", "несогласна", "запрещаю", "оставь", "оставь как есть", "ни фига", "отклоняю",
    ]),
    ru(Sense::Not, &["не", "ни", "без"]),
    ru(Sense::Cancel, &[
        "отмена", "отмени", "отмените", "отменить", "отменяй", "отменяем", "отменим", "отменяю", "стоп",
        "стой", "стойте", "остановись", "остановитесь", "прекрати", "прекратите", "хватит", "забудь",
        "забудьте", "забей", "отбой", "неважно", "не важно", "проехали", "передумал", "передумала",
        "я передумал", "я передумала",
    ]),
    ru(Sense::Change, &[
        "измени", "измените", "изменить", "изменим", "поменяй", "поменяйте", "поменять", "поменяем",
        "исправь", "исправьте", "исправить", "поправь", "поправьте", "замени", "замените", "заменить",
        "переделай", "переделайте", "отредактируй",
    ]),
    ru(Sense::Instead, &["вместо"]),
    ru(Sense::But, &["но", "только", "кроме", "однако", "хотя", "за исключением"]),
    ru(Sense::Polite, &[
        "пожалуйста", "плиз", "спасибо", "благодарю", "ну", "же", "отлично", "прекрасно", "супер",
        "прямо сейчас",
    ]),
    ru(Sense::Thing, &[
        "это", "его", "ее", "их", "обе", "оба", "этого", "операцию", "удаление",
    ]),
    ru(Sense::Act, &[
        "удаляй", "удаляй все", "удаляйте", "удаляйте все", "удали", "удали все", "удалите", "удалить",
        "удалить все", "удаляем", "удалим", "стирай", "сотри",
        "отправляй", "отправляйте", "отправь", "отправить", "запускай", "запускайте", "запусти", "выполни",
        "выполните", "выполнять", "убирай", "убери", "создавай", "создай", "применяй", "примени", "делать",
    ]),
    ru(Sense::Wish, &[
        "я", "мы", "мне", "нам", "хочу", "хотим", "надо", "нужно", "стоит", "будем", "буду", "трогай",
        "трогайте", "смей",
    ]),
    ru(Sense::Request, &["можно", "можешь", "можете", "можем"]),
    ru(Sense::Hold, &[
        "подожди", "подождите", "погоди", "погодите", "постой", "ой", "упс", "минутку", "извини", "извините",
    ]),
    ru(Sense::Vague, &[
        "не знаю", "не уверен", "не уверена", "не понял", "не поняла", "не понимаю", "не все", "не против",
        "не возражаю", "не вопрос", "не проблема", "нет проблем", "нет возражений", "без проблем",
        "без вопросов", "без разницы", "почему нет", "почему бы нет", "почему бы и нет", "да ну", "да уж",
        "да ладно", "да нет", "да не", "ну да конечно", "не обязательно", "не помню",
    ]),
    // Spanish
    es(Sense::Yes, &[
        "si", "sip", "claro", "claro que si", "que si", "por supuesto", "por supuesto que si", "desde luego",
        "dale", "adelante", "confirmo", "confirmado", "lo confirmo", "correcto", "es correcto",
        "todo correcto", "exacto", "afirmativo", "acepto", "apruebo", "aprobado", "autorizo", "de acuerdo",
        "estoy de acuerdo", "conforme", "asi es", "eso es", "cierto", "seguro", "estoy seguro",
        "estoy segura", "hazlo", "hagalo", "procede", "proceda", "continua", "continue usted",
        "sigue adelante", "hazlo ya", "continuar", "quiero continuar", "venga",
    ]),
    es(Sense::Okay, &["vale", "bien", "esta bien", "muy bien"]),
    es(Sense::No, &[
        "nunca", "jamas", "para nada", "ni hablar", "de ninguna manera", "claro que no", "que no",
        "por supuesto que no", "desde luego que no", "mejor no", "ahora no", "todavia no", "aun no",
        "incorrecto", "negativo", "no confirmo", "no lo confirmo", "no acepto", "no apruebo", "no lo apruebo",
        "no autorizo", "no vale", "no esta bien", "no es correcto", "no estoy de acuerdo", "me niego",
        "rechazo", "seguro que no", "no quiero continuar", "no continuar",
    ]),
    es(Sense::Not, &["tampoco", "sin", "ni"]),
    es(Sense::Cancel, &[
        "cancela", "cancelar", "cancele", "cancelalo", "cancelarlo", "cancelado", "olvidalo", "olvidelo",
        "olvida",
        "dejalo", "dejelo", "dejalo asi", "detente", "basta", "alto", "aborta", "abortar", "anula", "anular",
        "anulalo", "para ya", "dejalo ya", "no importa", "cambie de idea", "cambie de opinion",
        "he cambiado de idea",
        "he cambiado de opinion", "me arrepenti",
    ]),
    es(Sense::Halt, &["para", "pare"]),
    es(Sense::Change, &[
        "cambia", "cambiar", "cambie", "cambialo", "cambiarlo", "cambiemos", "modifica", "modificar",
        "modifique",
        "modificalo", "corrige", "corregir", "corrija", "corrigelo", "edita", "editar", "ajusta",
    ]),
    es(Sense::Instead, &["en vez", "en lugar"]),
    es(Sense::But, &["pero", "excepto", "salvo", "solo", "solamente", "menos", "aunque"]),
    es(Sense::Polite, &[
        "por favor", "porfa", "porfavor", "gracias", "muchas gracias", "pues", "bueno", "perfecto", "genial",
        "ahora mismo",
    ]),
    es(Sense::Thing, &[
        "lo", "los", "las", "eso", "esto", "todo", "todos", "todas", "ambos", "ambas", "la operacion",
        "la eliminacion",
        "el plan",
    ]),
    es(Sense::Act, &[
        "borra", "borrar", "borre", "borralo", "borrala", "borralos", "borralas", "elimina", "eliminar",
        "elimine", "eliminalo", "eliminala", "eliminalos", "eliminalas", "envia", "enviar", "envialo",
        "ejecuta", "ejecutar", "ejecutalo", "aplica", "aplicalo", "crea",
    ]),
    es(Sense::Wish, &[
        "yo", "quiero", "queremos", "quisiera", "hace falta", "es necesario", "me", "hagas", "haga", "borres",
        "elimines", "envies", "ejecutes", "apliques", "procedas", "continues", "sigas", "toques",
        "hagas nada",
    ]),
    es(Sense::Request, &["puedes", "puede", "podrias", "podemos", "puedo"]),
    es(Sense::Hold, &["espera", "espere", "un momento", "ups", "perdon"]),
    es(Sense::Vague, &[
        "no se", "no lo se", "no estoy seguro", "no estoy segura", "no entiendo", "no todo", "no todos",
        "no todas", "no me importa", "no me molesta", "no hay problema", "no hay duda", "sin problema",
        "sin problemas", "sin duda", "por que no", "como no", "si bien", "si procede", "si continua",
        "si acaso", "no pasa nada",
    ]),
];

/// Words that are not answers but indicate the language of a text; Russian is recognized by its script.
#[rustfmt::skip]
pub(super) const LANGUAGE_MARKERS: &[(Language, &[&str])] = &[
    (Language::En, &[
        "the", "and", "is", "are", "was", "you", "your", "my", "of", "for", "with", "what", "why", "how",
        "when", "where", "who", "have", "has", "will", "would", "should", "from", "about", "tasks",
        "file", "files", "list", "show", "hello", "hi", "tomorrow", "later", "maybe", "if", "does", "did",
        "there", "here", "an", "in", "on", "be",
    ]),
    (Language::Es, &[
        "el", "una", "unos", "unas", "del", "muy", "con", "que", "cual", "cuando", "donde", "quien", "por",
        "favor", "como", "hola", "tarea", "tareas", "archivo", "archivos", "lista", "muestra", "manana",
        "luego", "despues", "quiza", "quizas", "creo", "esta", "estan", "hay", "mi", "mis", "tu", "su",
        "porque", "tambien", "es", "estoy", "quieres", "cosas",
    ]),
];

/// The longest known phrase at the start of `words`: its number of words and its sense.
pub(super) fn longest_phrase(words: &[&str]) -> Option<(usize, Sense)> {
    let mut best: Option<(usize, Sense)> = None;
    let first = *words.first()?;
    // Skip early: most lists use the other script, and most entries differ in the first word.
    let latin = first.is_ascii();
    for group in PHRASE_GROUPS.iter().filter(|group| latin != (group.language == Some(Language::Ru))) {
        for entry in group.phrases {
            if !entry.starts_with(first) {
                continue;
            }
            let taken = matched_words(entry, words);
            if taken > best.map_or(0, |(length, _)| length) {
                best = Some((taken, group.sense));
            }
        }
    }
    best
}

/// Number of words that `entry` matches at the start of `words`; 0 if it does not match completely.
fn matched_words(entry: &str, words: &[&str]) -> usize {
    let mut taken = 0;
    for part in entry.split(' ') {
        if words.get(taken) != Some(&part) {
            return 0;
        }
        taken += 1;
    }
    taken
}

/// The only language that a word belongs to; `None` if unknown or shared by several.
pub(super) fn detect_word_language(word: &str) -> Option<Language> {
    let answers =
        PHRASE_GROUPS.iter().filter(|group| group.phrases.contains(&word)).map(|group| group.language);
    let telling = LANGUAGE_MARKERS
        .iter()
        .filter(|(_, entries)| entries.contains(&word))
        .map(|(language, _)| Some(*language));
    let mut found = None;
    for language in answers.chain(telling) {
        match (found, language) {
            (_, None) => return None,
            (None, some) => found = some,
            (Some(known), Some(other)) if known != other => return None,
            _ => {}
        }
    }
    found
}
