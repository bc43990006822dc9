//! The examples that can be run: each through the real binary, to the end that its page shows, also when it is killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "examples/cases.rs"]
mod cases;
#[path = "examples/cuts.rs"]
mod cuts;
#[path = "examples/facts.rs"]
mod facts;
#[path = "examples/kills.rs"]
mod kills;
#[path = "examples/kit.rs"]
mod kit;
#[path = "examples/pages.rs"]
mod pages;
