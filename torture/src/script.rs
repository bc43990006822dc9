//! A client that uses every method of a store, tries again with the same id when it is refused, and remembers what
//! it was told.

use crate::errands::errands;
use crate::kit::{Fallible, answers_agree, is_halt, pause};
use flyball::{PolicySource, Preset};
use flyball_journal::{
    Appended, Cursor, Desk, ErrandState, If, Incoming, Note, Recorder, RecorderOptions, Refusal, Settled,
    Which,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Events that one process sends before the other goes on.
const SHIFT: usize = 7;
/// How often a subscriber asks again for what is not there yet.
const PATIENCE: u32 = 2_000;
/// How often something is tried.
const TRIES: usize = 8;
/// The sessions, and the histories that they live through.
const HISTORIES: [(&str, &str); 4] = [
    ("confirmation", include_str!("../../fixtures/guards/confirmation.jsonl")),
    ("repetition", include_str!("../../fixtures/guards/repetition.jsonl")),
    ("budget", include_str!("../../fixtures/guards/budget.jsonl")),
    ("cycle", include_str!("../../fixtures/guards/cycle.jsonl")),
];
/// How often the histories are lived through where ids must be found long after they were new.
pub(crate) const ROUNDS: usize = 5;
/// The session that only has errands.
const OUTBOX: &str = "outbox";
/// Errands in it.
const ERRANDS: usize = 6;

/// Everything that the client was told, and that must not depend on faults.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Answers by session and id.
    answers: BTreeMap<(String, String), String>,
    /// Events as the subscription brought them: in order within a session, each once.
    followed: Vec<(String, u64)>,
    received: BTreeSet<String>,
    desk: Vec<String>,
}

/// What is stored, as far as it must not depend on faults: session, number, id, text, decision.
pub(crate) type Stored = Vec<(String, u64, Option<String>, String, String)>;

/// The histories as events with ids, so many times.
fn events(rounds: usize) -> Fallible<Vec<Incoming>> {
    let mut all = Vec::new();
    let mut number = 0;
    for round in 0..rounds {
        for (name, text) in HISTORIES {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                number += 1;
                let mut value: serde_json::Value =
                    serde_json::from_str(line).map_err(|error| format!("{name}: {error}"))?;
                // One session lives through all rounds, the others anew in each.
                let session = if name == "cycle" { name.to_owned() } else { format!("{name}{round}") };
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("session".to_owned(), session.into());
                    fields.insert("id".to_owned(), format!("e{number}").into());
                    fields.remove("at");
                    if let Some(call) = fields.get("call").and_then(|call| call.as_str()).map(str::to_owned) {
                        fields.insert("call".to_owned(), format!("{call}r{round}").into());
                    }
                }
                let at = 1_760_000_000_000 + number * 500;
                let event = Incoming::read(value.to_string(), Some(at));
                all.push(event.map_err(|error| format!("{name}: {}", error.what))?);
            }
        }
    }
    Ok(all)
}

fn again<T>(what: &str, mut work: impl FnMut() -> flyball_journal::Result<T>) -> Fallible<T> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match work() {
            Ok(done) => return Ok(done),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("{what}: {last}"))
}

impl Told {
    fn note(&mut self, event: &Incoming, answer: &flyball_journal::Answer) -> Fallible<bool> {
        let id = event.event.id.as_ref().map(|id| id.id.clone()).unwrap_or_default();
        let text = match answer {
            Ok(decision) => decision.to_json(),
            Err(Refusal::Event(error)) => format!("refused: {}", error.what),
            Err(Refusal::Store(_)) => return Ok(false),
        };
        let key = (event.event.session.clone(), id);
        let Some(before) = self.answers.get(&key).cloned() else {
            self.answers.insert(key, text);
            return Ok(true);
        };
        let halted = || {
            let of_session = self.answers.range((key.0.clone(), String::new())..);
            of_session.take_while(|((session, _), _)| *session == key.0).any(|(_, told)| is_halt(told))
        };
        if before == text || (answers_agree(&before, &text, true) && halted()) {
            Ok(true)
        } else {
            Err(format!("answered otherwise the second time: {before} {text}"))
        }
    }

