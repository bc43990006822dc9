//! Provider errors. Messages never contain a key.

use super::message::ModelReply;
use serde::Serialize;

/// Stable error code; scripts may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorCode {
    /// The key is missing, invalid, or lacks permission.
    Auth,
    /// The provider rejected the request.
    BadRequest,
    /// Too many requests, or the quota is used up.
    RateLimited,
    /// The provider failed or is overloaded.
    Overloaded,
    /// Timed out.
    Timeout,
    /// The reply was truncated.
    Truncated,
    /// The reply cannot be parsed.
    Malformed,
    /// No connection.
    Unreachable,
    /// Cancelled.
    Cancelled,
    /// The file contains a key.
    KeyInFile,
    /// Invalid configuration.
    Config,
    /// The script has no reply left.
    ScriptExhausted,
    /// The command failed.
    CommandFailed,
}

impl ProviderErrorCode {
    /// The code as printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ProviderErrorCode::Auth => "provider_auth",
            ProviderErrorCode::BadRequest => "provider_bad_request",
            ProviderErrorCode::RateLimited => "provider_rate_limited",
            ProviderErrorCode::Overloaded => "provider_overloaded",
            ProviderErrorCode::Timeout => "provider_timeout",
            ProviderErrorCode::Truncated => "provider_truncated",
            ProviderErrorCode::Malformed => "provider_malformed",
            ProviderErrorCode::Unreachable => "provider_unreachable",
            ProviderErrorCode::Cancelled => "provider_cancelled",
            ProviderErrorCode::KeyInFile => "provider_key_in_file",
            ProviderErrorCode::Config => "provider_config",
            ProviderErrorCode::ScriptExhausted => "script_exhausted",
            ProviderErrorCode::CommandFailed => "provider_command_failed",
        }
    }

    /// Default help for the code.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            ProviderErrorCode::Auth => {
                "check the key in the variable named by `key_env`, and its permissions"
            }
            ProviderErrorCode::BadRequest => {
                "check that the provider accepts `model`, `base_url` and the tools of the node"
            }
            ProviderErrorCode::RateLimited => "wait, raise the limit, or use another provider for the node",
            ProviderErrorCode::Overloaded => "retry later, or use another provider for the node",
            ProviderErrorCode::Timeout => "allow more time for the turn, or request less at once",
            ProviderErrorCode::Truncated => "retry; if it persists, check the network and any proxy",
            ProviderErrorCode::Malformed => "check that `base_url` points to an endpoint of the right kind",
            ProviderErrorCode::Unreachable => "check `base_url` and the network",
            ProviderErrorCode::Cancelled => "resume the session to continue",
            ProviderErrorCode::KeyInFile => {
                "move the key into an environment variable, and name the variable in `key_env`"
            }
            ProviderErrorCode::Config => "fix the provider in the workflow file",
            ProviderErrorCode::ScriptExhausted => "add a reply, an `otherwise`, or `repeat: last`",
            ProviderErrorCode::CommandFailed => {
                "run the command yourself with the same input, and read its output"
            }
        }
    }
}

impl Serialize for ProviderErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// An error of a provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderError {
    /// The stable code.
    pub code: ProviderErrorCode,
    /// Provider name in the workflow file.
    pub provider: String,
    /// The problem, in one line without secrets.
    #[serde(rename = "what")]
    pub message: String,
    /// The next thing to do, in one line.
    #[serde(rename = "advice")]
    pub help: String,
    /// HTTP status, if any.
    pub status: Option<u16>,
    /// Number of attempts.
    pub attempts: u32,
    /// Delay requested by the provider, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Part of the reply received before the failure.
    pub partial: Option<Box<ModelReply>>,
}

impl ProviderError {
    /// An error with the default help of its code.
    #[must_use]
    pub fn new(code: ProviderErrorCode, provider: &str, message: impl Into<String>) -> Self {
        ProviderError {
            code,
            provider: provider.to_owned(),
            message: message.into(),
            help: code.help().to_owned(),
            status: None,
            attempts: 0,
            retry_after_ms: None,
            partial: None,
        }
    }

    /// Replaces the help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// The stable code as printed.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code.as_str()
    }
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "provider '{}': {} [{}]", self.provider, self.message, self.code())
    }
}

impl std::error::Error for ProviderError {}
