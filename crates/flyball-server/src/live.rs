//! Live events: one shared reader of the store, and listeners that consume at their own pace.
//!
//! New events are read once and broadcast. A listener that falls behind reads the store from its own cursor, so no
//! event is missed or duplicated. A listener that does not read holds at most one chunk in memory.

use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Principal, SessionScope};
use crate::telemetry::event_metrics::{self, EventMetrics};
use axum::body::Bytes;
use axum::http::StatusCode;
use flyball_store::{AdminStore, StoreError, StreamCursor, StreamEntry};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::Instant;

/// Interval at which the store is polled for events of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two reads, so that many commits are read together.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Delay after a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Number of events read at once.
const BATCH_EVENTS: usize = 256;
/// Number of event references read at once when the events are likely to be in memory.
const MAX_EVENT_REFS: usize = 1_024;
/// Number of events that a listener reads at once while catching up.
const CATCH_UP_EVENTS: usize = 32;
/// Maximum number of bytes it holds at once; the rest is read again after these are sent.
const CATCH_UP_BYTES: usize = 128 * 1024;
/// Number of batches kept for listeners; a listener further behind reads the store.
const BROADCAST_CAPACITY: usize = 16;
/// Maximum size of a broadcast batch; for a larger one only the cursor is broadcast.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// Interval between keep-alive comments on an idle stream.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum duration of a stream; then the client must authenticate again.
const MAX_STREAM_DURATION: Duration = Duration::from_secs(15 * 60);
/// Maximum number of listeners.
const MAX_LISTENERS: usize = 1_024;

/// One event, rendered for listeners.
#[derive(Debug)]
struct LiveEvent {
    cursor: StreamCursor,
    session: String,
    text: Bytes,
}

/// New events between two cursors.
#[derive(Debug)]
struct LiveBatch {
    from: StreamCursor,
    to: StreamCursor,
    /// The whole batch in one buffer, and the events in it; `None` if it is too large to broadcast.
    payload: Option<(Bytes, Vec<LiveEvent>)>,
}

/// The shared reader of the store.
#[derive(Debug)]
pub(crate) struct LiveFeed {
    batches: broadcast::Sender<Arc<LiveBatch>>,
    listener_slots: Arc<Semaphore>,
    /// Metrics over all events.
    pub(crate) metrics: EventMetrics,
}

impl Default for LiveFeed {
    fn default() -> Self {
        let (batches, _) = broadcast::channel(BROADCAST_CAPACITY);
        LiveFeed {
            batches,
            listener_slots: Arc::new(Semaphore::new(MAX_LISTENERS)),
            metrics: EventMetrics::default(),
        }
    }
}

impl LiveFeed {
    /// Number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        MAX_LISTENERS.saturating_sub(self.listener_slots.available_permits())
    }

    /// Whether the feed has no listeners.
    fn has_no_listeners(&self) -> bool {
        self.batches.receiver_count() == 0
    }

    fn publish(&self, (from, to): (StreamCursor, StreamCursor), entries: &[StreamEntry]) {
        if self.has_no_listeners() {
            return;
        }
        let bytes: usize =
            entries.iter().map(|entry| entry.record.text.len() + entry.record.decision_json.len()).sum();
        let payload = (bytes <= MAX_BATCH_BYTES).then(|| render_batch(entries));
        // An error means that the last listener has just left.
        let _ = self.batches.send(Arc::new(LiveBatch { from, to, payload }));
    }
}

