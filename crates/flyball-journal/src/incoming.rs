//! An event on its way in: what was sent, and what it means.

use flyball::{Error, Event};

/// An event, with the line that it came as.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// What it means; stamped with the time of arrival if it came without one.
    pub event: Event,
    /// The line of JSON, redacted: what is stored.
    pub text: String,
}

impl Incoming {
    /// Reads a line of JSON. `now` is the time of arrival, for an event that names none.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn read(line: impl Into<String>, now: Option<u64>) -> Result<Self, Error> {
        let text = line.into();
        let mut event = Event::from_json(&text)?;
        event.at = event.at.or(now);
        Ok(Incoming { event, text })
    }

    /// An event that was made in Rust.
    #[must_use]
    pub fn new(event: Event) -> Self {
        let text = event.to_json().to_string();
        Incoming { event, text }
    }
}
