//! Exports spans to an OTLP collector. The store is the queue: a checkpoint entry shared by all servers holds the
//! position and a lease, one server sends, and another takes over if it fails. No request waits for the export.

use super::span_builder::SpanSubject;
use super::{ContentCapture, OtlpCollector, SpanBuilder, spans_document};
use crate::app_state::SharedState;
use crate::telemetry::Telemetry;
use flyball::{Event, EventKind};
use flyball_store::{
    AdminStore, EventRecord, KvEntry, Precondition, StoreError, StoreErrorKind, StreamCursor,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Namespace of the checkpoint.
const KV_NAMESPACE: &str = "otlp";
/// Duration of the export lease, in milliseconds of store time.
const LEASE_MS: u64 = 30_000;
/// Number of events sent together.
const BATCH_EVENTS: usize = 256;
/// Interval between checks for new events.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum delay after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Timeout for a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many events back the start of a span is searched.
const MAX_LOOKBACK_EVENTS: u64 = 128;

/// Export position and lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ExportCheckpoint {
    transaction: u64,
    position: u64,
    holder: String,
    until: u64,
}

/// Result of one export step.
enum ExportStep {
    /// Spans were sent; there may be more.
    More,
    /// Nothing to do.
    Idle,
    /// The collector was unreachable or overloaded.
    Retry,
}

/// Sends spans to a collector.
struct SpanExporter {
    store: Arc<dyn AdminStore>,
    telemetry: Arc<Telemetry>,
    agent: ureq::Agent,
    endpoint: String,
    /// Key of the checkpoint entry.
    key: String,
    holder: String,
    spans: SpanBuilder,
    content: ContentCapture,
    /// The checkpoint we wrote last.
    own_checkpoint: Option<ExportCheckpoint>,
    /// Spans not yet accepted, and the cursor after them.
    unsent: Option<(StreamCursor, Vec<Value>)>,
}

