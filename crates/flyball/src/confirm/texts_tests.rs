//! The sentences word for word, and what callers may and may not put into them.

use super::*;

const LANGUAGES: [Language; 3] = [Language::En, Language::Ru, Language::Es];

fn names(targets: &[&str]) -> Vec<String> {
    targets.iter().map(|target| (*target).to_owned()).collect()
}

fn every_text(targets: &[String]) -> Vec<Text<'_>> {
    vec![
        Text::Ask { targets, steps: 2, deletes: true },
        Text::Ask { targets, steps: 2, deletes: false },
        Text::Ask { targets: &[], steps: 2, deletes: false },
        Text::AskAgain { question: None },
        Text::Confirmed,
        Text::WhatToChange,
        Text::Cancelled,
        Text::Aborted,
        Text::RetryAborted,
        Text::Expired,
        Text::NotYours,
        Text::Replaced,
        Text::Dropped,
        Text::StillWaiting { question: None },
        Text::NothingPending,
    ]
}

#[test]
fn the_sentences_people_search_for_stand_word_for_word() {
    let ids = names(&["task-20251009-1123-cfb2cc5f", "task-20251009-1108-960126e8"]);
    let cases = [
        (Text::Confirmed, Language::En, "Great! Processing your request..."),
        (Text::WhatToChange, Language::En, "What would you like to change?"),
        (
            Text::AskAgain { question: None },
            Language::En,
            "I didn't understand. Is this information correct? (yes/no)",
        ),
        (
            Text::Aborted,
            Language::En,
            "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?",
        ),
        (Text::RetryAborted, Language::En, "I'm having trouble processing this. Let's start over."),
        (
            Text::Ask { targets: &ids, steps: 2, deletes: true },
            Language::Ru,
            "Подтверди удаление: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8. \
             Это действие необратимо. Уверен?",
        ),
        (Text::Cancelled, Language::Ru, "Хорошо, операция отменена. Могу помочь с чем-то другим?"),
    ];
    for (text, language, expected) in cases {
        assert_eq!(text.render(language), expected);
        assert_eq!(Texts::default().render(&text, language), expected);
    }
}

#[test]
fn up_to_three_targets_are_named_and_of_more_the_number_is_told() {
    let cases: &[(usize, [&str; 3])] = &[
        (1, ["t1", "t1", "t1"]),
        (3, ["t1, t2, t3", "t1, t2, t3", "t1, t2, t3"]),
        (4, ["4 items", "4 объекта", "4 elementos"]),
        (5, ["5 items", "5 объектов", "5 elementos"]),
        (11, ["11 items", "11 объектов", "11 elementos"]),
        (21, ["21 items", "21 объект", "21 elementos"]),
        (22, ["22 items", "22 объекта", "22 elementos"]),
        (111, ["111 items", "111 объектов", "111 elementos"]),
        (112, ["112 items", "112 объектов", "112 elementos"]),
    ];
    for (amount, expected) in cases {
        let targets: Vec<String> = (1..=*amount).map(|n| format!("t{n}")).collect();
        for (language, expected) in LANGUAGES.into_iter().zip(expected) {
            let asked = Text::Ask { targets: &targets, steps: 1, deletes: true }.render(language);
            assert!(asked.contains(&format!(": {expected}. ")), "{asked}");
        }
    }
}

#[test]
fn a_plan_without_targets_is_asked_about_by_its_steps() {
    let cases = [
        (1, ["1 step.", "1 шаг.", "1 paso."]),
        (3, ["3 steps.", "3 шага.", "3 pasos."]),
        (7, ["7 steps.", "7 шагов.", "7 pasos."]),
    ];
    for (steps, expected) in cases {
        for (language, expected) in LANGUAGES.into_iter().zip(expected) {
            let asked = Text::Ask { targets: &[], steps, deletes: true }.render(language);
            assert!(asked.contains(expected), "{asked}");
        }
    }
}

#[test]
fn every_sentence_exists_in_every_language_and_leaves_no_placeholder() {
    let targets = names(&["a"]);
    for language in LANGUAGES {
        let mut seen = Vec::new();
        for text in every_text(&targets) {
            let said = text.render(language);
            assert!(!said.is_empty() && !said.contains(['{', '}']), "{said}");
            assert!(!seen.contains(&said), "said twice: {said}");
            seen.push(said);
        }
    }
}

