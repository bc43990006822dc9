//! Providers built from their settings, with real HTTP on the loopback interface and real programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod provider {
    pub(crate) mod harness;

    mod api_keys;
    mod cancel;
    mod command;
    mod config;
    mod conversation;
    mod deadlines;
    mod failures;
    mod replies;
    mod retries;
    mod script;
}
