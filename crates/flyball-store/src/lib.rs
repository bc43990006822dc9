//! Event store: the durable record behind every session.
//!
//! An acknowledged event is never lost and never counted twice, and its decision never changes.

mod claims;
mod dispatcher;
mod error;
mod event_store;
mod failpoint;
mod high_water_mark;
mod kv_store;
mod large_outputs;
mod memory;
mod name_map;
mod payload;
mod postgres;
mod record;
mod recorder;
mod redact;
mod sqlite;
mod store_address;
mod store_info;
mod submission;
mod submit_queue;

pub use claims::ClaimPolicy;
pub use dispatcher::{DispatchReport, OutboxDispatcher};
pub use error::{StoreError, StoreErrorKind};
pub use event_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationRow, DeliveryOutcome, EventRef, EventStore, Lease,
    OperatorRows, OutboxMessage, OutboxState, PruneReport, StoreResult, StoredAnswer, StreamCursor,
    StreamEntry, WriteGuard,
};
pub use failpoint::{Failpoint, FailpointHook};
pub use high_water_mark::{HighWaterMark, HighWaterMarks};
pub use kv_store::{KvEntry, KvStore, Precondition};
pub use large_outputs::{
    CleanupSummary, FittedText, LargeOutputs, MIN_ORPHAN_AGE, OutputMatch, OutputOptions, OutputOutcome,
    OutputRef, OutputSlice, SessionOutputs, random_name, remove_orphans,
};
pub use memory::MemoryStore;
pub use payload::truncate_large_texts;
pub use postgres::{PostgresOptions, PostgresStore};
pub use record::{
    ChainHash, Checksum, ConfirmationChange, EventRecord, HolderIsGone, LabelChange, LoadedSession,
    SessionChange, SessionFilter, SessionRow, SessionSummary, state_checksum,
};
pub use recorder::{PolicyChangeMode, RecordError, RecordResult, Recorder, RecorderOptions};
pub use redact::Redactor;
pub use sqlite::{RestoreSummary, SqliteOptions, SqliteStore, SyncMode, restore};
pub use store_address::StoreAddress;
pub use store_info::{BackupSummary, StoreIdentity};
pub use submission::{
    BoxedSubmission, RedactingParser, Submission, check_identifiers_not_redacted, stamp_suspension,
    suspended_ms, with_parsed_checks,
};
pub use submit_queue::{SubmitError, SubmitQueue, SubmitQueueOptions, WriterThreads};
