//! Hooks from the outside: settings that are really written, and a scripted host that runs what stands in them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "hooks/agent.rs"]
mod agent;
#[path = "hooks/asking.rs"]
mod asking;
#[path = "hooks/beside.rs"]
mod beside;
#[path = "hooks/claims.rs"]
mod claims;
#[path = "hooks/coverage.rs"]
mod coverage;
#[path = "hooks/faults.rs"]
mod faults;
#[path = "hooks/golden.rs"]
mod golden;
#[path = "hooks/install.rs"]
mod install;
#[path = "cli/kit.rs"]
#[allow(dead_code, reason = "the kit of the other tests; this binary needs a part of it")]
mod kit;
#[path = "hooks/plugin.rs"]
mod plugin;
#[path = "hooks/read_only.rs"]
mod read_only;
#[path = "hooks/sessions.rs"]
mod sessions;
#[path = "hooks/shipped.rs"]
mod shipped;
#[path = "hooks/told.rs"]
mod told;
#[path = "hooks/trust.rs"]
mod trust;
#[path = "hooks/voice.rs"]
mod voice;
