//! Reads the sessions for the table. Unchanged sessions are not read again.

use crate::error::CliError;
use crate::store;
use crate::trend;
use flyball::{Decision, HaltReason, LoopReport, PolicySource, Preset, SessionReport, Verdict};
use flyball_runner::engine::holder_is_gone;
use flyball_store::{AdminStore, Recorder, RecorderOptions, SessionFilter, SessionRow};
use flyball_view::{ActivityReader, SessionActivity, SessionStatus};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of recent events searched for a decision other than `allow`.
const MAX_EVENTS_SEARCHED: u64 = 100;

/// Attention a session needs, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attention {
    /// It is stopped or asks a question.
    Person,
    /// It is running after warnings or blocks.
    Warned,
    /// It is running.
    Working,
    /// It has ended.
    Done,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(super) struct TopSession {
    pub(super) row: SessionRow,
    pub(super) attention: Attention,
    /// Its current activity.
    pub(super) activity: SessionActivity,
    pub(super) node: Option<String>,
    pub(super) badge: Option<String>,
    pub(super) loops: Vec<LoopReport>,
    pub(super) trend: Option<String>,
    pub(super) trends: BTreeMap<String, Vec<i64>>,
    pub(super) tokens: u64,
    pub(super) cost_micro_usd: u64,
    pub(super) halt_reason: Option<HaltReason>,
    pub(super) last: Option<LastDecision>,
    /// Why its details could not be read.
    pub(super) error: Option<String>,
}

/// The last decision other than `allow`, or the last one if all were `allow`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LastDecision {
    pub(super) seq: u64,
    pub(super) decision: Verdict,
    pub(super) message: String,
}

/// The table's content.
pub(super) struct TopTable {
    pub(super) store: String,
    pub(super) rows: Vec<TopSession>,
    pub(super) now: u64,
    /// Why the content is outdated.
    pub(super) error: Option<String>,
}

/// Reads a store repeatedly and caches unchanged sessions.
pub(super) struct SessionReader {
    store: Arc<dyn AdminStore>,
    /// One recorder per policy: a session is shown with the limits it was decided under.
    recorders: BTreeMap<String, Recorder>,
    cache: BTreeMap<String, TopSession>,
}

impl SessionReader {
    pub(super) fn new(store: Arc<dyn AdminStore>) -> Self {
        SessionReader { store, recorders: BTreeMap::new(), cache: BTreeMap::new() }
    }

    /// The most recently changed sessions, up to a limit.
    pub(super) fn read(&mut self, limit: usize) -> Result<TopTable, CliError> {
        let heads =
            flyball_view::session_list::list_sessions(self.store.as_ref(), &[SessionFilter::All], limit)?;
        let store = Arc::clone(&self.store);
        let reader = ActivityReader::new(store.as_ref(), holder_is_gone(store.as_ref()))?;
        let names: BTreeSet<String> = heads.iter().map(|row| row.session.clone()).collect();
        self.cache.retain(|name, _| names.contains(name));
        let mut rows = Vec::new();
        for row in heads {
            let same =
                self.cache.get(&row.session).filter(|session| session.row == row && session.error.is_none());
            // Status depends on time and leases, which change without events.
            let activity = reader.activity(&row)?;
            let mut session = match same {
                Some(session) => session.clone(),
                None => self.read_session(row, &activity),
            };
            session.update(activity);
            self.cache.insert(session.row.session.clone(), session.clone());
            rows.push(session);
        }
        Ok(TopTable { store: self.store.address(), rows, now: reader.now(), error: None })
    }

    /// Reads a session. An unreadable session is still shown.
    fn read_session(&mut self, row: SessionRow, activity: &SessionActivity) -> TopSession {
        match self.read_details(&row, activity) {
            Ok(session) => session,
            Err(failure) => {
                let mut session = TopSession::new(row, None, activity.clone(), None);
                session.error = failure.diagnostics.into_iter().next().map(|diagnostic| diagnostic.message);
                session
            }
        }
    }

    fn read_details(&mut self, row: &SessionRow, activity: &SessionActivity) -> Result<TopSession, CliError> {
        let name = row.session.as_str();
        let found = self.recorder(&row.policy)?.session(name)?;
        let report = found.map(|(state, policy)| state.report(&policy));
        Ok(TopSession::new(row.clone(), report, activity.clone(), last_decision(self.store.as_ref(), row)?))
    }

    fn recorder(&mut self, digest: &str) -> Result<&Recorder, CliError> {
        if !self.recorders.contains_key(digest) {
            let kept = store::policy_by_digest(self.store.as_ref(), digest)?;
            let source = kept.unwrap_or_else(|| PolicySource::preset(Preset::Agent));
            let recorder = Recorder::new(Arc::clone(&self.store), source, RecorderOptions::default());
            self.recorders.insert(digest.to_owned(), recorder);
        }
        self.recorders
            .get(digest)
            .ok_or_else(|| CliError::new("io", "", "the policy is missing", "try again"))
    }
}

impl TopSession {
    fn new(
        row: SessionRow,
        report: Option<SessionReport>,
        activity: SessionActivity,
        last: Option<LastDecision>,
    ) -> Self {
        let attention = attention_for(&row, &activity);
        let trend = report.as_ref().and_then(trend::main_trend);
        let badge = report.as_ref().and_then(loop_badge);
        let SessionReport { node, loops, trends, tokens, cost_micro_usd, halt_reason, .. } = match report {
            Some(report) => report,
            None => flyball::SessionState::default().report(PolicySource::preset(Preset::Off).base()),
        };
        TopSession {
            activity,
            row,
            attention,
            node,
            badge,
            loops,
            trend,
            trends,
            tokens,
            cost_micro_usd,
            halt_reason,
            last,
            error: None,
        }
    }

    fn update(&mut self, activity: SessionActivity) {
        self.attention = attention_for(&self.row, &activity);
        self.activity = activity;
    }
}

fn attention_for(row: &SessionRow, activity: &SessionActivity) -> Attention {
    match activity.status {
        _ if activity.needs_person() => Attention::Person,
        SessionStatus::Lost => Attention::Person,
        SessionStatus::Ended => Attention::Done,
        _ if row.summary.warnings + row.summary.blocks > 0 => Attention::Warned,
        _ => Attention::Working,
    }
}

/// The badge of the innermost loop around the current node, else of the last loop with iterations.
fn loop_badge(report: &SessionReport) -> Option<String> {
    let inside = |found: &&LoopReport| report.node.as_ref().is_some_and(|node| found.nodes.contains(node));
    let here = report.loops.iter().rfind(inside);
    let found = here.or_else(|| report.loops.iter().rfind(|found| found.iterations > 0))?;
    Some(found.badge.clone())
}

fn last_decision(store: &dyn AdminStore, row: &SessionRow) -> Result<Option<LastDecision>, CliError> {
    let summary = &row.summary;
    let quiet = summary.warnings + summary.blocks + summary.halts == 0;
    let from = if quiet { row.seq } else { row.seq.saturating_sub(MAX_EVENTS_SEARCHED - 1) };
    let records = store.records(&row.session, from.max(1), row.seq)?;
    let found = records.iter().rfind(|record| record.verdict > Verdict::Allow).or(records.last());
    Ok(found.map(|record| {
        let decision: Option<Decision> = serde_json::from_str(&record.decision_json).ok();
        let trip = decision.and_then(|decision| decision.trips.into_iter().max_by_key(|trip| trip.severity));
        LastDecision {
            seq: record.seq,
            decision: record.verdict,
            message: trip.map(|trip| trip.message).unwrap_or_default(),
        }
    }))
}
