//! Expiry of keys and logins.

use super::{ApiKeyStore, AuthRole};
use flyball_store::{AdminStore, MemoryStore};
use std::sync::Arc;

#[test]
fn login_ends_when_its_key_is_revoked() {
    let store: Arc<dyn AdminStore> = Arc::new(MemoryStore::default());
    let keys = ApiKeyStore::new(Arc::clone(&store));
    let anna = keys.create("anna", AuthRole::Operator, None, None).expect("a key");
    let cookie = keys.log_in(&anna.secret, true).expect("a store").expect("a login").cookie;
    assert!(keys.login(&cookie).expect("a store").is_some());
    keys.revoke(&anna.id).expect("a store");
    assert!(keys.login(&cookie).expect("a store").is_none(), "the browser login ends too");
    assert!(keys.log_in(&anna.secret, true).expect("a store").is_none());
    let audit: String =
        store.kv_list("audit", "", 10).expect("a store").into_iter().map(|note| note.value).collect();
    for what in ["key.created", "login", "key.revoked"] {
        assert!(audit.contains(what), "{audit}");
    }
    assert!(!audit.contains(&anna.secret), "the audit log contains no secret");
}

#[test]
fn login_link_works_once() {
    let keys = ApiKeyStore::new(Arc::new(MemoryStore::default()));
    let token = keys.create_login_link("first operator").expect("a link");
    let cookie = keys.log_in(&token, false).expect("a store").expect("a login").cookie;
    assert!(keys.log_in(&token, false).expect("a store").is_none(), "the link was already used");
    let key = keys.login(&cookie).expect("a store").expect("a login").key;
    assert_eq!((key.name.as_str(), key.role), ("first operator", AuthRole::Operator));
    keys.log_out(&cookie).expect("a store");
    assert!(keys.login(&cookie).expect("a store").is_none());
}

#[test]
fn only_the_login_key_counts_as_proof() {
    let keys = ApiKeyStore::new(Arc::new(MemoryStore::default()));
    let anna = keys.create("anna", AuthRole::Operator, None, None).expect("a key");
    let ben = keys.create("ben", AuthRole::Operator, None, None).expect("a key");
    let login = keys.log_in(&anna.secret, true).expect("a store").expect("a login");
    for (secret, right) in [(&ben.secret, false), (&login.cookie, false), (&anna.secret, true)] {
        assert_eq!(keys.prove(&login.cookie, secret).expect("a store"), right);
    }
    let first = keys.create_login_link("first operator").expect("a link");
    let login = keys.log_in(&first, true).expect("a store").expect("a login");
    let (again, other) = (
        keys.create_login_link("first operator").expect("a link"),
        keys.create_login_link("other").expect("a link"),
    );
    for (secret, right) in
        [(&first, false), (&anna.secret, false), (&other, false), (&again, true), (&again, false)]
    {
        assert_eq!(keys.prove(&login.cookie, secret).expect("a store"), right);
    }
    keys.revoke(&anna.id).expect("a store");
    assert!(!keys.prove("none", &anna.secret).expect("a store"));
}
