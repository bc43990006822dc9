//! A client that uses every method of a store, retries with the same id after a failure, and records its answers.

use crate::harness::{TortureResult, answers_agree, is_halt, sleep_ms};
use crate::outbox::outbox_unit;
use flyball::{PolicySource, Preset};
use flyball_store::{
    AdminStore, AppendOutcome, DeliveryOutcome, KvEntry, OutboxState, Precondition, RecordError, Recorder,
    RecorderOptions, SessionFilter, StreamCursor, Submission,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Events that one process sends before the other continues.
const EVENTS_PER_TURN: usize = 7;
/// Maximum polls of a subscriber for missing events.
const MAX_SUBSCRIBE_POLLS: u32 = 2_000;
/// Maximum attempts of an operation.
const MAX_ATTEMPTS: usize = 8;
/// The sessions and their histories.
const HISTORIES: [(&str, &str); 4] = [
    ("confirmation", include_str!("../../fixtures/guards/confirmation.jsonl")),
    ("repetition", include_str!("../../fixtures/guards/repetition.jsonl")),
    ("budget", include_str!("../../fixtures/guards/budget.jsonl")),
    ("cycle", include_str!("../../fixtures/guards/cycle.jsonl")),
];
/// Rounds of the histories for methods that look up old ids.
pub(crate) const ROUNDS: usize = 5;
/// The session with outbox messages only.
const OUTBOX_SESSION: &str = "outbox";
/// Number of its outbox messages.
const OUTBOX_MESSAGES: usize = 6;

/// Everything the client observed, which must not depend on faults.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientLog {
    /// Answers by session and id.
    answers: BTreeMap<(String, String), String>,
    /// Events from the subscription: in order within a session, each once.
    followed: Vec<(String, u64)>,
    delivered_keys: BTreeSet<String>,
    admin_view: Vec<String>,
}

/// Stored data that must not depend on faults: session, sequence number, id, text, decision.
pub(crate) type StoredEvents = Vec<(String, u64, Option<String>, String, String)>;

/// The histories as events with ids, repeated.
fn events(rounds: usize) -> TortureResult<Vec<Submission>> {
    let mut all = Vec::new();
    let mut number = 0;
    for round in 0..rounds {
        for (name, text) in HISTORIES {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                number += 1;
                let mut value: serde_json::Value =
                    serde_json::from_str(line).map_err(|error| format!("{name}: {error}"))?;
                // One session continues through all rounds; the others are new in each.
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
                let event = Submission::parse(value.to_string(), Some(at));
                all.push(event.map_err(|error| format!("{name}: {}", error.message))?);
            }
        }
    }
    Ok(all)
}

