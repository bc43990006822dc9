//! Answer tables in three languages, and property tests.

use super::super::lexicon::{EMOJI, PHRASE_GROUPS, SINGLE_LETTERS, Sense};
use super::*;

fn check(expected: ConfirmationAnswer, answers: &[&str]) {
    let wrong: Vec<(&str, ConfirmationAnswer)> = answers
        .iter()
        .map(|text| (*text, classify_answer(text)))
        .filter(|(_, answer)| *answer != expected)
        .collect();
    assert!(wrong.is_empty(), "expected {expected:?}, got {wrong:?}");
}

#[rustfmt::skip]
const YES: &[&str] = &[
    // English
    "yes", "Yes", "YES!", "yes.", " yes \n", "y", "Y", "yes please", "Yes, please!", "yes yes yes", "yep",
    "yup", "yeah", "ok", "Okay.", "OK!", "sure", "sure thing", "go ahead", "Yes, go ahead", "do it",
    "just do it", "yes, do it now", "yes, delete it", "Yes, delete them all", "of course", "certainly",
    "absolutely", "I confirm", "confirmed", "confirm", "correct", "that's correct", "that’s right", "I agree",
    "proceed", "please proceed", "sounds good", "looks good", "I'm sure", "Yes, I'm sure", "yes I am",
    "yes thanks", "fine", "alright", "by all means", "oh yes", "well, yes", "great, go ahead",
    "yes please go ahead and delete it", "yesss", "uh-huh", "*yes*", "/yes", "(yes)", "delete it, yes",
    "let's do it", "yes, I confirm the deletion", "that works", "👍", "👍🏽", "✅", "✔️", "👍👍", "ok 👍", "yes 🙏", "ye\u{200b}s",
    // Russian
    "да", "Да", "Да!", "ДА", "да.", "д", "Д", "да, удаляй", "да удаляй", "Да, удали их", "да, удаляй все",
    "да-да", "да, да, да", "ага", "угу", "конечно", "Да, конечно", "ну да", "да, пожалуйста", "давай",
    "ну давай", "давай удаляй", "подтверждаю", "Да, подтверждаю.", "согласен", "согласна", "хорошо", "ладно",
    "ок", "Окей", "уверен", "Да, уверена", "я уверен", "верно", "всё верно", "правильно", "разумеется",
    "делай", "действуй", "выполняй", "продолжай", "вперёд", "поехали", "дааа", "да))", "да, спасибо",
    "удаляй, да", "так точно", "конечно же", "да 👍", "продолжаи\u{0306}",
    // Spanish
    "sí", "Sí", "SÍ", "si", "Si.", "si\u{301}", "sí, adelante", "si, adelante", "sí por favor", "si por favor",
    "sí, claro", "claro", "claro que sí", "¡Claro!", "dale", "vale", "Vale, hazlo", "adelante", "confirmo",
    "lo confirmo", "confirmo la eliminación", "quiero continuar", "sí, confirmo", "si confirmo", "sí sí sí", "siii", "por supuesto", "de acuerdo",
    "estoy de acuerdo", "correcto", "es correcto", "exacto", "acepto", "hazlo", "procede", "sí, bórralo",
    "sí, borra todo", "sí, elimínalos", "está bien", "seguro", "estoy segura", "así es", "desde luego",
    "sí, gracias", "pues sí", "bueno, sí", "¡sí!", "vale, adelante", "sip", "ok, dale",
];

