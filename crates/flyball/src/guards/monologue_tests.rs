//! Tests of message similarity and chant detection.

use super::{find_chant, hash_words, similarity_percent, sketch};

fn text_similarity(left: &str, right: &str) -> u64 {
    similarity_percent(&sketch(&hash_words(left)), &sketch(&hash_words(right)))
}

const LONG: &str = "First I read the whole module again, then I collect all the callers of the function, after that I \
                    write down what each of them expects, and only then I change the file so that nothing breaks.";

#[test]
fn similarity_ranges_from_0_to_100() {
    for (name, left, right, low, high) in [
        ("the same words", LONG, LONG, 100, 100),
        ("case and punctuation", "Let me check that.", "let ME check: that!", 100, 100),
        ("one word of many changed", LONG, &LONG.replace("module", "package"), 75, 99),
        ("the first half is the same", "a b c d e f g h", "a b c d x y z w", 10, 50),
        ("the order of the words counts", "one two three four five", "five four three two one", 0, 0),
        ("nothing in common", "the quick brown fox jumps", "over a lazy dog it went", 0, 0),
        ("short and equal", "ok", "OK.", 100, 100),
        ("short and different", "yes", "no", 0, 0),
        ("short against long", "ok", LONG, 0, 0),
        ("another alphabet", "Удали все задачи про Варю", "удали ВСЕ задачи про варю!", 100, 100),
    ] {
        let seen = text_similarity(left, right);
        assert!((low..=high).contains(&seen), "{name}: {seen}");
        assert_eq!(seen, text_similarity(right, left), "{name}: not symmetric");
    }
    assert_eq!(similarity_percent(&[], &[]), 0);
}

#[test]
fn sketch_of_a_long_message_is_bounded() {
    let long = (0..5_000).map(|n| format!("word{n} ")).collect::<String>();
    assert!(sketch(&hash_words(&long)).len() <= super::SKETCH_SIZE);
    assert_eq!(text_similarity(&long, &long), 100);
    assert!(text_similarity(&long, &long.replace("word1 ", "other ")) >= 90);
}

#[test]
fn chanting_is_detected() {
    for (name, text, period, times) in [
        ("one word", "banana ".repeat(30), 1, 30),
        ("a phrase of seven words", "I must check the file once more. ".repeat(5), 7, 5),
        ("after normal text", format!("{LONG} {}", "let me try it again now. ".repeat(6)), 6, 6),
        ("before normal text", format!("{} {LONG}", "let me try it again now. ".repeat(6)), 6, 6),
        ("a long phrase", format!("{LONG} ").repeat(4), hash_words(LONG).len(), 4),
    ] {
        let found = find_chant(&hash_words(&text), 4);
        if period <= super::MAX_PHRASE_WORDS {
            assert_eq!(found, Some((period, times)), "{name}");
        } else {
            assert_eq!(found, None, "{name}: longer than the detection window");
        }
    }
}

#[test]
fn ordinary_text_is_not_a_chant() {
    for (name, text) in [
        ("nothing", String::new()),
        ("normal text", LONG.to_owned()),
        ("three times for emphasis", "I must check the file once more. ".repeat(3)),
        ("a short stutter", "no no no no no no".to_owned()),
        ("numbers in a table", "0 1 0 1 ".repeat(60)),
        ("letters in a row, but few of them", "a b ".repeat(20)),
        (
            "a list whose items differ",
            (0..30).map(|n| format!("read file number {} now. ", "x".repeat(n + 1))).collect(),
        ),
    ] {
        assert_eq!(find_chant(&hash_words(&text), 4), None, "{name}");
    }
}

#[test]
fn chant_requires_the_given_number_of_passes() {
    let text = hash_words(&"I must check the file once more. ".repeat(5)).len();
    assert_eq!(text, 35);
    let text = "I must check the file once more. ".repeat(5);
    assert_eq!(find_chant(&hash_words(&text), 5), Some((7, 5)));
    assert_eq!(find_chant(&hash_words(&text), 6), None);
}

#[test]
fn only_the_beginning_of_a_huge_message_is_read() {
    let huge = "banana ".repeat(1_000_000);
    assert!(hash_words(&huge).len() <= crate::limits::MESSAGE_BYTES / 7 + 1);
}
