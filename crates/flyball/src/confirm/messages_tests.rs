//! Tests of the exact messages and of caller input.

use super::*;

const LANGUAGES: [Language; 3] = [Language::En, Language::Ru, Language::Es];

fn names(targets: &[&str]) -> Vec<String> {
    targets.iter().map(|target| (*target).to_owned()).collect()
}

fn every_message(targets: &[String]) -> Vec<ConfirmationMessage<'_>> {
    vec![
        ConfirmationMessage::Ask { targets, steps: 2, deletes: true },
        ConfirmationMessage::Ask { targets, steps: 2, deletes: false },
        ConfirmationMessage::Ask { targets: &[], steps: 2, deletes: false },
        ConfirmationMessage::AskAgain { question: None },
        ConfirmationMessage::Confirmed,
        ConfirmationMessage::WhatToChange,
        ConfirmationMessage::Cancelled,
        ConfirmationMessage::Aborted,
        ConfirmationMessage::RetryAborted,
        ConfirmationMessage::Expired,
        ConfirmationMessage::NotYours,
        ConfirmationMessage::Replaced,
        ConfirmationMessage::Dropped,
        ConfirmationMessage::StillWaiting { question: None },
        ConfirmationMessage::NothingPending,
    ]
}

#[test]
fn relied_upon_sentences_are_verbatim() {
    let ids = names(&["task-20251009-1123-cfb2cc5f", "task-20251009-1108-960126e8"]);
    let cases = [
        (ConfirmationMessage::Confirmed, Language::En, "Great! Processing your request..."),
        (ConfirmationMessage::WhatToChange, Language::En, "What would you like to change?"),
        (
            ConfirmationMessage::AskAgain { question: None },
            Language::En,
            "I didn't understand. Is this information correct? (yes/no)",
        ),
        (
            ConfirmationMessage::Aborted,
            Language::En,
            "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?",
        ),
        (
            ConfirmationMessage::RetryAborted,
            Language::En,
            "I'm having trouble processing this. Let's start over.",
        ),
        (
            ConfirmationMessage::Ask { targets: &ids, steps: 2, deletes: true },
            Language::Ru,
            "Подтверди удаление: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8. \
             Это действие необратимо. Уверен?",
        ),
        (
            ConfirmationMessage::Cancelled,
            Language::Ru,
            "Хорошо, операция отменена. Могу помочь с чем-то другим?",
        ),
    ];
    for (text, language, expected) in cases {
        assert_eq!(text.render(language), expected);
        assert_eq!(MessageCatalog::default().render(&text, language), expected);
    }
}

#[test]
fn up_to_three_targets_are_named_and_more_are_counted() {
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
            let asked =
                ConfirmationMessage::Ask { targets: &targets, steps: 1, deletes: true }.render(language);
            assert!(asked.contains(&format!(": {expected}. ")), "{asked}");
        }
    }
}

#[test]
fn question_about_a_plan_without_targets_counts_its_steps() {
    let cases = [
        (1, ["1 step.", "1 шаг.", "1 paso."]),
        (3, ["3 steps.", "3 шага.", "3 pasos."]),
        (7, ["7 steps.", "7 шагов.", "7 pasos."]),
    ];
    for (steps, expected) in cases {
        for (language, expected) in LANGUAGES.into_iter().zip(expected) {
            let asked = ConfirmationMessage::Ask { targets: &[], steps, deletes: true }.render(language);
            assert!(asked.contains(expected), "{asked}");
        }
    }
}

#[test]
fn every_message_exists_in_every_language_without_placeholders() {
    let targets = names(&["a"]);
    for language in LANGUAGES {
        let mut seen = Vec::new();
        for text in every_message(&targets) {
            let said = text.render(language);
            assert!(!said.is_empty() && !said.contains(['{', '}']), "{said}");
            assert!(!seen.contains(&said), "duplicate message: {said}");
            seen.push(said);
        }
    }
}

#[test]
fn an_expired_confirmation_says_too_late_and_again() {
    let words = [("too late", "again"), ("слишком поздно", "ещё раз"), ("demasiado tarde", "de nuevo")];
    for (language, (late, again)) in LANGUAGES.into_iter().zip(words) {
        let said = ConfirmationMessage::Expired.render(language);
        assert!(said.contains(late) && said.contains(again), "{said}");
    }
}

