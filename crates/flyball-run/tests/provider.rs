//! Providers through their config, over real HTTP on the loopback interface and with real programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

mod provider {
    pub(crate) mod kit;

    mod answers;
    mod cancel;
    mod command;
    mod config;
    mod conversation;
    mod keys;
    mod retries;
    mod script;
    mod time;
    mod troubles;
}
