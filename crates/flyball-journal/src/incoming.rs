//! An event on its way in: what was sent, and what it means.

use crate::claims::Claims;
use crate::redact::{self, Redactor};
use flyball::policy::{JournalPolicy, PolicyErrors, Resolved};
use flyball::{Code, Error, Event};
use std::borrow::Cow;

/// Where events come in: secrets are taken out before anything else sees the line.
#[derive(Debug, Default)]
pub struct Door {
    redactor: Option<Redactor>,
}

impl Door {
    /// The door that a policy wants.
    ///
    /// # Errors
    /// If one of its patterns cannot be used.
    pub fn new(policy: &JournalPolicy) -> Result<Self, Error> {
        if !policy.redact && policy.patterns.is_empty() {
            return Ok(Door::default());
        }
        let redactor = Redactor::new(policy.redact, &policy.patterns).map_err(|why| {
            let what = format!("journal.patterns: {why}");
            Error::new(
                Code::BadPolicy,
                what,
                "write it as a regular expression; look at it with `flyball check`",
            )
        })?;
        Ok(Door { redactor: Some(redactor) })
    }

    /// Whether a policy's door could be made, for whoever checks a policy without using it.
    ///
    /// # Errors
    /// If one of its patterns cannot be used, at the place where they are written.
    pub fn check(resolved: &Resolved) -> Result<(), PolicyErrors> {
        let made = Door::new(&resolved.policy.journal);
        made.map(drop).map_err(|error| {
            let help = "write it as a regular expression, or a smaller one";
            resolved.refused("journal.patterns", error.what, help)
        })
    }

    /// Reads a line of JSON. `now` is the time of arrival, for an event that names none.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn read(&self, line: &str, now: Option<u64>) -> Result<Incoming, Error> {
        match self.clean(line) {
            Cow::Borrowed(whole) => Incoming::read(whole, now),
            Cow::Owned(cleaned) => Incoming::read_redacted(cleaned, now),
        }
    }

    /// The same for a line that is not needed any more.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn read_owned(&self, line: String, now: Option<u64>) -> Result<Incoming, Error> {
        let cleaned = match self.clean(&line) {
            Cow::Borrowed(whole) if whole.len() == line.len() => None,
            other => Some(other.into_owned()),
        };
        match cleaned {
            Some(cleaned) => Incoming::read_redacted(cleaned, now),
            None => Incoming::read(line, now),
        }
    }

    /// Reads a line of a sender that is not believed in everything. `now` is the time of arrival.
    ///
    /// # Errors
    /// If it is not an event, or uses a name that is reserved.
    pub fn read_claims(
        &self,
        line: String,
        now: Option<u64>,
        claims: &Claims<'_>,
    ) -> Result<Incoming, Error> {
        let mut incoming = self.read_owned(line, None)?;
        if claims.are_in(&incoming.event) {
            incoming = Incoming::read(claims.settle(&incoming.text)?, None)?;
        }
        incoming.event.at = incoming.event.at.or(now);
        Ok(incoming)
    }

    /// A text without what looks like a secret.
    #[must_use]
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.redactor {
            Some(redactor) => redactor.clean(text),
            None => Cow::Borrowed(text),
        }
    }
}

/// An event, with the line that it came as.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// What it means; stamped with the time of arrival if it came without one.
    pub event: Event,
    /// The line of JSON, redacted: what is stored.
    pub text: String,
}

/// An event in its box: it is large, and handed on many times on its way to the store.
pub type Parcel = Box<Incoming>;

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

    /// The same event of a sender that is not believed in everything. `now` is the time of arrival.
    ///
    /// # Errors
    /// If it uses a name that is reserved.
    pub fn settled(self, claims: &Claims<'_>, now: Option<u64>) -> Result<Self, Error> {
        if claims.are_in(&self.event) { Incoming::read(claims.settle(&self.text)?, now) } else { Ok(self) }
    }

    /// Reads a line from which secrets were redacted.
    fn read_redacted(line: String, now: Option<u64>) -> Result<Self, Error> {
        let incoming = Incoming::read(line, now)?;
        identifiers_are_kept(&incoming.event)?;
        Ok(incoming)
    }

    /// An event that was made in Rust.
    #[must_use]
    pub fn new(event: Event) -> Self {
        let text = event.to_json().to_string();
        Incoming { event, text }
    }
}

/// Checks that no identifier of an event was redacted: two secrets become the same text, and with it two sessions or two
/// events would become one.
///
/// # Errors
/// If its session or its id was a secret.
pub fn identifiers_are_kept(event: &Event) -> Result<(), Error> {
    let id = event.id.as_ref().map_or("", |id| id.id.as_str());
    for (field, text) in [("session", event.session.as_str()), ("id", id)] {
        if text.contains(redact::MARK) {
            let what = format!("`{field}` looks like a secret");
            return Err(Error::new(Code::WrongType, what, "use a name that holds no password, token or key"));
        }
    }
    Ok(())
}
