//! Durations, limits and money.

use serde_json::json;

use super::{duration_ms, duration_text, is_off, micro_usd, same_meaning, scaled, usd_value, whole};

#[test]
fn durations_are_read_and_written() {
    let cases = [
        ("90s", Some(90_000)),
        ("10m", Some(600_000)),
        ("4h", Some(14_400_000)),
        ("1h30m", Some(5_400_000)),
        ("1h 30m", Some(5_400_000)),
        ("1.5h", Some(5_400_000)),
        ("250ms", Some(250)),
        ("2d", Some(172_800_000)),
        ("1500", Some(1_500)),
        ("0", Some(0)),
        ("", None),
        ("h", None),
        ("5 parsecs", None),
        ("-5s", None),
        ("5s5", None),
        ("1..5h", None),
        ("99999999999999999999h", None),
    ];
    for (text, ms) in cases {
        assert_eq!(duration_ms(text), ms, "{text}");
    }
    for (ms, text) in [
        (14_400_000, "4h"),
        (5_400_000, "1h30m"),
        (90_000, "1m30s"),
        (1_500, "1500ms"),
        (0, "0ms"),
        (1_000, "1s"),
    ] {
        assert_eq!(duration_text(ms), text);
        assert_eq!(duration_ms(text), Some(ms));
    }
}

#[test]
fn money_is_exact() {
    for (text, micro) in [
        ("2.5", Some(2_500_000)),
        ("$0.1", Some(100_000)),
        ("0.000001", Some(1)),
        ("3", Some(3_000_000)),
        ("1e5", None),
        ("-1", None),
        ("", None),
    ] {
        assert_eq!(micro_usd(text), micro, "{text}");
    }
    assert_eq!(usd_value(2_500_000), json!("2.5"));
    assert_eq!(usd_value(3_000_000), json!(3));
    assert_eq!(scaled("0.25", 3_600_000), Some(900_000));
}

#[test]
fn off_has_several_spellings_and_numbers_may_have_underscores() {
    for value in [json!(0), json!("off"), json!("OFF"), json!("0"), json!(false), json!(null), json!(0.0)] {
        assert!(is_off(&value), "{value}");
    }
    for value in [json!(1), json!("on"), json!(true), json!(""), json!([])] {
        assert!(!is_off(&value), "{value}");
    }
    assert_eq!(whole("200_000"), Some(200_000));
    assert_eq!(whole("_1"), None);
    assert!(same_meaning(&json!("4h"), &json!(14_400_000)));
    assert!(same_meaning(&json!("off"), &json!(0)));
    assert!(!same_meaning(&json!("4h"), &json!("5h")));
}
