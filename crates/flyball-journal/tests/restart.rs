//! Nothing depends on the process: ended after every single event, a session decides the same, byte for byte.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test that is how a failure is told")]

mod kit;

use kit::{InFile, InMemory, Place, event, histories, on_server, recorder};

fn restarted_after_every_event(place: impl Fn(&str) -> Box<dyn Place>) {
    for (name, events, decisions) in histories() {
        let place = place(&name);
        for (at, (line, decided)) in events.iter().zip(&decisions).enumerate() {
            let recorder = recorder(place.open());
            let answer =
                recorder.submit(event(line)).unwrap_or_else(|error| panic!("{name}:{at}: {error:?}"));
            assert_eq!(&answer.to_json(), decided, "{name}:{}", at + 1);
        }
    }
}

#[test]
fn in_memory() {
    restarted_after_every_event(|_| Box::new(InMemory::new()));
}

#[test]
fn in_a_file() {
    restarted_after_every_event(|name| Box::new(InFile::new(name)));
}

#[test]
fn on_a_server() {
    let Some(place) = on_server() else { return };
    for (name, events, decisions) in histories() {
        for (at, (line, decided)) in events.iter().zip(&decisions).enumerate() {
            let answer = recorder(place.open()).submit(event(line)).unwrap();
            assert_eq!(&answer.to_json(), decided, "{name}:{}", at + 1);
        }
        place.empty();
    }
}

#[test]
fn in_one_batch() {
    for (name, events, decisions) in histories() {
        let place = InFile::new(&name);
        let answers = recorder(place.open()).submit_all(events.iter().map(|line| event(line)).collect());
        let answers: Vec<String> = answers.into_iter().map(|answer| answer.unwrap().to_json()).collect();
        assert_eq!(answers, decisions, "{name}");
        let again = recorder(place.open()).journal().verify(&mut |_| ()).unwrap();
        assert!(again.is_empty(), "{name}: {again:?}");
    }
}