fn retry<T>(what: &str, mut work: impl FnMut() -> flyball_store::StoreResult<T>) -> TortureResult<T> {
    let mut last = String::new();
    for _ in 0..MAX_ATTEMPTS {
        match work() {
            Ok(done) => return Ok(done),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("{what}: {last}"))
}

impl ClientLog {
    fn record_answer(
        &mut self,
        event: &Submission,
        answer: &flyball_store::RecordResult,
    ) -> TortureResult<bool> {
        let id = event.event.id.as_ref().map(|id| id.id.clone()).unwrap_or_default();
        let text = match answer {
            Ok(decision) => decision.to_json(),
            Err(RecordError::Event(error)) => format!("refused: {}", error.message),
            Err(RecordError::Store(_)) => return Ok(false),
        };
        let key = (event.event.session.clone(), id);
        let Some(before) = self.answers.get(&key).cloned() else {
            self.answers.insert(key, text);
            return Ok(true);
        };
        let halted = || {
            let of_session = self.answers.range((key.0.clone(), String::new())..);
            of_session.take_while(|((session, _), _)| *session == key.0).any(|(_, answer)| is_halt(answer))
        };
        if before == text || (answers_agree(&before, &text, true) && halted()) {
            Ok(true)
        } else {
            Err(format!("different answer the second time: {before} {text}"))
        }
    }

    /// Resends an event until it is answered.
    fn send_until_answered(&mut self, recorder: &Recorder, event: &Submission) -> TortureResult<()> {
        for _ in 0..MAX_ATTEMPTS {
            if self.record_answer(event, &recorder.submit(event.clone()))? {
                return Ok(());
            }
        }
        Err("an event was never accepted".to_owned())
    }
}

/// Runs the whole scenario on a store.
pub(crate) fn run_scenario(store: &Arc<dyn AdminStore>, rounds: usize) -> TortureResult<ClientLog> {
    let mut log = ClientLog::default();
    let keys = || (0..OUTBOX_MESSAGES).map(|number| format!("{OUTBOX_SESSION}/{number}/notify/0"));
    // The retry is stale if the first attempt succeeded after all.
    retry("append", || {
        store.append(&[outbox_unit(OUTBOX_SESSION, keys())]).map(|fates| fates == [AppendOutcome::Done])
    })?;
    let events = events(rounds)?;
    let (early, late) = events.split_at(events.len() / 2);
    let options = RecorderOptions { hot_sessions: 4, ..RecorderOptions::default() };
    let recorder = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Agent), options.clone());
    // Another process works on the same sessions: the second one finds that they changed, and retries.
    let other = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Agent), options.clone());
    for (at, part) in early.chunks(EVENTS_PER_TURN).enumerate() {
        send_mixed(&mut log, if at % 2 == 0 { &recorder } else { &other }, part)?;
    }
    // After a restart, the process uses another policy.
    let recorder = Recorder::new(Arc::clone(store), PolicySource::preset(Preset::Strict), options);
    send_under_leases(&mut log, store, &recorder, late)?;
    // The client resends everything: the answers must be the same.
    for event in &events {
        log.send_until_answered(&recorder, event)?;
    }
    deliver_outbox(&mut log, store)?;
    read_stream(&mut log, store)?;
    read_admin_view(&mut log, store)?;
    Ok(log)
}

/// Sends events one by one, and sometimes several at once.
fn send_mixed(log: &mut ClientLog, recorder: &Recorder, events: &[Submission]) -> TortureResult<()> {
    for (place, some) in events.chunks(3).enumerate() {
        if place % 2 == 0 {
            let answers = recorder.submit_all(some.to_vec());
            for (event, answer) in some.iter().zip(&answers) {
                // In order: events after a failed one wait for it.
                if !log.record_answer(event, answer)? {
                    break;
                }
            }
        }
        for event in some {
            log.send_until_answered(recorder, event)?;
        }
    }
    Ok(())
}

/// Sends events under leases.
fn send_under_leases(
    log: &mut ClientLog,
    store: &Arc<dyn AdminStore>,
    recorder: &Recorder,
    events: &[Submission],
) -> TortureResult<()> {
    for some in events.chunks(5) {
        let Some(session) = some.first().map(|event| event.event.session.clone()) else { continue };
        let lease = retry("lease", || store.lease(&session, "client", 60_000))?;
        let lease = lease.ok_or_else(|| "an uncontended lease was denied".to_owned())?;
        recorder.hold_lease(&lease);
        for event in some {
            log.send_until_answered(recorder, event)?;
        }
        if !retry("renew_lease", || store.renew_lease(&lease, 60_000))? {
            return Err("an uncontended lease was lost".to_owned());
        }
        recorder.drop_lease(&session);
        retry("release_lease", || store.release_lease(&lease))?;
    }
    Ok(())
}

/// Delivers the outbox messages; one becomes dead first, and is retried by an operator.
fn deliver_outbox(log: &mut ClientLog, store: &Arc<dyn AdminStore>) -> TortureResult<()> {
    let dead = format!("{OUTBOX_SESSION}/0/notify/0");
    retry("record_delivery", || {
        store.record_delivery(&dead, &DeliveryOutcome::Dead { error: "gone".to_owned() })
    })?;
    retry("retry_outbox", || store.retry_outbox(&dead))?;
    for _ in 0..200 {
        let messages = retry("claim_outbox", || store.claim_outbox(2, 2))?;
        for message in &messages {
            log.delivered_keys.insert(message.key.clone());
            retry("record_delivery", || store.record_delivery(&message.key, &DeliveryOutcome::Delivered))?;
        }
        if retry("outbox_messages", || store.outbox_messages(OutboxState::Waiting, 100))?.is_empty() {
            return Ok(());
        }
        if messages.is_empty() {
            sleep_ms(1);
        }
    }
    Err("messages are never delivered".to_owned())
}

