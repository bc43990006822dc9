//! Tests of price lists: valid and invalid files, and model name matching.

use super::{PriceList, TokenRates};
use crate::transcript::CachedTokens;

fn price_list(text: &str) -> PriceList {
    PriceList::empty().with_overrides(text, "mine.yaml").unwrap_or_else(|error| panic!("{error:?}"))
}

fn parse_error(text: &str) -> String {
    let error = PriceList::empty().with_overrides(text, "mine.yaml").expect_err("an invalid price list");
    assert!(error.location.starts_with("mine.yaml") && !error.help.is_empty(), "{error:?}");
    error.message
}

#[test]
fn built_in_prices_are_dated_and_plausible() {
    let prices = PriceList::built_in().expect("a valid price list");
    let date: Vec<&str> = prices.dated().split('-').collect();
    assert!(date.len() == 3 && date[0].len() == 4, "{}", prices.dated());
    assert!(prices.len() >= 20, "{}", prices.len());
    for (name, price) in &prices.models {
        let TokenRates { input, output, cache_read, cache_write } = price.rates;
        assert!(input > 0 && output >= input, "{name}");
        assert!(cache_read <= input && cache_write >= input, "{name}");
        assert!(
            price.long_request.is_none_or(|(above, long)| above >= 100_000 && long.input > input),
            "{name}"
        );
    }
}

#[test]
fn cost_is_the_sum_of_its_parts_rounded_up() {
    let prices = price_list("models: {m: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}}");
    let price = prices.price_of("m").expect("known");
    // 1000 uncached, 8000 cache reads, 1000 cache writes, 100 output: 3000 + 2400 + 3750 + 1500 millionths of a dollar.
    assert_eq!(price.cost(10_000, 100, CachedTokens { read: 8_000, written: 1_000 }), 10_650);
    assert_eq!(price.cost(1, 0, CachedTokens::default()), 3);
    assert_eq!(price.cost(0, 0, CachedTokens::default()), 0);
    // More cached tokens than input tokens is the client's mistake; the uncached count must not go below zero.
    assert_eq!(price.cost(0, 0, CachedTokens { read: 10, written: 0 }), 3);
    assert_eq!(price.cost(u64::MAX, u64::MAX, CachedTokens::default()), u64::MAX);
}

#[test]
fn long_requests_use_long_rates_and_missing_cache_rates_default_to_input() {
    let prices =
        price_list("models: {m: {input: 1.25, output: 10, long: {above: 200000, input: 2.50, output: 15}}}");
    let price = prices.price_of("m").expect("known");
    assert_eq!(price.cost(200_000, 0, CachedTokens::default()), 250_000);
    assert_eq!(price.cost(200_001, 0, CachedTokens::default()), 500_003);
    assert_eq!(price.cost(1_000_000, 0, CachedTokens { read: 1_000_000, written: 0 }), 2_500_000);
}

#[test]
fn model_names_match_with_provider_and_date_but_not_by_similarity() {
    let prices = price_list(
        "models: {claude-a-4-5: {input: 3, output: 15, aliases: [sonny]}, gpt-5: {input: 1, output: 2}}",
    );
    for name in [
        "claude-a-4-5",
        "claude-a-4-5-20250929",
        "claude-a-4-5@20250929",
        "claude-a-4-5-latest",
        "anthropic/claude-a-4-5",
        "openrouter/anthropic/claude-a-4-5-20250929",
        "us.anthropic.claude-a-4-5-20250929-v1:0",
        "sonny",
        "gpt-5-2025-08-07",
        "openai/gpt-5",
    ] {
        assert!(prices.price_of(name).is_some(), "{name}");
    }
    for name in
        ["gpt-5-mini", "gpt-5.1", "gpt", "claude-a-4", "claude-a-4-5-fast", "gpt-5-20", "", "-20250929"]
    {
        assert!(prices.price_of(name).is_none(), "{name}");
    }
}

#[test]
fn user_prices_override_built_in_ones() {
    let prices = PriceList::built_in().expect("a valid price list");
    let known = prices.len();
    let name = prices.models.keys().next().expect("a model").clone();
    let text = format!("models: {{{name}: {{input: 1, output: 2}}, own-model: {{input: 0, output: 0}}}}");
    let prices = prices.with_overrides(&text, "mine.yaml").expect("a valid price list");
    assert_eq!(prices.len(), known + 1);
    assert_eq!(prices.price_of(&name).map(|price| price.rates.output), Some(2_000_000));
    assert_eq!(
        prices.price_of("own-model").map(|price| price.cost(1_000, 1_000, CachedTokens::default())),
        Some(0)
    );
}

#[test]
fn invalid_prices_are_rejected_with_their_location() {
    assert!(parse_error("models: {m: {input: 3}}").contains("has no `output`"));
    assert!(parse_error("models: {m: {input: cheap, output: 3}}").contains("`m.input` is not an amount"));
    assert!(parse_error("models: {m: {input: -1, output: 3}}").contains("`m.input` is not an amount"));
    assert!(parse_error("models: {m: {input: 1, outptu: 3}}").contains("unknown key `outptu` in `m`"));
    assert!(parse_error("models: {m: 3}").contains("`m` has no prices"));
    assert!(parse_error("model: {m: 3}").contains("unknown key `model`"));
    assert!(parse_error("[1]").contains("no `models`") || !parse_error("[1]").is_empty());
    assert!(!parse_error("models: {m: {input: 1, input: 2}}").is_empty());
    assert!(parse_error("models: {m: {input: 1, output: 999999999}}").contains("`m.output`"));
}
