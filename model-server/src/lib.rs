//! A local model server for tests and demos: implements the OpenAI and Anthropic protocols over real HTTP and returns
//! scripted replies, including faults. It is not published.
//!
//! ```
//! use flyball_model_server::{ModelServer, ReplyBehavior, ServerScript};
//!
//! let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("hello"), ReplyBehavior::status(429)]))?;
//! println!("{}/v1/chat/completions", server.url());
//! assert!(server.requests().is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```

mod anthropic;
mod openai;
mod protocol;
mod request;
mod response_plan;
mod script;
mod server;

pub use protocol::ModelProtocol;
pub use request::RecordedRequest;
pub use response_plan::{ResponsePlan, WriteStep};
pub use script::{
    Framing, Newline, RepeatMode, ReplyBehavior, ReplySelection, ScriptedCall, ScriptedUsage, ServerScript,
    StreamErrorEvent,
};
pub use server::ModelServer;
