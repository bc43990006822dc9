//! Outbox dispatchers: deliver effects in the background, so that no decision waits for a webhook. Servers of one
//! store share the outbox; each message is leased by one of them.

use crate::app_state::SharedState;
use flyball_store::{AdminStore, DispatchReport, FailpointHook, OutboxDispatcher, OutboxState, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Number of concurrent dispatchers, so that one slow receiver does not delay the others.
const DISPATCHERS: usize = 4;
/// Number of messages delivered before shutdown is checked again.
const BATCH_SIZE: usize = 8;
/// Poll interval for due retries and for messages of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two polls under load.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Delivers for as long as the server runs; does nothing if the policy configures no deliveries.
pub(crate) fn start_dispatchers(app: &SharedState) {
    let recorder = &app.recorder;
    let dispatcher = OutboxDispatcher::new(
        Arc::clone(recorder.store()),
        &recorder.policy().journal,
        FailpointHook::default(),
    );
    if dispatcher.has_no_deliveries() {
        return;
    }
    let dispatcher = Arc::new(dispatcher);
    for _ in 0..DISPATCHERS {
        tokio::spawn(run_dispatcher(Arc::clone(app), Arc::clone(&dispatcher)));
    }
}

async fn run_dispatcher(app: SharedState, dispatcher: Arc<OutboxDispatcher>) {
    let mut commits = app.ingest.subscribe();
    let mut closing = app.telemetry.closing();
    loop {
        let (own, store) = (Arc::clone(&dispatcher), Arc::clone(app.recorder.store()));
        let delivered = tokio::task::spawn_blocking(move || deliver_batch(&own, store.as_ref())).await;
        let more = match delivered {
            Ok(Ok(report)) => {
                let meters = &app.telemetry.metrics;
                meters.delivered.add(report.done);
                meters.delivery_retries.add(report.retried);
                meters.dead_deliveries.add(report.dead);
                report.done + report.retried + report.dead > 0
            }
            Ok(Err(error)) => {
                app.telemetry.log.error("deliveries", error.kind.as_str(), &error.message);
                false
            }
            Err(_) => false,
        };
        if *closing.borrow() {
            return;
        }
        if !more {
            tokio::time::sleep(MIN_POLL_INTERVAL).await;
            tokio::select! {
                _ = closing.changed() => {}
                _ = tokio::time::timeout(POLL_INTERVAL, commits.changed()) => {}
            }
        }
    }
}

/// Delivers a batch. Leasing a message is a write, so the outbox is checked for messages first.
fn deliver_batch(
    dispatcher: &OutboxDispatcher,
    store: &dyn AdminStore,
) -> Result<DispatchReport, StoreError> {
    match store.outbox_count(OutboxState::Waiting)? {
        0 => Ok(DispatchReport::default()),
        _ => dispatcher.deliver_due(BATCH_SIZE),
    }
}