#[rustfmt::skip]
const NO: &[&str] = &[
    "no", "No", "NO!", "no.", "n", "N", "nope", "nah", "no thanks", "No, thank you.", "no, wait", "wait, no",
    "no no no", "nooo", "no way", "never", "don't", "Don’t!", "dont", "don't delete", "don't delete it",
    "do not do it", "please don't", "please do not", "do not proceed", "don't go ahead", "not now", "not yet",
    "not yes", "not ok", "I don't want to", "No, I don't want that", "no i want to keep those",
    "no don't touch anything", "of course not", "absolutely not", "I disagree", "that's wrong", "incorrect",
    "well, no", "keep it", "no, yes", "no, what will it delete?", "no, go ahead", "thanks but no thanks",
    "👎", "❌", "👎🏿", "no 😂", "🙅‍♀️", "no 👎", "uh-uh", "no, maybe later", "don't you dare", "No, I meant the other list",
    "нет", "Нет!", "НЕТ", "н", "нет, спасибо", "нет спасибо", "не надо", "не нужно", "не удаляй", "Не удаляйте!",
    "не удаляй их", "не удаляй все", "неа", "не-а", "не", "Никогда", "ни за что", "ни в коем случае",
    "не хочу", "я не хочу", "не подтверждаю", "не согласен", "не делай", "не сейчас", "пока нет", "лучше не надо",
    "конечно нет", "нет, конечно", "нет конечно", "нет, да шучу", "нееет", "спасибо, не надо", "я против",
    "нет, не надо", "нет нет нет", "неверно", "ну нет", "подожди, не удаляй", "нет, а зачем?", "не да",
    "no gracias", "No, gracias", "no borres", "no lo borres", "¡No borres nada!", "no quiero", "no quiero continuar", "no lo hagas",
    "no hagas nada", "mejor no", "ahora no", "todavía no", "nunca", "jamás", "para nada", "ni hablar",
    "claro que no", "por supuesto que no", "no confirmo", "no estoy de acuerdo", "de ninguna manera",
    "no, no lo hagas", "no hace falta", "no es necesario", "que no", "no es correcto", "espera, no",
];

#[rustfmt::skip]
const CANCEL: &[&str] = &[
    "cancel", "Cancel!", "cancel it", "please cancel", "Cancel that please", "stop", "STOP", "stop it",
    "stop deleting my things", "stop, ok?", "abort", "never mind", "Nevermind", "forget it", "ok, cancel",
    "okay never mind", "no, cancel", "wait, stop", "I want to cancel", "let's cancel", "can you cancel it?",
    "I changed my mind", "cancel the deletion", "quit", "🛑", "/cancel",
    "отмена", "Отмени", "отмени это", "отменить", "стоп", "Стоп!", "стой", "забудь", "хватит", "отбой",
    "ладно, отмена", "нет, отмена", "я передумал", "передумала", "хочу отменить", "можно отменить?",
    "давай отменим", "неважно",
    "cancela", "Cancela, por favor", "cancelar", "cancélalo", "olvídalo", "para", "¡Para!", "para ya",
    "para, por favor", "déjalo", "basta", "vale, cancela", "no, cancela", "quiero cancelar", "no importa",
    "¿puedes cancelarlo?", "he cambiado de idea", "detente", "alto",
];

#[rustfmt::skip]
const CHANGE: &[&str] = &[
    "change", "change it", "Change the date to Monday", "modify", "edit the second one", "I want to change it",
    "I want to modify the title", "let's change the date", "can we change the date?", "the second one instead",
    "yes, but change the date", "Yes but only the first", "yes, but make it 2", "ok, but not the first one",
    "yes, except the last", "yes, change the name", "no, change the date", "make it 2", "correct it",
    "please correct that", "yes, but only tomorrow", "change \"Foo\" to \"Bar\"",
    "поменяй", "поменяй дату", "измени название", "исправь", "хочу изменить дату", "давай поменяем",
    "да, но не первую", "Да, но сначала покажи список", "да, только первую", "да, кроме последней",
    "да, но позже", "ок, но без второй", "нет, измени дату", "первую вместо второй", "можно поменять дату?",
    "cambia", "cambia la fecha", "modifica el título", "corrige eso", "quiero cambiar la fecha",
    "sí, pero cambia la fecha", "si, pero mañana", "si pero mañana", "vale, pero sin la primera",
    "sí, excepto la última", "la otra en vez de esa", "no, cambia la fecha", "¿podemos cambiar la fecha?",
];

