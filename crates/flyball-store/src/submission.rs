//! Submissions: incoming events, parsed and redacted.

use crate::claims::ClaimPolicy;
use crate::redact::{self, Redactor};
use flyball::policy::{JournalPolicy, PolicyErrors, ResolvedPolicy};
use flyball::{Error, ErrorCode, Event, EventKind};
use serde_json::Value;
use std::borrow::Cow;

/// Parser for incoming events that redacts secrets before any other code sees the line.
#[derive(Debug, Default)]
pub struct RedactingParser {
    redactor: Option<Redactor>,
    /// Overrides the suspension time of the machine's clocks.
    suspended_ms: Option<u64>,
}

impl RedactingParser {
    /// Creates a parser for a policy.
    ///
    /// # Errors
    /// If one of its patterns is invalid.
    pub fn new(policy: &JournalPolicy) -> Result<Self, Error> {
        if !policy.redact && policy.patterns.is_empty() {
            return Ok(RedactingParser::default());
        }
        let redactor = Redactor::new(policy.redact, &policy.patterns).map_err(|why| {
            let what = format!("journal.patterns: {why}");
            Error::new(
                ErrorCode::BadPolicy,
                what,
                "write a valid regular expression; check it with `flyball check`",
            )
        })?;
        Ok(RedactingParser { redactor: Some(redactor), suspended_ms: None })
    }

    /// Checks that a parser can be created for a policy, without creating one.
    ///
    /// # Errors
    /// If one of its patterns is invalid, with its location.
    pub fn validate_policy(resolved: &ResolvedPolicy) -> Result<(), PolicyErrors> {
        let made = RedactingParser::new(&resolved.policy.journal);
        made.map(drop).map_err(|error| {
            let help = "write a valid regular expression, or a smaller one";
            resolved.error_at("journal.patterns", error.message, help)
        })
    }

    /// Parses a line of JSON. `now` is the arrival time, for an event without a time.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn read(&self, line: &str, now: Option<u64>) -> Result<Submission, Error> {
        let mut incoming = match self.redact(line) {
            Cow::Borrowed(whole) => Submission::parse(whole, None)?,
            Cow::Owned(cleaned) => Submission::parse_redacted(cleaned, None)?,
        };
        incoming.parse_raw_checks()?;
        self.stamp_arrival_time(&mut incoming, now);
        Ok(incoming)
    }

    /// Like [`RedactingParser::read`], for an owned line.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn parse_owned(&self, line: String, now: Option<u64>) -> Result<Submission, Error> {
        self.parse_with_claims(line, now, None)
    }

    /// Parses a line of a sender that is not fully trusted. `now` is the arrival time.
    ///
    /// # Errors
    /// If it is not an event, or uses a reserved field name.
    pub fn parse_untrusted(
        &self,
        line: String,
        now: Option<u64>,
        claims: &ClaimPolicy<'_>,
    ) -> Result<Submission, Error> {
        self.parse_with_claims(line, now, Some(claims))
    }

    /// Overrides how long the machine was suspended since boot, in milliseconds.
    #[must_use]
    pub fn with_suspension(mut self, suspended_ms: u64) -> Self {
        self.suspended_ms = Some(suspended_ms);
        self
    }

    /// Stamps the arrival time and the machine's suspension time, so that suspension does not count as working time.
    /// An event with its own time is left unchanged.
    fn stamp_arrival_time(&self, incoming: &mut Submission, now: Option<u64>) {
        if incoming.event.at.is_none() {
            incoming.stamp(now, self.suspended_ms.unwrap_or_else(suspended_ms));
        }
    }

    fn parse_with_claims(
        &self,
        line: String,
        now: Option<u64>,
        claims: Option<&ClaimPolicy<'_>>,
    ) -> Result<Submission, Error> {
        let cleaned = match self.redact(&line) {
            Cow::Borrowed(whole) if whole.len() == line.len() => None,
            other => Some(other.into_owned()),
        };
        let mut incoming = match cleaned {
            Some(cleaned) => Submission::parse_redacted(cleaned, None)?,
            None => Submission::parse(line, None)?,
        };
        if let Some(claims) = claims
            && claims.has_claims(&incoming.event)
        {
            incoming = Submission::parse(claims.replace_claims(&incoming.text)?, None)?;
        }
        incoming.parse_raw_checks()?;
        self.stamp_arrival_time(&mut incoming, now);
        Ok(incoming)
    }

    /// Redacts secrets in a text.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.redactor {
            Some(redactor) => redactor.redact(text),
            None => Cow::Borrowed(text),
        }
    }
}

/// An event and the line it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The event; stamped with the arrival time if it had none.
    pub event: Event,
    /// The redacted line of JSON, as stored.
    pub text: String,
}

/// Field with the time that the machine was suspended since boot, in milliseconds.
const SUSPENDED_FIELD: &str = "suspended_ms";
/// Shorter suspensions are ignored, because two clock readings may differ by this much.
const MIN_SUSPENDED_MS: u64 = 1_000;

