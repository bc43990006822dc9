//! What can go wrong with a model, in words that a person can act on. No message ever holds a key.

use super::message::Reply;
use serde::Serialize;

/// A stable code; scripts may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// The provider does not accept the request.
    BadRequest,
    /// Too many requests, or the quota is used up.
    RateLimited,
    /// The provider failed, or has too much to do.
    Overloaded,
    /// It took longer than it may.
    Timeout,
    /// The answer broke off.
    Truncated,
    /// The answer cannot be understood.
    Malformed,
    /// There is no connection.
    Unreachable,
    /// Somebody has cancelled it.
    Cancelled,
    /// There is a key in the file.
    KeyInFile,
    /// The file says something that cannot be used.
    Config,
    /// The script has no answer left.
    ScriptExhausted,
    /// The command ended with an error.
    CommandFailed,
}

impl Code {
    /// The code as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::Auth => "provider_auth",
            Code::BadRequest => "provider_bad_request",
            Code::RateLimited => "provider_rate_limited",
            Code::Overloaded => "provider_overloaded",
            Code::Timeout => "provider_timeout",
            Code::Truncated => "provider_truncated",
            Code::Malformed => "provider_malformed",
            Code::Unreachable => "provider_unreachable",
            Code::Cancelled => "provider_cancelled",
            Code::KeyInFile => "provider_key_in_file",
            Code::Config => "provider_config",
            Code::ScriptExhausted => "script_exhausted",
            Code::CommandFailed => "provider_command_failed",
        }
    }

    /// What to do about it, if nothing more exact is known.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Code::Auth => {
                "check the key in the environment variable that `key_env` names, and what it may be used for"
            }
            Code::BadRequest => {
                "check `model`, `base_url` and the tools of the node against what the provider accepts"
            }
            Code::RateLimited => "wait, ask for a higher limit, or name another provider for the node",
            Code::Overloaded => "try again later, or name another provider for the node",
            Code::Timeout => "give the turn more time, or ask for less at once",
            Code::Truncated => "try again; if it goes on, look at what stands between here and the provider",
            Code::Malformed => "check that `base_url` leads to an endpoint of the right kind",
            Code::Unreachable => "check `base_url` and the network",
            Code::Cancelled => "resume the session to go on",
            Code::KeyInFile => {
                "take the key out of the file, put it into an environment variable, and name that in `key_env`"
            }
            Code::Config => "correct the provider in the workflow file",
            Code::ScriptExhausted => "add a reply, an `otherwise`, or `repeat: last`",
            Code::CommandFailed => "run the command by hand with the same input and see what it says",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// An error of a provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderError {
    /// The stable code.
    pub code: Code,
    /// Which provider, by its name in the file.
    pub provider: String,
    /// What happened, in one line, without secrets.
    pub what: String,
    /// What to do about it, in one line.
    pub advice: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How often it was tried.
    pub attempts: u32,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What had come before it broke off.
    pub partial: Option<Box<Reply>>,
}

impl ProviderError {
    /// An error with the usual advice.
    #[must_use]
    pub fn new(code: Code, provider: &str, what: impl Into<String>) -> Self {
        ProviderError {
            code,
            provider: provider.to_owned(),
            what: what.into(),
            advice: code.advice().to_owned(),
            status: None,
            attempts: 0,
            retry_after_ms: None,
            partial: None,
        }
    }

    /// The same with a more exact advice.
    #[must_use]
    pub fn advised(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// The stable code as it is printed.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code.as_str()
    }
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "provider '{}': {} [{}]", self.provider, self.what, self.code())
    }
}

impl std::error::Error for ProviderError {}
