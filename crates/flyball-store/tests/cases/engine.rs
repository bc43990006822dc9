//! Engine cases without a recorder: appends, fencing, leases, the global event order.

use crate::common::TestStore;
use flyball::{SessionPhase, Verdict};
use flyball_store::{
    AppendOutcome, AppendUnit, ConfirmationChange, EventRecord, EventRef, LabelChange, OutboxMessage,
    OutboxState, SessionChange, SessionRow, StreamCursor, StreamEntry,
};

/// A change that adds one event to a session.
pub(crate) fn session_change(
    before: Option<&SessionRow>,
    session: &str,
    snapshot: Option<&[u8]>,
) -> SessionChange {
    let old = before
        .cloned()
        .unwrap_or_else(|| SessionRow { session: session.to_owned(), ..SessionRow::default() });
    let seq = old.seq + 1;
    let mut record = EventRecord {
        seq,
        at: Some(1_000 * seq),
        nonce: seq ^ u64::MAX,
        epoch: old.epoch,
        id: Some(format!("{session}-{seq}")),
        body_hash: u64::MAX - seq,
        text: format!("{{\"type\":\"compaction\",\"session\":\"{session}\",\"n\":{seq}}}"),
        is_complete: true,
        decision_json: format!("{{\"seq\":{seq}}}"),
        verdict: Verdict::Allow,
        status: SessionPhase::Running,
        chain: [0; 16],
    };
    record.chain = record.chain_hash_after(&old.chain);
    let head = SessionRow {
        session: session.to_owned(),
        rev: old.rev + 1,
        epoch: old.epoch,
        seq,
        chain: record.chain,
        policy: "policy".to_owned(),
        snapshot_seq: if snapshot.is_some() { seq } else { old.snapshot_seq },
        started: 1_000,
        updated: 1_000 * seq,
        ..SessionRow::default()
    };
    SessionChange {
        metadata_changed: true,
        new: before.is_none(),
        epoch: head.epoch,
        head,
        records: vec![record],
        snapshot: snapshot.map(<[u8]>::to_vec),
        row: ConfirmationChange::Keep,
        label: LabelChange::Keep,
        outbox_messages: Vec::new(),
    }
}

fn append_unit(changes: Vec<SessionChange>) -> AppendUnit {
    AppendUnit { changes }
}

