//! `flyball token`: the keys of agents and people who ask the server.

use crate::args::{Role as Word, Token, TokenAct};
use crate::clock;
use crate::fail::{Exit, Failure};
use crate::person;
use crate::store;
use crate::words::{age, ago, line, moment, table};
use flyball_serve::{Key, KeyRequest, Keys, Role};
use serde_json::{Value, json};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &Token) -> Result<Exit, Failure> {
    if !matches!(args.what, TokenAct::List { .. }) {
        person::speaks_at_all()?;
    }
    match &args.what {
        TokenAct::Create { name, role, sessions, all_sessions, expires, store, json } => {
            let ttl = expires.as_deref().map(|text| age(text).ok_or_else(|| bad_age(text))).transpose()?;
            let keys = Keys::new(store::address(store)?.open()?);
            let (role, sessions, all_sessions) = (known(*role), sessions.clone(), *all_sessions);
            let wanted = KeyRequest { name, role, sessions, all_sessions, ttl_ms: ttl };
            let new = keys.create_requested(wanted)?;
            let mut out = crate::terminal::stdout();
            if *json {
                writeln!(out, "{}", json!(new))?;
            } else {
                writeln!(out, "{}", new.secret)?;
                // The key alone is the output, so that a script can take it.
                let mut err = std::io::stderr().lock();
                let _ = writeln!(err, "It is shown this once. Send it as `Authorization: Bearer …`.");
                let _ = writeln!(err, "Next: flyball token revoke {}, when it is no longer needed", new.id);
            }
        }
        TokenAct::List { store, json } => {
            let keys = Keys::new(store::open(store)?).list()?;
            print(&keys, *json)?;
        }
        TokenAct::Revoke { id, store } => {
            let taken = Keys::new(store::open(store)?).revoke(id)?;
            let Some(key) = taken else {
                let what = format!("there is no key '{}'", line(id, 60));
                return Err(Failure::new("key_unknown", "", what, "`flyball token list` has the ids"));
            };
            writeln!(
                crate::terminal::stdout(),
                "Taken back: {} ({}).",
                line(&key.name, 60),
                key.role.as_str()
            )?;
        }
    }
    Ok(Exit::Done)
}

fn known(role: Word) -> Role {
    match role {
        Word::Agent => Role::Agent,
        Word::Host => Role::Host,
        Word::Channel => Role::Channel,
        Word::Operator => Role::Operator,
        Word::Admin => Role::Admin,
    }
}

fn bad_age(text: &str) -> Failure {
    let what = format!("'{}' is not an age", line(text, 40));
    Failure::new("bad_age", "--expires", what, "write it like 30d, 12h or 90m")
}

fn print(keys: &[(String, Key)], as_json: bool) -> Result<(), Failure> {
    let mut out = crate::terminal::stdout();
    if as_json {
        let all: Vec<Value> = keys.iter().map(|(id, key)| json!({"id": id, "key": key})).collect();
        writeln!(out, "{}", Value::Array(all))?;
        return Ok(());
    }
    if keys.is_empty() {
        writeln!(out, "No key yet.")?;
        writeln!(out, "Next: flyball token create NAME --role operator")?;
        return Ok(());
    }
    let now = clock::now().unwrap_or_default();
    let row = |(id, key): &(String, Key)| {
        vec![
            id.clone(),
            line(&key.name, 40),
            key.role.as_str().to_owned(),
            key.sessions.clone().unwrap_or_else(|| {
                let own = key.role < Role::Channel && !key.all_sessions;
                if own { "own".to_owned() } else { "all".to_owned() }
            }),
            ago(key.created, now),
            key.expires.map_or_else(|| "never".to_owned(), moment),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    for text in table(&["ID", "NAME", "ROLE", "SESSIONS", "MADE", "ENDS"], &rows) {
        writeln!(out, "{text}")?;
    }
    Ok(())
}
