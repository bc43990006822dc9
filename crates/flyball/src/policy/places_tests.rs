//! Paths and places.

use super::{Lines, join, split};

#[test]
fn a_path_survives_being_joined_and_split() {
    for parts in
        [&["a"] as &[&str], &["a", "b"], &["nodes", "a.b", "turns"], &["edges", "a->b"], &["x", "k=v"]]
    {
        assert_eq!(split(&join(parts)).unwrap(), parts);
    }
    for bad in ["", ".", "a.", "a..b", "\"a", "\"a\"b", "\"\""] {
        assert_eq!(split(bad), None, "{bad}");
    }
}

#[test]
fn offsets_become_lines_and_columns_in_characters() {
    let lines = Lines::new("ab\nдж c\n");
    let at = |offset| {
        let place = lines.place(offset);
        (place.line, place.column)
    };
    assert_eq!(at(0), (1, 1));
    assert_eq!(at(1), (1, 2));
    assert_eq!(at(3), (2, 1));
    assert_eq!(at(8), (2, 4));
    assert_eq!(at(999).0, 3);
}
