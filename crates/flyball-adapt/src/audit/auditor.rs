//! The events of one file in, the findings of its sessions out.

use super::finding::Run;
use super::track::{Context, Track};
use super::watched::watched;
use crate::named::Named;
use crate::prices::Prices;
use crate::source::Item;
use flyball::{Error, Event, Kind, Policy, PolicySource, Session, Sessions};
use flyball_journal::Door;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every file of an audit is looked at with.
pub struct Bench {
    source: PolicySource,
    policy: Arc<Policy>,
    watched: Arc<Policy>,
    prices: Prices,
    door: Door,
}

impl Bench {
    /// Puts together the policy, the prices, and what takes secrets out.
    ///
    /// # Errors
    /// If a pattern of the policy's `journal` section cannot be used.
    pub fn new(source: PolicySource, prices: Prices) -> Result<Self, Error> {
        let policy = Arc::clone(source.base());
        let door = Door::new(&policy.journal)?;
        let watched = Arc::new(watched(&policy));
        Ok(Bench { source, policy, watched, prices, door })
    }

    /// The policy that everything is measured by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The prices.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
    }
}

/// What was found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Its sessions by name.
    pub runs: Vec<Run>,
    /// Tokens that no price is known for, by model; an empty name stands for events that name none.
    pub unpriced: BTreeMap<String, u64>,
    /// Events that could not be counted, and the first reason with its line.
    pub left_out: u64,
    /// See `left_out`.
    pub first_left_out: Option<(u64, Error)>,
}

/// Takes the events of one file.
pub struct Auditor<'a> {
    bench: &'a Bench,
    file: &'a str,
    sessions: Sessions,
    tracks: Named<Track>,
    found: Findings,
}

impl<'a> Auditor<'a> {
    /// Begins a file.
    #[must_use]
    pub fn new(bench: &'a Bench, file: &'a str) -> Self {
        let sessions = Sessions::new(bench.source.clone());
        Auditor { bench, file, sessions, tracks: Named::default(), found: Findings::default() }
    }

    /// Whether no event came so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty() && self.found.left_out == 0
    }

    /// Takes one event.
    pub fn take(&mut self, item: Item) {
        let Item { mut event, line, .. } = item;
        let begun = self.begin(&mut event);
        let decision = match begun.and_then(|()| self.sessions.step(&event)) {
            Ok(decision) => decision,
            Err(error) => {
                self.found.left_out += 1;
                self.found.first_left_out.get_or_insert((line, error));
                return;
            }
        };
        let cost_micro_usd = self.cost(&event, item.model.as_deref(), item.cached);
        let cx = Context { line, cost_micro_usd, door: &self.bench.door, file: self.file };
        if let Some(track) = self.tracks.get_mut(&event.session) {
            track.take(event, &decision, &cx);
        }
    }

    /// Ends the file.
    #[must_use]
    pub fn finish(mut self) -> Findings {
        self.found.runs = self.tracks.into_values().map(Track::finish).collect();
        self.found
    }

    /// Makes sure that the event's session is there, under a policy that watches only.
    fn begin(&mut self, event: &mut Event) -> Result<(), Error> {
        let brought = match &mut event.kind {
            Kind::SessionStarted { policy, .. } => policy.take(),
            _ => None,
        };
        if brought.is_none() && self.tracks.get_mut(&event.session).is_some() {
            return Ok(());
        }
        let (policy, watching) = match brought {
            None => (Arc::clone(&self.bench.policy), Arc::clone(&self.bench.watched)),
            Some(inline) => {
                let policy = Arc::new(self.bench.source.with(&inline).map_err(|errors| bad(&errors))?.policy);
                let watching = Arc::new(watched(&policy));
                (policy, watching)
            }
        };
        if let Some(known) = self.tracks.get_mut(&event.session) {
            // A session that goes on keeps its memory; only one that begins can bring a policy.
            known.under(policy);
            return Ok(());
        }
        self.sessions.insert(event.session.clone(), Session::new(watching));
        self.tracks.or_make(&event.session, || Track::new(&event.session, policy));
        Ok(())
    }

    /// What the event cost: what the transcript says itself, or what the price list says.
    fn cost(&mut self, event: &Event, model: Option<&str>, cached: crate::source::Cached) -> u64 {
        let usage = &event.usage;
        if usage.cost_micro_usd > 0 || usage.tokens() == 0 {
            return usage.cost_micro_usd;
        }
        let known = model.and_then(|model| self.bench.prices.of(model));
        match known {
            Some(price) => price.cost(usage.tokens_in, usage.tokens_out, cached),
            None => {
                let model = model.unwrap_or_default();
                let tokens = usage.tokens();
                match self.found.unpriced.get_mut(model) {
                    Some(known) => *known = known.saturating_add(tokens),
                    None => {
                        self.found.unpriced.insert(model.to_owned(), tokens);
                    }
                }
                0
            }
        }
    }
}

fn bad(errors: &flyball::policy::PolicyErrors) -> Error {
    let first = errors.iter().next();
    let what = first.map_or("it is empty", |first| first.what.as_str());
    let help = first.map_or("", |first| first.help.as_str());
    Error::new(flyball::Code::BadPolicy, format!("the policy inside the event cannot be used: {what}"), help)
}