#[rustfmt::skip]
const UNCLEAR: &[&str] = &[
    "", " ", "?", "!", "...", "-", "+", "1", "42", "\u{0}", "yes?", "Yes ?", "yes!?", "ok?", "really?", "y?", "y/n",
    "yes/no", "yes or no", "yes no", "yes, no", "yes? no", "no? yes", "no yes", "no wait yes", "!yes", "≠ yes",
    "~~yes~~", "y\u{336}e\u{336}s\u{336}", "yes\u{20e0}", "> yes", "he said \"yes\"", "\"yes\"", "“yes”", "'yes'", "«да»", "`yes`", "\"yes",
    "\u{202e}sey", "I know", "maybe", "okra", "yesterday", "yes, tomorrow", "yes, later", "if you must",
    "yes if it is safe", "yes unless it breaks", "what happens if I say yes", "token expired?", "I think so",
    "I guess yes", "probably", "not sure", "I'm not sure", "I don't know", "don't know", "I don't mind", "why not",
    "no problem", "no problem, go ahead", "no idea", "don't worry, go ahead", "don't stop", "don't cancel",
    "don't wait", "not no", "yes, wait", "wait", "hold on", "hmm", "yeah, right", "delete", "delete it",
    "is it ok", "all correct", "? yes", "?👍", "this ok", "can you do it", "are you sure", "yes, cancel", "yes, but no", "cancel?",
    "what will it change?", "don't change anything", "show me the list", "yes the other one", "please", "thanks",
    "I'm fine", "the file is not in the list", "yes 🤔", "👍👎", "👍 👎", "yes 👎", "yes 😂", "🤔", "dа", "ｙｅｓ", "so",
    "yes and then restart the server", "noyes", "yesno", "yes, but why?", "no one said that", "sí o no", "1 yes",
    "yes yes yes yes yes yes yes", "yes i do not", "please do. not", "let me think",
    "Скинь полный список задач.", "Когда это было?", "задача", "думаю", "ну не знаю", "не знаю", "да?", "Да ?",
    "точно?", "да нет", "да нет, наверное", "да, нет", "да ну", "да ну?", "да ладно", "да уж", "да, завтра",
    "да, потом", "да, если можно", "если да", "может быть", "наверное", "да, наверное", "возможно", "не уверен",
    "я не против", "нет проблем", "без проблем", "почему бы и нет", "не отменяй", "да не надо", "да, подожди",
    "подожди", "удаляй", "удали", "он сказал да", "скажи да", "да, но нет", "а что будет?", "когда", "всегда",
    "дата", "дай", "нет такого файла", "ага, щас", "ок, всё", "ладно, всё", "да, сейчас",
    "ну", "хм", "не все", "да или нет", "спасибо", "так", "данет", "Давайте обсудим", "давай завтра",
    "si mañana llueve", "si quieres", "si no", "si es correcto", "si lo confirmo", "si procede", "sí?", "¿sí?",
    "¿Sí o no?", "sí, mañana", "sí, luego", "creo que sí", "quizás", "tal vez", "no sé", "no lo sé",
    "no estoy seguro", "no hay problema", "sin problema", "por qué no", "no me importa", "vale?", "¿vale?",
    "ya vale", "vale ya", "para mañana", "para qué", "sí, para mañana", "sí, espera", "espera", "borra", "bórralo",
    "dijo que sí", "sí, cancela", "no pares", "no canceles", "sí y no", "si bien", "cuando puedas", "sien",
    "no dudes, adelante", "claro que quizás", "gracias", "muéstrame la lista", "sí pero no", "claramente",
];

#[test]
fn clear_approval_is_recognized() {
    assert!(YES.len() >= 60);
    check(ConfirmationAnswer::Yes, YES);
}

#[test]
fn a_clear_no_is_a_no() {
    check(ConfirmationAnswer::No, NO);
}

#[test]
fn withdrawing_the_request_is_a_cancel() {
    check(ConfirmationAnswer::Cancel, CANCEL);
    assert!(NO.len() + CANCEL.len() + CHANGE.len() >= 60);
}

#[test]
fn asking_for_another_version_is_a_change() {
    check(ConfirmationAnswer::Change, CHANGE);
}

#[test]
fn everything_else_is_unclear() {
    assert!(UNCLEAR.len() >= 100);
    check(ConfirmationAnswer::Unclear, UNCLEAR);
}

#[test]
fn each_phrase_alone_is_classified_by_its_group() {
    for group in PHRASE_GROUPS {
        let expected = match group.sense {
            Sense::Yes | Sense::Okay => ConfirmationAnswer::Yes,
            Sense::No => ConfirmationAnswer::No,
            Sense::Cancel | Sense::Halt => ConfirmationAnswer::Cancel,
            Sense::Change | Sense::Instead => ConfirmationAnswer::Change,
            Sense::Not => continue,
            _ => ConfirmationAnswer::Unclear,
        };
        check(expected, group.phrases);
    }
}

