//! The server's observability, tested through the real program: live events, metrics, health, logs, traces and
//! notifications, none of which may contain a secret.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "serve/server_harness.rs"]
mod server_harness;

#[path = "pages/browser_client.rs"]
#[allow(dead_code, reason = "the page tests use the rest")]
mod browser_client;
#[path = "signals/encrypted_email.rs"]
mod encrypted_email;
#[path = "signals/health.rs"]
mod health;
#[path = "signals/live_events.rs"]
mod live_events;
#[path = "signals/metrics.rs"]
mod metrics;
#[path = "signals/notifications.rs"]
mod notifications;
#[path = "signals/planted_secrets.rs"]
mod planted_secrets;
#[path = "signals/receivers.rs"]
mod receivers;
#[path = "signals/sse_client.rs"]
mod sse_client;
#[path = "signals/traces.rs"]
mod traces;
