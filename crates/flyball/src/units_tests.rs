//! Durations and money.

use super::*;

#[test]
fn durations_are_parsed() {
    let cases = [
        ("90s", Some(90_000)),
        ("10m", Some(600_000)),
        ("10 min", Some(600_000)),
        ("4h", Some(14_400_000)),
        ("1h30m", Some(5_400_000)),
        ("1h 30m", Some(5_400_000)),
        ("1.5h", Some(5_400_000)),
        ("250ms", Some(250)),
        ("2d", Some(172_800_000)),
        ("2w", Some(1_209_600_000)),
        (" 90m ", Some(5_400_000)),
        ("0s", Some(0)),
        ("", None),
        ("h", None),
        ("5 parsecs", None),
        ("-5s", None),
        ("+1d", None),
        ("30y", None),
        ("3д", None),
        ("5s5", None),
        ("1..5h", None),
        ("99999999999999999w", None),
        ("99999999999999999999h", None),
    ];
    for (text, ms) in cases {
        assert_eq!(parse_duration_ms(text), ms, "{text}");
        assert_eq!(parse_age_ms(text), ms, "{text}");
    }
    for (text, ms) in [("1500", 1_500), ("0", 0), ("1_500", 1_500)] {
        assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
        assert_eq!(parse_age_ms(text), None, "an age needs a unit: {text}");
    }
}

#[test]
fn written_and_exact_durations_are_parsed_back() {
    let examples = [
        (14_400_000, "4h", "4 h"),
        (5_400_000, "1h30m", "1 h 30 min"),
        (90_000, "1m30s", "1 min 30 s"),
        (1_500, "1500ms", "1 s 500 ms"),
        (0, "0ms", "0 s"),
        (1_000, "1s", "1 s"),
        (93_600_000, "26h", "1 d 2 h"),
    ];
    for (ms, written, exact) in examples {
        assert_eq!((written_duration(ms).as_str(), exact_duration(ms).as_str()), (written, exact));
    }
    let many =
        (0..59).flat_map(|shift| [(1_u64 << shift) - 1, 1 << shift]).chain(examples.map(|(ms, ..)| ms));
    for ms in many {
        assert_eq!(parse_duration_ms(&written_duration(ms)), Some(ms));
        assert_eq!(parse_duration_ms(&exact_duration(ms)), Some(ms));
    }
}

#[test]
fn durations_on_screens_have_at_most_two_units() {
    let cases = [
        (0, "0 s", "0 s"),
        (94, "94 ms", "0 s"),
        (1_000, "1 s", "1 s"),
        (1_469, "1.4 s", "1 s"),
        (9_999, "9.9 s", "9 s"),
        (10_999, "10 s", "10 s"),
        (59_999, "59 s", "59 s"),
        (60_000, "1 min", "1 min"),
        (750_000, "12 min 30 s", "12 min"),
        (3_600_500, "1 h", "1 h"),
        (5_400_000, "1 h 30 min", "1 h"),
        (14_400_000, "4 h", "4 h"),
        (864_000_000, "10 d", "10 d"),
        (90_061_000, "1 d 1 h", "1 d"),
    ];
    for (ms, shown, coarse) in cases {
        assert_eq!((format_duration(ms).as_str(), coarse_duration(ms).as_str()), (shown, coarse), "{ms}");
        assert!(parse_age_ms(shown).is_some_and(|read| read <= ms), "what is shown can be typed: {shown}");
    }
}

#[test]
fn dollar_amounts_parse_exactly() {
    for (text, micro) in [
        ("2.5", Some(2_500_000)),
        ("$0.1", Some(100_000)),
        ("0.000001", Some(1)),
        ("3", Some(3_000_000)),
        ("1e5", None),
        ("-1", None),
        ("", None),
    ] {
        assert_eq!(parse_micro_usd(text), micro, "{text}");
    }
}
