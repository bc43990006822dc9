//! Change builder: collects a session's events and builds the change to append.

use crate::error::StoreError;
use crate::event_store::{ConfirmationRow, OutboxMessage};
use crate::name_map::NameMap;
use crate::record::{
    ConfirmationChange, EventRecord, LabelChange, SessionChange, SessionRow, SessionSummary,
};
use crate::submission::Submission;
use flyball::policy::Policy;
use flyball::{Decision, EventKind, SessionPhase, SessionState, Verdict, Waiting};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A change that is being built.
#[derive(Debug)]
pub(super) struct ChangeBuilder {
    is_new: bool,
    epoch: u64,
    before: SessionRow,
    chain: crate::record::ChainHash,
    seq: u64,
    updated: u64,
    started: Option<u64>,
    pub(super) records: Vec<EventRecord>,
    /// Events of this batch after which a plan waits, by their number.
    plans: BTreeMap<u64, RequestedPlan>,
    /// Why the stored confirmation row cannot be trusted.
    pub(super) quarantine_reason: Option<String>,
    /// Whether a child charged usage to it.
    pub(super) charged_by_child: bool,
    pub(super) outbox_messages: Vec<OutboxMessage>,
}

/// The change builders of a batch, in the order of creation.
#[derive(Debug, Default)]
pub(super) struct ChangeBuilders {
    list: Vec<ChangeBuilder>,
    index: NameMap<usize>,
}

impl ChangeBuilders {
    /// The builder of a session.
    pub(super) fn get(&self, name: &str) -> Option<&ChangeBuilder> {
        self.list.get(*self.index.get(name)?)
    }

    /// Whether a session has a builder.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.index.contains(name)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The builder of a session, created if missing.
    pub(super) fn get_or_insert_with(
        &mut self,
        name: &str,
        begin: impl FnOnce() -> ChangeBuilder,
    ) -> &mut ChangeBuilder {
        let place = match self.index.get(name) {
            Some(place) => *place,
            None => {
                self.index.insert(name.to_owned(), self.list.len());
                self.list.push(begin());
                self.list.len() - 1
            }
        };
        &mut self.list[place]
    }

    /// Returns all builders.
    pub(super) fn into_vec(self) -> Vec<ChangeBuilder> {
        self.list
    }
}

/// Decides when a change includes a snapshot.
pub(super) struct SnapshotRules<'a> {
    pub(super) every: u64,
    pub(super) policy_digest: &'a str,
}

impl SnapshotRules<'_> {
    /// Whether a snapshot is due, at the latest after `every` events. The session's name adds an offset: sessions
    /// that started together would otherwise all be snapshotted in the same commit.
    fn is_due(&self, session: &str, before: u64, now: u64) -> bool {
        let every = self.every.max(1);
        let own = xxh3_64(session.as_bytes()) % every;
        (now + own) / every > (before + own) / every
    }
}

impl ChangeBuilder {
    /// Begins from a head, or from nothing.
    pub(super) fn new(session: &str, head: Option<&SessionRow>, epoch: Option<u64>) -> Self {
        let before = head
            .cloned()
            .unwrap_or_else(|| SessionRow { session: session.to_owned(), ..SessionRow::default() });
        ChangeBuilder {
            is_new: head.is_none(),
            epoch: epoch.unwrap_or(before.epoch),
            chain: before.chain,
            seq: before.seq,
            updated: before.updated,
            started: (before.seq > 0).then_some(before.started),
            records: Vec::new(),
            plans: BTreeMap::new(),
            quarantine_reason: None,
            charged_by_child: false,
            outbox_messages: Vec::new(),
            before,
        }
    }

    /// The session that it changes.
    pub(super) fn session(&self) -> &str {
        &self.before.session
    }

