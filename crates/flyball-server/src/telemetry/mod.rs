//! Telemetry: metrics, log, readiness and the shutdown signal.

pub(crate) mod event_metrics;
pub(crate) mod log;
mod metrics_export;
mod outbox_workers;
pub(crate) mod readiness;
pub(crate) mod recent_decisions;
pub(crate) mod request_timer;
mod server_metrics;

pub(crate) use metrics_export::{as_json, as_text};
pub(crate) use outbox_workers::start_dispatchers;
pub(crate) use server_metrics::AtomicCounter;

use flyball_store::RecordResult;
use log::ServerLog;
use readiness::Readiness;
use server_metrics::ServerMetrics;
use std::time::Duration;
use tokio::sync::watch as flag;

/// All telemetry of the server.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) metrics: ServerMetrics,
    pub(crate) log: ServerLog,
    pub(crate) readiness: Readiness,
    closing: flag::Sender<bool>,
}

impl Telemetry {
    pub(crate) fn new(log: ServerLog) -> Self {
        Telemetry {
            metrics: ServerMetrics::default(),
            log,
            readiness: Readiness::default(),
            closing: flag::Sender::new(false),
        }
    }

    /// Signals shutdown and ends open streams.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// A receiver that changes at shutdown.
    pub(crate) fn closing(&self) -> flag::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Records the results of submitted events.
    pub(crate) fn record_decisions(&self, took: Duration, answers: &[RecordResult]) {
        self.metrics.decision_duration.record(took);
        for answer in answers {
            match answer {
                Ok(decision) => self.log.trips(decision),
                Err(flyball_store::RecordError::Store(error)) => {
                    self.log.error("store", error.kind.as_str(), &error.message);
                }
                Err(flyball_store::RecordError::Event(_)) => {}
            }
        }
    }
}
