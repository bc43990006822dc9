//! What something used up: calls, tokens, money, time.

use serde::Serialize;

/// Calls, tokens, millionths of a dollar and milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spend {
    /// Tool calls.
    pub calls: u64,
    /// Tokens in and out.
    pub tokens: u64,
    /// Millionths of a dollar; only what is known.
    pub cost_micro_usd: u64,
    /// Milliseconds.
    pub time_ms: u64,
}

impl Spend {
    /// One call, and nothing else yet.
    pub(super) const CALL: Spend = Spend { calls: 1, tokens: 0, cost_micro_usd: 0, time_ms: 0 };

    /// Adds another to this one.
    pub fn add(&mut self, other: &Spend) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.time_ms = self.time_ms.saturating_add(other.time_ms);
    }

    /// Takes what is there and leaves nothing.
    pub(super) fn take(&mut self) -> Spend {
        std::mem::take(self)
    }
}