#[test]
fn an_expired_confirmation_says_too_late_and_again() {
    let words = [("too late", "again"), ("слишком поздно", "ещё раз"), ("demasiado tarde", "de nuevo")];
    for (language, (late, again)) in LANGUAGES.into_iter().zip(words) {
        let said = Text::Expired.render(language);
        assert!(said.contains(late) && said.contains(again), "{said}");
    }
}

#[test]
fn asking_again_repeats_the_question() {
    let again = Text::AskAgain { question: Some("Delete \u{7}t1\nand t2?\u{202e}") };
    assert_eq!(
        again.render(Language::En),
        "I didn't understand. Is this information correct? (yes/no) Delete t1 and t2?"
    );
    let blank = Text::AskAgain { question: Some(" \n\u{0}") };
    assert_eq!(blank.render(Language::En), Text::AskAgain { question: None }.render(Language::En));
}

#[test]
fn a_long_question_or_name_is_cut_between_characters() {
    let long = "я😀".repeat(500_000);
    let said = Text::AskAgain { question: Some(&long) }.render(Language::Ru);
    let plain = Text::AskAgain { question: None }.render(Language::Ru);
    assert_eq!(said.chars().count(), plain.chars().count() + 1 + MAX_QUESTION_CHARS);
    assert!(said.ends_with('…'));
    let exact = "ж".repeat(MAX_QUESTION_CHARS);
    assert!(Text::AskAgain { question: Some(&exact) }.render(Language::Ru).ends_with("жж"));

    let targets = vec![long];
    let asked = Text::Ask { targets: &targets, steps: 1, deletes: true }.render(Language::Ru);
    assert!(asked.chars().count() < 2 * MAX_TARGET_CHARS);
}

#[test]
fn a_target_without_a_readable_name_is_still_told() {
    let targets = names(&["a", "\u{200b}\n", "b"]);
    let asked = Text::Ask { targets: &targets, steps: 1, deletes: true }.render(Language::En);
    assert!(asked.contains("a, (no name), b."), "{asked}");
}

#[test]
fn what_is_put_in_cannot_bring_in_a_placeholder() {
    let targets = names(&["{steps}", "{targets}", "{"]);
    let asked = Text::Ask { targets: &targets, steps: 9, deletes: false }.render(Language::En);
    assert!(asked.contains("{steps}, {targets}, {."), "{asked}");
}

#[test]
fn every_sentence_has_its_key_and_every_key_its_sentence() {
    let targets = names(&["a"]);
    let mut used: Vec<String> = Vec::new();
    for text in every_text(&targets) {
        let key = text.key();
        used.push(key.to_owned());
        used.extend(LANGUAGES.map(|language| format!("{key}.{}", code(language))));
    }
    assert_eq!(used, known_keys());
}

#[test]
fn the_operator_can_replace_sentences_for_all_languages_or_for_one() {
    let replaced = [
        ("confirm.aborted", "Stop."),
        ("confirm.aborted.es", "Alto."),
        ("confirm.ask_again", "Eh? {question} (y/n)"),
        ("confirm.still_waiting", "Well?"),
        ("confirm.ask_deletion", "Drop {targets} in {steps} {or} {not"),
        ("confirm.abort", "x"),
    ];
    let texts = Texts::new(replaced.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    let targets = names(&["a", "b"]);
    let ask = Text::Ask { targets: &targets, steps: 2, deletes: true };
    let cases = [
        (Text::Aborted, Language::En, "Stop."),
        (Text::Aborted, Language::Ru, "Stop."),
        (Text::Aborted, Language::Es, "Alto."),
        (Text::AskAgain { question: Some("Sure?") }, Language::En, "Eh? Sure? (y/n)"),
        (Text::StillWaiting { question: Some("Sure?") }, Language::En, "Well? Sure?"),
        (ask, Language::En, "Drop a, b in 2 steps {or} {not"),
        (Text::Confirmed, Language::En, "Great! Processing your request..."),
    ];
    for (text, language, expected) in cases {
        assert_eq!(texts.render(&text, language), expected);
    }
    assert_eq!(texts.unknown_keys(), ["confirm.abort"]);
}

#[test]
fn a_replacement_is_bounded() {
    let overrides = BTreeMap::from([("confirm.aborted".to_owned(), "х".repeat(1_000_000))]);
    let said = Texts::new(overrides).render(&Text::Aborted, Language::Ru);
    assert_eq!(said.chars().count(), MAX_OVERRIDE_CHARS);
}
