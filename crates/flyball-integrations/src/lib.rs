//! Flyball for existing agents: transcript audits, hooks for coding agents, and proxies for MCP and model APIs.

pub mod audit;
pub mod hook;
mod json_patch;
mod last_hit_map;
mod listen;
pub mod mcp;
pub mod model_proxy;
pub mod prices;
mod same_site;
pub mod transcript;

pub use listen::OnReady;