#[test]
fn phrase_groups_are_normalized_and_free_of_contradictions() {
    let all: Vec<(&str, Sense)> =
        PHRASE_GROUPS.iter().flat_map(|g| g.phrases.iter().map(move |e| (*e, g.sense))).collect();
    for (entry, sense) in &all {
        let folded: Vec<String> = folded_words(entry).collect();
        assert_eq!(folded.join(" "), *entry, "not in comparison form");
        let others = all.iter().filter(|(other, _)| other == entry).count();
        assert_eq!(others, 1, "{entry} is listed more than once");
        if !matches!(sense, Sense::Yes | Sense::Okay | Sense::Polite | Sense::Thing | Sense::Act) {
            continue;
        }
        for word in entry.split(' ') {
            let refuses = all
                .iter()
                .any(|(other, s)| *other == word && matches!(s, Sense::No | Sense::Not | Sense::Cancel));
            assert!(!refuses, "{entry} would hide the refusal {word}");
        }
    }
}

#[rustfmt::skip]
const NEGATIONS: &[&str] = &[
    "not", "no", "don't", "don’t", "do not", "never", "can't", "cannot", "won't", "without", "nope", "hardly",
    "не", "нет", "ни", "никогда", "без", "неа", "no", "nunca", "jamás", "tampoco", "sin", "ni",
];

const SEPARATORS: &[&str] = &[" ", ", ", ". ", "! ", "? ", "\n", "-", " - ", "/", "… ", " — ", ""];

/// All phrases that the classifier accepts as a `yes`, from the table and from the word lists.
fn all_yes_phrases() -> Vec<&'static str> {
    let listed = PHRASE_GROUPS.iter().filter(|g| matches!(g.sense, Sense::Yes | Sense::Okay));
    YES.iter().copied().chain(listed.flat_map(|g| g.phrases.iter().copied())).collect()
}

#[test]
fn negated_yes_is_never_an_approval() {
    for (at, yes) in all_yes_phrases().into_iter().enumerate() {
        let turns = SEPARATORS.iter().filter(|s| !s.is_empty()).cycle();
        for (negation, turn) in NEGATIONS.iter().zip(turns.skip(at)) {
            for separator in [" ", turn] {
                let text = format!("{negation}{separator}{yes}");
                assert_ne!(classify_answer(&text), ConfirmationAnswer::Yes, "{text}");
            }
        }
    }
}

#[test]
fn no_combined_with_yes_is_never_an_approval() {
    // Rotate the separators so that every pair is tested and every separator is used.
    for (at, refusal) in NO.iter().chain(CANCEL).chain(CHANGE).enumerate() {
        let step = if at < NO.len() { 1 } else { 5 };
        let separators = SEPARATORS.iter().cycle().skip(at % SEPARATORS.len());
        for (yes, separator) in YES.iter().skip(at % step).step_by(step).zip(separators) {
            for text in [format!("{refusal}{separator}{yes}"), format!("{yes}{separator}{refusal}")] {
                assert_ne!(classify_answer(&text), ConfirmationAnswer::Yes, "{text}");
            }
        }
    }
}

#[test]
fn question_mark_or_unknown_word_next_to_yes_is_not_an_approval() {
    for yes in all_yes_phrases() {
        for text in [
            format!("{yes}?"),
            format!("{yes} ?"),
            format!("¿{yes}?"),
            format!("{yes} xyzzy"),
            format!("xyzzy, {yes}"),
        ] {
            assert_ne!(classify_answer(&text), ConfirmationAnswer::Yes, "{text}");
        }
    }
}

/// A small fixed generator: the same sequence on every machine.
fn next_random(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 33) as usize) % below.max(1)
}

#[test]
fn random_phrases_containing_a_refusal_are_never_an_approval() {
    let words: Vec<(&str, Sense)> =
        PHRASE_GROUPS.iter().flat_map(|g| g.phrases.iter().map(move |e| (*e, g.sense))).collect();
    let mut seed = 7;
    for _ in 0..10_000 {
        let mut text = String::new();
        let mut spoiled = false;
        for _ in 0..=next_random(&mut seed, 5) {
            let (word, sense) = words[next_random(&mut seed, words.len())];
            let harmless =
                matches!(sense, Sense::Yes | Sense::Okay | Sense::Polite | Sense::Thing | Sense::Act);
            // Two phrases may combine into a longer one; only refusals must always be detected.
            spoiled |= matches!(sense, Sense::No | Sense::Not | Sense::Cancel | Sense::Vague) && !harmless;
            text.push_str(word);
            text.push_str(SEPARATORS[next_random(&mut seed, SEPARATORS.len() - 1)]);
        }
        if spoiled {
            assert_ne!(classify_answer(&text), ConfirmationAnswer::Yes, "{text}");
        }
    }
}

