//! Every bound of the core in one place, so that a reader can add up what a session may cost.
//!
//! A session's encoded state stays below [`STATE_BYTES`] however long it runs; the windows here are sized for that.

/// The largest event line, in bytes.
pub const EVENT_BYTES: usize = 16 * 1024 * 1024;
/// The deepest nesting of JSON inside an event.
pub const EVENT_DEPTH: usize = 64;
/// The most keys or elements in one object or array of an event.
pub const EVENT_ENTRIES: usize = 100_000;
/// The longest name (session, node, tool, call, guard, edge, operation), in bytes.
pub const NAME_BYTES: usize = 512;
/// The longest event id, in bytes.
pub const ID_BYTES: usize = 512;
/// The most steps of one plan that waits for a confirmation.
pub const PLAN_STEPS: usize = 256;
/// The largest plan, as JSON, that an approval carries whole.
pub const PLAN_BYTES: usize = 4 * 1024;
/// How many events may ask for the steps of one plan.
pub const PLAN_ASKERS: usize = 32;

/// The largest encoded state of a session, in bytes.
pub const STATE_BYTES: usize = 64 * 1024;
/// The largest policy that may come inside `session.started`, in bytes of JSON.
pub const INLINE_POLICY_BYTES: usize = 4 * 1024;
/// How many recent event ids a session remembers, to answer a redelivery without counting it.
pub const ANSWERS: usize = 128;
/// How many bytes of whole answers (those that were not a plain `allow`) are kept for redelivery.
pub const ANSWER_BYTES: usize = 4 * 1024;
/// How many tool calls may be open at once; beyond that the oldest is forgotten.
pub const OPEN_CALLS: usize = 32;
/// How many equal calls of one round are told apart.
pub const ROUND_CALLS: usize = 32;
/// How many different (call, result) pairs are remembered since the last new write.
pub const SEEN_PAIRS: usize = 192;
/// How many calls are remembered with what they told the last time.
pub const SEEN_CALLS: usize = 192;
/// Results up to this many bytes are normalised at once; longer ones when there is something to compare with.
pub const SHORT_RESULT: usize = 512;
/// How many recent writes are remembered, to tell a new write from an old one.
pub const SEEN_WRITES: usize = 128;
/// How many nodes have counters of their own.
pub const NODES: usize = 192;
/// How many edges have counters of their own.
pub const EDGES: usize = 256;
/// How many tools have totals of their own; further ones are counted together.
pub const TOOLS: usize = 32;
/// How many operations have a retry counter and breaker of their own.
pub const OPERATIONS: usize = 32;
/// How many progress signals are followed.
pub const SIGNALS: usize = 12;
/// How many checklist items of a gate are counted apart.
pub const GATE_ITEMS: usize = 64;
/// The longest period that cycle detection looks for.
pub const PERIOD: usize = 64;
/// How many recent transitions a session remembers by name under version 1 of the rules.
pub const TRAIL: usize = 16;
/// The same under later versions: at least as many as reports show (`max_history`), at most so many.
pub const HISTORY: usize = 64;
/// How many bytes of a name are kept in the state for reports.
pub const SHOWN_NAME_BYTES: usize = 48;
/// How many event numbers a trip lists as evidence.
pub const EVIDENCE_EVENTS: usize = 32;
/// How many hashes of outputs, diffs and failing sets a halt carries as evidence.
pub const EVIDENCE_HASHES: usize = 8;
/// How many fingerprints a trip lists as evidence.
pub const EVIDENCE_FINGERPRINTS: usize = 8;
/// The longest feedback to a model, in characters.
pub const FEEDBACK_CHARS: usize = 600;
/// How many budgets that are used up at once are remembered for a release.
pub const SPENT_BUDGETS: usize = 8;
/// How many stops by people are remembered until they are lifted.
pub const STOPS: usize = 4;

/// Restarts of a session (`session.started` while it is there) that leave the time before them out of its runtime.
pub const IDLE_RESTARTS: u32 = 100;
/// How many equal calls of one answer of the model count as one; further ones are repetitions.
pub const ROUND_TWINS: usize = 16;
/// How many guards keep a release record.
pub const RELEASED_GUARDS: usize = 24;
/// How much of a message is read when looking for repeated words, in bytes.
pub const MESSAGE_BYTES: usize = 16 * 1024;
/// How many ancestors of a session are asked for their remaining budget.
pub const TREE_DEPTH: usize = 16;
