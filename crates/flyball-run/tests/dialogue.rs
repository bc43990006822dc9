//! Conversations over a real store: collected slots, corrections, confirmations, and everything that can go wrong in
//! them, each message in a process of its own.

#![allow(clippy::expect_used, clippy::panic, reason = "a failure is told by a panic")]

#[path = "dialogue/booking.rs"]
mod booking;
#[path = "dialogue/guards.rs"]
mod guards;
#[path = "dialogue/kit.rs"]
mod kit;
#[path = "dialogue/model.rs"]
mod model;
#[path = "dialogue/same.rs"]
mod same;
#[path = "dialogue/scenes.rs"]
mod scenes;
#[path = "dialogue/tasks.rs"]
mod tasks;
#[path = "dialogue/written.rs"]
mod written;
