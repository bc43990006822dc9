//! The engine by itself: appends, fences, leases, the order of everything.

use crate::kit::Place;
use flyball::{Status, Verdict};
use flyball_journal::{
    Appended, Change, Cursor, Entry, Errand, ErrandState, Head, LabelChange, Record, RowChange, Sighting,
    Unit,
};

/// A change that adds one event to a session.
pub(crate) fn change(before: Option<&Head>, session: &str, snapshot: Option<&[u8]>) -> Change {
    let old = before.cloned().unwrap_or_else(|| Head { session: session.to_owned(), ..Head::default() });
    let seq = old.seq + 1;
    let mut record = Record {
        seq,
        at: Some(1_000 * seq),
        nonce: seq ^ u64::MAX,
        epoch: old.epoch,
        id: Some(format!("{session}-{seq}")),
        body: u64::MAX - seq,
        text: format!("{{\"type\":\"compaction\",\"session\":\"{session}\",\"n\":{seq}}}"),
        whole: true,
        decision: format!("{{\"seq\":{seq}}}"),
        verdict: Verdict::Allow,
        status: Status::Running,
        chain: [0; 16],
    };
    record.chain = record.chained(&old.chain);
    let head = Head {
        session: session.to_owned(),
        rev: old.rev + 1,
        epoch: old.epoch,
        seq,
        chain: record.chain,
        policy: "policy".to_owned(),
        snapshot: if snapshot.is_some() { seq } else { old.snapshot },
        started: 1_000,
        updated: 1_000 * seq,
        ..Head::default()
    };
    Change {
        seldom: true,
        new: before.is_none(),
        epoch: head.epoch,
        head,
        records: vec![record],
        snapshot: snapshot.map(<[u8]>::to_vec),
        row: RowChange::Keep,
        label: LabelChange::Keep,
        errands: Vec::new(),
    }
}

fn unit(changes: Vec<Change>) -> Unit {
    Unit { changes }
}

