//! What a person is told of a session: one wording for the terminal, the page and the interface.
//!
//! Nothing here draws; it reads the store and finds the words.

pub mod evidence;
pub mod heads;
mod plan;
pub mod story;
pub mod trend;
pub mod whereabouts;
pub mod words;

pub use plan::Plan;