/// How long this machine was suspended since boot, in milliseconds. It is the same for all processes, so short-lived
/// ones such as hooks need no state for it.
#[must_use]
pub fn suspended_ms() -> u64 {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let millis = |clock: ClockId| {
            let time = clock_gettime(clock);
            i64::saturating_add(time.tv_sec.saturating_mul(1_000), time.tv_nsec / 1_000_000)
        };
        // One clock counts while the machine is suspended, the other does not.
        let suspended = millis(ClockId::Boottime).saturating_sub(millis(ClockId::Monotonic));
        u64::try_from(suspended).unwrap_or(0)
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// Adds the suspension time to an event that was created in Rust with the current time: see [`suspended_ms`].
pub fn stamp_suspension(event: &mut Event) {
    let suspended = suspended_ms();
    if suspended >= MIN_SUSPENDED_MS {
        event.extra.entry(SUSPENDED_FIELD).or_insert_with(|| suspended.into());
    }
}

/// A boxed submission: it is large, and moved many times on its way to the store.
pub type BoxedSubmission = Box<Submission>;

impl Submission {
    /// Parses a line of JSON. `now` is the arrival time, for an event without a time.
    ///
    /// # Errors
    /// If it is not an event.
    pub fn parse(line: impl Into<String>, now: Option<u64>) -> Result<Self, Error> {
        let text = line.into();
        let mut event = Event::from_json(&text)?;
        event.at = event.at.or(now);
        Ok(Submission { event, text })
    }

    /// Replaces the claims of a sender that is not fully trusted. `now` is the arrival time.
    ///
    /// # Errors
    /// If it uses a reserved field name.
    pub fn with_claims_replaced(self, claims: &ClaimPolicy<'_>, now: Option<u64>) -> Result<Self, Error> {
        if claims.has_claims(&self.event) {
            Submission::parse(claims.replace_claims(&self.text)?, now)
        } else {
            Ok(self)
        }
    }

    /// Parses a redacted line.
    fn parse_redacted(line: String, now: Option<u64>) -> Result<Self, Error> {
        let incoming = Submission::parse(line, now)?;
        check_identifiers_not_redacted(&incoming.event)?;
        Ok(incoming)
    }

    /// Parses the raw tool output in the checks of a gate, so that decisions and the store use the parsed findings.
    ///
    /// # Errors
    /// If the kind of a check is unknown.
    pub fn parse_raw_checks(&mut self) -> Result<(), Error> {
        if let Some(text) = with_parsed_checks(&self.event, &self.text)? {
            *self = Submission::parse(text, self.event.at)?;
        }
        Ok(())
    }

    /// Stamps the arrival time and the suspension time. Omits the latter if it is zero or the event already has it.
    pub fn stamp(&mut self, now: Option<u64>, suspended_ms: u64) {
        self.event.at = now;
        if suspended_ms < MIN_SUSPENDED_MS || self.event.extra.contains_key(SUSPENDED_FIELD) {
            return;
        }
        if let Some(fields) = self.text.trim_start().strip_prefix('{') {
            // The object has at least a type, so a comma is correct.
            self.text = format!("{{\"{SUSPENDED_FIELD}\":{suspended_ms},{fields}");
            self.event.extra.insert(SUSPENDED_FIELD.to_owned(), suspended_ms.into());
        }
    }

    /// Wraps an event that was created in Rust.
    #[must_use]
    pub fn from_event(event: Event) -> Self {
        let text = event.to_json().to_string();
        Submission { event, text }
    }
}

/// The text of an event with the raw tool output of its checks replaced by the parsed findings. `None` if there is no
/// such check.
///
/// # Errors
/// If the kind of a check is unknown.
pub fn with_parsed_checks(event: &Event, text: &str) -> Result<Option<String>, Error> {
    let is_raw = |checks: &[flyball::Check]| checks.iter().any(|check| check.kind.is_some());
    if !matches!(&event.kind, EventKind::GateChecked { checks, .. } if is_raw(checks)) {
        return Ok(None);
    }
    let Ok(mut fields) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let checks = fields.get_mut("checks").and_then(Value::as_array_mut);
    let any = checks.map_or(Ok(false), |checks| flyball_checks::parse_raw_checks(checks))?;
    Ok(any.then(|| fields.to_string()))
}

/// Checks that no identifier of an event was redacted: different secrets redact to the same text, which would merge
/// two sessions or two events.
///
/// # Errors
/// If its session or its id was a secret.
pub fn check_identifiers_not_redacted(event: &Event) -> Result<(), Error> {
    let id = event.id.as_ref().map_or("", |id| id.id.as_str());
    for (field, text) in [("session", event.session.as_str()), ("id", id)] {
        if text.contains(redact::REPLACEMENT_PREFIX) {
            let what = format!("`{field}` looks like a secret");
            return Err(Error::new(
                ErrorCode::WrongType,
                what,
                "use a name without a password, token or key",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::RedactingParser;

    #[test]
    fn suspension_is_stamped_only_with_the_arrival_time() {
        let parser = RedactingParser::default().with_suspension(5_000);
        let line = r#"{"type":"compaction","id":"a"}"#;
        let stamped = parser.read(line, Some(7)).expect("an event");
        assert_eq!(stamped.text, r#"{"suspended_ms":5000,"type":"compaction","id":"a"}"#);
        assert_eq!(stamped.event.extra.get("suspended_ms"), Some(&5_000.into()));
        let again = flyball::Event::from_json(&stamped.text).expect("an event");
        assert_eq!(
            again.id,
            flyball::Event::from_json(line).expect("an event").id,
            "a redelivery is recognized"
        );
        for unchanged in [r#"{"type":"compaction","at":3}"#, r#"{"type":"compaction","suspended_ms":9}"#] {
            assert_eq!(parser.read(unchanged, Some(7)).expect("an event").text, unchanged);
        }
        let never = RedactingParser::default().with_suspension(0).read(line, Some(7)).expect("an event");
        assert_eq!(never.text, line);
    }
}
