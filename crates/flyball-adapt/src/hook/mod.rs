//! Hooks: what a coding agent tells before and after each of its steps, and what it is answered.
//!
//! Both ways are pure functions. [`decode`] turns what a host wrote on stdin into events of the contract; the caller
//! puts them through the governor; [`reply`] says what follows from the decisions, and [`encode`] writes it as this
//! one host wants to read it. What a host makes of an answer is written down once more, from the host's side, in
//! [`understood`]: the armed-hook test and the golden tables are checked against it.

mod call;
mod decode;
mod encode;
mod heard;
mod host;
mod known_bad;
mod name;
mod pair;
mod read_only;
mod reply;
pub mod settings;
mod shorten;

pub use call::{Call, Garbled, Moment, Tool};
pub use decode::decode;
pub use encode::encode;
pub use heard::{Understood, understood};
pub use host::Host;
pub use known_bad::{Step, known_bad};
pub use pair::{Earlier, pair};
pub use read_only::is_known_read_only;
pub use reply::{Answer, Failed, Outcome, Reply, Say, failed, reply};
