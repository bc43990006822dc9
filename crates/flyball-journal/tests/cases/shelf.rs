//! Notes that everybody on a store shares.

use crate::kit::Place;
use flyball_journal::{If, Note};

fn note(key: &str, text: &str, until: Option<u64>) -> Note {
    Note { shelf: "keys".to_owned(), key: key.to_owned(), text: text.to_owned(), until }
}

pub(crate) fn a_note_is_put_on_a_condition_and_taken_by_one(place: &dyn Place) {
    let store = place.open();
    assert!(store.put(&note("a", "one", None), If::New).unwrap());
    assert!(!store.put(&note("a", "two", None), If::New).unwrap(), "there is one already");
    assert!(!store.put(&note("a", "two", None), If::Was("three")).unwrap());
    assert!(!store.put(&note("b", "two", None), If::Was("one")).unwrap(), "nothing was there");
    assert_eq!(store.note("keys", "a").unwrap(), Some(note("a", "one", None)));
    assert!(store.put(&note("a", "two\0\u{1}", None), If::Was("one")).unwrap());
    assert!(store.put(&note("b", "three", None), If::Any).unwrap());
    let other = Note { shelf: "tickets".to_owned(), ..note("a", "four", None) };
    assert!(store.put(&other, If::New).unwrap(), "another shelf");
    let elsewhere = place.open();
    let keys = |found: Vec<Note>| found.into_iter().map(|note| note.key).collect::<Vec<_>>();
    assert_eq!(keys(elsewhere.notes("keys", "", 10).unwrap()), ["a", "b"]);
    assert_eq!(keys(elsewhere.notes("keys", "a", 10).unwrap()), ["b"]);
    assert_eq!(keys(elsewhere.notes("keys", "", 1).unwrap()), ["a"]);
    let taken: Vec<Note> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| store.take("keys", "a").unwrap())).collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken, [note("a", "two\0\u{1}", None)], "one gets it");
    assert_eq!(elsewhere.note("keys", "a").unwrap(), None);
    assert_eq!(elsewhere.note("tickets", "a").unwrap(), Some(other));
}

pub(crate) fn a_note_that_is_void_is_not_there(place: &dyn Place) {
    let store = place.open();
    let now = store.now().unwrap();
    let later = Some(now + 3_600_000);
    assert!(store.put(&note("old", "one", Some(now)), If::New).unwrap());
    assert!(store.put(&note("fresh", "two", later), If::New).unwrap());
    assert_eq!(store.note("keys", "old").unwrap(), None);
    assert_eq!(store.notes("keys", "", 10).unwrap(), [note("fresh", "two", later)]);
    assert_eq!(store.take("keys", "old").unwrap(), None);
    assert!(store.put(&note("old", "three", Some(now)), If::Any).unwrap());
    assert!(!store.put(&note("old", "four", None), If::Was("three")).unwrap(), "void is as good as nothing");
    assert!(store.put(&note("old", "four", None), If::New).unwrap());
    assert_eq!(store.note("keys", "old").unwrap(), Some(note("old", "four", None)));
    store.put(&note("gone", "five", Some(now)), If::Any).unwrap();
    assert_eq!((store.sweep().unwrap(), store.sweep().unwrap()), (1, 0));
    assert_eq!(store.notes("keys", "", 10).unwrap().len(), 2);
}
