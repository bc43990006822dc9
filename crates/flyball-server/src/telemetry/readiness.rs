//! Readiness: writes a value to the store and reads it back. The result is cached for a second, so that probes put no
//! load on the store.

use crate::app_state::AppState;
use flyball_store::{AdminStore, KvEntry, Precondition};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Timeout of the round trip.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a result is cached.
const RESULT_TTL: Duration = Duration::from_secs(1);
/// Namespace of the test entry.
const KV_NAMESPACE: &str = "ready";
/// Lifetime of the test entry, in milliseconds.
const ENTRY_TTL_MS: u64 = 60_000;

/// The last result; an error code if the check failed.
type CachedReadiness = Option<(Instant, Result<(), &'static str>)>;

/// The readiness check and its cached result.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Arc<Mutex<CachedReadiness>>,
    /// Key of our test entry, so that servers on one store do not interfere.
    name: OnceLock<String>,
}

/// Checks whether the server is ready.
///
/// # Errors
/// An error code if it is not.
pub(crate) async fn check(app: &AppState) -> Result<(), &'static str> {
    if *app.telemetry.closing().borrow() {
        return Err("stopping");
    }
    let result = tokio::time::timeout(CHECK_TIMEOUT, cached_check(app)).await;
    result.unwrap_or(Err("store_timeout"))
}

/// One check runs at a time; while one hangs, the others time out.
async fn cached_check(app: &AppState) -> Result<(), &'static str> {
    let ready = &app.telemetry.readiness;
    let mut last = Arc::clone(&ready.last).lock_owned().await;
    if let Some((when, found)) = *last
        && when.elapsed() < RESULT_TTL
    {
        return found;
    }
    let store = Arc::clone(app.recorder.store());
    let name =
        ready.name.get_or_init(|| random_value().unwrap_or_else(|| std::process::id().to_string())).clone();
    let task = tokio::task::spawn_blocking(move || {
        let found = round_trip(store.as_ref(), &name);
        *last = Some((Instant::now(), found));
        found
    });
    task.await.unwrap_or(Err("internal"))
}

/// A random value.
fn random_value() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(blake3::hash(&bytes).to_hex().to_string())
}

fn round_trip(store: &dyn AdminStore, name: &str) -> Result<(), &'static str> {
    let wrong = |error: flyball_store::StoreError| error.kind.as_str();
    let value = random_value().ok_or("internal")?;
    let until = store.now().map_err(wrong)?.saturating_add(ENTRY_TTL_MS);
    let note = KvEntry {
        namespace: KV_NAMESPACE.to_owned(),
        key: name.to_owned(),
        value: value.clone(),
        expires_at: Some(until),
    };
    store.kv_put(&note, Precondition::Any).map_err(wrong)?;
    match store.kv_get(KV_NAMESPACE, name).map_err(wrong)? {
        Some(found) if found.value == value => Ok(()),
        _ => Err("store_not_durable"),
    }
}
