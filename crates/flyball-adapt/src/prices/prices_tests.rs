//! What a price list says, what it may not say, and how models are recognised.

use super::{Prices, Rates};
use crate::source::Cached;

fn list(text: &str) -> Prices {
    Prices::none().with(text, "mine.yaml").unwrap_or_else(|error| panic!("{error:?}"))
}

fn complaint(text: &str) -> String {
    let error = Prices::none().with(text, "mine.yaml").expect_err("it is wrong");
    assert!(error.place.starts_with("mine.yaml") && !error.advice.is_empty(), "{error:?}");
    error.what
}

#[test]
fn the_shipped_list_is_dated_and_its_prices_make_sense() {
    let prices = Prices::shipped().expect("it can be read");
    let date: Vec<&str> = prices.dated().split('-').collect();
    assert!(date.len() == 3 && date[0].len() == 4, "{}", prices.dated());
    assert!(prices.len() >= 20, "{}", prices.len());
    for (name, price) in &prices.models {
        let Rates { input, output, cache_read, cache_write } = price.rates;
        assert!(input > 0 && output >= input, "{name}");
        assert!(cache_read <= input && cache_write >= input, "{name}");
        assert!(price.long.is_none_or(|(above, long)| above >= 100_000 && long.input > input), "{name}");
    }
}

#[test]
fn a_cost_is_the_sum_of_its_parts_rounded_up() {
    let prices = list("models: {m: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}}");
    let price = prices.of("m").expect("known");
    // 1000 fresh, 8000 read, 1000 written, 100 out: 3000 + 2400 + 3750 + 1500 millionths of a dollar.
    assert_eq!(price.cost(10_000, 100, Cached { read: 8_000, written: 1_000 }), 10_650);
    assert_eq!(price.cost(1, 0, Cached::default()), 3);
    assert_eq!(price.cost(0, 0, Cached::default()), 0);
    // More cached than there was at all is the sender's mistake, and no reason to go below nothing.
    assert_eq!(price.cost(0, 0, Cached { read: 10, written: 0 }), 3);
    assert_eq!(price.cost(u64::MAX, u64::MAX, Cached::default()), u64::MAX);
}

#[test]
fn a_long_request_has_its_own_price_and_a_cache_without_one_costs_as_much_as_the_input() {
    let prices =
        list("models: {m: {input: 1.25, output: 10, long: {above: 200000, input: 2.50, output: 15}}}");
    let price = prices.of("m").expect("known");
    assert_eq!(price.cost(200_000, 0, Cached::default()), 250_000);
    assert_eq!(price.cost(200_001, 0, Cached::default()), 500_003);
    assert_eq!(price.cost(1_000_000, 0, Cached { read: 1_000_000, written: 0 }), 2_500_000);
}

#[test]
fn models_are_known_with_provider_and_date_and_never_by_likeness() {
    let prices = list(
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
        assert!(prices.of(name).is_some(), "{name}");
    }
    for name in
        ["gpt-5-mini", "gpt-5.1", "gpt", "claude-a-4", "claude-a-4-5-fast", "gpt-5-20", "", "-20250929"]
    {
        assert!(prices.of(name).is_none(), "{name}");
    }
}

#[test]
fn a_list_of_the_user_wins_and_keeps_the_rest() {
    let prices = Prices::shipped().expect("it can be read");
    let known = prices.len();
    let name = prices.models.keys().next().expect("a model").clone();
    let text = format!("models: {{{name}: {{input: 1, output: 2}}, own-model: {{input: 0, output: 0}}}}");
    let prices = prices.with(&text, "mine.yaml").expect("it can be read");
    assert_eq!(prices.len(), known + 1);
    assert_eq!(prices.of(&name).map(|price| price.rates.output), Some(2_000_000));
    assert_eq!(prices.of("own-model").map(|price| price.cost(1_000, 1_000, Cached::default())), Some(0));
}

#[test]
fn what_cannot_be_a_price_is_refused_with_its_place() {
    assert!(complaint("models: {m: {input: 3}}").contains("has no `output`"));
    assert!(complaint("models: {m: {input: cheap, output: 3}}").contains("`m.input` is no amount"));
    assert!(complaint("models: {m: {input: -1, output: 3}}").contains("`m.input` is no amount"));
    assert!(complaint("models: {m: {input: 1, outptu: 3}}").contains("`outptu` of `m` is not known"));
    assert!(complaint("models: {m: 3}").contains("`m` has no prices"));
    assert!(complaint("model: {m: 3}").contains("`model` is not known"));
    assert!(complaint("[1]").contains("no `models`") || !complaint("[1]").is_empty());
    assert!(!complaint("models: {m: {input: 1, input: 2}}").is_empty());
    assert!(complaint("models: {m: {input: 1, output: 999999999}}").contains("`m.output`"));
}
