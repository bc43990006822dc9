//! What the server tells, through its own program: live events, counts, health, logs, traces, notifications; and that
//! no secret is in any of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

#[path = "serve/kit.rs"]
mod kit;

#[path = "signals/canaries.rs"]
mod canaries;
#[path = "signals/ear.rs"]
mod ear;
#[path = "signals/health.rs"]
mod health;
#[path = "signals/live.rs"]
mod live;
#[path = "signals/metrics.rs"]
mod metrics;
#[path = "signals/notify.rs"]
mod notify;
#[path = "signals/receivers.rs"]
mod receivers;
#[path = "signals/sealed.rs"]
mod sealed;
#[path = "signals/traces.rs"]
mod traces;
#[path = "pages/visitor.rs"]
#[allow(dead_code, reason = "the pages' own tests use the rest")]
mod visitor;
