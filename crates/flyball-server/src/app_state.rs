//! State shared by all handlers: the recorder, the event queue, and authentication.

use crate::api_error::ApiError;
use crate::audit_log::RefusalLimiter;
use crate::auth::{self, AllowedHostNames, ApiKeyStore, Principal, SessionOwners, SessionScope, UidRoles};
use crate::connections::{ConnectionLimits, Connections};
use crate::coverage::{CoverageMonitor, CoverageProbe};
use crate::event_ingest::EventIngest;
use crate::http_server::InFlightRequests;
use crate::key_limiter::{KeyLimiter, KeyLimits};
use crate::live::LiveFeed;
use crate::otlp::OtlpCollector;
use crate::page::{DashboardCounters, TicketCache};
use crate::runs::{RunService, WorkerConfig};
use crate::telemetry::Telemetry;
use crate::telemetry::log::{LogWriter, ServerLog, ServerLogStyle};
use axum::http::StatusCode;
use flyball::policy::Policy;
use flyball::{Decision, Error, PolicySource, SessionState};
use flyball_runner::engine::holder_is_gone;
use flyball_store::{
    AdminStore, ClaimPolicy, Recorder, RecorderOptions, RedactingParser, StoreError, Submission,
    WriterThreads,
};
use flyball_view::ActivityReader;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum number of concurrent blocking reads of the store.
const MAX_READERS: usize = 16;
/// Interval at which expired key-value entries are deleted, in milliseconds.
const PURGE_INTERVAL_MS: u64 = 10 * 60 * 1000;
/// Maximum number of requests that wait for a reader slot.
const MAX_READERS_WAITING: usize = 256;

/// Configuration of the server, built by `flyball serve`.
pub struct ServerConfig {
    /// Evaluates and records events.
    pub recorder: Arc<Recorder>,
    /// Returns the time in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// Capacity of the event queue.
    pub queue_capacity: usize,
    /// Host names that the server accepts in addition to local names; protects against DNS rebinding.
    pub hosts: Vec<String>,
    /// Roles of users on the Unix socket.
    pub uid_roles: UidRoles,
    /// Log format on stderr.
    pub log: ServerLogStyle,
    /// Collector for traces.
    pub otlp: Option<OtlpCollector>,
    /// Workflows that may be run, and the number of workers.
    pub worker_config: WorkerConfig,
    /// Checks where Flyball is armed.
    pub coverage_probe: Option<CoverageProbe>,
    /// Maximum age of a login's last key entry for approvals, releases and answers in a browser.
    pub proof_max_age: Duration,
    /// Limits on open connections that have not authenticated.
    pub connections: ConnectionLimits,
    /// Rate limits per key.
    pub key_limits: KeyLimits,
    /// Allows plain HTTP on a non-loopback address, for example behind a TLS proxy.
    pub insecure_http: bool,
}

/// State shared by all handlers.
pub struct AppState {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) parser: RedactingParser,
    pub(crate) clock: fn() -> Option<u64>,
    pub(crate) ingest: EventIngest,
    pub(crate) keys: ApiKeyStore,
    pub(crate) owners: SessionOwners,
    pub(crate) hosts: AllowedHostNames,
    pub(crate) uid_roles: UidRoles,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) live: LiveFeed,
    pub(crate) otlp: Option<OtlpCollector>,
    pub(crate) refusal_limiter: RefusalLimiter,
    /// When expired entries were last deleted.
    purged_at: AtomicU64,
    pub(crate) runs: Arc<RunService>,
    pub(crate) in_flight: InFlightRequests,
    pub(crate) dashboard_counters: DashboardCounters,
    pub(crate) tickets: TicketCache,
    pub(crate) coverage: CoverageMonitor,
    pub(crate) proof_max_age: Duration,
    /// Whether the server terminates TLS.
    pub(crate) tls: bool,
    /// Whether the server uses plain HTTP on a non-loopback address without `insecure_http`.
    pub(crate) exposed: bool,
    pub(crate) connections: Arc<Connections>,
    pub(crate) key_limiter: Arc<KeyLimiter>,
    readers: Arc<Semaphore>,
    readers_waiting: Arc<Semaphore>,
}

/// Shared handle of the state, as handlers get it.
pub(crate) type SharedState = Arc<AppState>;

