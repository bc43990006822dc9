//! Folding of timeline rows.

use super::{TimelineRow, fold_rows};
use flyball::Verdict;

fn row(seq: u64, text: &str) -> TimelineRow {
    TimelineRow {
        seq,
        at: None,
        kind: "tool.requested",
        text: text.to_owned(),
        result: None,
        verdict: Verdict::Allow,
        trips: Vec::new(),
        full_event: String::new(),
    }
}

/// The folds of a timeline written as letters: block and number of times.
fn folds(story: &str) -> Vec<(String, usize)> {
    let rows = story.chars().zip(1..).map(|(c, seq)| row(seq, &c.to_string())).collect();
    let block = |rows: &[TimelineRow]| rows.iter().map(|row| row.text.as_str()).collect::<String>();
    fold_rows(rows).iter().map(|fold| (block(&fold.rows), fold.times)).collect()
}

fn expected(all: &[(&str, usize)]) -> Vec<(String, usize)> {
    all.iter().map(|(block, times)| ((*block).to_owned(), *times)).collect()
}

#[test]
fn repeated_row_is_folded() {
    let sixty_four = "a".repeat(64);
    assert_eq!(folds(&sixty_four), expected(&[("a", 64)]));
    assert_eq!(folds("xaay"), expected(&[("x", 1), ("a", 2), ("y", 1)]));
}

#[test]
fn repeated_block_is_folded_from_three_times() {
    assert_eq!(folds(&"ab".repeat(12)), expected(&[("ab", 12)]));
    assert_eq!(folds("xabcabcabcz"), expected(&[("x", 1), ("abc", 3), ("z", 1)]));
    assert_eq!(folds("abab"), expected(&[("a", 1), ("b", 1), ("a", 1), ("b", 1)]));
}

#[test]
fn rows_with_other_decisions_are_not_folded() {
    let mut rows = vec![row(1, "a"), row(2, "a"), row(3, "a")];
    rows[2].verdict = Verdict::Block;
    let times: Vec<usize> = fold_rows(rows).iter().map(|fold| fold.times).collect();
    assert_eq!(times, [2, 1]);
    assert!(fold_rows(Vec::new()).is_empty());
}
