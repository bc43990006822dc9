//! Audits the events of one file and collects the findings of its sessions.

use super::finding::AuditedRun;
use super::observe_mode::observe_only;
use super::session_tracker::{AuditContext, SessionTracker};
use crate::last_hit_map::LastHitMap;
use crate::prices::PriceList;
use crate::transcript::TranscriptEvent;
use flyball::{Error, Event, EventKind, Policy, PolicySource, Session, Sessions};
use flyball_store::RedactingParser;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shared configuration of an audit.
pub struct AuditConfig {
    source: PolicySource,
    policy: Arc<Policy>,
    observe_policy: Arc<Policy>,
    prices: PriceList,
    redactor: RedactingParser,
}

impl AuditConfig {
    /// Combines the policy, the prices and secret redaction.
    ///
    /// # Errors
    /// If a pattern in the policy's `journal` section is invalid.
    pub fn new(source: PolicySource, prices: PriceList) -> Result<Self, Error> {
        let policy = Arc::clone(source.base());
        let redactor = RedactingParser::new(&policy.journal)?;
        let watched = Arc::new(observe_only(&policy));
        Ok(AuditConfig { source, policy, observe_policy: watched, prices, redactor })
    }

    /// The policy to audit against.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The price list.
    #[must_use]
    pub fn prices(&self) -> &PriceList {
        &self.prices
    }
}

/// The findings of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFindings {
    /// Its sessions, sorted by name.
    pub runs: Vec<AuditedRun>,
    /// Tokens without a known price, by model; an empty name means that the event named no model.
    pub unpriced: BTreeMap<String, u64>,
    /// Number of events that could not be evaluated.
    pub skipped_events: u64,
    /// The first skipped event: its line and the reason.
    pub first_skipped: Option<(u64, Error)>,
}

/// Audits the events of one file.
pub struct Auditor<'a> {
    config: &'a AuditConfig,
    file: &'a str,
    sessions: Sessions,
    trackers: LastHitMap<SessionTracker>,
    findings: FileFindings,
}

impl<'a> Auditor<'a> {
    /// Starts a file.
    #[must_use]
    pub fn new(config: &'a AuditConfig, file: &'a str) -> Self {
        let sessions = Sessions::new(config.source.clone());
        Auditor { config, file, sessions, trackers: LastHitMap::default(), findings: FileFindings::default() }
    }

    /// Whether no event has been pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trackers.is_empty() && self.findings.skipped_events == 0
    }

    /// Audits one event.
    pub fn push(&mut self, item: TranscriptEvent) {
        let TranscriptEvent { mut event, line, .. } = item;
        let begun = self.ensure_session(&mut event);
        let decision = match begun.and_then(|()| self.sessions.step(&event)) {
            Ok(decision) => decision,
            Err(error) => {
                self.findings.skipped_events += 1;
                self.findings.first_skipped.get_or_insert((line, error));
                return;
            }
        };
        let cost_micro_usd = self.cost(&event, item.model.as_deref(), item.cached);
        let cx = AuditContext { line, cost_micro_usd, redactor: &self.config.redactor, file: self.file };
        if let Some(track) = self.trackers.get_mut(&event.session) {
            track.push(event, &decision, &cx);
        }
    }

    /// Finishes the file.
    #[must_use]
    pub fn finish(mut self) -> FileFindings {
        self.findings.runs = self.trackers.into_values().map(SessionTracker::finish).collect();
        self.findings
    }

    /// Ensures that the event's session exists, under an observe-only policy.
    fn ensure_session(&mut self, event: &mut Event) -> Result<(), Error> {
        let brought = match &mut event.kind {
            EventKind::SessionStarted { policy, .. } => policy.take(),
            _ => None,
        };
        if brought.is_none() && self.trackers.get_mut(&event.session).is_some() {
            return Ok(());
        }
        let (policy, watching) = match brought {
            None => (Arc::clone(&self.config.policy), Arc::clone(&self.config.observe_policy)),
            Some(inline) => {
                let policy = Arc::new(
                    self.config
                        .source
                        .resolve_inline(&inline)
                        .map_err(|errors| bad_inline_policy(&errors))?
                        .policy,
                );
                let watching = Arc::new(observe_only(&policy));
                (policy, watching)
            }
        };
        if let Some(known) = self.trackers.get_mut(&event.session) {
            // A running session keeps its state; only a new one can set a policy.
            known.set_policy(policy);
            return Ok(());
        }
        self.sessions.insert(event.session.clone(), Session::new(watching));
        self.trackers.get_or_insert_with(&event.session, || SessionTracker::new(&event.session, policy));
        Ok(())
    }

    /// The cost of an event: as recorded in the transcript, or else from the price list.
    fn cost(&mut self, event: &Event, model: Option<&str>, cached: crate::transcript::CachedTokens) -> u64 {
        let usage = &event.usage;
        if usage.cost_micro_usd > 0 || usage.tokens() == 0 {
            return usage.cost_micro_usd;
        }
        let known = model.and_then(|model| self.config.prices.price_of(model));
        match known {
            Some(price) => price.cost(usage.tokens_in, usage.tokens_out, cached),
            None => {
                let model = model.unwrap_or_default();
                let tokens = usage.tokens();
                match self.findings.unpriced.get_mut(model) {
                    Some(known) => *known = known.saturating_add(tokens),
                    None => {
                        self.findings.unpriced.insert(model.to_owned(), tokens);
                    }
                }
                0
            }
        }
    }
}

fn bad_inline_policy(errors: &flyball::policy::PolicyErrors) -> Error {
    let first = errors.iter().next();
    let what = first.map_or("it is empty", |first| first.message.as_str());
    let help = first.map_or("", |first| first.help.as_str());
    Error::new(flyball::ErrorCode::BadPolicy, format!("the policy in the event is invalid: {what}"), help)
}
