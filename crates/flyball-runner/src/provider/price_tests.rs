//! Cost computation.

use super::*;
use serde_json::{Value, json};

fn price(written: Value) -> Result<TokenPrice, String> {
    serde_json::from_value(written).map_err(|error| error.to_string())
}

fn used(tokens_in: u64, cached_in: u64, cache_write_in: u64, tokens_out: u64) -> ModelUsage {
    ModelUsage { tokens_in, cached_in, cache_write_in, tokens_out, ..ModelUsage::default() }
}

#[test]
fn each_token_kind_is_priced() {
    let plain = price(json!({"input_per_million_usd": 3, "output_per_million_usd": 15})).unwrap();
    let full = price(json!({"input_per_million_usd": 3, "output_per_million_usd": 15,
        "cached_input_per_million_usd": 0.3, "cache_write_per_million_usd": 3.75}))
    .unwrap();
    let cases = [
        (plain, used(1_000_000, 0, 0, 0), 3_000_000),
        (plain, used(1_000, 400, 300, 100), 3_000 + 1_500),
        (full, used(1_000, 400, 300, 100), 300 * 3 + 400 * 3 / 10 + 300 * 375 / 100 + 1_500),
        // Rounded up once, at the end.
        (full, used(1, 1, 0, 0), 1),
        (full, used(0, 0, 0, 0), 0),
        // A provider that reports more cached tokens than input tokens.
        (plain, used(5, 10, 10, 0), 60),
    ];
    for (price, usage, expected) in cases {
        assert_eq!(price.cost_micros(&usage), expected, "{usage:?}");
    }
    assert!(plain.cost_micros(&used(u64::MAX, 0, 0, u64::MAX)) > 1 << 60, "no overflow");
}

#[test]
fn incomplete_price_and_unknown_fields_are_rejected() {
    assert!(price(json!({"input_per_million_usd": 3})).unwrap_err().contains("output_per_million_usd"));
    let unknown = json!({"input_per_million_usd": 3, "output_per_million_usd": 1, "per_token": 1});
    assert!(price(unknown).unwrap_err().contains("per_token"));
}