    /// Adds an event and its decision. `text` is the JSON to store, and whether it is complete.
    pub(super) fn add_event(
        &mut self,
        event: &Submission,
        id: Option<String>,
        text: (String, bool),
        decision: &Decision,
        nonce: u64,
    ) {
        let mut record = EventRecord {
            seq: decision.seq,
            at: event.event.at,
            nonce,
            epoch: self.epoch,
            id,
            body_hash: event.event.id.as_ref().map_or(0, |id| id.body.number()),
            text: text.0,
            is_complete: text.1,
            decision_json: decision.to_json(),
            verdict: decision.decision,
            status: decision.state,
            chain: [0; 16],
        };
        record.chain = record.chain_hash_after(&self.chain);
        self.chain = record.chain;
        self.seq = record.seq;
        let at = event.event.at.unwrap_or(self.updated);
        self.updated = self.updated.max(at);
        self.started.get_or_insert(at);
        if decision.state == SessionPhase::AwaitingConfirmation {
            self.plans.insert(
                record.seq,
                RequestedPlan { plan: approval_request(&event.event.kind, decision), at },
            );
        }
        self.records.push(record);
    }

    /// The event of this batch with an id.
    pub(super) fn find_by_id(&self, id: &str) -> Option<&EventRecord> {
        self.records.iter().find(|record| record.id.as_deref() == Some(id))
    }

    /// The decision of an event of this batch.
    pub(super) fn decision_json(&self, seq: u64) -> Option<&str> {
        self.records.iter().find(|record| record.seq == seq).map(|record| record.decision_json.as_str())
    }

    /// Builds the change.
    pub(super) fn build(
        mut self,
        state: &SessionState,
        policy: &Policy,
        rules: &SnapshotRules<'_>,
    ) -> Result<SessionChange, StoreError> {
        let (row, pending) = self.confirmation_change(state);
        let summary = session_summary(state, policy);
        let label = match (&self.before.summary.label, &summary.label) {
            (before, Some(now)) if before.as_ref() != Some(now) => LabelChange::Set(now.clone()),
            (Some(_), None) => LabelChange::Clear,
            _ => LabelChange::Keep,
        };
        let partial = self.records.iter().any(|record| !record.is_complete);
        let other_rules = self.before.policy != rules.policy_digest && !self.is_new && self.before.seq > 0;
        let due = rules.is_due(&self.before.session, self.before.snapshot_seq, self.seq);
        let wanted = partial || other_rules || due || self.charged_by_child || state.parent().is_some();
        let snapshot = if wanted {
            let encoded = state.encode();
            Some(encoded.map_err(|error| StoreError::corrupt(error.message))?)
        } else {
            None
        };
        let before = &self.before;
        let seldom = before.policy != rules.policy_digest
            || before.pending != pending
            || self.started != Some(before.started)
            || before.summary != summary;
        let policy = std::mem::take(&mut self.before.policy);
        let policy = if policy == rules.policy_digest { policy } else { rules.policy_digest.to_owned() };
        let head = SessionRow {
            session: std::mem::take(&mut self.before.session),
            rev: self.before.rev + 1,
            epoch: self.epoch,
            seq: self.seq,
            chain: self.chain,
            policy,
            snapshot_seq: if wanted { self.seq } else { self.before.snapshot_seq },
            pending,
            started: self.started.unwrap_or(self.updated),
            updated: self.updated,
            summary,
        };
        let ChangeBuilder { is_new: new, epoch, records, outbox_messages, .. } = self;
        Ok(SessionChange {
            new,
            metadata_changed: seldom,
            head,
            epoch,
            records,
            snapshot,
            row,
            label,
            outbox_messages,
        })
    }

