//! Token prices. Without a configured price no cost is computed.

use super::message::ModelUsage;
use super::units::Usd;
use schemars::JsonSchema;
use serde::Deserialize;

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrice {
    /// Input tokens.
    #[serde(rename = "input_per_million_usd")]
    pub input: Usd,
    /// Output tokens.
    #[serde(rename = "output_per_million_usd")]
    pub output: Usd,
    /// Input tokens read from the cache. Default: the price of `input`.
    #[serde(default, rename = "cached_input_per_million_usd")]
    pub cached_input: Option<Usd>,
    /// Input tokens written to the cache. Default: the price of `input`.
    #[serde(default, rename = "cache_write_per_million_usd")]
    pub cache_write: Option<Usd>,
}

impl TokenPrice {
    /// Cost in millionths of a dollar, rounded up so that rounding never exceeds a budget.
    #[must_use]
    pub fn cost_micros(&self, usage: &ModelUsage) -> u64 {
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
