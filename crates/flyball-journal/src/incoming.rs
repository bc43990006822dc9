//! An event on its way in: what was sent, and what it means.

use crate::claims::Claims;
use crate::redact::{self, Redactor};
use flyball::policy::{JournalPolicy, PolicyErrors, Resolved};
use flyball::{Code, Error, Event, Kind};
use serde_json::Value;
use std::borrow::Cow;

/// Where events come in: secrets are taken out before anything else sees the line.
#[derive(Debug, Default)]
pub struct Door {
    redactor: Option<Redactor>,
    /// Instead of what the clocks of the machine say.
    suspended_ms: Option<u64>,
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
        Ok(Door { redactor: Some(redactor), suspended_ms: None })
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
        let mut incoming = match self.clean(line) {
            Cow::Borrowed(whole) => Incoming::read(whole, None)?,
            Cow::Owned(cleaned) => Incoming::read_redacted(cleaned, None)?,
        };
        incoming.parse_raw_checks()?;
        self.stamp_arrival(&mut incoming, now);
        Ok(incoming)
    }

    /// The same for a line that is not needed any more.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn read_owned(&self, line: String, now: Option<u64>) -> Result<Incoming, Error> {
        self.read_as(line, now, None)
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
        self.read_as(line, now, Some(claims))
    }

    /// The same, on a machine that was suspended for this long since it was started, in milliseconds.
    #[must_use]
    pub fn with_suspension(mut self, suspended_ms: u64) -> Self {
        self.suspended_ms = Some(suspended_ms);
        self
    }

    /// An event that is stamped with the time of arrival is also stamped with the time that the machine was suspended,
    /// so that it does not count as time at work. An event with a time of its own is taken as it is.
    fn stamp_arrival(&self, incoming: &mut Incoming, now: Option<u64>) {
        if incoming.event.at.is_none() {
            incoming.stamp(now, self.suspended_ms.unwrap_or_else(suspended_ms));
        }
    }

    fn read_as(
        &self,
        line: String,
        now: Option<u64>,
        claims: Option<&Claims<'_>>,
    ) -> Result<Incoming, Error> {
        let cleaned = match self.clean(&line) {
            Cow::Borrowed(whole) if whole.len() == line.len() => None,
            other => Some(other.into_owned()),
        };
        let mut incoming = match cleaned {
            Some(cleaned) => Incoming::read_redacted(cleaned, None)?,
            None => Incoming::read(line, None)?,
        };
        if let Some(claims) = claims
            && claims.are_in(&incoming.event)
        {
            incoming = Incoming::read(claims.settle(&incoming.text)?, None)?;
        }
        incoming.parse_raw_checks()?;
        self.stamp_arrival(&mut incoming, now);
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

/// The field with the time that the machine was suspended since it was started, in milliseconds.
const SUSPENDED: &str = "suspended_ms";
/// Less than this is not worth a field: it is how far two readings of the clocks may be apart.
const SUSPENDED_LEAST_MS: u64 = 1_000;

/// How long this machine was suspended since it was started, in milliseconds. It is the same for all processes, so
/// short-lived ones such as hooks need no memory of their own.
#[must_use]
pub fn suspended_ms() -> u64 {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let millis = |clock: ClockId| {
            let time = clock_gettime(clock);
            i64::saturating_add(time.tv_sec.saturating_mul(1_000), time.tv_nsec / 1_000_000)
        };
        // One keeps counting while the machine is suspended, the other does not.
        let suspended = millis(ClockId::Boottime).saturating_sub(millis(ClockId::Monotonic));
        u64::try_from(suspended).unwrap_or(0)
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// Marks an event that was made in Rust and stamped with the time of now: see [`suspended_ms`].
pub fn mark_suspension(event: &mut Event) {
    let suspended = suspended_ms();
    if suspended >= SUSPENDED_LEAST_MS {
        event.extra.entry(SUSPENDED).or_insert_with(|| suspended.into());
    }
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

    /// Reads the raw output of tools in the checks of a gate, so that what is decided and stored is what was found in it.
    ///
    /// # Errors
    /// If the kind of a check is not known.
    pub fn parse_raw_checks(&mut self) -> Result<(), Error> {
        if let Some(text) = parsed_checks(&self.event, &self.text)? {
            *self = Incoming::read(text, self.event.at)?;
        }
        Ok(())
    }

    /// Stamps the time of arrival, and how long the machine was suspended, unless it never was or the event says so
    /// itself.
    pub fn stamp(&mut self, now: Option<u64>, suspended_ms: u64) {
        self.event.at = now;
        if suspended_ms < SUSPENDED_LEAST_MS || self.event.extra.contains_key(SUSPENDED) {
            return;
        }
        if let Some(fields) = self.text.trim_start().strip_prefix('{') {
            // The text is an object with at least a type, so a comma follows.
            self.text = format!("{{\"{SUSPENDED}\":{suspended_ms},{fields}");
            self.event.extra.insert(SUSPENDED.to_owned(), suspended_ms.into());
        }
    }

    /// An event that was made in Rust.
    #[must_use]
    pub fn new(event: Event) -> Self {
        let text = event.to_json().to_string();
        Incoming { event, text }
    }
}

/// The text of an event whose checks came with the raw output of tools, with what was found in it. `None` if there is no
/// such check.
///
/// # Errors
/// If the kind of a check is not known.
pub fn parsed_checks(event: &Event, text: &str) -> Result<Option<String>, Error> {
    let is_raw = |checks: &[flyball::Check]| checks.iter().any(|check| check.kind.is_some());
    if !matches!(&event.kind, Kind::GateChecked { checks, .. } if is_raw(checks)) {
        return Ok(None);
    }
    let Ok(mut fields) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let checks = fields.get_mut("checks").and_then(Value::as_array_mut);
    let any = checks.map_or(Ok(false), |checks| flyball_checks::parse_raw_checks(checks))?;
    Ok(any.then(|| fields.to_string()))
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

#[cfg(test)]
mod tests {
    use super::Door;

    #[test]
    fn suspension_is_stamped_only_beside_the_time_of_arrival() {
        let door = Door::default().with_suspension(5_000);
        let line = r#"{"type":"compaction","id":"a"}"#;
        let stamped = door.read(line, Some(7)).expect("an event");
        assert_eq!(stamped.text, r#"{"suspended_ms":5000,"type":"compaction","id":"a"}"#);
        assert_eq!(stamped.event.extra.get("suspended_ms"), Some(&5_000.into()));
        let again = flyball::Event::from_json(&stamped.text).expect("an event");
        assert_eq!(
            again.id,
            flyball::Event::from_json(line).expect("an event").id,
            "a redelivery is recognized"
        );
        for unchanged in [r#"{"type":"compaction","at":3}"#, r#"{"type":"compaction","suspended_ms":9}"#] {
            assert_eq!(door.read(unchanged, Some(7)).expect("an event").text, unchanged);
        }
        let never = Door::default().with_suspension(0).read(line, Some(7)).expect("an event");
        assert_eq!(never.text, line);
    }
}
