//! Limits of requests to models: all external input is bounded.

use std::time::Duration;

/// Default deadline of a request; the default turn budget.
pub(super) const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);
/// Default connect timeout.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default timeout for the first byte of a reply. Reasoning models may take minutes.
pub(super) const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);
/// Default timeout between two chunks of a stream.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a network wait checks for cancellation.
pub(super) const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How long to wait for the end of a body after the model's last event before the connection is closed.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum size of a response.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of a stream event.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of an error body.
pub(super) const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum length of quoted external text in a message.
pub(super) const MAX_QUOTE_CHARS: usize = 300;
/// Maximum number of tool calls in a reply.
pub(super) const MAX_CALLS: usize = 256;
/// Maximum number of idle connections in the pool.
pub(super) const MAX_IDLE_AGENTS: usize = 4;

/// Default number of attempts, including the first.
pub(super) const DEFAULT_ATTEMPTS: u32 = 5;
/// Largest configurable number of attempts.
pub(super) const MAX_ATTEMPTS: u32 = 100;
/// Upper bound of the first backoff delay; it doubles with each attempt.
pub(super) const DEFAULT_BACKOFF_BASE: Duration = Duration::from_millis(500);
/// Maximum backoff delay.
pub(super) const DEFAULT_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// Default token limit for Anthropic, whose API requires one.
pub(super) const ANTHROPIC_MAX_TOKENS: u64 = 8192;
/// Characters per token, for estimates.
pub(super) const CHARS_PER_TOKEN: u64 = 4;
/// Maximum output of a command.
pub(super) const MAX_COMMAND_BYTES: usize = 8 * 1024 * 1024;
/// Exit code of a command that requests a retry (`EX_TEMPFAIL`).
pub(super) const EX_TEMPFAIL: i32 = 75;
