//! Tests of paths and positions.

use super::{LineIndex, join_path, split_path};

#[test]
fn key_path_round_trips_through_text() {
    for parts in
        [&["a"] as &[&str], &["a", "b"], &["nodes", "a.b", "turns"], &["edges", "a->b"], &["x", "k=v"]]
    {
        assert_eq!(split_path(&join_path(parts)).unwrap(), parts);
    }
    for bad in ["", ".", "a.", "a..b", "\"a", "\"a\"b", "\"\""] {
        assert_eq!(split_path(bad), None, "{bad}");
    }
}

#[test]
fn offsets_map_to_lines_and_character_columns() {
    let lines = LineIndex::new("ab\nдж c\n");
    let at = |offset| {
        let place = lines.position(offset);
        (place.line, place.column)
    };
    assert_eq!(at(0), (1, 1));
    assert_eq!(at(1), (1, 2));
    assert_eq!(at(3), (2, 1));
    assert_eq!(at(8), (2, 4));
    assert_eq!(at(999).0, 3);
}
