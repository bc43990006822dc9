//! What a person is told of a session: one wording for the terminal, the page and the interface.
//!
//! Nothing here draws; it reads the store and finds the words.

pub mod drawing;
pub mod evidence;
pub mod heads;
pub mod meaning;
mod next;
mod plan;
mod session_status;
pub mod story;
pub mod trend;
pub mod whereabouts;
pub mod words;

pub use next::next;
pub use plan::Plan;
pub use session_status::{ActivityReader, IDLE_AFTER_MS, SessionActivity, SessionStatus};
