//! All bounds of the core in one place, so that the maximum size of a session can be computed.
//!
//! The encoded state of a session stays below [`STATE_BYTES`] no matter how long it runs; these bounds are chosen
//! accordingly.

/// Maximum size of an event line, in bytes.
pub const EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum JSON nesting depth of an event.
pub const EVENT_DEPTH: usize = 64;
/// Maximum number of keys or elements in one object or array of an event.
pub const EVENT_ENTRIES: usize = 100_000;
/// Maximum length of a name (session, node, tool, call, guard, edge, operation), in bytes.
pub const NAME_BYTES: usize = 512;
/// Maximum length of an event id, in bytes.
pub const ID_BYTES: usize = 512;
/// Maximum number of steps of a plan awaiting approval.
pub const PLAN_STEPS: usize = 256;
/// Maximum size of a plan, as JSON, that an approval includes in full.
pub const MAX_PLAN_BYTES: usize = 4 * 1024;
/// Maximum number of events that may request the steps of one plan.
pub const MAX_PLAN_REQUESTERS: usize = 32;

/// Maximum size of a session's encoded state, in bytes.
pub const STATE_BYTES: usize = 64 * 1024;
/// Maximum size of an inline policy in `session.started`, in bytes of JSON.
pub const INLINE_POLICY_BYTES: usize = 4 * 1024;
/// Number of recent event ids kept to answer redeliveries without counting them.
pub const CACHED_DECISIONS: usize = 128;
/// Total bytes of full decisions (other than a plain `allow`) kept for redelivery.
pub const CACHED_DECISION_BYTES: usize = 4 * 1024;
/// Maximum number of open tool calls; beyond that the oldest is dropped.
pub const OPEN_CALLS: usize = 32;
/// Maximum number of calls tracked per round.
pub const ROUND_CALLS: usize = 32;
/// Number of distinct (call, result) pairs kept since the last new write.
pub const SEEN_PAIRS: usize = 192;
/// Number of calls kept with their last result.
pub const SEEN_CALLS: usize = 192;
/// Results up to this many bytes are normalized immediately; longer ones only when there is something to compare with.
pub const SHORT_RESULT_BYTES: usize = 512;
/// Number of recent writes kept, to recognize a new write.
pub const SEEN_WRITES: usize = 128;
/// Maximum number of nodes with counters.
pub const NODES: usize = 192;
/// Maximum number of edges with counters.
pub const EDGES: usize = 256;
/// Maximum number of tools with separate totals; further ones are counted together.
pub const TOOLS: usize = 32;
/// Maximum number of operations with a retry counter and breaker.
pub const OPERATIONS: usize = 32;
/// Maximum number of progress signals.
pub const SIGNALS: usize = 12;
/// Maximum number of gate checklist items counted separately.
pub const GATE_ITEMS: usize = 64;
/// Longest period that cycle detection finds.
pub const MAX_PERIOD: usize = 64;
/// Number of recent transitions kept by name under version 1 of the rules.
pub const TRAIL: usize = 16;
/// Maximum number of recent transitions kept under later versions; at least as many as reports show (`max_history`).
pub const MAX_TRANSITION_HISTORY: usize = 64;
/// Maximum length of a name in the state that is kept for reports, in bytes.
pub const SHOWN_NAME_BYTES: usize = 48;
/// Maximum number of evidence events in a trip.
pub const EVIDENCE_EVENTS: usize = 32;
/// Maximum number of output, diff and failing-set hashes in the evidence of a halt.
pub const MAX_EVIDENCE_HASHES: usize = 8;
/// Maximum number of evidence fingerprints in a trip.
pub const EVIDENCE_FINGERPRINTS: usize = 8;
/// Maximum length of feedback to a model, in characters.
pub const FEEDBACK_CHARS: usize = 600;
/// Maximum number of simultaneously exhausted budgets kept for a release.
pub const MAX_EXHAUSTED_BUDGETS: usize = 8;
/// Maximum number of stops by people kept until they are lifted.
pub const OPERATOR_STOPS: usize = 4;

/// Number of session restarts (`session.started` for an existing session) that exclude the time before them from the
/// runtime.
pub const IDLE_RESTARTS: u32 = 100;
/// Maximum number of equal calls in one model response that count as one; further ones are repetitions.
pub const ROUND_DUPLICATES: usize = 16;
/// Maximum number of guards with a release record.
pub const RELEASED_GUARDS: usize = 24;
/// Maximum number of message bytes searched for repeated words.
pub const MESSAGE_BYTES: usize = 16 * 1024;
/// Maximum number of ancestors whose remaining budget is checked.
pub const TREE_DEPTH: usize = 16;