#[test]
fn asking_again_repeats_the_question() {
    let again = ConfirmationMessage::AskAgain { question: Some("Delete \u{7}t1\nand t2?\u{202e}") };
    assert_eq!(
        again.render(Language::En),
        "I didn't understand. Is this information correct? (yes/no) Delete t1 and t2?"
    );
    let blank = ConfirmationMessage::AskAgain { question: Some(" \n\u{0}") };
    assert_eq!(
        blank.render(Language::En),
        ConfirmationMessage::AskAgain { question: None }.render(Language::En)
    );
}

#[test]
fn long_question_or_target_is_truncated_at_a_character() {
    let long = "я😀".repeat(500_000);
    let said = ConfirmationMessage::AskAgain { question: Some(&long) }.render(Language::Ru);
    let plain = ConfirmationMessage::AskAgain { question: None }.render(Language::Ru);
    assert_eq!(said.chars().count(), plain.chars().count() + 1 + MAX_QUESTION_CHARS);
    assert!(said.ends_with('…'));
    let exact = "ж".repeat(MAX_QUESTION_CHARS);
    assert!(ConfirmationMessage::AskAgain { question: Some(&exact) }.render(Language::Ru).ends_with("жж"));

    let targets = vec![long];
    let asked = ConfirmationMessage::Ask { targets: &targets, steps: 1, deletes: true }.render(Language::Ru);
    assert!(asked.chars().count() < 2 * MAX_TARGET_CHARS);
}

#[test]
fn target_without_a_readable_name_is_still_listed() {
    let targets = names(&["a", "\u{200b}\n", "b"]);
    let asked = ConfirmationMessage::Ask { targets: &targets, steps: 1, deletes: true }.render(Language::En);
    assert!(asked.contains("a, (no name), b."), "{asked}");
}

#[test]
fn substituted_values_cannot_introduce_placeholders() {
    let targets = names(&["{steps}", "{targets}", "{"]);
    let asked = ConfirmationMessage::Ask { targets: &targets, steps: 9, deletes: false }.render(Language::En);
    assert!(asked.contains("{steps}, {targets}, {."), "{asked}");
}

#[test]
fn every_message_has_a_key_and_every_key_a_message() {
    let targets = names(&["a"]);
    let mut used: Vec<String> = Vec::new();
    for text in every_message(&targets) {
        let key = text.key();
        used.push(key.to_owned());
        used.extend(LANGUAGES.map(|language| format!("{key}.{}", language_code(language))));
    }
    assert_eq!(used, message_keys());
}

#[test]
fn messages_can_be_overridden_for_all_languages_or_one() {
    let replaced = [
        ("confirm.aborted", "Stop."),
        ("confirm.aborted.es", "Alto."),
        ("confirm.ask_again", "Eh? {question} (y/n)"),
        ("confirm.still_waiting", "Well?"),
        ("confirm.ask_deletion", "Drop {targets} in {steps} {or} {not"),
        ("confirm.abort", "x"),
    ];
    let texts = MessageCatalog::new(replaced.map(|(key, text)| (key.to_owned(), text.to_owned())).into());
    let targets = names(&["a", "b"]);
    let ask = ConfirmationMessage::Ask { targets: &targets, steps: 2, deletes: true };
    let cases = [
        (ConfirmationMessage::Aborted, Language::En, "Stop."),
        (ConfirmationMessage::Aborted, Language::Ru, "Stop."),
        (ConfirmationMessage::Aborted, Language::Es, "Alto."),
        (ConfirmationMessage::AskAgain { question: Some("Sure?") }, Language::En, "Eh? Sure? (y/n)"),
        (ConfirmationMessage::StillWaiting { question: Some("Sure?") }, Language::En, "Well? Sure?"),
        (ask, Language::En, "Drop a, b in 2 steps {or} {not"),
        (ConfirmationMessage::Confirmed, Language::En, "Great! Processing your request..."),
    ];
    for (text, language, expected) in cases {
        assert_eq!(texts.render(&text, language), expected);
    }
    assert_eq!(texts.unknown_keys(), ["confirm.abort"]);
}

#[test]
fn override_length_is_bounded() {
    let overrides = BTreeMap::from([("confirm.aborted".to_owned(), "х".repeat(1_000_000))]);
    let said = MessageCatalog::new(overrides).render(&ConfirmationMessage::Aborted, Language::Ru);
    assert_eq!(said.chars().count(), MAX_OVERRIDE_CHARS);
}