pub(crate) fn errand(session: &str, number: u64) -> Errand {
    Errand {
        key: format!("{session}/{number}/0/x"),
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: "x".to_owned(),
        payload: "{}".to_owned(),
        state: ErrandState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

pub(crate) fn what_was_appended_is_loaded(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.load("a").unwrap(), None);
    let first = change(None, "a", None);
    assert_eq!(store.append(&[unit(vec![first.clone()])]).unwrap(), [Appended::Done]);
    let loaded = store.load("a").unwrap().unwrap();
    assert_eq!((&loaded.head, &loaded.tail, loaded.state.len()), (&first.head, &first.records, 0));
    let second = change(Some(&first.head), "a", Some(b"state"));
    let third = change(Some(&second.head), "a", None);
    assert_eq!(store.append(&[unit(vec![second.clone()])]).unwrap(), [Appended::Done]);
    assert_eq!(store.append(&[unit(vec![third.clone()])]).unwrap(), [Appended::Done]);
    drop(store);
    let loaded = place.open().load("a").unwrap().unwrap();
    assert_eq!(loaded.head, third.head);
    assert_eq!(loaded.state, b"state");
    assert_eq!(loaded.tail, third.records);
    let found = place.open().records("a", 1, 2).unwrap();
    assert_eq!(found, [first.records, second.records].concat());
    assert!(place.open().records("b", 1, 2).unwrap().is_empty());
}

pub(crate) fn a_stale_change_is_refused_and_changes_nothing(place: &dyn Place) {
    let store = place.open();
    let first = change(None, "a", None);
    store.append(&[unit(vec![first.clone()])]).unwrap();
    let again = change(None, "a", None);
    assert_eq!(store.append(&[unit(vec![again])]).unwrap(), [Appended::Stale], "it is there already");
    let mut late = change(Some(&first.head), "a", None);
    late.head.rev += 5;
    assert_eq!(store.append(&[unit(vec![late])]).unwrap(), [Appended::Stale], "it has not come so far");
    let absent = change(Some(&first.head), "b", None);
    assert_eq!(store.append(&[unit(vec![absent])]).unwrap(), [Appended::Stale], "it is not there");
    assert_eq!(store.load("a").unwrap().unwrap().head, first.head);
    assert_eq!(store.load("b").unwrap(), None);
}

pub(crate) fn a_unit_is_stored_whole_or_not_at_all(place: &dyn Place) {
    let store = place.open();
    let (parent, child) = (change(None, "parent", None), change(None, "child", None));
    store.append(&[unit(vec![parent.clone()]), unit(vec![child.clone()])]).unwrap();
    let moved = change(Some(&parent.head), "parent", None);
    store.append(&[unit(vec![moved.clone()])]).unwrap();
    for order in [false, true] {
        let mut both =
            vec![change(Some(&child.head), "child", None), change(Some(&parent.head), "parent", None)];
        if order {
            both.reverse();
        }
        assert_eq!(store.append(&[unit(both)]).unwrap(), [Appended::Stale]);
        assert_eq!(store.load("child").unwrap().unwrap().head, child.head);
        assert_eq!(store.load("parent").unwrap().unwrap().head, moved.head);
    }
    let both = vec![change(Some(&child.head), "child", None), change(Some(&moved.head), "parent", None)];
    assert_eq!(store.append(&[unit(both)]).unwrap(), [Appended::Done]);
}

pub(crate) fn one_stale_unit_does_not_keep_the_others_back(place: &dyn Place) {
    let store = place.open();
    let first = change(None, "a", None);
    store.append(&[unit(vec![first.clone()])]).unwrap();
    let units = [
        unit(vec![change(None, "b", None)]),
        unit(vec![change(None, "a", None)]),
        unit(vec![change(None, "c", None)]),
    ];
    let outcomes = store.append(&units).unwrap();
    assert_eq!(outcomes, [Appended::Done, Appended::Stale, Appended::Done]);
    assert!(store.load("b").unwrap().is_some() && store.load("c").unwrap().is_some());
    assert_eq!(store.load("a").unwrap().unwrap().head, first.head);
}

pub(crate) fn a_lease_fences_by_epoch(place: &dyn Place) {
    let store = place.open();
    let first = change(None, "a", None);
    store.append(&[unit(vec![first])]).unwrap();
    let mine = store.lease("a", "me", 600_000).unwrap().unwrap();
    assert_eq!(store.lease("a", "you", 600_000).unwrap(), None, "somebody holds it");
    assert_eq!(store.lease("a", "me", 600_000).unwrap().unwrap().epoch, mine.epoch, "it is mine already");
    assert!(store.renew(&mine, 600_000).unwrap());
    assert_eq!(store.leases().unwrap(), std::slice::from_ref(&mine));
    let head = store.load("a").unwrap().unwrap().head;
    assert_eq!(head.epoch, mine.epoch);
    store.free(&mine).unwrap();
    assert!(!store.renew(&mine, 600_000).unwrap(), "it was given back");
    let yours = store.lease("a", "you", 600_000).unwrap().unwrap();
    assert!(yours.epoch > mine.epoch);
    let stale = change(Some(&head), "a", None);
    assert_eq!(store.append(&[unit(vec![stale])]).unwrap(), [Appended::Fenced]);
    store.free(&mine).unwrap();
    assert_eq!(store.leases().unwrap(), std::slice::from_ref(&yours));
    assert!(store.renew(&yours, 0).unwrap(), "another's lease is not mine to free");
    assert_eq!(store.leases().unwrap(), [], "expired");
    let next = store.lease("a", "me", 600_000).unwrap().unwrap();
    assert!(next.epoch > yours.epoch, "it ran out at once");
}

pub(crate) fn since_gives_every_event_once_and_in_order(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.newest().unwrap(), Cursor::default(), "there is nothing yet");
    let mut heads: Vec<Option<Head>> = vec![None; 3];
    let mut sent = Vec::new();
    for round in 0..10 {
        for (at, head) in heads.iter_mut().enumerate() {
            let change = change(head.as_ref(), &format!("s{at}"), (round % 3 == 0).then_some(b"x"));
            sent.push((change.head.session.clone(), change.head.seq));
            *head = Some(change.head.clone());
            store.append(&[unit(vec![change])]).unwrap();
        }
    }
    let mut seen = Vec::new();
    let mut cursor = Cursor::default();
    // An engine may wait for transactions that began earlier, somewhere else on the server.
    let began = std::time::Instant::now();
    while seen.len() < sent.len() && began.elapsed().as_secs() < 30 {
        let entries = store.since(cursor, 7).unwrap();
        let Some(last) = entries.last() else { continue };
        assert!(entries.len() <= 7 && last.cursor > cursor);
        let sighted: Vec<_> = store.sightings(cursor, entries.len()).unwrap();
        let alike = |(entry, sighted): (&Entry, &Sighting)| {
            (entry.cursor, &entry.session, entry.record.seq)
                == (sighted.cursor, &sighted.session, sighted.seq)
        };
        assert!(sighted.len() == entries.len() && entries.iter().zip(&sighted).all(alike));
        cursor = last.cursor;
        seen.extend(entries.into_iter().map(|entry| (entry.session, entry.record.seq)));
    }
    assert_eq!(seen, sent);
    assert!(place.open().since(cursor, 7).unwrap().is_empty());
    assert_eq!(
        place.open().newest().unwrap(),
        cursor,
        "whoever reads on from the newest gets what comes next"
    );
}
