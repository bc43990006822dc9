//! `flyball token`: API keys of the server's agents and operators.

use crate::args::{RoleArg, TokenAction, TokenArgs};
use crate::caller_check;
use crate::clock;
use crate::error::{CliError, Exit, parse_age};
use crate::formatting::{format_table, local_time, relative_time, single_line};
use crate::store;
use flyball_server::{ApiKey, ApiKeyRequest, ApiKeyStore, AuthRole};
use serde_json::{Value, json};
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &TokenArgs) -> Result<Exit, CliError> {
    if !matches!(args.action, TokenAction::List { .. }) {
        caller_check::require_no_agent()?;
    }
    match &args.action {
        TokenAction::Create { name, role, sessions, all_sessions, expires, store, json } => {
            let ttl = expires.as_deref().map(|text| parse_age("--expires", text)).transpose()?;
            let keys = ApiKeyStore::new(store::store_address(store)?.open()?);
            let (role, sessions, all_sessions) = (to_role(*role), sessions.clone(), *all_sessions);
            let wanted = ApiKeyRequest { name, role, sessions, all_sessions, ttl_ms: ttl };
            let new = keys.create_requested(wanted)?;
            let mut out = crate::terminal::stdout();
            if *json {
                writeln!(out, "{}", json!(new))?;
            } else {
                writeln!(out, "{}", new.secret)?;
                // Only the key goes to stdout, so that a script can read it.
                let mut err = std::io::stderr().lock();
                let _ = writeln!(err, "This key is shown only once. Send it as `Authorization: Bearer …`.");
                let _ = writeln!(err, "Next: flyball token revoke {}, when it is no longer needed", new.id);
            }
        }
        TokenAction::List { store, json } => {
            let keys = ApiKeyStore::new(store::open(store)?).list()?;
            print_keys(&keys, *json)?;
        }
        TokenAction::Revoke { id, store } => {
            let taken = ApiKeyStore::new(store::open(store)?).revoke(id)?;
            let Some(key) = taken else {
                let what = format!("no key '{}'", single_line(id, 60));
                return Err(CliError::new("key_unknown", "", what, "list the ids with `flyball token list`"));
            };
            writeln!(
                crate::terminal::stdout(),
                "Revoked: {} ({}).",
                single_line(&key.name, 60),
                key.role.as_str()
            )?;
        }
    }
    Ok(Exit::Success)
}

fn to_role(role: RoleArg) -> AuthRole {
    match role {
        RoleArg::Agent => AuthRole::Agent,
        RoleArg::Host => AuthRole::Host,
        RoleArg::Channel => AuthRole::Channel,
        RoleArg::Operator => AuthRole::Operator,
        RoleArg::Admin => AuthRole::Admin,
    }
}

fn print_keys(keys: &[(String, ApiKey)], as_json: bool) -> Result<(), CliError> {
    let mut out = crate::terminal::stdout();
    if as_json {
        let all: Vec<Value> = keys.iter().map(|(id, key)| json!({"id": id, "key": key})).collect();
        writeln!(out, "{}", Value::Array(all))?;
        return Ok(());
    }
    if keys.is_empty() {
        writeln!(out, "No keys yet.")?;
        writeln!(out, "Next: flyball token create NAME --role operator")?;
        return Ok(());
    }
    let now = clock::now().unwrap_or_default();
    let row = |(id, key): &(String, ApiKey)| {
        vec![
            id.clone(),
            single_line(&key.name, 40),
            key.role.as_str().to_owned(),
            key.sessions.clone().unwrap_or_else(|| {
                let own = key.role < AuthRole::Channel && !key.all_sessions;
                if own { "own".to_owned() } else { "all".to_owned() }
            }),
            relative_time(key.created, now),
            key.expires.map_or_else(|| "never".to_owned(), local_time),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    for text in format_table(&["ID", "NAME", "ROLE", "SESSIONS", "CREATED", "EXPIRES"], &rows) {
        writeln!(out, "{text}")?;
    }
    Ok(())
}
