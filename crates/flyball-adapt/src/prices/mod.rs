//! What tokens cost, by model. An unknown model has no price, and none is made up.
//!
//! A table of public list prices is part of the program (`prices.yaml`, with its date and its sources); a file of the
//! user's may add models to it and change them. Prices are written in dollars for a million tokens, as the providers
//! print them, and are integers from there on: millionths of a dollar.

mod name;
mod read;

pub use read::PriceError;

use crate::source::Cached;
use std::collections::BTreeMap;

/// The table that comes with the program.
const SHIPPED: &str = include_str!("prices.yaml");
const MILLION: u128 = 1_000_000;

/// Millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Tokens in, as far as no cache has them.
    pub input: u64,
    /// Tokens out.
    pub output: u64,
    /// Tokens in that were read from the provider's cache.
    pub cache_read: u64,
    /// Tokens in that were written to the provider's cache.
    pub cache_write: u64,
}

/// The price of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// What is paid as a rule.
    pub rates: Rates,
    /// What is paid for the whole request if more tokens go in than this.
    pub long: Option<(u64, Rates)>,
}

impl Price {
    /// Millionths of a dollar, rounded up. Cached tokens are part of `tokens_in`.
    #[must_use]
    pub fn cost(&self, tokens_in: u64, tokens_out: u64, cached: Cached) -> u64 {
        let rates = match self.long {
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
pub struct Prices {
    dated: String,
    models: BTreeMap<String, Price>,
}

impl Prices {
    /// The table that comes with the program.
    ///
    /// # Errors
    /// Never in a program that passed its tests; the error is there because the table is read like any other.
    pub fn shipped() -> Result<Self, PriceError> {
        read::read(SHIPPED, "prices.yaml")
    }

    /// No prices at all.
    #[must_use]
    pub fn none() -> Self {
        Prices { dated: String::new(), models: BTreeMap::new() }
    }

    /// Adds the models of a file, which win over those that are known. `name` is shown in messages.
    ///
    /// # Errors
    /// If the file cannot be understood.
    pub fn with(mut self, text: &str, name: &str) -> Result<Self, PriceError> {
        let theirs = read::read(text, name)?;
        self.models.extend(theirs.models);
        Ok(self)
    }

    /// The day that the table that comes with the program is from: `2026-11-10`.
    #[must_use]
    pub fn dated(&self) -> &str {
        &self.dated
    }

    /// How many models have a price.
    #[must_use]
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// Whether no model has a price.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// The price of a model: by its name as it stands, then without the provider's name before it, then without the
    /// date or version behind it. `gpt-5-mini` is never taken for a `gpt-5`.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&Price> {
        name::forms(model).find_map(|form| self.models.get(form))
    }
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
