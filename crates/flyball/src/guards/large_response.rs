//! `large_response`: outputs that would fill the context.
//!
//! It has no state: an output above the threshold is stored, and the event carries a reference (`output.rs`).

use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use crate::policy::settings::StricterDirection::{Less, Unknown};
use crate::policy::settings::{Count, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::rules_version::RulesVersion;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Outputs too large for the context.")
    .table(
        "outputs that would fill the context",
        "none: a large output is stored ([events.md](events.md#large-outputs))",
    )
    .scopes::<LargeResponsePolicy>(&[Node, Tool]);

settings! {
    /// Large outputs, which are written to a file.
    pub struct LargeResponsePolicy: "LargeResponseFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Longest output passed through, in characters.
        threshold: Limit = Some(200_000) => Count(1..=1_000_000_000, Less);
        /// Length of the preview, in characters.
        preview: u64 = 1_000 => Count(0..=100_000, Unknown);
    }
}
