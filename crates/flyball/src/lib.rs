//! Flyball: the governor for AI agents.
//!
//! This crate is the pure core. It folds a session's events into decisions (allow, warn, block, halt), each with the
//! evidence behind it. It has no clock, does no I/O, uses no randomness and performs no effect: the same events under
//! the same policy give the same decisions, byte for byte, on every machine.
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
mod answers;
pub mod backpressure;
mod blank;
pub mod completion;
pub mod confirm;
mod decision;
mod error;
mod event;
mod fingerprint;
mod flow;
mod governor;
pub mod graph;
mod guards;
mod ledger;
mod lifecycle;
pub mod limits;
pub mod metrics;
mod observation;
pub mod output;
mod periodic;
mod person;
pub mod policy;
mod reasons;
mod report;
mod rules_version;
mod sessions;
mod state;
mod suggest;
mod tally;
pub mod text;
mod verdict;
mod visible;
mod window;

pub use actions::{SuggestedAction, action_text, shell_word};
pub use blank::is_blank;
pub use decision::{
    BudgetUse, Decision, Effect, Evidence, HaltReason, Natural, Severity, Status, Trip, Verdict,
};
pub use error::{Code, Error};
pub use event::{
    Better, Check, CheckKind, Denier, Event, EventId, Kind, Origin, PlanStep, ReleaseMode, Usage,
    canonical_json, effect_of, normalise_into, normalised, type_names as event_types, without_timestamps,
};
pub use fingerprint::Fingerprint;
pub use governor::step;
pub use guards::{APPROVED_BY, Ancestor, Family, GUARDS, granted_amount};
pub use policy::{Policy, Preset};
pub use reasons::{Ending, REASONS, ending};
pub use report::{
    BreakerReport, BreakerState, BudgetReport, GuardHold, LoopReport, OperatorStop, Report, Standing,
    Transition, TransitionHistory, Waiting,
};
pub use rules_version::RulesVersion;
pub use sessions::{PolicyChange, PolicySource, Session, Sessions};
pub use state::State;
pub use suggest::closest;
pub use tally::ToolUse;
pub use verdict::waits;
pub use visible::{is_deceptive, visible};
