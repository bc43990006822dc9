//! A local model server: it speaks the OpenAI and the Anthropic protocol over real HTTP and says what a script tells it
//! to, mishaps included. For tests and demos; it is not published.
//!
//! ```
//! use flyball_model_server::{Behaviour, Script, Server};
//!
//! let server = Server::start(Script::new([Behaviour::text("hello"), Behaviour::status(429)]))?;
//! println!("{}/v1/chat/completions", server.url());
//! assert!(server.requests().is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```

mod anthropic;
mod openai;
mod plan;
mod protocol;
mod request;
mod script;
mod serve;

pub use plan::{Plan, Step};
pub use protocol::Protocol;
pub use request::Request;
pub use script::{Behaviour, ErrorEvent, Framing, Newline, Pick, Repeat, SaidCall, Script, Usage};
pub use serve::Server;