    /// The change of the confirmation row, and the checksum of the resulting row.
    fn confirmation_change(&self, state: &SessionState) -> (ConfirmationChange, Option<u64>) {
        let asked = state.pending_plan().and_then(|waiting| {
            let asked = self.plans.get(&waiting.request_seq)?;
            let plan = match &asked.plan {
                Some(ApprovalRequest::Plan(plan)) => plan.as_str(),
                Some(ApprovalRequest::Call(call)) => waiting.plan.unwrap_or(call),
                None => waiting.plan?,
            };
            Some(confirmation_row(&self.before.session, &waiting, plan, asked.at))
        });
        match (asked, &self.quarantine_reason) {
            (Some(row), _) => {
                let sum = row.sum();
                (ConfirmationChange::Put(row), Some(sum))
            }
            (None, Some(why)) => (ConfirmationChange::Quarantine { reason: why.clone() }, None),
            (None, None) if state.pending_plan().is_some() => (ConfirmationChange::Keep, self.before.pending),
            (None, None) if self.before.pending.is_some() => (ConfirmationChange::Clear, None),
            (None, None) => (ConfirmationChange::Keep, None),
        }
    }
}

/// An event that requests approval.
#[derive(Debug)]
struct RequestedPlan {
    plan: Option<ApprovalRequest>,
    at: u64,
}

/// Subject of an approval request, as JSON.
#[derive(Debug)]
enum ApprovalRequest {
    /// A plan.
    Plan(String),
    /// One call; the pending plan may contain others.
    Call(String),
}

fn approval_request(kind: &EventKind, decision: &Decision) -> Option<ApprovalRequest> {
    let step = |tool: &str, args: &Value| json!({"tool": tool, "args": args});
    match kind {
        EventKind::ConfirmationRequested { plan, .. } => {
            let plan: Vec<Value> = plan.iter().map(|asked| step(&asked.tool, &asked.args)).collect();
            Some(ApprovalRequest::Plan(Value::Array(plan).to_string()))
        }
        EventKind::ToolRequested { tool, args, .. } if decision.decision >= Verdict::Block => {
            Some(ApprovalRequest::Call(json!([step(tool, args)]).to_string()))
        }
        _ => None,
    }
}

fn confirmation_row(session: &str, waiting: &Waiting<'_>, plan: &str, at: u64) -> ConfirmationRow {
    ConfirmationRow {
        session_id: session.to_owned(),
        pending_plan: plan.to_owned(),
        confirmation_question: waiting.question.to_owned(),
        requester: waiting.requester.map(str::to_owned),
        digest: waiting.digest.to_owned(),
        status: "awaiting".to_owned(),
        created_at: sql_timestamp(at),
        expires_at: waiting.expires.map(sql_timestamp),
        updated_at: sql_timestamp(at),
    }
}

/// An SQL timestamp in UTC: `2025-10-11 12:40:00`.
pub(crate) fn sql_timestamp(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn session_summary(state: &SessionState, policy: &Policy) -> SessionSummary {
    let standing = state.status_summary();
    SessionSummary {
        status: standing.status,
        warnings: standing.warnings,
        blocks: standing.blocks,
        halts: standing.halts,
        stopped_by: standing.stopped_by.map(|(guard, message)| format!("{guard}: {message}")),
        label: standing.labeled.then(|| policy.hitl_label(state.rules_version())),
        parent: state.parent().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events at which a session is snapshotted, among the first thousand.
    fn snapshot_events(session: &str, every: u64) -> Vec<u64> {
        let rules = SnapshotRules { every, policy_digest: "" };
        let mut last = 0;
        (1..=1_000)
            .filter(|now| {
                let due = rules.is_due(session, last, *now);
                last = if due { *now } else { last };
                due
            })
            .collect()
    }

    #[test]
    fn snapshot_is_due_at_least_every_n_events() {
        for every in [0, 1, 32, 96] {
            let all = snapshot_events("a session", every);
            assert!(all.first().is_some_and(|first| *first <= every.max(1)), "{every}: {all:?}");
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] == every.max(1)), "{every}: {all:?}");
        }
    }

    #[test]
    fn sessions_started_together_are_snapshotted_at_different_events() {
        let firsts: Vec<u64> =
            (0..64).map(|number| snapshot_events(&format!("client-{number}"), 96)[0]).collect();
        let most = firsts.iter().map(|first| firsts.iter().filter(|other| *other == first).count()).max();
        assert!(most <= Some(6), "{firsts:?}");
    }
}
