//! The invariants: what was acknowledged is there, in order, once, and decided as it always would be.

use crate::kit::{digest, is_halt, source};
use flyball::{Event, Sessions};
use flyball_journal::{Desk, Record, Which};
use std::collections::{BTreeMap, BTreeSet};

/// How many complaints are kept; one is enough, a few help.
const MOST: usize = 8;

/// An answer that a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) seq: u64,
    /// The digest of the decision; `?` from a writer that did not wait for it.
    pub(crate) digest: String,
    /// Whether the answer was a halt. A permission that is asked for again after a halt is answered with the halt.
    pub(crate) halt: bool,
}

impl Ack {
    /// The line that a writer sends.
    pub(crate) fn line(&self) -> String {
        let verdict = if self.halt { "halt" } else { "other" };
        format!("A {} {} {} {} {verdict}\n", self.session, self.id, self.seq, self.digest)
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("A ")?.split(' ');
        let (session, id) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (seq, digest) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let halt = match words.next()? {
            "halt" => true,
            "other" => false,
            _ => return None,
        };
        (digest.len() == 16 || digest == "?").then_some(Ack { session, id, seq, digest, halt })
    }
}

/// What the store holds, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) sessions: usize,
    pub(crate) events: usize,
    pub(crate) wrong: Vec<String>,
}

/// Checks all sessions whose names begin with `tag` against what was acknowledged.
pub(crate) fn audit(store: &dyn Desk, tag: &str, acks: &[Ack]) -> Audit {
    let mut found = Audit::default();
    let mut ids: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    let mut last_halts: BTreeMap<String, u64> = BTreeMap::new();
    match store.heads(Which::All, usize::MAX) {
        Ok(heads) => {
            for head in heads.into_iter().filter(|head| head.session.starts_with(tag)) {
                found.sessions += 1;
                match store.records(&head.session, 1, head.seq.max(1) + 1000) {
                    Ok(records) => {
                        found.events += records.len();
                        found.wrong.extend(history(&head.session, head.seq, &records));
                        for record in records {
                            if is_halt(&record.decision) {
                                last_halts.insert(head.session.clone(), record.seq);
                            }
                            let id = record.id.clone().unwrap_or_default();
                            let known = (record.seq, digest(&record.decision));
                            if ids.insert((head.session.clone(), id.clone()), known).is_some()
                                && record.id.is_some()
                            {
                                found.wrong.push(format!("{}: id {id} is there twice", head.session));
                            }
                        }
                    }
                    Err(error) => found.wrong.push(format!("{}: {error}", head.session)),
                }
            }
        }
        Err(error) => found.wrong.push(format!("heads: {error}")),
    }
    for ack in acks {
        let halted_since =
            ack.halt && last_halts.get(&ack.session).is_some_and(|last_halt| *last_halt > ack.seq);
        match ids.get(&(ack.session.clone(), ack.id.clone())) {
            None => found.wrong.push(format!("{}: acknowledged {} is lost", ack.session, ack.id)),
            Some((seq, sum))
                if ack.digest != "?" && (*seq != ack.seq || (*sum != ack.digest && !halted_since)) =>
            {
                found.wrong.push(format!(
                    "{}: {} was acknowledged as event {}, stored as {seq}, or decided otherwise",
                    ack.session, ack.id, ack.seq
                ));
            }
            Some(_) => {}
        }
    }
    match store.verify(&mut |_| ()) {
        Ok(lines) => found.wrong.extend(lines.into_iter().map(|line| format!("verify: {line}"))),
        Err(error) => found.wrong.push(format!("verify: {error}")),
    }
    found.wrong.truncate(MOST);
    found
}

/// A session's events are numbered without a gap, and decided as a straight run in memory decides them.
pub(crate) fn history(session: &str, last: u64, records: &[Record]) -> Vec<String> {
    let mut wrong = Vec::new();
    if records.len() as u64 != last {
        wrong.push(format!("{session}: the head says {last} events, {} are there", records.len()));
    }
    let mut sessions = Sessions::new(source());
    let mut seen = BTreeSet::new();
    for (place, record) in records.iter().enumerate() {
        if record.seq != place as u64 + 1 || !seen.insert(record.seq) {
            wrong.push(format!("{session}: event {} stands at place {}", record.seq, place + 1));
            break;
        }
        let decided = Event::from_json(&record.text).and_then(|mut event| {
            event.at = record.at;
            sessions.step(&event)
        });
        match decided {
            Ok(decision) if decision.to_json() == record.decision => {}
            Ok(_) => {
                wrong.push(format!("{session}: event {} is decided otherwise in a straight run", record.seq));
            }
            Err(error) => wrong.push(format!("{session}: event {}: {}", record.seq, error.what)),
        }
        if wrong.len() > MOST {
            break;
        }
    }
    wrong
}
