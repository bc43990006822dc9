//! Model providers: one trait, four kinds.
//!
//! Data flow of a request:
//!
//! ```text
//! ModelRequest -> retry.rs   retries until success, a permanent error, the deadline or the attempt limit
//!         -> http_provider.rs    one attempt over HTTP: adapts to the endpoint, reads a stream or document
//!              conversation.rs   pairs each tool call with its result
//!              openai.rs, anthropic.rs   wire formats
//!              http.rs, sse.rs   transport with deadline and cancellation
//!            script_provider.rs  or: scripted replies, derived from the conversation alone
//!            command_provider.rs or: replies printed by a program
//!         -> reply_builder.rs    parses arguments, counts tokens, computes the cost
//!         -> ModelReply
//! ```
//!
//! Keys come from the environment and never appear in messages (`provider_key.rs`).

mod anthropic;
mod attempt_error;
mod command_provider;
mod conversation;
mod factory;
mod http;
mod http_provider;
mod limits;
mod message;
mod openai;
mod price;
mod provider_config;
mod provider_error;
mod provider_key;
mod reply_builder;
mod retry;
mod retry_after;
mod script_config;
mod script_provider;
mod sse;
mod units;

pub use factory::build_provider;
pub use message::{
    ChatMessage, FinishReason, MalformedCall, ModelReply, ModelRequest, ModelToolCall, ModelToolSpec,
    ModelUsage,
};
pub use price::TokenPrice;
pub use provider_config::{
    CommandInputFormat, CommandOutputFormat, CommandProviderConfig, HttpProviderConfig, MaxTokensField,
    ProviderConfig, ProviderConfigs, Timeouts,
};
pub use provider_error::{ProviderError, ProviderErrorCode};
pub use retry::{OnTruncated, ProviderProgress, ProviderRetryPolicy, RetryNotice};
pub use script_config::{
    NodeScript, ScriptAnswer, ScriptCall, ScriptCondition, ScriptConfig, ScriptFailure, ScriptRepeat,
    ScriptReply, ScriptRule, ScriptUsage,
};
pub use units::{ProviderDuration, Usd};

use crate::process::CancelToken;

/// Source of model replies. Threads may call it concurrently.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Name in the workflow file.
    fn name(&self) -> &str;

    /// Requests a reply; reports each chunk of text and each retry.
    ///
    /// # Errors
    /// If there is no reply; the error contains what was received.
    fn ask_with_progress(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        watch: &mut dyn FnMut(ProviderProgress<'_>),
    ) -> Result<ModelReply, ProviderError>;

    /// Requests a reply; reports each chunk of text.
    ///
    /// # Errors
    /// As [`Provider::ask_with_progress`].
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ModelReply, ProviderError> {
        self.ask_with_progress(request, cancel, &mut |progress| {
            if let ProviderProgress::Text(text) = progress {
                on_text(text);
            }
        })
    }
}
