//! The journal: the durable record behind every session.
//!
//! An event that was acknowledged is never lost, it is never counted twice, and its decision never changes.

mod error;
mod journal;
mod record;

pub use error::{StoreError, Trouble};
pub use journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Turn, Unit, Which,
};
pub use record::{Chain, Change, Glance, Head, LabelChange, Loaded, Record, RowChange, Sum, state_sum};
