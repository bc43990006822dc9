//! Key-value cases.

use crate::common::TestStore;
use flyball_store::{KvEntry, Precondition};

fn kv_entry(key: &str, text: &str, until: Option<u64>) -> KvEntry {
    KvEntry { namespace: "keys".to_owned(), key: key.to_owned(), value: text.to_owned(), expires_at: until }
}

pub(crate) fn kv_put_honors_precondition_and_take_is_exclusive(test_store: &dyn TestStore) {
    let store = test_store.open();
    assert!(store.kv_put(&kv_entry("a", "one", None), Precondition::Absent).unwrap());
    assert!(
        !store.kv_put(&kv_entry("a", "two", None), Precondition::Absent).unwrap(),
        "there is one already"
    );
    assert!(!store.kv_put(&kv_entry("a", "two", None), Precondition::Equals("three")).unwrap());
    assert!(
        !store.kv_put(&kv_entry("b", "two", None), Precondition::Equals("one")).unwrap(),
        "nothing was there"
    );
    assert_eq!(store.kv_get("keys", "a").unwrap(), Some(kv_entry("a", "one", None)));
    assert!(store.kv_put(&kv_entry("a", "two\0\u{1}", None), Precondition::Equals("one")).unwrap());
    assert!(store.kv_put(&kv_entry("b", "three", None), Precondition::Any).unwrap());
    let other = KvEntry { namespace: "tickets".to_owned(), ..kv_entry("a", "four", None) };
    assert!(store.kv_put(&other, Precondition::Absent).unwrap(), "another shelf");
    let elsewhere = test_store.open();
    let keys = |found: Vec<KvEntry>| found.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    assert_eq!(keys(elsewhere.kv_list("keys", "", 10).unwrap()), ["a", "b"]);
    assert_eq!(keys(elsewhere.kv_list("keys", "a", 10).unwrap()), ["b"]);
    assert_eq!(keys(elsewhere.kv_list("keys", "", 1).unwrap()), ["a"]);
    let taken: Vec<KvEntry> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| store.kv_take("keys", "a").unwrap())).collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken, [kv_entry("a", "two\0\u{1}", None)], "one gets it");
    assert_eq!(elsewhere.kv_get("keys", "a").unwrap(), None);
    assert_eq!(elsewhere.kv_get("tickets", "a").unwrap(), Some(other));
}

pub(crate) fn expired_kv_entry_is_absent(test_store: &dyn TestStore) {
    let store = test_store.open();
    let now = store.now().unwrap();
    let later = Some(now + 3_600_000);
    assert!(store.kv_put(&kv_entry("old", "one", Some(now)), Precondition::Absent).unwrap());
    assert!(store.kv_put(&kv_entry("fresh", "two", later), Precondition::Absent).unwrap());
    assert_eq!(store.kv_get("keys", "old").unwrap(), None);
    assert_eq!(store.kv_list("keys", "", 10).unwrap(), [kv_entry("fresh", "two", later)]);
    assert_eq!(store.kv_take("keys", "old").unwrap(), None);
    assert!(store.kv_put(&kv_entry("old", "three", Some(now)), Precondition::Any).unwrap());
    assert!(
        !store.kv_put(&kv_entry("old", "four", None), Precondition::Equals("three")).unwrap(),
        "void is as good as nothing"
    );
    assert!(store.kv_put(&kv_entry("old", "four", None), Precondition::Absent).unwrap());
    assert_eq!(store.kv_get("keys", "old").unwrap(), Some(kv_entry("old", "four", None)));
    store.kv_put(&kv_entry("gone", "five", Some(now)), Precondition::Any).unwrap();
    assert_eq!((store.kv_delete_expired().unwrap(), store.kv_delete_expired().unwrap()), (1, 0));
    assert_eq!(store.kv_list("keys", "", 10).unwrap().len(), 2);
}
