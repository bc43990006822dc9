//! `flyball audit` from the outside: the real binary over folders of histories.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "audit/folders.rs"]
mod folders;
#[path = "audit/history.rs"]
mod history;
#[path = "audit/page.rs"]
mod page;
#[path = "audit/policy.rs"]
mod policy;
#[path = "audit/prices.rs"]
mod prices;
