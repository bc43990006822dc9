//! What tokens cost, if the file says so. Without a price there is no cost: none is ever made up.

use super::message::Usage;
use super::units::Usd;
use schemars::JsonSchema;
use serde::Deserialize;

/// Prices in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens in.
    #[serde(rename = "input_per_million_usd")]
    pub input: Usd,
    /// A million tokens out.
    #[serde(rename = "output_per_million_usd")]
    pub output: Usd,
    /// A million tokens read from the cache; the price of `input` if absent.
    #[serde(default, rename = "cached_input_per_million_usd")]
    pub cached_input: Option<Usd>,
    /// A million tokens written to the cache; the price of `input` if absent.
    #[serde(default, rename = "cache_write_per_million_usd")]
    pub cache_write: Option<Usd>,
}

impl Price {
    /// Millionths of a dollar, rounded up: a budget is never exceeded by rounding.
    #[must_use]
    pub fn cost_micros(&self, usage: &Usage) -> u64 {
        let fresh = usage.tokens_in.saturating_sub(usage.cached_in).saturating_sub(usage.cache_write_in);
        let parts = [
            (fresh, self.input),
            (usage.cached_in, self.cached_input.unwrap_or(self.input)),
            (usage.cache_write_in, self.cache_write.unwrap_or(self.input)),
            (usage.tokens_out, self.output),
        ];
        let cost = |(tokens, price): &(u64, Usd)| u128::from(*tokens).saturating_mul(u128::from(price.0));
        let total = parts.iter().map(cost).fold(0_u128, u128::saturating_add);
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