impl AppState {
    /// Creates the state and starts the writer and log threads.
    ///
    /// # Errors
    /// If the policy is invalid.
    pub(crate) fn open(
        config: ServerConfig,
        tls: bool,
        exposed: bool,
    ) -> Result<(SharedState, WriterThreads, LogWriter), Error> {
        let connections = Arc::new(Connections::new(config.connections));
        let usage = Arc::new(KeyLimiter::new(config.key_limits));
        let ServerConfig {
            recorder,
            clock,
            queue_capacity: queue,
            hosts,
            uid_roles: uids,
            worker_config,
            log,
            otlp,
            coverage_probe,
            proof_max_age,
            ..
        } = config;
        let parser = RedactingParser::new(&recorder.policy().journal)?;
        let (log, log_writer) = ServerLog::open(log, clock);
        let telemetry = Arc::new(Telemetry::new(log));
        let (ingest, writers) = EventIngest::open(&recorder, queue, Arc::clone(&telemetry));
        let keys = ApiKeyStore::new(Arc::clone(recorder.store()));
        let app = AppState {
            parser,
            clock,
            ingest,
            keys,
            owners: SessionOwners::new(Arc::clone(recorder.store())),
            hosts: AllowedHostNames::new(hosts, tls),
            uid_roles: uids,
            telemetry,
            live: LiveFeed::default(),
            otlp,
            refusal_limiter: RefusalLimiter::default(),
            purged_at: AtomicU64::new(0),
            runs: Arc::new(RunService::new(worker_config, recorder.store())),
            in_flight: InFlightRequests::default(),
            dashboard_counters: DashboardCounters::default(),
            tickets: TicketCache::default(),
            coverage: CoverageMonitor::new(coverage_probe),
            proof_max_age,
            tls,
            exposed,
            connections,
            key_limiter: usage,
            recorder,
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            readers_waiting: Arc::new(Semaphore::new(MAX_READERS_WAITING)),
        };
        Ok((Arc::new(app), writers, log_writer))
    }