    /// Sends until it is answered.
    fn send(&mut self, recorder: &Recorder, event: &Incoming) -> Fallible<()> {
        for _ in 0..TRIES {
            if self.note(event, &recorder.submit(event.clone()))? {
                return Ok(());
            }
        }
        Err("an event was refused to the end".to_owned())
    }
}

/// Lives through everything on a store, the histories so many times.
pub(crate) fn play(store: &Arc<dyn Desk>, rounds: usize) -> Fallible<Told> {
    let mut told = Told::default();
    let keys = || (0..ERRANDS).map(|number| format!("{OUTBOX}/{number}/notify/0"));
    // The second try is stale if the first was done after all.
    again("append", || store.append(&[errands(OUTBOX, keys())]).map(|fates| fates == [Appended::Done]))?;
    let events = events(rounds)?;
    let (early, late) = events.split_at(events.len() / 2);
    let options = RecorderOptions { hot_sessions: 4, ..RecorderOptions::default() };
    let recorder = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Agent), options.clone());
    // Another process works on the same sessions: who comes second finds that they have moved, and takes its turn.
    let other = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Agent), options.clone());
    for (at, part) in early.chunks(SHIFT).enumerate() {
        sends(&mut told, if at % 2 == 0 { &recorder } else { &other }, part)?;
    }
    // The process ends; the next one works under another policy.
    let recorder = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Strict), options);
    leased(&mut told, store, &recorder, late)?;
    // And the client asks for everything again: the answers must be the same.
    for event in &events {
        told.send(&recorder, event)?;
    }
    perform(&mut told, store)?;
    follow(&mut told, store)?;
    look(&mut told, store)?;
    Ok(told)
}

/// One by one, and now and then some at once.
fn sends(told: &mut Told, recorder: &Recorder, events: &[Incoming]) -> Fallible<()> {
    for (place, some) in events.chunks(3).enumerate() {
        if place % 2 == 0 {
            let answers = recorder.submit_all(some.to_vec());
            for (event, answer) in some.iter().zip(&answers) {
                // In order: what comes after a refused event waits for it.
                if !told.note(event, answer)? {
                    break;
                }
            }
        }
        for event in some {
            told.send(recorder, event)?;
        }
    }
    Ok(())
}

/// The same under leases.
fn leased(told: &mut Told, store: &Arc<dyn Desk>, recorder: &Recorder, events: &[Incoming]) -> Fallible<()> {
    for some in events.chunks(5) {
        let Some(session) = some.first().map(|event| event.event.session.clone()) else { continue };
        let lease = again("lease", || store.lease(&session, "client", 60_000))?;
        let lease = lease.ok_or_else(|| "a lease that nobody else wants was refused".to_owned())?;
        recorder.hold(&lease);
        for event in some {
            told.send(recorder, event)?;
        }
        if !again("renew", || store.renew(&lease, 60_000))? {
            return Err("a lease that nobody else wants was lost".to_owned());
        }
        recorder.let_go(&session);
        again("free", || store.free(&lease))?;
    }
    Ok(())
}

/// Performs the errands; one is given up first, and tried again by a person.
fn perform(told: &mut Told, store: &Arc<dyn Desk>) -> Fallible<()> {
    let dead = format!("{OUTBOX}/0/notify/0");
    again("settle", || store.settle(&dead, &Settled::Dead { error: "gone".to_owned() }))?;
    again("retry", || store.retry(&dead))?;
    for _ in 0..200 {
        let errands = again("claim", || store.claim(2, 2))?;
        for errand in &errands {
            told.received.insert(errand.key.clone());
            again("settle", || store.settle(&errand.key, &Settled::Done))?;
        }
        if again("errands", || store.errands(ErrandState::Waiting, 100))?.is_empty() {
            return Ok(());
        }
        if errands.is_empty() {
            pause(1);
        }
    }
    Err("errands wait for ever".to_owned())
}

