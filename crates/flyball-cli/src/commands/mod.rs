//! One file a command.

pub(crate) mod activity;
pub(crate) mod answer;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod hook;
pub(crate) mod list;
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod observe;
pub(crate) mod outbox;
pub(crate) mod proxy;
pub(crate) mod prune;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod tell;
pub(crate) mod token;
pub(crate) mod top;
mod word;
