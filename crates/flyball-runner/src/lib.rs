//! Workflow runner: executes a graph of agents, tools, checks and people under the governor. Only this crate causes
//! side effects.
//!
//! A workflow file is parsed into a [`workflow::WorkflowPlan`], and [`engine`] executes it. Every step is an event that
//! the governor decides on and the store keeps, so a killed run resumes where it stopped.

pub mod dialogue;
pub mod engine;
pub mod gates;
mod nodes;
pub mod process;
pub mod provider;
mod run_error;
pub mod tools;
pub mod workflow;

pub use run_error::RunError;
