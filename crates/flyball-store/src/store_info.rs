//! Store metadata: identity and backup summary.

use crate::high_water_mark::HighWaterMark;

/// Distinguishes a store from others and from older copies of itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StoreIdentity {
    /// Its random id.
    pub id: String,
    /// Its high-water mark outside its own files.
    pub high_water_mark: Option<HighWaterMark>,
    /// Why there is no mark.
    pub problem: Option<String>,
}

/// Summary of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct BackupSummary {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Size in bytes.
    pub bytes: u64,
}