/// Reads new events for as long as the server runs.
pub(crate) async fn run_feed(app: SharedState) {
    let mut commits = app.ingest.subscribe();
    let mut cursor = loop {
        match read_store(&app, |store| store.latest_cursor()).await {
            Ok(cursor) => break cursor,
            Err(error) => app.telemetry.log.error("live", error.kind.as_str(), &error.message),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    };
    app.live.metrics.start_at(cursor);
    tokio::spawn(count_history(Arc::clone(&app)));
    // Whether the next event is likely to be in memory.
    let mut in_memory = true;
    loop {
        let step = if in_memory && app.live.has_no_listeners() {
            count_recent(&app, cursor).await
        } else {
            read_batch(&app, cursor).await
        };
        match step {
            Ok(step) => {
                in_memory = step.to > cursor || step.reached_end;
                cursor = step.to;
                if step.reached_end || !in_memory {
                    tokio::time::sleep(MIN_POLL_INTERVAL).await;
                }
                if step.reached_end {
                    // An error means that the queue is closed and the server is shutting down.
                    let _ = tokio::time::timeout(POLL_INTERVAL, commits.changed()).await;
                }
            }
            Err(error) => {
                app.telemetry.log.error("live", error.kind.as_str(), &error.message);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Result of one read.
struct FeedStep {
    to: StreamCursor,
    /// Whether the end of the store was reached.
    reached_end: bool,
}

/// Counts recent decisions from memory, up to the first event that is not in memory.
async fn count_recent(app: &SharedState, from: StreamCursor) -> Result<FeedStep, StoreError> {
    let refs = read_store(app, move |store| store.event_refs_since(from, MAX_EVENT_REFS)).await?;
    let known = app.ingest.recent().take_first(&refs);
    let Some(last) = known.len().checked_sub(1).and_then(|last| refs.get(last)) else {
        return Ok(FeedStep { to: from, reached_end: refs.is_empty() });
    };
    let decided = known.iter().map(|(incoming, decision)| (&incoming.event, decision));
    app.live.metrics.add_new((from, last.cursor), decided);
    Ok(FeedStep { to: last.cursor, reached_end: known.len() < MAX_EVENT_REFS })
}

/// Reads new events, counts them, and broadcasts them to listeners.
async fn read_batch(app: &SharedState, from: StreamCursor) -> Result<FeedStep, StoreError> {
    let entries = read_store(app, move |store| store.events_since(from, BATCH_EVENTS)).await?;
    let all = entries.len() < BATCH_EVENTS;
    let Some(to) = entries.last().map(|last| last.cursor) else {
        return Ok(FeedStep { to: from, reached_end: all });
    };
    let known = |entry: &StreamEntry| {
        let recent = app.ingest.recent().take(&entry.session, entry.record.seq);
        recent
            .map(|(incoming, decision)| (incoming.event, decision))
            .or_else(|| event_metrics::parse_entry(entry))
    };
    let known: Vec<_> = entries.iter().filter_map(known).collect();
    app.live.metrics.add_new((from, to), known.iter().map(|(event, decision)| (event, decision)));
    app.live.publish((from, to), &entries);
    Ok(FeedStep { to, reached_end: all })
}

/// Counts events stored before the server started, until it reaches the position of the live reader.
async fn count_history(app: SharedState) {
    while let Some(cursor) = app.live.metrics.catch_up_cursor() {
        match read_store(&app, move |store| store.events_since(cursor, BATCH_EVENTS)).await {
            Ok(entries) => app.live.metrics.add_history(&entries),
            Err(error) => {
                app.telemetry.log.error("metrics", error.kind.as_str(), &error.message);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Reads the store outside the reader limit; each purpose has only one such task at a time.
async fn read_store<T: Send + 'static>(
    app: &AppState,
    work: impl FnOnce(&dyn AdminStore) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let store = Arc::clone(app.recorder.store());
    let done = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
    done.unwrap_or_else(|_| {
        Err(StoreError::new(flyball_store::StoreErrorKind::Io, "reading the store failed"))
    })
}

/// An event with its decision, as JSON.
pub(crate) fn event_json(session: &str, record: &flyball_store::EventRecord) -> String {
    let at = record.at.map_or(Value::Null, Value::from);
    let whole = format!(
        "{{\"session\":{},\"seq\":{},\"at\":{at},\"event\":{},\"decision\":{}}}",
        Value::from(session),
        record.seq,
        record.text,
        record.decision_json
    );
    // Raw line breaks occur only between JSON tokens, never inside strings.
    if whole.contains(['\n', '\r']) { whole.replace(['\n', '\r'], " ") } else { whole }
}

fn sse_event(entry: &StreamEntry) -> String {
    let data = event_json(&entry.session, &entry.record);
    format!("id: {}\nevent: decision\ndata: {data}\n\n", cursor_text(entry.cursor))
}

/// Renders events for listeners. The parts are slices of the whole buffer, without copies.
fn render_batch(entries: &[StreamEntry]) -> (Bytes, Vec<LiveEvent>) {
    let texts: Vec<String> = entries.iter().map(sse_event).collect();
    let whole = Bytes::from(texts.concat());
    let mut rest = whole.clone();
    let lines = entries.iter().zip(&texts).map(|(entry, text)| {
        let text = rest.split_to(text.len());
        LiveEvent { cursor: entry.cursor, session: entry.session.clone(), text }
    });
    let lines = lines.collect();
    (whole, lines)
}

fn cursor_text(cursor: StreamCursor) -> String {
    format!("{}-{}", cursor.transaction, cursor.position)
}

/// Parses a cursor.
///
/// # Errors
/// If it is malformed.
pub(crate) fn parse_cursor(text: &str) -> Result<StreamCursor, ApiError> {
    let parts = text.trim().split_once('-');
    let parts =
        parts.and_then(|(transaction, position)| Some((transaction.parse().ok()?, position.parse().ok()?)));
    let Some((transaction, position)) = parts else {
        let message = "invalid stream cursor";
        let help = "send the id of the last received event, or 0-0 for all events";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_cursor", message, help));
    };
    // No store has larger positions.
    let most = u64::from(u32::MAX) << 31;
    Ok(StreamCursor { transaction, position: most.min(position) })
}

/// The events that a listener wants and may see.
#[derive(Debug, Clone)]
pub(crate) struct LiveFilter {
    /// Only this session.
    pub(crate) session: Option<String>,
    /// Only sessions that this principal may see.
    pub(crate) principal: Principal,
}

impl LiveFilter {
    fn accepts_all(&self) -> bool {
        self.session.is_none() && self.principal.scope == SessionScope::All
    }

    /// Whether an event of a session is wanted. May read the store to find the owner.
    fn accepts(&self, app: &AppState, session: &str) -> Result<bool, ApiError> {
        Ok(self.session.as_ref().is_none_or(|own| own == session) && app.can_see(&self.principal, session)?)
    }

    /// The same without the store; `None` if only the store knows.
    fn accepts_cached(&self, app: &AppState, session: &str) -> Option<bool> {
        if self.session.as_ref().is_some_and(|own| own != session) {
            return Some(false);
        }
        match &self.principal.scope {
            SessionScope::All => Some(true),
            SessionScope::Prefix(prefix) => Some(session.starts_with(prefix.as_str())),
            SessionScope::Own => app.owners.cached(session, &self.principal.name),
        }
    }
}

/// A client of a live stream.
pub(crate) struct LiveListener {
    app: SharedState,
    filter: LiveFilter,
    /// Everything up to this cursor was sent.
    cursor: StreamCursor,
    batches: broadcast::Receiver<Arc<LiveBatch>>,
    closing: watch::Receiver<bool>,
    /// Whether the store has more events than were sent.
    behind: bool,
    expires_at: Instant,
    /// When the next keep-alive is due.
    next_keepalive: Instant,
    ready: std::collections::VecDeque<Bytes>,
    /// Limits concurrent reads per key.
    reads: Option<Arc<Semaphore>>,
    _slot: OwnedSemaphorePermit,
}

impl LiveListener {
    /// Starts after a cursor, or at the end of the store.
    ///
    /// # Errors
    /// If there are too many listeners, or the store cannot be read.
    pub(crate) async fn new(
        app: SharedState,
        filter: LiveFilter,
        after: Option<StreamCursor>,
        reads: Option<Arc<Semaphore>>,
    ) -> Result<Self, ApiError> {
        let Ok(slot) = Arc::clone(&app.live.listener_slots).try_acquire_owned() else {
            let message = format!("the server already has {MAX_LISTENERS} listeners");
            let help = "wait for the time in Retry-After, or use another server of the store";
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_listeners", message, help));
        };
        // Subscribe before reading the cursor, so that no event in between is missed.
        let batches = app.live.batches.subscribe();
        let cursor = match after {
            Some(cursor) => cursor,
            None => app.run_blocking(|app| app.store().latest_cursor()).await?,
        };
        let closing = app.telemetry.closing();
        let hello = format!("retry: 1000\nid: {}\n: connected\n\n", cursor_text(cursor));
        Ok(LiveListener {
            app,
            filter,
            cursor,
            batches,
            closing,
            behind: true,
            expires_at: Instant::now() + MAX_STREAM_DURATION,
            next_keepalive: Instant::now() + KEEPALIVE_INTERVAL,
            ready: [Bytes::from(hello)].into(),
            reads,
            _slot: slot,
        })
    }

    /// The next chunk; `None` at the end of the stream.
    pub(crate) async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if *self.closing.borrow() || Instant::now() >= self.expires_at {
                return None;
            }
            if let Some(chunk) = self.ready.pop_front() {
                self.next_keepalive = Instant::now() + KEEPALIVE_INTERVAL;
                return Some(chunk);
            }
            if Instant::now() >= self.next_keepalive {
                // Includes the cursor, so that a client that reconnects does not repeat the search.
                self.ready
                    .push_back(Bytes::from(format!("id: {}\n: keep-alive\n\n", cursor_text(self.cursor))));
                continue;
            }
            if self.behind {
                self.catch_up().await;
                continue;
            }
            tokio::select! {
                _ = self.closing.changed() => {}
                batch = self.batches.recv() => match batch {
                    Ok(batch) => self.receive(&batch),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(self.expires_at.min(self.next_keepalive)) => {}
            }
        }
    }

    async fn catch_up(&mut self) {
        // Catching up reads a lot, so the listeners of one key share its read permits.
        let _permit = match &self.reads {
            Some(reads) => Arc::clone(reads).acquire_owned().await.ok(),
            None => None,
        };
        let (cursor, filter) = (self.cursor, self.filter.clone());
        let read = move |app: &AppState| {
            let entries = app.store().events_since(cursor, CATCH_UP_EVENTS)?;
            let wanted = entries.iter().map(|entry| filter.accepts(app, &entry.session));
            let wanted = wanted.collect::<Result<Vec<bool>, ApiError>>()?;
            Ok::<_, ApiError>((entries, wanted))
        };
        match self.app.run_blocking(read).await {
            Ok((entries, wanted)) => {
                let mut held = 0;
                // At least one event, regardless of its size.
                let fits = |entry: &&StreamEntry| {
                    let fits = held < CATCH_UP_BYTES;
                    held += entry.record.text.len() + entry.record.decision_json.len();
                    fits
                };
                let some: Vec<&StreamEntry> = entries.iter().take_while(fits).collect();
                self.behind = entries.len() == CATCH_UP_EVENTS || some.len() < entries.len();
                self.cursor = some.last().map_or(cursor, |last| last.cursor);
                let wanted = some.into_iter().zip(wanted).filter(|(_, wanted)| *wanted);
                let text: String = wanted.map(|(entry, _)| sse_event(entry)).collect();
                if !text.is_empty() {
                    self.ready.push_back(Bytes::from(text));
                }
            }
            // Overloaded or store unavailable: retry later from the same cursor.
            Err(_) => {
                tokio::select! {
                    _ = self.closing.changed() => {}
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                }
            }
        }
    }

    fn receive(&mut self, batch: &LiveBatch) {
        if batch.to <= self.cursor {
            return;
        }
        let Some((whole, lines)) = batch.payload.as_ref().filter(|_| batch.from <= self.cursor) else {
            self.behind = true;
            return;
        };
        if batch.from == self.cursor && self.filter.accepts_all() {
            self.ready.push_back(whole.clone());
        } else {
            let cursor = self.cursor;
            let mut wanted = Vec::new();
            for line in lines.iter().filter(|line| line.cursor > cursor) {
                match self.filter.accepts_cached(&self.app, &line.session) {
                    Some(true) => wanted.push(line.text.clone()),
                    Some(false) => {}
                    // The owner is not cached: catch up from the store, which knows it.
                    None => {
                        self.behind = true;
                        return;
                    }
                }
            }
            self.ready.extend(wanted);
        }
        self.cursor = batch.to;
    }
}
