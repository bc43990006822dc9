//! Fingerprints: 64-bit hashes of texts, arguments and results.
//!
//! Guards compare only fingerprints, so a session's windows stay small no matter how much the tools print.

use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A 64-bit fingerprint (XXH3 with a fixed seed): equal on every machine for equal input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(u64);

const SEED: u64 = 0x666c_7962_616c_6c31;

impl Fingerprint {
    /// The null fingerprint: no result yet.
    pub const NONE: Fingerprint = Fingerprint(0);

    /// Fingerprint of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hash = xxh3_64_with_seed(bytes, SEED);
        // Zero is reserved for NONE.
        Fingerprint(if hash == 0 { 1 } else { hash })
    }

    /// Fingerprint of a text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self::of(text.as_bytes())
    }

    /// Combines two fingerprints into one; the order matters.
    #[must_use]
    pub fn combine(self, other: Fingerprint) -> Self {
        let mut bytes = [0_u8; 16];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..].copy_from_slice(&other.0.to_le_bytes());
        Self::of(&bytes)
    }

    /// Whether this is the null fingerprint.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The underlying number, for deterministic jitter.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// Eight raw bytes: a variable-length integer would need ten for most fingerprints.
impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.to_le_bytes().serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            u64::from_str_radix(&text, 16).map(Fingerprint).map_err(serde::de::Error::custom)
        } else {
            <[u8; 8]>::deserialize(deserializer).map(|bytes| Fingerprint(u64::from_le_bytes(bytes)))
        }
    }
}
