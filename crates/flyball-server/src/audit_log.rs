//! The audit log: operator actions, key changes, logins and refused requests.
//!
//! Entries are key-value entries shared by all servers of a store; their keys sort by time. An operator action is
//! written before it is executed, and its outcome is added afterwards. If a server dies in between, the entry has the
//! outcome `unknown`, and the session's events show what happened.

use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{AuthRole, ClientPeer, Principal, random_token};
use flyball::Decision;
use flyball_store::{AdminStore, KvEntry, Precondition, StoreError, StoreErrorKind};
use flyball_view::formatting::single_line;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use utoipa::ToSchema;

/// Namespace of the entries.
pub(crate) const AUDIT_NAMESPACE: &str = "audit";
/// Retention time, in milliseconds: 400 days.
const RETENTION_MS: u64 = 400 * 24 * 60 * 60 * 1000;
/// Maximum number of refusals recorded per minute, for known keys and for unknown callers. The rest are counted.
const MAX_REFUSALS_PER_MINUTE: [u32; 2] = [120, 60];
/// Maximum length of client-supplied text in an entry, in characters.
const MAX_TEXT_CHARS: usize = 500;

/// One entry of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditEntry {
    /// Time in milliseconds since 1970, by the store's clock.
    pub(crate) at: u64,
    /// Name of the key, `uid:1000` on the socket, or `unknown`.
    #[serde(rename = "who")]
    pub(crate) actor: String,
    /// Role of the caller, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<AuthRole>,
    /// `approve`, `deny`, `release`, `stop`, `say`, `key.created`, `key.revoked`, `login`, `proof` or `refused`.
    #[serde(rename = "what")]
    pub(crate) action: String,
    /// Details: the request, or the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "about")]
    pub(crate) detail: Option<String>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The reason the operator gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Origin: an address, or `socket, uid 1000`.
    pub(crate) from: String,
    /// The decision, or the error code; `unknown` if the server ended before the outcome was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
    /// Sequence number of the event in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// Number of earlier refusals that were only counted because of the rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "left_out")]
    pub(crate) suppressed: Option<u64>,
}

impl AuditEntry {
    /// An entry for an action of a principal.
    pub(crate) fn by(principal: &Principal) -> Self {
        let Principal { name, role, from, .. } = principal.clone();
        AuditEntry { actor: name, role: Some(role), from: from.to_string(), ..AuditEntry::default() }
    }

    /// Sets the action.
    pub(crate) fn action(mut self, action: &str) -> Self {
        action.clone_into(&mut self.action);
        self
    }

    /// Sets the details.
    pub(crate) fn detail(mut self, about: &str) -> Self {
        self.detail = Some(single_line(about, MAX_TEXT_CHARS));
        self
    }

    /// Sets the session and the reason.
    pub(crate) fn in_session(mut self, session: &str, why: Option<&str>) -> Self {
        self.session = Some(single_line(session, MAX_TEXT_CHARS));
        self.why = why.map(|why| single_line(why, MAX_TEXT_CHARS));
        self
    }
}

/// Writes an entry and returns its key.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn append(
    store: &dyn AdminStore,
    mut entry: AuditEntry,
) -> Result<(String, AuditEntry), StoreError> {
    entry.at = store.now()?;
    let word = random_token()?;
    let key = format!("{:016}-{}", entry.at, word.get(..12).unwrap_or(&word));
    store.kv_put(&kv_entry(&key, &entry)?, Precondition::Absent)?;
    Ok((key, entry))
}

fn kv_entry(key: &str, entry: &AuditEntry) -> Result<KvEntry, StoreError> {
    let text = serde_json::to_string(entry)
        .map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))?;
    let until = Some(entry.at.saturating_add(RETENTION_MS));
    Ok(KvEntry { namespace: AUDIT_NAMESPACE.to_owned(), key: key.to_owned(), value: text, expires_at: until })
}

/// An entry whose outcome is pending.
#[derive(Debug)]
pub(crate) struct PendingAuditEntry(String, AuditEntry);

