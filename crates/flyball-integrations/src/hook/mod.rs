//! Hooks: coding agents call Flyball before and after each step and act on its reply.
//!
//! Both directions are pure functions. [`decode`] turns a host's stdin into events, the caller submits them to the
//! governor, [`decide_reply`] derives a reply from the decisions, and [`encode`] writes it in the host's format.
//! [`host_reaction`] models how each host interprets that output; the armed-hook test and the golden tables are checked
//! against it.

mod call_pairing;
mod decode;
mod encode;
mod host;
mod host_contract;
mod invocation;
mod read_only;
mod reply;
mod self_test;
mod session_names;
pub mod settings;
mod truncate;

pub use call_pairing::{PairedRequest, find_open_request};
pub use decode::decode;
pub use encode::encode;
pub use host::Host;
pub use host_contract::{HostReaction, host_reaction};
pub use invocation::{HookInputError, HookInvocation, HookPhase, HookToolCall};
pub use read_only::is_known_read_only;
pub use reply::{HookFailure, HookOutcome, HookOutput, HookReply, HookVerdict, decide_reply, failure_reply};
pub use self_test::{SelfTestStep, self_test_steps};