fn follow(told: &mut Told, store: &Arc<dyn Desk>) -> Fallible<()> {
    let mut cursor = Cursor::default();
    let heads = again("heads", || store.heads(Which::All, 1000))?;
    let events: u64 = heads.iter().map(|head| head.seq).sum();
    let mut patience = PATIENCE;
    loop {
        let entries = again("since", || store.since(cursor, 7))?;
        let Some(last) = entries.last() else {
            // A server holds the newest ones back while anybody's transaction is under way.
            if (told.followed.len() as u64) < events && patience > 0 {
                patience -= 1;
                pause(1);
                continue;
            }
            // Which of two sessions comes first may depend on faults; the order within one may not.
            told.followed.sort_by(|one, other| one.0.cmp(&other.0));
            return Ok(());
        };
        let sighted = again("sightings", || store.sightings(cursor, entries.len()))?;
        cursor = last.cursor;
        let alike = sighted.iter().map(|sighted| (&sighted.session, sighted.seq));
        if !alike.eq(entries.iter().map(|entry| (&entry.session, entry.record.seq))) {
            return Err(format!("{sighted:?} is not what was read: {entries:?}"));
        }
        told.followed.extend(entries.iter().map(|entry| (entry.session.clone(), entry.record.seq)));
    }
}

/// A note is put, changed, read and taken. What is unsure is tried again with the same condition: it says no the second
/// time, and reading tells.
fn notes(told: &mut Told, store: &Arc<dyn Desk>) -> Fallible<()> {
    let note =
        |text: &str| Note { shelf: "s".to_owned(), key: "k".to_owned(), text: text.to_owned(), until: None };
    again("put", || store.put(&note("one"), If::New))?;
    again("put", || store.put(&note("two"), If::Was("one")))?;
    let found = again("note", || store.note("s", "k"))?;
    let all = again("notes", || store.notes("s", "", 10))?;
    // Whoever took it without hearing so finds nothing the second time.
    again("take", || store.take("s", "k"))?;
    let left = again("note", || store.note("s", "k"))?;
    again("sweep", || store.sweep())?;
    told.desk.push(format!("{found:?} {} {left:?}", all.len()));
    Ok(())
}

fn look(told: &mut Told, store: &Arc<dyn Desk>) -> Fallible<()> {
    let mut heads = again("heads", || store.heads(Which::All, 1000))?;
    heads.sort_by(|one, other| one.session.cmp(&other.session));
    for head in &heads {
        let row = again("pending", || store.pending(&head.session))?;
        let handles = again("handles", || store.handles(&head.session))?;
        told.desk.push(format!("{} {} {:?} {row:?} {handles:?}", head.session, head.seq, head.glance));
    }
    let done = again("errands", || store.errands(ErrandState::Done, 100))?;
    told.desk.push(format!("{} errands done", done.len()));
    let pruned = again("prune", || store.prune(0, true))?;
    told.desk.push(format!("{pruned:?}"));
    told.desk.extend(again("verify", || store.verify(&mut |_| ()))?);
    notes(told, store)?;
    again("leases", || store.leases())?;
    again("engine", || store.engine())?;
    again("now", || store.now())?;
    Ok(())
}

/// What a store holds in the end.
pub(crate) fn stored(store: &dyn Desk) -> Fallible<Stored> {
    let mut heads = store.heads(Which::All, 1000).map_err(|error| error.to_string())?;
    heads.sort_by(|one, other| one.session.cmp(&other.session));
    let mut all = Vec::new();
    for head in heads {
        let records = store.records(&head.session, 1, u64::MAX >> 1).map_err(|error| error.to_string())?;
        for record in records {
            all.push((head.session.clone(), record.seq, record.id, record.text, record.decision));
        }
    }
    Ok(all)
}