/// Writes an entry before an operator action. If this fails, the action must not be executed.
///
/// # Errors
/// If it cannot be written.
pub(crate) async fn begin_entry(
    app: &SharedState,
    mut entry: AuditEntry,
) -> Result<PendingAuditEntry, ApiError> {
    entry.outcome = Some("unknown".to_owned());
    let written = move |app: &AppState| {
        app.purge_expired()?;
        append(app.store(), entry)
    };
    let (key, entry) = app.run_blocking(written).await?;
    Ok(PendingAuditEntry(key, entry))
}

/// Adds the outcome to an entry.
pub(crate) async fn finish_entry(
    app: &SharedState,
    open: PendingAuditEntry,
    outcome: &Result<Decision, ApiError>,
) {
    let PendingAuditEntry(key, mut entry) = open;
    match outcome {
        Ok(decision) => {
            entry.outcome = Some(decision.decision.as_str().to_owned());
            entry.seq = Some(decision.seq);
        }
        Err(problem) => entry.outcome = Some(problem.code.clone()),
    }
    let written = move |app: &AppState| app.store().kv_put(&kv_entry(&key, &entry)?, Precondition::Any);
    // If that fails, the entry says that the outcome is not known, and that is so.
    let _ = app.run_blocking(written).await;
}

/// Records an authentication or authorization failure, unless the rate limit is reached.
pub(crate) async fn record_refusal(
    app: &SharedState,
    who: Option<&Principal>,
    peer: ClientPeer,
    asked: &str,
    problem: &ApiError,
) {
    let Some(left_out) = app.refusal_limiter.try_record(who.is_some(), app.now()) else { return };
    let entry = who.map_or_else(
        || AuditEntry { actor: "unknown".to_owned(), from: peer.to_string(), ..AuditEntry::default() },
        AuditEntry::by,
    );
    let mut entry = entry.action("refused").detail(asked);
    entry.outcome = Some(problem.code.clone());
    entry.suppressed = Some(left_out).filter(|count| *count > 0);
    if app.run_blocking(move |app| append(app.store(), entry)).await.is_err() {
        app.refusal_limiter.add_suppressed(who.is_some(), left_out.saturating_add(1));
    }
}

/// Rate limiter for recorded refusals, separate for known keys and unknown callers.
#[derive(Debug, Default)]
pub(crate) struct RefusalLimiter([Mutex<RefusalWindow>; 2]);

#[derive(Debug, Default)]
struct RefusalWindow {
    minute: u64,
    recorded: u32,
    suppressed: u64,
}

impl RefusalLimiter {
    /// Whether another refusal may be recorded, and how many were suppressed before. Unknown callers have a separate
    /// limit.
    fn try_record(&self, known: bool, now: u64) -> Option<u64> {
        let [keys, strangers] = &self.0;
        let [most_keys, most_strangers] = MAX_REFUSALS_PER_MINUTE;
        let (count, most) = if known { (keys, most_keys) } else { (strangers, most_strangers) };
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now / 60_000;
        if count.minute != minute {
            (count.minute, count.recorded) = (minute, 0);
        }
        if count.recorded >= most {
            count.suppressed = count.suppressed.saturating_add(1);
            return None;
        }
        count.recorded += 1;
        Some(std::mem::take(&mut count.suppressed))
    }

    /// Counts refusals that could not be recorded.
    fn add_suppressed(&self, known: bool, more: u64) {
        let [keys, strangers] = &self.0;
        let count = if known { keys } else { strangers };
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        count.suppressed = count.suppressed.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    //! A flood of unknown callers does not suppress refusals of known keys.

    use super::{MAX_REFUSALS_PER_MINUTE, RefusalLimiter};

    #[test]
    fn unknown_callers_have_their_own_refusal_limit() {
        let refusals = RefusalLimiter::default();
        let recorded = (0..1_000).filter(|_| refusals.try_record(false, 5).is_some()).count();
        assert_eq!(recorded, MAX_REFUSALS_PER_MINUTE[1] as usize);
        assert_eq!(refusals.try_record(true, 5), Some(0));
        assert_eq!(refusals.try_record(false, 60_000), Some(1_000 - u64::from(MAX_REFUSALS_PER_MINUTE[1])));
    }
}
