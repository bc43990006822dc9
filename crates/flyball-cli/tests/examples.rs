//! Runs the examples through the real binary, to the result shown on their pages, also if they are killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "examples/example_cases.rs"]
mod example_cases;
#[path = "examples/example_harness.rs"]
mod example_harness;
#[path = "examples/example_outcomes.rs"]
mod example_outcomes;
#[path = "examples/example_pages.rs"]
mod example_pages;
#[path = "examples/random_kills.rs"]
mod random_kills;
#[path = "examples/resume_after_each_event.rs"]
mod resume_after_each_event;
