//! Flyball on agents that never heard of it: what they wrote down, what they ask through their hooks, and the
//! protocols between them, their tools and their models.

pub mod audit;
pub mod hook;
mod listen;
pub mod mcp;
pub mod model_proxy;
mod named;
pub mod prices;
mod same_site;
pub mod source;
mod splice;

pub use listen::OnReady;
