//! Providers: whoever answers for a model. One trait, four kinds.
//!
//! The way of an ask:
//!
//! ```text
//! Request -> retry.rs        tries until there is an answer, no hope, no time, or no more tries
//!         -> remote.rs       one try over HTTP: adjusts to the endpoint, reads a stream or a whole answer
//!              conversation.rs   each tool call with its result
//!              openai.rs, anthropic.rs   the two protocols: what is sent, what comes back
//!              http.rs, sse.rs   bytes in, with a deadline and a way to give up
//!            script.rs       or: what a script says, worked out from the conversation alone
//!            command.rs      or: what a program prints
//!         -> draft.rs        arguments parsed, tokens counted, cost worked out
//!         -> Reply
//! ```
//!
//! Keys come from the environment and are in no message (`secret.rs`).

mod anthropic;
mod build;
mod command;
mod config;
mod conversation;
mod draft;
mod error;
mod fault;
mod http;
mod limits;
mod message;
mod openai;
mod price;
mod remote;
mod retry;
mod retry_after;
mod script;
mod script_config;
mod secret;
mod sse;
mod units;

pub use build::build;
pub use config::{
    CommandConfig, MaxTokensField, PromptForm, ProviderConfig, Providers, RemoteConfig, ReplyForm, Timeouts,
};
pub use error::{Code, ProviderError};
pub use message::{Call, MalformedCall, Message, Reply, Request, Stop, ToolSpec, Usage};
pub use price::Price;
pub use retry::{BrokenOff, Progress, Retry, RetryPolicy};
pub use script_config::{
    Failure, NodeScript, Repeat, Rule, Said, ScriptCall, ScriptConfig, ScriptReply, ScriptUsage, When,
};
pub use units::{Millis, Usd};

use crate::process::Cancel;

/// Whoever answers for a model. Any number of threads may ask at the same time.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Its name in the file.
    fn name(&self) -> &str;

    /// Asks, and tells of each piece of text and of each retry as they come.
    ///
    /// # Errors
    /// If there is no answer: why, what to do, and what had come of it.
    fn ask_watched(
        &self,
        request: &Request,
        cancel: &Cancel,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Reply, ProviderError>;

    /// Asks, and tells of each piece of text as it comes.
    ///
    /// # Errors
    /// As [`Provider::ask_watched`].
    fn ask(
        &self,
        request: &Request,
        cancel: &Cancel,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply, ProviderError> {
        self.ask_watched(request, cancel, &mut |progress| {
            if let Progress::Text(text) = progress {
                on_text(text);
            }
        })
    }
}