/// Exports spans for as long as the server runs, if a collector is configured.
pub(crate) fn start_exporter(app: &SharedState) {
    let Some(collector) = app.otlp.clone() else { return };
    let exporter = SpanExporter::new(app, &collector);
    let (mut commits, mut closing) = (app.ingest.subscribe(), app.telemetry.closing());
    tokio::spawn(async move {
        let mut exporter = exporter;
        let mut wait = POLL_INTERVAL;
        loop {
            let done = tokio::task::spawn_blocking(move || {
                let step = exporter.step();
                (exporter, step)
            });
            let Ok((back, step)) = done.await else { return };
            exporter = back;
            match step {
                ExportStep::More => wait = POLL_INTERVAL,
                ExportStep::Idle => {
                    wait = POLL_INTERVAL;
                    // Latency does not matter here, so events of a short interval are batched.
                    tokio::time::sleep(POLL_INTERVAL / 4).await;
                    tokio::select! {
                        _ = closing.changed() => {}
                        _ = tokio::time::timeout(POLL_INTERVAL, commits.changed()) => {}
                    }
                }
                ExportStep::Retry => {
                    tokio::select! {
                        _ = closing.changed() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(MAX_BACKOFF);
                }
            }
            if *closing.borrow() {
                return;
            }
        }
    });
}

impl SpanExporter {
    fn new(app: &SharedState, collector: &OtlpCollector) -> Self {
        let endpoint = collector.endpoint();
        let content = if collector.content { ContentCapture::Include } else { ContentCapture::Omit };
        let mut bytes = [0_u8; 16];
        // Without randomness, the process id is good enough as a name.
        let holder = match getrandom::fill(&mut bytes) {
            Ok(()) => blake3::hash(&bytes).to_hex().to_string(),
            Err(_) => std::process::id().to_string(),
        };
        let config =
            ureq::Agent::config_builder().timeout_global(Some(REQUEST_TIMEOUT)).http_status_as_error(false);
        SpanExporter {
            store: Arc::clone(app.recorder.store()),
            telemetry: Arc::clone(&app.telemetry),
            agent: config.build().into(),
            key: blake3::hash(endpoint.as_bytes()).to_hex().to_string(),
            endpoint,
            holder,
            spans: SpanBuilder::new(content),
            content,
            own_checkpoint: None,
            unsent: None,
        }
    }

    fn step(&mut self) -> ExportStep {
        match self.try_step() {
            Ok(step) => step,
            Err(error) => {
                self.telemetry.log.error("otlp", error.kind.as_str(), &error.message);
                ExportStep::Retry
            }
        }
    }

    fn try_step(&mut self) -> Result<ExportStep, StoreError> {
        let Some(cursor) = self.acquire_lease()? else { return Ok(ExportStep::Idle) };
        let (to, spans) = match self.unsent.take() {
            Some(unsent) => unsent,
            None => {
                let entries = self.store.events_since(cursor, BATCH_EVENTS)?;
                let Some(last) = entries.last() else { return Ok(ExportStep::Idle) };
                let store = Arc::clone(&self.store);
                let earlier = move |session: &str, seq: u64, subject: &SpanSubject| {
                    find_start(store.as_ref(), session, seq, subject)
                };
                let mut spans = Vec::new();
                for entry in &entries {
                    spans.extend(self.spans.push_event(&entry.session, &entry.record, &earlier));
                }
                (last.cursor, spans)
            }
        };
        let count = spans.len() as u64;
        match self.send(&spans) {
            Ok(true) => self.telemetry.metrics.spans_sent.add(count),
            Ok(false) => self.telemetry.metrics.spans_refused.add(count),
            Err(why) => {
                self.telemetry.metrics.span_retries.add(count);
                self.telemetry.log.error("otlp", "collector_unreachable", &why);
                self.unsent = Some((to, spans));
                return Ok(ExportStep::Retry);
            }
        }
        self.advance(to)?;
        Ok(ExportStep::More)
    }

    /// Acquires or renews the export lease and returns the cursor; `None` if another server holds it.
    fn acquire_lease(&mut self) -> Result<Option<StreamCursor>, StoreError> {
        let now = self.store.now()?;
        let Some(note) = self.store.kv_get(KV_NAMESPACE, &self.key)? else {
            // The first time: from now on.
            let place = self.store.latest_cursor()?;
            self.spans = SpanBuilder::new(self.content);
            self.unsent = None;
            return Ok(self.put_checkpoint(place, now, Precondition::Absent)?.then_some(place));
        };
        let known: ExportCheckpoint = serde_json::from_str(&note.value).map_err(|error| {
            StoreError::corrupt(format!("the note of the traces cannot be read: {error}"))
        })?;
        let cursor = StreamCursor { transaction: known.transaction, position: known.position };
        if known.holder != self.holder && known.until > now {
            return Ok(None);
        }
        if self.own_checkpoint.as_ref() != Some(&known) {
            // Another server, or an earlier process, has exported meanwhile.
            self.spans = SpanBuilder::new(self.content);
            self.unsent = None;
        } else if known.until > now.saturating_add(LEASE_MS / 2) {
            return Ok(Some(cursor));
        }
        Ok(self.put_checkpoint(cursor, now, Precondition::Equals(&note.value))?.then_some(cursor))
    }

    fn advance(&mut self, cursor: StreamCursor) -> Result<(), StoreError> {
        let Some(own) = &self.own_checkpoint else { return Ok(()) };
        let was = checkpoint_json(own)?;
        let now = self.store.now()?;
        // If it is no longer ours, another has sent the same spans: they have the same ids.
        self.put_checkpoint(cursor, now, Precondition::Equals(&was)).map(|_| ())
    }

    fn put_checkpoint(
        &mut self,
        cursor: StreamCursor,
        now: u64,
        only_if: Precondition<'_>,
    ) -> Result<bool, StoreError> {
        let StreamCursor { transaction, position } = cursor;
        let until = now.saturating_add(LEASE_MS);
        let checkpoint = ExportCheckpoint { transaction, position, holder: self.holder.clone(), until };
        let note = KvEntry {
            namespace: KV_NAMESPACE.to_owned(),
            key: self.key.clone(),
            value: checkpoint_json(&checkpoint)?,
            expires_at: None,
        };
        let done = self.store.kv_put(&note, only_if)?;
        self.own_checkpoint = done.then_some(checkpoint);
        Ok(done)
    }

    /// Whether the collector accepted the spans; an error if a retry may succeed.
    fn send(&self, spans: &[Value]) -> Result<bool, String> {
        if spans.is_empty() {
            return Ok(true);
        }
        let request = self.agent.post(&self.endpoint).header("Content-Type", "application/json");
        let response = request.send(spans_document(spans).to_string()).map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        match status {
            200..=299 => Ok(true),
            408 | 429 | 500.. => Err(format!("the collector returned status {status}")),
            _ => {
                let message =
                    format!("the collector returned status {status}; {} spans were dropped", spans.len());
                self.telemetry.log.error("otlp", "collector_refused", &message);
                Ok(false)
            }
        }
    }
}

fn checkpoint_json(checkpoint: &ExportCheckpoint) -> Result<String, StoreError> {
    serde_json::to_string(checkpoint).map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))
}

/// Finds the start of a call or turn in the store, for one that started before this process.
pub(super) fn find_start(
    store: &dyn AdminStore,
    session: &str,
    seq: u64,
    subject: &SpanSubject,
) -> Option<EventRecord> {
    let records =
        store.records(session, seq.saturating_sub(MAX_LOOKBACK_EVENTS).max(1), seq.saturating_sub(1)).ok()?;
    records.into_iter().rev().find(|record| {
        let Ok(event) = Event::from_json(&record.text) else { return false };
        match (&event.kind, subject) {
            (EventKind::ToolRequested { call, .. }, SpanSubject::Call(name)) => {
                !name.is_empty() && call.as_deref() == Some(name.as_str())
            }
            (EventKind::TurnStarted {}, SpanSubject::Turn(node)) => {
                event.node.as_deref().unwrap_or_default() == node
            }
            _ => false,
        }
    })
}
