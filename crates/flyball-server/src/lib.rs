//! HTTP API and operator dashboard for many agents.
//!
//! Requests enter through [`serve`], are authenticated in `auth`, and end at a handler in `api` or `page`. Events go
//! through the submit queue in [`AppState`] to the recorder. Nothing is decided here: the governor decides, and every
//! acknowledged event is durable.

mod api;
mod api_error;
mod app_state;
mod audit_log;
mod auth;
mod connections;
mod coverage;
mod event_ingest;
mod http_server;
mod key_limiter;
mod labels;
mod live;
mod openapi_document;
mod operator_actions;
mod otlp;
mod output_cleanup;
mod page;
mod routes;
mod runs;
mod telemetry;
mod tls;
mod write_timeout;

pub use api_error::ApiError;
pub use app_state::{AppState, ServerConfig};
pub use auth::{ApiKey, ApiKeyRequest, ApiKeyStore, AuthRole, NewApiKey, UidRoles, prune_owners};
pub use connections::ConnectionLimits;
pub use coverage::{CoverageItem, CoverageProbe};
pub use http_server::{ListenConfig, OnReady, PLAIN_HTTP, serve};
pub use key_limiter::KeyLimits;
pub use otlp::OtlpCollector;
pub use routes::{RouteInfo, openapi, route_table};
pub use runs::{WorkerConfig, enqueue_resume};
pub use telemetry::log::ServerLogStyle;
pub use tls::{Tls, TlsError};
