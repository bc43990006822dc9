//! End-to-end tests of `flyball audit`: the real binary on folders of histories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

#[path = "audit/audit_harness.rs"]
mod audit_harness;
#[path = "audit/folder_audit.rs"]
mod folder_audit;
#[path = "audit/html_report.rs"]
mod html_report;
#[path = "audit/prices.rs"]
mod prices;
#[path = "audit/suggested_policy.rs"]
mod suggested_policy;
