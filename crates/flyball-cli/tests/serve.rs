//! The server through its own program: keys, routes, events in, decisions out, and everybody who may not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "in a test that is how a failure is told")]

#[path = "serve/api.rs"]
mod api;
#[path = "serve/asking.rs"]
mod asking;
#[path = "serve/attacks.rs"]
mod attacks;
#[path = "serve/bombs.rs"]
mod bombs;
#[path = "serve/kit.rs"]
mod kit;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/roles.rs"]
mod roles;
#[path = "serve/tls.rs"]
mod tls;
