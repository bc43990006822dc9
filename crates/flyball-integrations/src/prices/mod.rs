//! Token prices by model. An unknown model has no price.
//!
//! The program contains a table of public list prices (`prices.yaml`, with date and sources); a user's file can add and
//! override models. Prices are written in dollars per million tokens, as providers publish them, and stored as integers
//! in millionths of a dollar.

mod model_name;
mod parse;

pub use parse::PriceError;

use crate::transcript::CachedTokens;
use std::collections::BTreeMap;

/// The table that comes with the program.
const BUILT_IN: &str = include_str!("prices.yaml");
const MILLION: u128 = 1_000_000;

/// Millionths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRates {
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
}

/// The price of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// The standard rates.
    pub rates: TokenRates,
    /// The rates for a whole request with more input tokens than the threshold.
    pub long_request: Option<(u64, TokenRates)>,
}

impl ModelPrice {
    /// The cost in millionths of a dollar, rounded up. Cached tokens are part of `tokens_in`.
    #[must_use]
    pub fn cost(&self, tokens_in: u64, tokens_out: u64, cached: CachedTokens) -> u64 {
        let rates = match self.long_request {
            Some((above, rates)) if tokens_in > above => rates,
            _ => self.rates,
        };
        let fresh = tokens_in.saturating_sub(cached.read).saturating_sub(cached.written);
        let parts = [
            (fresh, rates.input),
            (cached.read, rates.cache_read),
            (cached.written, rates.cache_write),
            (tokens_out, rates.output),
        ];
        let sum: u128 = parts.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate)).sum();
        u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX)
    }
}

/// Prices by model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    dated: String,
    models: BTreeMap<String, ModelPrice>,
}

impl PriceList {
    /// The built-in price list.
    ///
    /// # Errors
    /// Never in a tested build; the built-in table is parsed like any other file.
    pub fn built_in() -> Result<Self, PriceError> {
        parse::parse_prices(BUILT_IN, "prices.yaml")
    }

    /// A list without prices.
    #[must_use]
    pub fn empty() -> Self {
        PriceList { dated: String::new(), models: BTreeMap::new() }
    }

    /// Adds a file's models, which override existing ones. `name` is shown in messages.
    ///
    /// # Errors
    /// If the file is invalid.
    pub fn with_overrides(mut self, text: &str, name: &str) -> Result<Self, PriceError> {
        let theirs = parse::parse_prices(text, name)?;
        self.models.extend(theirs.models);
        Ok(self)
    }

    /// The date of the built-in table, such as `2026-11-10`.
    #[must_use]
    pub fn dated(&self) -> &str {
        &self.dated
    }

    /// Number of models with a price.
    #[must_use]
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// Whether no model has a price.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// The price of a model: by exact name, then without the provider prefix, then without the date or version suffix.
    /// `gpt-5-mini` never matches `gpt-5`.
    #[must_use]
    pub fn price_of(&self, model: &str) -> Option<&ModelPrice> {
        model_name::name_variants(model).find_map(|form| self.models.get(form))
    }
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
