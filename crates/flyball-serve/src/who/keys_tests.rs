//! Keys and logins end when they should.

use super::{Keys, Role};
use flyball_journal::{Desk, Memory};
use std::sync::Arc;

#[test]
fn a_login_ends_with_the_key_that_it_was_made_with_and_is_noted() {
    let desk: Arc<dyn Desk> = Arc::new(Memory::default());
    let keys = Keys::new(Arc::clone(&desk));
    let anna = keys.create("anna", Role::Operator, None, None).expect("a key");
    let cookie = keys.log_in(&anna.secret, true).expect("a store").expect("a login").cookie;
    assert!(keys.login(&cookie).expect("a store").is_some());
    keys.revoke(&anna.id).expect("a store");
    assert!(keys.login(&cookie).expect("a store").is_none(), "the browser is out, too");
    assert!(keys.log_in(&anna.secret, true).expect("a store").is_none());
    let told: String =
        desk.notes("audit", "", 10).expect("a store").into_iter().map(|note| note.text).collect();
    for what in ["key.created", "login", "key.revoked"] {
        assert!(told.contains(what), "{told}");
    }
    assert!(!told.contains(&anna.secret), "a secret is in no log");
}

#[test]
fn a_link_lets_one_browser_in_once() {
    let keys = Keys::new(Arc::new(Memory::default()));
    let word = keys.link("first operator").expect("a link");
    let cookie = keys.log_in(&word, false).expect("a store").expect("a login").cookie;
    assert!(keys.log_in(&word, false).expect("a store").is_none(), "it was used");
    let key = keys.login(&cookie).expect("a store").expect("a login").key;
    assert_eq!((key.name.as_str(), key.role), ("first operator", Role::Operator));
    keys.log_out(&cookie).expect("a store");
    assert!(keys.login(&cookie).expect("a store").is_none());
}

#[test]
fn only_the_key_of_a_login_proves_it_again() {
    let keys = Keys::new(Arc::new(Memory::default()));
    let anna = keys.create("anna", Role::Operator, None, None).expect("a key");
    let ben = keys.create("ben", Role::Operator, None, None).expect("a key");
    let login = keys.log_in(&anna.secret, true).expect("a store").expect("a login");
    for (secret, right) in [(&ben.secret, false), (&login.cookie, false), (&anna.secret, true)] {
        assert_eq!(keys.prove(&login.cookie, secret).expect("a store"), right);
    }
    let first = keys.link("first operator").expect("a link");
    let login = keys.log_in(&first, true).expect("a store").expect("a login");
    let (again, other) = (keys.link("first operator").expect("a link"), keys.link("other").expect("a link"));
    for (secret, right) in
        [(&first, false), (&anna.secret, false), (&other, false), (&again, true), (&again, false)]
    {
        assert_eq!(keys.prove(&login.cookie, secret).expect("a store"), right);
    }
    keys.revoke(&anna.id).expect("a store");
    assert!(!keys.prove("none", &anna.secret).expect("a store"));
}
