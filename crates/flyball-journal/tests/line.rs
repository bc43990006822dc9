//! The line in front of a recorder: everybody who is let in is answered, in order and on the disk; the others are
//! refused at once.

#![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

mod kit;

use flyball_journal::{Answer, Committers, Incoming, Line, LineOptions, Parcel, Refusal, Turned};
use kit::{InFile, InMemory, Place, event, histories, on_server, recorder};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn parcel(session: &str, number: u64) -> Parcel {
    event(&format!(
        r#"{{"type":"tool.requested","session":"{session}","id":"{number}","at":{number},"call":"c{number}","tool":"read","args":{{"n":{number}}}}}"#
    ))
    .into()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn seqs(answers: Result<Vec<Answer>, Turned>) -> Vec<u64> {
    answers.unwrap().into_iter().map(|answer| answer.unwrap().seq).collect()
}

fn over(place: &dyn Place, options: LineOptions) -> (Line, Committers) {
    Line::open(&Arc::new(recorder(place.open())), options)
}

/// Clients of which each waits for its answer before it goes on: no event is lost, doubled or out of order.
fn many_at_once(place: &dyn Place, groups: usize) {
    const CLIENTS: u64 = 40;
    const EVENTS: u64 = 25;
    let (line, committers) = over(place, LineOptions { groups, ..LineOptions::default() });
    let line = Arc::new(line);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|client| {
            let line = Arc::clone(&line);
            runtime.spawn(async move {
                for number in 1..=EVENTS {
                    let answer = line.submit_one(parcel(&format!("s{client}"), number)).await.unwrap();
                    assert_eq!(answer.unwrap().seq, number);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| runtime.block_on(client).unwrap());
    assert_eq!(line.waiting(), 0, "whoever was answered has left");
    drop(line);
    committers.finish(LONG);
    let store = place.open();
    for client in 1..=CLIENTS {
        let stored = store.records(&format!("s{client}"), 1, EVENTS + 1).unwrap();
        assert_eq!(stored.len() as u64, EVENTS);
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_empty());
}

#[test]
fn many_at_once_in_a_file() {
    [1, 2, 3].into_iter().for_each(|groups| many_at_once(&InFile::new("line"), groups));
}

#[test]
fn many_at_once_in_memory() {
    many_at_once(&InMemory::new(), 2);
}

#[test]
fn many_at_once_on_a_server() {
    let Some(place) = on_server() else { return };
    many_at_once(&place, 2);
}

#[test]
fn every_history_is_decided_as_without_a_line() {
    for (name, events, decisions) in histories() {
        let place = InFile::new(&name);
        let (line, _committers) = Line::open(&Arc::new(recorder(place.open())), LineOptions::default());
        let answers = run(async {
            let mut answers = Vec::new();
            for line_of_json in &events {
                answers.push(line.submit_one(event(line_of_json).into()).await.unwrap().unwrap().to_json());
            }
            answers
        });
        assert_eq!(answers, decisions, "{name}");
    }
}

#[test]
fn whoever_finds_no_room_is_refused_and_nothing_is_taken() {
    let (line, _committers) = over(&InMemory::new(), LineOptions { places: 2, ..LineOptions::default() });
    assert_eq!((line.length(), line.waiting(), line.has_room()), (2, 0, true));
    let three = (1..=3).map(|number| parcel("s", number)).collect();
    assert_eq!(run(line.submit(three)), Err(Turned::Full));
    let two = (1..=2).map(|number| parcel("s", number)).collect();
    assert_eq!(seqs(run(line.submit(two))), [1, 2], "the refused ones were not counted");
    assert_eq!(run(line.submit(Vec::new())), Ok(Vec::new()));
    assert_eq!(seqs(run(line.submit(vec![parcel("s", 3)]))), [3]);
}

#[test]
fn a_wrong_event_is_refused_alone() {
    let (line, _committers) = over(&InFile::new("wrong"), LineOptions::default());
    let again = Incoming::read(r#"{"type":"turn.started","session":"s","id":"1","at":1}"#, None).unwrap();
    let answers = run(line.submit(vec![parcel("s", 1), again.into(), parcel("s", 2)])).unwrap();
    let told: Vec<Option<u64>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(|decision| decision.seq)).collect();
    assert_eq!(told, [Some(1), None, Some(2)]);
    assert!(matches!(&answers[1], Err(Refusal::Event(error)) if error.code == flyball::Code::EventConflict));
}

#[test]
fn a_witness_is_told_before_those_who_asked() {
    let seen: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let store = Arc::clone(&seen);
    let place = InFile::new("witness");
    let recorder = Arc::new(recorder(place.open()));
    let (line, _committers) = Line::witnessed(&recorder, LineOptions::default(), move |decided| {
        store
            .lock()
            .unwrap()
            .extend(decided.map(|(event, decision)| (event.event.session.clone(), decision.seq)));
    });
    for number in 1..=3 {
        run(line.submit_one(parcel("s", number))).unwrap().unwrap();
        assert_eq!(seen.lock().unwrap().last(), Some(&("s".to_owned(), number)));
    }
}

#[test]
fn a_closed_line_lets_go_of_the_recorder() {
    let place = InFile::new("closed");
    let recorder = Arc::new(recorder(place.open()));
    let (line, committers) = Line::open(&recorder, LineOptions::default());
    run(line.submit_one(parcel("s", 1))).unwrap().unwrap();
    drop(line);
    committers.finish(LONG);
    assert_eq!(Arc::strong_count(&recorder), 1, "its threads have ended");
}

#[test]
fn nothing_to_decide_holds_nobody_up() {
    let place = InFile::new("nothing");
    let recorder = recorder(place.open());
    assert_eq!(recorder.submit_all(Vec::new()), []);
    assert_eq!(recorder.submit(*parcel("s", 1)).unwrap().seq, 1);
}
