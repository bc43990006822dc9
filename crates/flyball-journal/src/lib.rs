//! The journal: the durable record behind every session.
//!
//! An event that was acknowledged is never lost, it is never counted twice, and its decision never changes.

mod address;
mod claims;
mod courier;
mod error;
mod incoming;
mod journal;
mod line;
mod lookup;
mod marks;
mod memory;
mod outputs;
mod payload;
mod postgres;
mod probe;
mod record;
mod recorder;
mod redact;
mod shelf;
mod sqlite;
mod store_info;

pub use address::Address;
pub use claims::Claims;
pub use courier::{Courier, Delivered};
pub use error::{StoreError, Trouble};
pub use incoming::{
    Door, Incoming, Parcel, identifiers_are_kept, mark_suspension, parsed_checks, suspended_ms,
};
pub use journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Sighting, Turn, Unit,
};
pub use line::{Committers, Line, LineOptions, Turned};
pub use marks::{Mark, Marks};
pub use memory::Memory;
pub use outputs::{
    Fitted, ORPHAN_AGE, OutputMatch, OutputOptions, OutputOutcome, OutputRef, OutputSlice, Outputs,
    SessionOutputs, Swept, random_name, sweep,
};
pub use payload::shortened;
pub use postgres::{Postgres, PostgresOptions};
pub use probe::{Point, Probe};
pub use record::{
    Chain, Change, Glance, Head, HolderIsGone, LabelChange, Loaded, Record, RowChange, Sum, Which, state_sum,
};
pub use recorder::{Answer, PolicyChanges, Recorder, RecorderOptions, Refusal};
pub use redact::Redactor;
pub use shelf::{If, Note, Shelf};
pub use sqlite::{Restored, Sqlite, SqliteOptions, Sync, restore};
pub use store_info::{Backup, StoreIdentity};