#[test]
fn random_characters_never_panic_or_become_an_approval() {
    let alphabet: Vec<char> =
        "yesдаsíнеtno ?!,.'’\"«»-/\u{301}\u{306}\u{202e}\u{200d}👍🏽❌ßİǅ\u{0}\n1".chars().collect();
    let mut seed = 11;
    for _ in 0..10_000 {
        let length = next_random(&mut seed, 24);
        let text: String = (0..length).map(|_| alphabet[next_random(&mut seed, alphabet.len())]).collect();
        if classify_answer(&text) == ConfirmationAnswer::Yes {
            assert!(!text.contains(['?', '"', '❌', '\u{202e}', '1', 'ß']), "{text:?}");
        }
        let _ = detect_language(&text);
    }
}

#[test]
fn overlong_text_is_unclear() {
    let padded = format!("yes{}", " ".repeat(MAX_ANSWER_CHARS - 3));
    assert_eq!(classify_answer(&padded), ConfirmationAnswer::Yes);
    assert_eq!(classify_answer(&format!("{padded} ")), ConfirmationAnswer::Unclear);
    assert_eq!(classify_answer(&"да ".repeat(400_000)), ConfirmationAnswer::Unclear);
    assert_eq!(classify_answer(&"no ".repeat(400_000)), ConfirmationAnswer::Unclear);
    assert_eq!(detect_language(&"да ".repeat(400_000)), Some(Language::Ru));
}

#[test]
fn language_is_detected_by_script_and_marker_words() {
    let cases: &[(&str, Option<Language>)] = &[
        ("yes", Some(Language::En)),
        ("Please delete the tasks", Some(Language::En)),
        ("What will happen?", Some(Language::En)),
        ("Да", Some(Language::Ru)),
        ("Удали 2 задачи про Варю", Some(Language::Ru)),
        ("Удали task-20251009-1123-cfb2cc5f", Some(Language::Ru)),
        ("Всё ещё", Some(Language::Ru)),
        ("sí", Some(Language::Es)),
        ("si", Some(Language::Es)),
        ("Borra las tareas de mañana", Some(Language::Es)),
        ("¿Qué pasa?", Some(Language::Es)),
        ("vale", Some(Language::Es)),
        ("no", None),
        ("ok", None),
        ("", None),
        ("42 👍", None),
        ("так, дякую, їжак", None),
        ("はい", None),
        ("yes да", None),
    ];
    for (text, expected) in cases {
        assert_eq!(detect_language(text), *expected, "{text}");
    }
}

#[test]
fn answers_and_languages_have_stable_names() {
    let names = [
        ConfirmationAnswer::Yes,
        ConfirmationAnswer::No,
        ConfirmationAnswer::Cancel,
        ConfirmationAnswer::Change,
        ConfirmationAnswer::Unclear,
    ];
    let json = serde_json::to_string(&names).ok();
    assert_eq!(json.as_deref(), Some(r#"["yes","no","cancel","change","unclear"]"#));
    let languages = serde_json::to_string(&[Language::En, Language::Ru, Language::Es]).ok();
    assert_eq!(languages.as_deref(), Some(r#"["en","ru","es"]"#));
}

#[test]
fn single_letters_and_emoji_are_classified_by_their_tables() {
    for (letter, sense) in SINGLE_LETTERS {
        let expected = if *sense == Sense::Yes { ConfirmationAnswer::Yes } else { ConfirmationAnswer::No };
        assert_eq!(classify_answer(letter), expected, "{letter}");
    }
    for (sign, sense) in EMOJI {
        let expected = match sense {
            Sense::Yes => ConfirmationAnswer::Yes,
            Sense::No => ConfirmationAnswer::No,
            Sense::Cancel => ConfirmationAnswer::Cancel,
            _ => ConfirmationAnswer::Unclear,
        };
        assert_eq!(classify_answer(&sign.to_string()), expected, "{sign}");
    }
}
