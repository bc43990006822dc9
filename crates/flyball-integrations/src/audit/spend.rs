//! Spend: calls, tokens, money and time.

use serde::Serialize;

/// Calls, tokens, millionths of a dollar and milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spend {
    /// Tool calls.
    pub calls: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Known cost, in millionths of a dollar.
    pub cost_micro_usd: u64,
    /// Milliseconds.
    pub time_ms: u64,
}

impl Spend {
    /// One call without tokens, cost or time.
    pub(super) const ONE_CALL: Spend = Spend { calls: 1, tokens: 0, cost_micro_usd: 0, time_ms: 0 };

    /// Adds `other` to this spend.
    pub fn add(&mut self, other: &Spend) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.time_ms = self.time_ms.saturating_add(other.time_ms);
    }

    /// Returns the spend and resets it to zero.
    pub(super) fn take(&mut self) -> Spend {
        std::mem::take(self)
    }
}