    /// Warnings shown on every page: missing coverage, and plain HTTP on a non-loopback address.
    pub(crate) fn warning_banner(&self) -> Markup {
        html! {
            (self.coverage.banner())
            @if self.exposed {
                p #plain-http .alarm role="alert" {
                    strong { "Plain HTTP on a network address: " }
                    "keys and sessions can be read and modified in transit. Start the server with "
                    code { "--tls-cert" } " and " code { "--tls-key" } "."
                }
            }
        }
    }

    /// Current time in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)().unwrap_or_default()
    }

    /// Runs blocking store access on a separate thread, so that async tasks never wait for the disk.
    ///
    /// # Errors
    /// If too many readers are waiting, or the work fails.
    pub(crate) async fn run_blocking<T: Send + 'static, E: Into<ApiError> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&AppState) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError> {
        let waits = Arc::clone(&self.readers_waiting).try_acquire_owned().map_err(|_| ApiError::busy())?;
        let slot = Arc::clone(&self.readers).acquire_owned().await.map_err(|_| ApiError::stopping())?;
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _held = (waits, slot);
            work(&app)
        });
        match done.await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => {
                let message = "internal server error";
                Err(ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    message,
                    "check the server's log",
                ))
            }
        }
    }

    /// The store, for reads outside the recorder.
    pub(crate) fn store(&self) -> &dyn AdminStore {
        self.recorder.store().as_ref()
    }

    /// A reader that computes session status as of now.
    ///
    /// # Errors
    /// If the leases cannot be read.
    pub(crate) fn activity_reader(&self) -> Result<ActivityReader<'_>, StoreError> {
        ActivityReader::new(self.store(), holder_is_gone(self.store()))
    }

    /// Whether a principal may see a session. May read the store.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn can_see(&self, who: &Principal, session: &str) -> Result<bool, ApiError> {
        match &who.scope {
            SessionScope::Own => Ok(self.owners.owner_of(session)?.is_some_and(|owner| owner == who.name)),
            _ => Ok(who.check_session(session).is_ok()),
        }
    }

    /// Rejects a session that the principal may not see. Another key's session gets the same error as a missing one.
    ///
    /// # Errors
    /// If it is not visible, or the store cannot be read.
    pub(crate) async fn require_visible(
        self: &Arc<Self>,
        who: &Principal,
        session: &str,
    ) -> Result<(), ApiError> {
        if who.scope != SessionScope::Own {
            return who.check_session(session);
        }
        let (asking, name) = (who.clone(), session.to_owned());
        let (seen, there) = self
            .run_blocking(move |app| {
                let seen = app.can_see(&asking, &name)?;
                Ok::<_, ApiError>((seen, seen || app.store().load(&name)?.is_some()))
            })
            .await?;
        if seen {
            return Ok(());
        }
        if there {
            let asked = "GET another key's session";
            crate::audit_log::record_refusal(self, Some(who), who.from, asked, &auth::not_your_session())
                .await;
        }
        Err(ApiError::unknown_session(session))
    }

    /// Rejects a session that the principal may not write to. A new session becomes theirs.
    ///
    /// # Errors
    /// If another key owns it, or the store fails.
    pub(crate) async fn require_writable(
        self: &Arc<Self>,
        who: &Principal,
        session: &str,
    ) -> Result<(), ApiError> {
        let (name, session) = (who.name.clone(), session.to_owned());
        let owned = self.run_blocking(move |app| app.owners.claim(&session, &name)).await?;
        if owned { Ok(()) } else { Err(auth::not_your_session()) }
    }

    /// Deletes expired entries, such as unused tickets and old audit entries, once per interval.
    ///
    /// # Errors
    /// If they cannot be deleted.
    pub(crate) fn purge_expired(&self) -> Result<(), StoreError> {
        let (now, last) = (self.now(), self.purged_at.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= PURGE_INTERVAL_MS;
        if due && self.purged_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.store().kv_delete_expired()?;
        }
        Ok(())
    }

    /// Parses an event and adds the sender as `principal`. An event that already has this field is rejected.
    ///
    /// # Errors
    /// If it is not a valid event.
    pub(crate) fn parse_event(&self, text: &str, principal: &str) -> Result<Submission, ApiError> {
        self.parse_event_with(text, &[("principal", principal)], None)
    }

    /// Parses an event with additional fields. An event that already has one of them is rejected. `claims` restricts
    /// the fields that an untrusted sender may set.
    ///
    /// # Errors
    /// If it is not a valid event.
    pub(crate) fn parse_event_with(
        &self,
        text: &str,
        fields: &[(&str, &str)],
        claims: Option<&ClaimPolicy<'_>>,
    ) -> Result<Submission, ApiError> {
        let Some(rest) = text.trim_start().strip_prefix('{') else {
            // Not an object: the parser reports the error.
            return Ok(self.parser.read(text, (self.clock)())?);
        };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        let mut whole = String::with_capacity(text.len() + 64 * fields.len());
        whole.push('{');
        for (place, (name, value)) in fields.iter().enumerate() {
            whole.push_str(if place == 0 { "" } else { "," });
            write_text(&mut whole, name);
            whole.push(':');
            write_text(&mut whole, value);
        }
        whole.push_str(comma);
        whole.push_str(rest);
        Ok(match claims {
            Some(claims) => self.parser.parse_untrusted(whole, (self.clock)(), claims)?,
            None => self.parser.parse_owned(whole, (self.clock)())?,
        })
    }

    /// A recorder under the policy that last applied to the session: an operator action must not change the rules.
    ///
    /// # Errors
    /// If the session does not exist or cannot be read.
    pub(crate) fn recorder_for(&self, session: &str) -> Result<Arc<Recorder>, ApiError> {
        let store = self.recorder.store();
        let loaded = store.load(session)?.filter(|loaded| loaded.head.seq > 0);
        let head = loaded.ok_or_else(|| ApiError::unknown_session(session))?.head;
        if head.policy == self.recorder.digest() {
            return Ok(Arc::clone(&self.recorder));
        }
        let Some(text) = store.policy(&head.policy)? else { return Ok(Arc::clone(&self.recorder)) };
        let kept = PolicySource::from_json(&text)?.with_journal(&self.recorder.policy().journal);
        Ok(Arc::new(Recorder::new(Arc::clone(store), kept, RecorderOptions::default())))
    }

    /// A session's state and its policy.
    ///
    /// # Errors
    /// If the session does not exist or cannot be read.
    pub(crate) fn session(&self, name: &str) -> Result<(SessionState, Policy), ApiError> {
        self.recorder_for(name)?.session(name)?.ok_or_else(|| ApiError::unknown_session(name))
    }

    /// Submits an operator action to an existing session, which `event` names.
    ///
    /// # Errors
    /// If the session does not exist, or the event is rejected.
    pub(crate) async fn submit_action(
        self: &Arc<Self>,
        event: &Value,
        principal: &str,
    ) -> Result<Decision, ApiError> {
        let began = std::time::Instant::now();
        let incoming = self.parse_event(&event.to_string(), principal)?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let by = principal.to_owned();
        let decision = self.run_blocking(move |app| {
            let session = incoming.event.session.clone();
            let recorder = app.recorder_for(&session)?;
            let decision = recorder.submit(incoming).map_err(ApiError::from)?;
            app.runs.on_person_event(&session, &kind, decision.decision, &by);
            Ok::<_, ApiError>(decision)
        });
        let decision = decision.await?;
        self.key_limiter.record_action(&decision);
        self.telemetry.record_decisions(began.elapsed(), &[Ok(decision.clone())]);
        self.ingest.notify_commit();
        Ok(decision)
    }
}

/// Appends a string as JSON.
fn write_text(out: &mut String, text: &str) {
    let plain = text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_text_matches_serde_json() {
        for text in ["", "a name", "é 日本", "a \"quote\"", "back\\slash", "line\nend", "\u{0}\u{1f} \u{7f}"]
        {
            let mut out = String::new();
            write_text(&mut out, text);
            assert_eq!(out, Value::from(text).to_string());
        }
    }
}
