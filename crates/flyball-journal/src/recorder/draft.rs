//! A session's change while it is being put together: events taken, and then the whole as the store wants it.

use crate::error::StoreError;
use crate::incoming::Incoming;
use crate::journal::{Errand, PendingRow};
use crate::lookup::Lookup;
use crate::record::{Change, Glance, Head, LabelChange, Record, RowChange};
use flyball::policy::Policy;
use flyball::{Decision, Kind, State, Status, Verdict, Waiting};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A change in the making.
#[derive(Debug)]
pub(super) struct Draft {
    new: bool,
    epoch: u64,
    before: Head,
    chain: crate::record::Chain,
    seq: u64,
    updated: u64,
    started: Option<u64>,
    pub(super) records: Vec<Record>,
    /// Events of this batch after which a plan waits, by their number.
    plans: BTreeMap<u64, Asked>,
    /// Why the stored confirmation row cannot be trusted.
    pub(super) aside: Option<String>,
    /// A child has drawn on it.
    pub(super) drawn: bool,
    pub(super) errands: Vec<Errand>,
}

/// The drafts of a batch, in the order they were begun.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    list: Vec<Draft>,
    places: Lookup<usize>,
}

impl Drafts {
    /// The draft of a session.
    pub(super) fn get(&self, name: &str) -> Option<&Draft> {
        self.list.get(*self.places.get(name)?)
    }

    /// Whether a session has one.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.has(name)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The draft of a session, begun if need be.
    pub(super) fn entry(&mut self, name: &str, begin: impl FnOnce() -> Draft) -> &mut Draft {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.list.len());
                self.list.push(begin());
                self.list.len() - 1
            }
        };
        &mut self.list[place]
    }

    /// All of them.
    pub(super) fn into_list(self) -> Vec<Draft> {
        self.list
    }
}

/// When a snapshot goes with the change.
pub(super) struct Rules<'a> {
    pub(super) every: u64,
    pub(super) digest: &'a str,
}

impl Rules<'_> {
    /// Whether it is time for a snapshot, after so many events at the latest. Each session has a moment of its own, told
    /// by its name: many that began together would otherwise all be snapshotted in the same commit.
    fn is_due(&self, session: &str, before: u64, now: u64) -> bool {
        let every = self.every.max(1);
        let own = xxh3_64(session.as_bytes()) % every;
        (now + own) / every > (before + own) / every
    }
}

impl Draft {
    /// Begins from a head, or from nothing.
    pub(super) fn new(session: &str, head: Option<&Head>, epoch: Option<u64>) -> Self {
        let before = head.cloned().unwrap_or_else(|| Head { session: session.to_owned(), ..Head::default() });
        Draft {
            new: head.is_none(),
            epoch: epoch.unwrap_or(before.epoch),
            chain: before.chain,
            seq: before.seq,
            updated: before.updated,
            started: (before.seq > 0).then_some(before.started),
            records: Vec::new(),
            plans: BTreeMap::new(),
            aside: None,
            drawn: false,
            errands: Vec::new(),
            before,
        }
    }

    /// The session that it changes.
    pub(super) fn session(&self) -> &str {
        &self.before.session
    }

    /// Takes an event and its decision. `text` is what is stored of it, and whether that is the whole.
    pub(super) fn take(
        &mut self,
        event: &Incoming,
        id: Option<String>,
        text: (String, bool),
        decision: &Decision,
        nonce: u64,
    ) {
        let mut record = Record {
            seq: decision.seq,
            at: event.event.at,
            nonce,
            epoch: self.epoch,
            id,
            body: event.event.id.as_ref().map_or(0, |id| id.body.number()),
            text: text.0,
            whole: text.1,
            decision: decision.to_json(),
            verdict: decision.decision,
            status: decision.state,
            chain: [0; 16],
        };
        record.chain = record.chained(&self.chain);
        self.chain = record.chain;
        self.seq = record.seq;
        let at = event.event.at.unwrap_or(self.updated);
        self.updated = self.updated.max(at);
        self.started.get_or_insert(at);
        if decision.state == Status::AwaitingConfirmation {
            self.plans.insert(record.seq, Asked { plan: plan_of(&event.event.kind, decision), at });
        }
        self.records.push(record);
    }

