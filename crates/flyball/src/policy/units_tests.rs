//! Limits, switches and money.

use serde_json::json;

use super::{is_off, parse_scaled, parse_whole, same_meaning, usd_value};

#[test]
fn dollar_amounts_are_numbers_or_exact_text() {
    assert_eq!(usd_value(2_500_000), json!("2.5"));
    assert_eq!(usd_value(3_000_000), json!(3));
    assert_eq!(parse_scaled("0.25", 3_600_000), Some(900_000));
}

#[test]
fn off_has_several_spellings_and_numbers_may_have_underscores() {
    for value in [json!(0), json!("off"), json!("OFF"), json!("0"), json!(false), json!(null), json!(0.0)] {
        assert!(is_off(&value), "{value}");
    }
    for value in [json!(1), json!("on"), json!(true), json!(""), json!([])] {
        assert!(!is_off(&value), "{value}");
    }
    assert_eq!(parse_whole("200_000"), Some(200_000));
    assert_eq!(parse_whole("_1"), None);
    assert!(same_meaning(&json!("4h"), &json!(14_400_000)));
    assert!(same_meaning(&json!("off"), &json!(0)));
    assert!(!same_meaning(&json!("4h"), &json!("5h")));
}
