//! Invariants: acknowledged events are stored once and in order, with the decisions of an undisturbed run.

use crate::harness::{digest, is_halt, policy_source};
use flyball::{Event, Sessions};
use flyball_store::{AdminStore, EventRecord, SessionFilter};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of reported failures; one is enough, a few help.
const MAX_COMPLAINTS: usize = 8;

/// An acknowledgement that a client received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) seq: u64,
    /// Digest of the decision; `?` from a writer that did not wait for it.
    pub(crate) digest: String,
    /// Whether the decision was a halt. After a halt, a repeated request is answered with the halt.
    pub(crate) halt: bool,
}

impl Ack {
    /// The line that a writer prints.
    pub(crate) fn to_line(&self) -> String {
        let verdict = if self.halt { "halt" } else { "other" };
        format!("A {} {} {} {} {verdict}\n", self.session, self.id, self.seq, self.digest)
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut child_args = line.strip_prefix("A ")?.split(' ');
        let (session, id) = (child_args.next()?.to_owned(), child_args.next()?.to_owned());
        let (seq, digest) = (child_args.next()?.parse().ok()?, child_args.next()?.to_owned());
        let halt = match child_args.next()? {
            "halt" => true,
            "other" => false,
            _ => return None,
        };
        (digest.len() == 16 || digest == "?").then_some(Ack { session, id, seq, digest, halt })
    }
}

/// Contents of the store, and the failures found.
#[derive(Debug, Default)]
pub(crate) struct StoreAudit {
    pub(crate) sessions: usize,
    pub(crate) events: usize,
    pub(crate) failures: Vec<String>,
}

/// Checks all sessions whose names start with `tag` against the acknowledgements.
pub(crate) fn audit(store: &dyn AdminStore, tag: &str, acks: &[Ack]) -> StoreAudit {
    let mut found = StoreAudit::default();
    let mut ids: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    let mut last_halts: BTreeMap<String, u64> = BTreeMap::new();
    match store.list_sessions(SessionFilter::All, usize::MAX) {
        Ok(heads) => {
            for head in heads.into_iter().filter(|head| head.session.starts_with(tag)) {
                found.sessions += 1;
                match store.records(&head.session, 1, head.seq.max(1) + 1000) {
                    Ok(records) => {
                        found.events += records.len();
                        found.failures.extend(check_history(&head.session, head.seq, &records));
                        for record in records {
                            if is_halt(&record.decision_json) {
                                last_halts.insert(head.session.clone(), record.seq);
                            }
                            let id = record.id.clone().unwrap_or_default();
                            let known = (record.seq, digest(&record.decision_json));
                            if ids.insert((head.session.clone(), id.clone()), known).is_some()
                                && record.id.is_some()
                            {
                                found.failures.push(format!("{}: id {id} is stored twice", head.session));
                            }
                        }
                    }
                    Err(error) => found.failures.push(format!("{}: {error}", head.session)),
                }
            }
        }
        Err(error) => found.failures.push(format!("heads: {error}")),
    }
    for ack in acks {
        let halted_since =
            ack.halt && last_halts.get(&ack.session).is_some_and(|last_halt| *last_halt > ack.seq);
        match ids.get(&(ack.session.clone(), ack.id.clone())) {
            None => found.failures.push(format!("{}: acknowledged {} is lost", ack.session, ack.id)),
            Some((seq, sum))
                if ack.digest != "?" && (*seq != ack.seq || (*sum != ack.digest && !halted_since)) =>
            {
                found.failures.push(format!(
                    "{}: {} was acknowledged as event {}, stored as {seq}, or decided differently",
                    ack.session, ack.id, ack.seq
                ));
            }
            Some(_) => {}
        }
    }
    match store.verify(&mut |_| ()) {
        Ok(lines) => found.failures.extend(lines.into_iter().map(|line| format!("verify: {line}"))),
        Err(error) => found.failures.push(format!("verify: {error}")),
    }
    found.failures.truncate(MAX_COMPLAINTS);
    found
}

/// Checks that a session's events are numbered without a gap and decided as in an undisturbed run in memory.
pub(crate) fn check_history(session: &str, last: u64, records: &[EventRecord]) -> Vec<String> {
    let mut wrong = Vec::new();
    if records.len() as u64 != last {
        wrong.push(format!("{session}: the session row says {last} events, {} are stored", records.len()));
    }
    let mut sessions = Sessions::new(policy_source());
    let mut seen = BTreeSet::new();
    for (place, record) in records.iter().enumerate() {
        if record.seq != place as u64 + 1 || !seen.insert(record.seq) {
            wrong.push(format!("{session}: event {} is at position {}", record.seq, place + 1));
            break;
        }
        let decided = Event::from_json(&record.text).and_then(|mut event| {
            event.at = record.at;
            sessions.step(&event)
        });
        match decided {
            Ok(decision) if decision.to_json() == record.decision_json => {}
            Ok(_) => {
                wrong.push(format!(
                    "{session}: event {} is decided differently in an undisturbed run",
                    record.seq
                ));
            }
            Err(error) => wrong.push(format!("{session}: event {}: {}", record.seq, error.message)),
        }
        if wrong.len() > MAX_COMPLAINTS {
            break;
        }
    }
    wrong
}