fn read_stream(log: &mut ClientLog, store: &Arc<dyn AdminStore>) -> TortureResult<()> {
    let mut cursor = StreamCursor::default();
    let heads = retry("list_sessions", || store.list_sessions(SessionFilter::All, 1000))?;
    let events: u64 = heads.iter().map(|head| head.seq).sum();
    let mut polls_left = MAX_SUBSCRIBE_POLLS;
    loop {
        let entries = retry("events_since", || store.events_since(cursor, 7))?;
        let Some(last) = entries.last() else {
            // A server holds back the newest events while any transaction is running.
            if (log.followed.len() as u64) < events && polls_left > 0 {
                polls_left -= 1;
                sleep_ms(1);
                continue;
            }
            // The order of sessions may depend on faults; the order within a session may not.
            log.followed.sort_by(|one, other| one.0.cmp(&other.0));
            return Ok(());
        };
        let refs = retry("event_refs_since", || store.event_refs_since(cursor, entries.len()))?;
        cursor = last.cursor;
        let alike = refs.iter().map(|one| (&one.session, one.seq));
        if !alike.eq(entries.iter().map(|entry| (&entry.session, entry.record.seq))) {
            return Err(format!("{refs:?} differs from the events: {entries:?}"));
        }
        log.followed.extend(entries.iter().map(|entry| (entry.session.clone(), entry.record.seq)));
    }
}

/// Writes, changes, reads and takes an entry. After an unknown outcome the write is retried with the same
/// precondition: it fails the second time, and a read shows the result.
fn exercise_kv(log: &mut ClientLog, store: &Arc<dyn AdminStore>) -> TortureResult<()> {
    let note = |text: &str| KvEntry {
        namespace: "s".to_owned(),
        key: "k".to_owned(),
        value: text.to_owned(),
        expires_at: None,
    };
    retry("kv_put", || store.kv_put(&note("one"), Precondition::Absent))?;
    retry("kv_put", || store.kv_put(&note("two"), Precondition::Equals("one")))?;
    let found = retry("kv_get", || store.kv_get("s", "k"))?;
    let all = retry("kv_list", || store.kv_list("s", "", 10))?;
    // After a take with an unknown outcome, the second attempt finds nothing.
    retry("kv_take", || store.kv_take("s", "k"))?;
    let left = retry("kv_get", || store.kv_get("s", "k"))?;
    retry("kv_delete_expired", || store.kv_delete_expired())?;
    log.admin_view.push(format!("{found:?} {} {left:?}", all.len()));
    Ok(())
}

fn read_admin_view(log: &mut ClientLog, store: &Arc<dyn AdminStore>) -> TortureResult<()> {
    let mut heads = retry("list_sessions", || store.list_sessions(SessionFilter::All, 1000))?;
    heads.sort_by(|one, other| one.session.cmp(&other.session));
    for head in &heads {
        let row = retry("pending", || store.pending(&head.session))?;
        let handles = retry("operator_rows", || store.operator_rows(&head.session))?;
        log.admin_view.push(format!("{} {} {:?} {row:?} {handles:?}", head.session, head.seq, head.summary));
    }
    let done = retry("outbox_messages", || store.outbox_messages(OutboxState::Done, 100))?;
    log.admin_view.push(format!("{} messages delivered", done.len()));
    let pruned = retry("prune", || store.prune(0, true))?;
    log.admin_view.push(format!("{pruned:?}"));
    log.admin_view.extend(retry("verify", || store.verify(&mut |_| ()))?);
    exercise_kv(log, store)?;
    retry("leases", || store.leases())?;
    retry("engine_version", || store.engine_version())?;
    retry("now", || store.now())?;
    Ok(())
}

/// The final contents of a store.
pub(crate) fn stored_events(store: &dyn AdminStore) -> TortureResult<StoredEvents> {
    let mut heads = store.list_sessions(SessionFilter::All, 1000).map_err(|error| error.to_string())?;
    heads.sort_by(|one, other| one.session.cmp(&other.session));
    let mut all = Vec::new();
    for head in heads {
        let records = store.records(&head.session, 1, u64::MAX >> 1).map_err(|error| error.to_string())?;
        for record in records {
            all.push((head.session.clone(), record.seq, record.id, record.text, record.decision_json));
        }
    }
    Ok(all)
}
