//! Transcript audit: finds loops, the points where Flyball would have stopped them, and the savings.
//!
//! [`Auditor`] consumes the events of one file and keeps only findings. [`AuditSummary`] adds up files, in any order.
//! [`suggest_policy`] writes a policy that fits the audited runs. Nothing here opens a file or reads the clock.

mod auditor;
mod finding;
mod observe_mode;
mod open_loop;
mod preview;
mod session_tracker;
mod spend;
mod suggest_policy;
mod summary;
mod top_loops;

pub use auditor::{AuditConfig, Auditor, FileFindings};
pub use finding::{AuditedRun, LoopEnd, LoopFinding, StopPoint, ToolCallCounts};
pub use spend::Spend;
pub use suggest_policy::{SuggestedPolicy, suggest_policy};
pub use summary::{AuditSummary, FileTotals, LoopTotals, ToolTotals, UnixDay, UnreadableFile};
pub use top_loops::TopLoops;
