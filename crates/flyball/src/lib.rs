//! Flyball: the governor for AI agents.
//!
//! This crate is the pure core. It folds a session's events into decisions (allow, warn, block, halt), each with its
//! evidence. It has no clock, does no I/O, uses no randomness and performs no effect: the same events under the same
//! policy give the same decisions, byte for byte, on every machine.
//!
//! ```
//! use flyball::{Event, PolicySource, Preset, Sessions, Verdict};
//!
//! let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
//! let mut last = Verdict::Allow;
//! for call in 0..6 {
//!     let asked = format!(r#"{{"type":"tool.requested","call":"c{call}","tool":"bash","args":{{"command":"ls"}}}}"#);
//!     let ended = format!(r#"{{"type":"tool.finished","call":"c{call}","ok":true,"output":"a b c"}}"#);
//!     last = sessions.step(&Event::from_json(&asked)?)?.decision;
//!     sessions.step(&Event::from_json(&ended)?)?;
//! }
//! assert_eq!(last, Verdict::Block); // five identical calls run, the sixth is refused
//! # Ok::<(), flyball::Error>(())
//! ```

mod actions;
pub mod backpressure;
mod blank;
mod bounded_map;
mod call_ledger;
pub mod completion;
pub mod confirm;
mod deceptive_chars;
mod decision;
mod decision_cache;
mod error;
mod event;
mod finalize;
mod fingerprint;
mod governor;
pub mod graph;
mod guards;
mod lifecycle;
pub mod limits;
pub mod metrics;
mod observation;
pub mod output;
mod period_detector;
mod person_message;
pub mod policy;
mod reasons;
mod report;
mod rules_version;
mod sessions;
mod state;
mod suggest;
pub mod text;
mod tool_usage;
pub mod units;
mod workflow_position;

pub use actions::{SuggestedAction, action_text, shell_word};
pub use blank::is_blank;
pub use deceptive_chars::{escape_deceptive, is_deceptive};
pub use decision::{
    BudgetUsage, Decision, Effect, Evidence, HaltReason, SessionPhase, Trip, TripSeverity, UnclampedSeverity,
    Verdict,
};
pub use error::{Error, ErrorCode};
pub use event::{
    BetterDirection, Check, CheckKind, DeniedBy, Event, EventId, EventKind, MessageOrigin, PlanStep,
    ReleaseMode, Usage, canonical_json, guess_tool_effect, normalize, normalize_into, strip_timestamps,
    type_names as event_types,
};
pub use finalize::waits_for_person;
pub use fingerprint::Fingerprint;
pub use governor::step;
pub use guards::{APPROVED_BY, Ancestor, Ancestors, GUARD_NAMES, GuardInfo, granted_amount, guards};
pub use policy::{Policy, Preset};
pub use reasons::{EndingKind, Reason, ending_kind, reason, reasons};
pub use report::{
    BreakerReport, BreakerStatus, BudgetReport, GuardHold, LoopReport, NodeTransition, OperatorStop,
    SessionReport, StatusSummary, TransitionHistory, Waiting,
};
pub use rules_version::RulesVersion;
pub use sessions::{PolicyChange, PolicySource, Session, Sessions};
pub use state::SessionState;
pub use suggest::closest;
pub use tool_usage::ToolUsage;
