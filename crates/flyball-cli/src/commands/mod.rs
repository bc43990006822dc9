//! One file a command.

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod observe;
pub(crate) mod replay;
pub(crate) mod schema;
