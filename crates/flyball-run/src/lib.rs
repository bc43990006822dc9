//! The runner: executes a graph of agents, tools, checks and people under the governor. Effects happen only here.
//!
//! A workflow file becomes a [`workflow::Plan`]; [`engine::Run`] walks it. Every step is an event that the governor
//! decides upon and the journal keeps, so that a run that was killed goes on where it was.

pub mod dialogue;
pub mod engine;
mod fail;
pub mod gates;
mod nodes;
pub mod process;
pub mod provider;
pub mod tools;
pub mod workflow;

pub use fail::Failure;