pub(crate) fn outbox_message(session: &str, number: u64) -> OutboxMessage {
    OutboxMessage {
        key: format!("{session}/{number}/0/x"),
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: "x".to_owned(),
        payload: "{}".to_owned(),
        state: OutboxState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

pub(crate) fn appended_session_is_loaded_back(test_store: &dyn TestStore) {
    let store = test_store.open();
    assert_eq!(store.load("a").unwrap(), None);
    let first = session_change(None, "a", None);
    assert_eq!(store.append(&[append_unit(vec![first.clone()])]).unwrap(), [AppendOutcome::Done]);
    let loaded = store.load("a").unwrap().unwrap();
    assert_eq!((&loaded.head, &loaded.tail, loaded.state.len()), (&first.head, &first.records, 0));
    let second = session_change(Some(&first.head), "a", Some(b"state"));
    let third = session_change(Some(&second.head), "a", None);
    assert_eq!(store.append(&[append_unit(vec![second.clone()])]).unwrap(), [AppendOutcome::Done]);
    assert_eq!(store.append(&[append_unit(vec![third.clone()])]).unwrap(), [AppendOutcome::Done]);
    drop(store);
    let loaded = test_store.open().load("a").unwrap().unwrap();
    assert_eq!(loaded.head, third.head);
    assert_eq!(loaded.state, b"state");
    assert_eq!(loaded.tail, third.records);
    let found = test_store.open().records("a", 1, 2).unwrap();
    assert_eq!(found, [first.records, second.records].concat());
    assert!(test_store.open().records("b", 1, 2).unwrap().is_empty());
}

pub(crate) fn stale_change_is_rejected_without_effect(test_store: &dyn TestStore) {
    let store = test_store.open();
    let first = session_change(None, "a", None);
    store.append(&[append_unit(vec![first.clone()])]).unwrap();
    let again = session_change(None, "a", None);
    assert_eq!(
        store.append(&[append_unit(vec![again])]).unwrap(),
        [AppendOutcome::Stale],
        "it already exists"
    );
    let mut late = session_change(Some(&first.head), "a", None);
    late.head.rev += 5;
    assert_eq!(
        store.append(&[append_unit(vec![late])]).unwrap(),
        [AppendOutcome::Stale],
        "its revision is lower"
    );
    let absent = session_change(Some(&first.head), "b", None);
    assert_eq!(
        store.append(&[append_unit(vec![absent])]).unwrap(),
        [AppendOutcome::Stale],
        "it does not exist"
    );
    assert_eq!(store.load("a").unwrap().unwrap().head, first.head);
    assert_eq!(store.load("b").unwrap(), None);
}

pub(crate) fn append_unit_is_atomic(test_store: &dyn TestStore) {
    let store = test_store.open();
    let (parent, child) = (session_change(None, "parent", None), session_change(None, "child", None));
    store.append(&[append_unit(vec![parent.clone()]), append_unit(vec![child.clone()])]).unwrap();
    let moved = session_change(Some(&parent.head), "parent", None);
    store.append(&[append_unit(vec![moved.clone()])]).unwrap();
    for order in [false, true] {
        let mut both = vec![
            session_change(Some(&child.head), "child", None),
            session_change(Some(&parent.head), "parent", None),
        ];
        if order {
            both.reverse();
        }
        assert_eq!(store.append(&[append_unit(both)]).unwrap(), [AppendOutcome::Stale]);
        assert_eq!(store.load("child").unwrap().unwrap().head, child.head);
        assert_eq!(store.load("parent").unwrap().unwrap().head, moved.head);
    }
    let both = vec![
        session_change(Some(&child.head), "child", None),
        session_change(Some(&moved.head), "parent", None),
    ];
    assert_eq!(store.append(&[append_unit(both)]).unwrap(), [AppendOutcome::Done]);
}

pub(crate) fn stale_unit_does_not_block_others(test_store: &dyn TestStore) {
    let store = test_store.open();
    let first = session_change(None, "a", None);
    store.append(&[append_unit(vec![first.clone()])]).unwrap();
    let units = [
        append_unit(vec![session_change(None, "b", None)]),
        append_unit(vec![session_change(None, "a", None)]),
        append_unit(vec![session_change(None, "c", None)]),
    ];
    let outcomes = store.append(&units).unwrap();
    assert_eq!(outcomes, [AppendOutcome::Done, AppendOutcome::Stale, AppendOutcome::Done]);
    assert!(store.load("b").unwrap().is_some() && store.load("c").unwrap().is_some());
    assert_eq!(store.load("a").unwrap().unwrap().head, first.head);
}

pub(crate) fn lease_fences_older_epochs(test_store: &dyn TestStore) {
    let store = test_store.open();
    let first = session_change(None, "a", None);
    store.append(&[append_unit(vec![first])]).unwrap();
    let mine = store.lease("a", "me", 600_000).unwrap().unwrap();
    assert_eq!(store.lease("a", "you", 600_000).unwrap(), None, "another worker holds it");
    assert_eq!(
        store.lease("a", "me", 600_000).unwrap().unwrap().epoch,
        mine.epoch,
        "the holder gets the same lease"
    );
    assert!(store.renew_lease(&mine, 600_000).unwrap());
    assert_eq!(store.leases().unwrap(), std::slice::from_ref(&mine));
    let head = store.load("a").unwrap().unwrap().head;
    assert_eq!(head.epoch, mine.epoch);
    store.release_lease(&mine).unwrap();
    assert!(!store.renew_lease(&mine, 600_000).unwrap(), "it was released");
    let yours = store.lease("a", "you", 600_000).unwrap().unwrap();
    assert!(yours.epoch > mine.epoch);
    let stale = session_change(Some(&head), "a", None);
    assert_eq!(store.append(&[append_unit(vec![stale])]).unwrap(), [AppendOutcome::Fenced]);
    store.release_lease(&mine).unwrap();
    assert_eq!(store.leases().unwrap(), std::slice::from_ref(&yours));
    assert!(store.renew_lease(&yours, 0).unwrap(), "only the holder can release a lease");
    assert_eq!(store.leases().unwrap(), [], "expired");
    let next = store.lease("a", "me", 600_000).unwrap().unwrap();
    assert!(next.epoch > yours.epoch, "it expired at once");
}

pub(crate) fn events_since_returns_every_event_once_in_order(test_store: &dyn TestStore) {
    let store = test_store.open();
    assert_eq!(store.latest_cursor().unwrap(), StreamCursor::default(), "there is nothing yet");
    let mut heads: Vec<Option<SessionRow>> = vec![None; 3];
    let mut sent = Vec::new();
    for round in 0..10 {
        for (at, head) in heads.iter_mut().enumerate() {
            let change = session_change(head.as_ref(), &format!("s{at}"), (round % 3 == 0).then_some(b"x"));
            sent.push((change.head.session.clone(), change.head.seq));
            *head = Some(change.head.clone());
            store.append(&[append_unit(vec![change])]).unwrap();
        }
    }
    let mut seen = Vec::new();
    let mut cursor = StreamCursor::default();
    // An engine may wait for earlier transactions elsewhere on the server.
    let began = std::time::Instant::now();
    while seen.len() < sent.len() && began.elapsed().as_secs() < 30 {
        let entries = store.events_since(cursor, 7).unwrap();
        let Some(last) = entries.last() else { continue };
        assert!(entries.len() <= 7 && last.cursor > cursor);
        let sighted: Vec<_> = store.event_refs_since(cursor, entries.len()).unwrap();
        let alike = |(entry, sighted): (&StreamEntry, &EventRef)| {
            (entry.cursor, &entry.session, entry.record.seq)
                == (sighted.cursor, &sighted.session, sighted.seq)
        };
        assert!(sighted.len() == entries.len() && entries.iter().zip(&sighted).all(alike));
        cursor = last.cursor;
        seen.extend(entries.into_iter().map(|entry| (entry.session, entry.record.seq)));
    }
    assert_eq!(seen, sent);
    assert!(test_store.open().events_since(cursor, 7).unwrap().is_empty());
    assert_eq!(
        test_store.open().latest_cursor().unwrap(),
        cursor,
        "reading from the newest position yields only new events"
    );
}
