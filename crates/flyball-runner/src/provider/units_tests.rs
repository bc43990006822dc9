//! Parsing of durations and prices.

use super::*;
use serde_json::json;

#[test]
fn durations_are_parsed() {
    let cases = [
        (json!(250), Some(250)),
        (json!("250ms"), Some(250)),
        (json!("90s"), Some(90_000)),
        (json!("10 m"), Some(600_000)),
        (json!("1.5h"), Some(5_400_000)),
        (json!("0"), Some(0)),
        (json!("1d"), Some(86_400_000)),
        (json!("1h30m"), Some(5_400_000)),
        (json!(1.5), Some(1)),
        (json!("fast"), None),
        (json!(-1), None),
        (json!(null), None),
        (json!("99999999999999999999s"), None),
    ];
    for (written, expected) in cases {
        let read = serde_json::from_value::<ProviderDuration>(written.clone()).ok();
        assert_eq!(read.map(|ms| ms.0), expected.map(Duration::from_millis), "{written}");
    }
}

#[test]
fn dollar_amounts_are_parsed_without_floats() {
    let cases = [
        (json!(3), Some(3_000_000)),
        (json!(0.15), Some(150_000)),
        (json!(0.1), Some(100_000)),
        (json!("0.0000019"), Some(1)),
        (json!("$2.50"), Some(2_500_000)),
        (json!("two"), None),
        (json!(-1), None),
        (json!(1e-7), None),
        (json!([1]), None),
    ];
    for (written, expected) in cases {
        assert_eq!(serde_json::from_value::<Usd>(written.clone()).ok(), expected.map(Usd), "{written}");
    }
}