    /// The event of this batch that came with an id.
    pub(super) fn by_id(&self, id: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.id.as_deref() == Some(id))
    }

    /// The stored decision of an event of this batch.
    pub(super) fn answered(&self, seq: u64) -> Option<&str> {
        self.records.iter().find(|record| record.seq == seq).map(|record| record.decision.as_str())
    }

    /// The whole change.
    pub(super) fn finish(
        mut self,
        state: &State,
        policy: &Policy,
        rules: &Rules<'_>,
    ) -> Result<Change, StoreError> {
        let (row, pending) = self.row(state);
        let glance = glance(state, policy);
        let label = match (&self.before.glance.label, &glance.label) {
            (before, Some(now)) if before.as_ref() != Some(now) => LabelChange::Set(now.clone()),
            (Some(_), None) => LabelChange::Clear,
            _ => LabelChange::Keep,
        };
        let partial = self.records.iter().any(|record| !record.whole);
        let other_rules = self.before.policy != rules.digest && !self.new && self.before.seq > 0;
        let due = rules.is_due(&self.before.session, self.before.snapshot, self.seq);
        let wanted = partial || other_rules || due || self.drawn || state.parent().is_some();
        let snapshot = if wanted {
            let encoded = state.encode();
            Some(encoded.map_err(|error| StoreError::corrupt(error.what))?)
        } else {
            None
        };
        let before = &self.before;
        let seldom = before.policy != rules.digest
            || before.pending != pending
            || self.started != Some(before.started)
            || before.glance != glance;
        let policy = std::mem::take(&mut self.before.policy);
        let policy = if policy == rules.digest { policy } else { rules.digest.to_owned() };
        let head = Head {
            session: std::mem::take(&mut self.before.session),
            rev: self.before.rev + 1,
            epoch: self.epoch,
            seq: self.seq,
            chain: self.chain,
            policy,
            snapshot: if wanted { self.seq } else { self.before.snapshot },
            pending,
            started: self.started.unwrap_or(self.updated),
            updated: self.updated,
            glance,
        };
        let Draft { new, epoch, records, errands, .. } = self;
        Ok(Change { new, seldom, head, epoch, records, snapshot, row, label, errands })
    }

    /// What becomes of the confirmation row, and the sum of the row that is there afterwards.
    fn row(&self, state: &State) -> (RowChange, Option<u64>) {
        let asked = state.waiting().and_then(|waiting| {
            let asked = self.plans.get(&waiting.asked)?;
            let plan = match &asked.plan {
                Some(Requested::Plan(plan)) => plan.as_str(),
                Some(Requested::Call(call)) => waiting.plan.unwrap_or(call),
                None => waiting.plan?,
            };
            Some(pending_row(&self.before.session, &waiting, plan, asked.at))
        });
        match (asked, &self.aside) {
            (Some(row), _) => {
                let sum = row.sum();
                (RowChange::Put(row), Some(sum))
            }
            (None, Some(why)) => (RowChange::SetAside { why: why.clone() }, None),
            (None, None) if state.waiting().is_some() => (RowChange::Keep, self.before.pending),
            (None, None) if self.before.pending.is_some() => (RowChange::Clear, None),
            (None, None) => (RowChange::Keep, None),
        }
    }
}

/// An event after which a plan waits.
#[derive(Debug)]
struct Asked {
    plan: Option<Requested>,
    at: u64,
}

/// What an event asks a person about, as JSON.
#[derive(Debug)]
enum Requested {
    /// A plan.
    Plan(String),
    /// One call; the plan that waits may hold others.
    Call(String),
}

fn plan_of(kind: &Kind, decision: &Decision) -> Option<Requested> {
    let step = |tool: &str, args: &Value| json!({"tool": tool, "args": args});
    match kind {
        Kind::ConfirmationRequested { plan, .. } => {
            let plan: Vec<Value> = plan.iter().map(|asked| step(&asked.tool, &asked.args)).collect();
            Some(Requested::Plan(Value::Array(plan).to_string()))
        }
        Kind::ToolRequested { tool, args, .. } if decision.decision >= Verdict::Block => {
            Some(Requested::Call(json!([step(tool, args)]).to_string()))
        }
        _ => None,
    }
}

fn pending_row(session: &str, waiting: &Waiting<'_>, plan: &str, at: u64) -> PendingRow {
    PendingRow {
        session_id: session.to_owned(),
        pending_plan: plan.to_owned(),
        confirmation_question: waiting.question.to_owned(),
        requester: waiting.requester.map(str::to_owned),
        digest: waiting.digest.to_owned(),
        status: "awaiting".to_owned(),
        created_at: moment(at),
        expires_at: waiting.expires.map(moment),
        updated_at: moment(at),
    }
}

/// A time as databases write it, in UTC: `2025-10-11 12:40:00`.
pub(crate) fn moment(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn glance(state: &State, policy: &Policy) -> Glance {
    let standing = state.standing();
    Glance {
        status: standing.status,
        warnings: standing.warnings,
        blocks: standing.blocks,
        halts: standing.halts,
        stopped_by: standing.stopped_by.map(|(guard, message)| format!("{guard}: {message}")),
        label: standing.labelled.then(|| policy.hitl_label(state.rules_version())),
        parent: state.parent().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events after which a session is snapshotted, out of the first thousand.
    fn moments(session: &str, every: u64) -> Vec<u64> {
        let rules = Rules { every, digest: "" };
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
    fn a_snapshot_comes_after_so_many_events_at_the_latest() {
        for every in [0, 1, 32, 96] {
            let all = moments("a session", every);
            assert!(all.first().is_some_and(|first| *first <= every.max(1)), "{every}: {all:?}");
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] == every.max(1)), "{every}: {all:?}");
        }
    }

    #[test]
    fn sessions_that_begin_together_are_not_snapshotted_together() {
        let firsts: Vec<u64> = (0..64).map(|number| moments(&format!("client-{number}"), 96)[0]).collect();
        let most = firsts.iter().map(|first| firsts.iter().filter(|other| *other == first).count()).max();
        assert!(most <= Some(6), "{firsts:?}");
    }
}
