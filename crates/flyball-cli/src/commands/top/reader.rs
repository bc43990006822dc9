//! Reading what the table shows. A session that has not changed is not read again.

use crate::commands::list;
use crate::fail::Failure;
use crate::store;
use crate::trend;
use flyball::{Decision, HaltReason, LoopReport, PolicySource, Preset, Report, Verdict};
use flyball_journal::{Desk, Head, Recorder, RecorderOptions, Which};
use flyball_run::engine::holder_is_gone;
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many of the last events are searched for a decision that was not simply `allow`.
const SEARCHED: u64 = 100;

/// Who is needed, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A person: it stands still, or asks something.
    Person,
    /// It goes on after warnings or refusals.
    Eye,
    /// It goes on.
    Time,
    /// It is over.
    Nobody,
}

/// What is shown of a session.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) head: Head,
    pub(super) need: Need,
    /// What it is doing.
    pub(super) activity: SessionActivity,
    pub(super) node: Option<String>,
    pub(super) badge: Option<String>,
    pub(super) loops: Vec<LoopReport>,
    pub(super) trend: Option<String>,
    pub(super) trends: BTreeMap<String, Vec<i64>>,
    pub(super) tokens: u64,
    pub(super) cost_micro_usd: u64,
    pub(super) halt_reason: Option<HaltReason>,
    pub(super) last: Option<Last>,
    /// Why nothing more is known of it.
    pub(super) trouble: Option<String>,
}

/// The last decision that was not simply `allow`; the last one if all were.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Last {
    pub(super) seq: u64,
    pub(super) decision: Verdict,
    pub(super) message: String,
}

/// Everything that is shown.
pub(super) struct Table {
    pub(super) store: String,
    pub(super) rows: Vec<Seen>,
    pub(super) now: u64,
    /// Why it is not the newest.
    pub(super) trouble: Option<String>,
}

/// Reads a store again and again.
pub(super) struct Reader {
    desk: Arc<dyn Desk>,
    /// A recorder for each policy: a session is shown with the limits that it was decided under.
    recorders: BTreeMap<String, Recorder>,
    known: BTreeMap<String, Seen>,
}

impl Reader {
    pub(super) fn new(desk: Arc<dyn Desk>) -> Self {
        Reader { desk, recorders: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// The sessions that changed last, at most so many.
    pub(super) fn read(&mut self, limit: usize) -> Result<Table, Failure> {
        let heads = list::heads(self.desk.as_ref(), &[Which::All], limit)?;
        let desk = Arc::clone(&self.desk);
        let reader = ActivityReader::new(desk.as_ref(), holder_is_gone(desk.as_ref()))?;
        let names: BTreeSet<String> = heads.iter().map(|head| head.session.clone()).collect();
        self.known.retain(|name, _| names.contains(name));
        let mut rows = Vec::new();
        for head in heads {
            let same =
                self.known.get(&head.session).filter(|seen| seen.head == head && seen.trouble.is_none());
            // Time and leases change a status without any event.
            let activity = reader.activity(&head)?;
            let mut seen = match same {
                Some(seen) => seen.clone(),
                None => self.look(head, &activity),
            };
            seen.update(activity);
            self.known.insert(seen.head.session.clone(), seen.clone());
            rows.push(seen);
        }
        Ok(Table { store: self.desk.address(), rows, now: reader.now(), trouble: None })
    }

    /// Looks at a session; one that cannot be read is shown all the same.
    fn look(&mut self, head: Head, activity: &SessionActivity) -> Seen {
        match self.details(&head, activity) {
            Ok(seen) => seen,
            Err(failure) => {
                let mut seen = Seen::new(head, None, activity.clone(), None);
                seen.trouble = failure.complaints.into_iter().next().map(|complaint| complaint.what);
                seen
            }
        }
    }

    fn details(&mut self, head: &Head, activity: &SessionActivity) -> Result<Seen, Failure> {
        let name = head.session.as_str();
        let found = self.recorder(&head.policy)?.session(name)?;
        let report = found.map(|(state, policy)| state.report(&policy));
        Ok(Seen::new(head.clone(), report, activity.clone(), last(self.desk.as_ref(), head)?))
    }

    fn recorder(&mut self, digest: &str) -> Result<&Recorder, Failure> {
        if !self.recorders.contains_key(digest) {
            let kept = store::policy(self.desk.as_ref(), digest)?;
            let source = kept.unwrap_or_else(|| PolicySource::preset(Preset::Agent));
            let recorder = Recorder::new(Arc::clone(&self.desk), source, RecorderOptions::default());
            self.recorders.insert(digest.to_owned(), recorder);
        }
        self.recorders.get(digest).ok_or_else(|| Failure::new("io", "", "the policy is gone", "try again"))
    }
}

impl Seen {
    fn new(head: Head, report: Option<Report>, activity: SessionActivity, last: Option<Last>) -> Self {
        let need = need(&head, &activity);
        let trend = report.as_ref().and_then(trend::first);
        let badge = report.as_ref().and_then(badge);
        let Report { node, loops, trends, tokens, cost_micro_usd, halt_reason, .. } = match report {
            Some(report) => report,
            None => flyball::State::default().report(PolicySource::preset(Preset::Off).base()),
        };
        Seen {
            activity,
            head,
            need,
            node,
            badge,
            loops,
            trend,
            trends,
            tokens,
            cost_micro_usd,
            halt_reason,
            last,
            trouble: None,
        }
    }

    fn update(&mut self, activity: SessionActivity) {
        self.need = need(&self.head, &activity);
        self.activity = activity;
    }
}

fn need(head: &Head, activity: &SessionActivity) -> Need {
    match activity.status {
        _ if activity.needs_person() => Need::Person,
        SessionStatus::Lost => Need::Person,
        SessionStatus::Ended => Need::Nobody,
        _ if head.glance.warnings + head.glance.blocks > 0 => Need::Eye,
        _ => Need::Time,
    }
}

/// The badge of the innermost loop that the work is in, else of the last one that went round.
fn badge(report: &Report) -> Option<String> {
    let inside = |found: &&LoopReport| report.node.as_ref().is_some_and(|node| found.nodes.contains(node));
    let here = report.loops.iter().rfind(inside);
    let found = here.or_else(|| report.loops.iter().rfind(|found| found.iterations > 0))?;
    Some(found.badge.clone())
}

fn last(desk: &dyn Desk, head: &Head) -> Result<Option<Last>, Failure> {
    let glance = &head.glance;
    let quiet = glance.warnings + glance.blocks + glance.halts == 0;
    let from = if quiet { head.seq } else { head.seq.saturating_sub(SEARCHED - 1) };
    let records = desk.records(&head.session, from.max(1), head.seq)?;
    let found = records.iter().rfind(|record| record.verdict > Verdict::Allow).or(records.last());
    Ok(found.map(|record| {
        let decision: Option<Decision> = serde_json::from_str(&record.decision).ok();
        let trip = decision.and_then(|decision| decision.trips.into_iter().max_by_key(|trip| trip.severity));
        Last {
            seq: record.seq,
            decision: record.verdict,
            message: trip.map(|trip| trip.message).unwrap_or_default(),
        }
    }))
}
