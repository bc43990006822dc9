//! Tests of spelling suggestions.

use super::closest;

#[test]
fn closest_word_is_suggested_only_if_close() {
    let known = ["repetition", "cycle", "visits", "warn_at", "max_visits", "of"];
    for (written, meant) in [
        ("repetitions", Some("repetition")),
        ("repitition", Some("repetition")),
        ("cylce", Some("cycle")),
        ("maxVisits", Some("max_visits")),
        ("warn-at", Some("warn_at")),
        ("visit", Some("visits")),
        ("banana", None),
        ("", None),
    ] {
        assert_eq!(closest(written, known), meant, "{written}");
    }
    assert_eq!(closest(&"x".repeat(10_000), known), None);
}
