//! The bounds of a conversation with a model: nothing that comes from outside grows without one.

use std::time::Duration;

/// How long an ask may take if nobody says: the turn's budget by default.
pub(super) const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);
/// How long connecting may take if nobody says.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// How long the first byte of an answer may take if nobody says. Models that think before they speak take minutes.
pub(super) const FIRST_BYTE: Duration = Duration::from_secs(300);
/// How long a stream may be silent if nobody says.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// How often a wait for the network looks whether it was cancelled.
pub(super) const GLANCE: Duration = Duration::from_millis(25);
/// How long the end of a body may take after the model has ended, before the connection is thrown away.
pub(super) const TAIL: Duration = Duration::from_millis(100);

/// The largest answer that is read.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// The longest event of a stream.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// How much of an error's body is read.
pub(super) const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How much of what the other side said goes into a message of ours.
pub(super) const QUOTE_CHARS: usize = 300;
/// The most tool calls of one answer.
pub(super) const MAX_CALLS: usize = 256;
/// Idle connections that are kept for the next ask.
pub(super) const IDLE_AGENTS: usize = 4;

/// How often an ask is tried, the first time included, if nobody says.
pub(super) const ATTEMPTS: u32 = 5;
/// The largest number of tries that one may ask for.
pub(super) const MAX_ATTEMPTS: u32 = 100;
/// The first wait before another try is at most this, and the next at most twice that.
pub(super) const BASE: Duration = Duration::from_millis(500);
/// No wait of our own is longer.
pub(super) const CAP: Duration = Duration::from_secs(30);

/// What the Anthropic protocol is asked for if neither the request nor the file says how much it may write.
pub(super) const ANTHROPIC_MAX_TOKENS: u64 = 8192;
/// How many characters make a token, where nobody counts for us.
pub(super) const CHARS_A_TOKEN: u64 = 4;
/// The largest output of a command that is read.
pub(super) const MAX_COMMAND_BYTES: usize = 8 * 1024 * 1024;
/// What a command exits with to say "try again later" (`EX_TEMPFAIL`).
pub(super) const EXIT_TRY_AGAIN: i32 = 75;
