//! What is folded in a story, and what is not.

use super::{Row, folded};
use flyball::Verdict;

fn row(seq: u64, told: &str) -> Row {
    Row {
        seq,
        at: None,
        kind: "tool.requested",
        told: told.to_owned(),
        result: None,
        verdict: Verdict::Allow,
        trips: Vec::new(),
        whole: String::new(),
    }
}

/// The folds of a story of letters: the block, and how often.
fn folds(story: &str) -> Vec<(String, usize)> {
    let rows = story.chars().zip(1..).map(|(c, seq)| row(seq, &c.to_string())).collect();
    let block = |rows: &[Row]| rows.iter().map(|row| row.told.as_str()).collect::<String>();
    folded(rows).iter().map(|fold| (block(&fold.rows), fold.times)).collect()
}

fn expected(all: &[(&str, usize)]) -> Vec<(String, usize)> {
    all.iter().map(|(block, times)| ((*block).to_owned(), *times)).collect()
}

#[test]
fn one_line_again_and_again_is_told_once() {
    let sixty_four = "a".repeat(64);
    assert_eq!(folds(&sixty_four), expected(&[("a", 64)]));
    assert_eq!(folds("xaay"), expected(&[("x", 1), ("a", 2), ("y", 1)]));
}

#[test]
fn lines_that_take_turns_are_a_block_from_three_times_on() {
    assert_eq!(folds(&"ab".repeat(12)), expected(&[("ab", 12)]));
    assert_eq!(folds("xabcabcabcz"), expected(&[("x", 1), ("abc", 3), ("z", 1)]));
    assert_eq!(folds("abab"), expected(&[("a", 1), ("b", 1), ("a", 1), ("b", 1)]));
}

#[test]
fn another_decision_is_another_line() {
    let mut rows = vec![row(1, "a"), row(2, "a"), row(3, "a")];
    rows[2].verdict = Verdict::Block;
    let times: Vec<usize> = folded(rows).iter().map(|fold| fold.times).collect();
    assert_eq!(times, [2, 1]);
    assert!(folded(Vec::new()).is_empty());
}
