//! One service that any language can ask, and one page where a person sees what is stuck, why, and lets it go on.
//!
//! A request comes in through [`serve`], is let in by `who`, and ends at a handler of `api` or `page`; every event goes
//! through the [`Office`]'s intake into the recorder. Nothing is decided here: the governor does that, and what was
//! acknowledged is on the disk.

mod acts;
mod api;
mod audit;
mod connections;
mod document;
mod doors;
mod intake;
mod labels;
mod live;
mod office;
mod otlp;
mod output_sweep;
mod page;
mod patience;
mod posts;
mod problem;
mod runs;
mod serve;
mod signals;
mod tls;
mod usage;
mod who;

pub use connections::ConnectionLimits;
pub use doors::{Door, doors, openapi};
pub use office::{Office, Setting};
pub use otlp::Collector;
pub use posts::{Lookout, Post};
pub use problem::Problem;
pub use runs::{Workshop, order_resume};
pub use serve::{Listen, OnReady, PLAIN_HTTP, serve};
pub use signals::log::LogStyle;
pub use tls::{Tls, TlsError};
pub use usage::KeyLimits;
pub use who::{Key, KeyRequest, Keys, NewKey, Role, Uids, prune_owners};
