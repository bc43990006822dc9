//! Conversations with a real store: slots, corrections, confirmations and failures, with a separate process per
//! message.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "dialogue/booking.rs"]
mod booking;
#[path = "dialogue/chat_harness.rs"]
mod chat_harness;
#[path = "dialogue/guards.rs"]
mod guards;
#[path = "dialogue/model.rs"]
mod model;
#[path = "dialogue/resume.rs"]
mod resume;
#[path = "dialogue/scenarios.rs"]
mod scenarios;
#[path = "dialogue/tasks.rs"]
mod tasks;
#[path = "dialogue/workflow_file.rs"]
mod workflow_file;
