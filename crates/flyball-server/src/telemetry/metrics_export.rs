//! Metrics in the Prometheus text format and as JSON.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use flyball::metrics::MetricFamily;
use flyball_store::OutboxState;
use serde_json::{Value, json};

/// Number of pending and dead outbox messages.
fn outbox_counts(app: &AppState) -> Result<(u64, u64), ApiError> {
    let store = app.store();
    Ok((store.outbox_count(OutboxState::Waiting)?, store.outbox_count(OutboxState::Dead)?))
}

/// All metrics in the Prometheus text format.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn as_text(app: &AppState) -> Result<String, ApiError> {
    let (waiting, dead) = outbox_counts(app)?;
    let (mut text, complete) =
        app.live.metrics.inspect(|counts, complete| (counts.to_prometheus(), complete));
    let mut gauge =
        |name, help, value: u64| MetricFamily::begin(&mut text, name, "gauge", help).sample(&[], value);
    gauge("history_counted", "1 once all stored events are counted, 0 until then.", u64::from(complete));
    gauge("events_waiting", "Queued events.", app.ingest.queued() as u64);
    gauge("events_waiting_limit", "Capacity of the event queue.", app.ingest.capacity() as u64);
    gauge("live_listeners", "Clients of live event streams.", app.live.listeners() as u64);
    let (connections, limits) = (&app.connections, app.connections.limits());
    gauge(
        "unauthenticated_connections",
        "Open unauthenticated connections.",
        connections.unauthenticated() as u64,
    );
    gauge(
        "unauthenticated_connections_limit",
        "Maximum number of open unauthenticated connections.",
        limits.unauthenticated as u64,
    );
    gauge("outbox_waiting", "Pending deliveries.", waiting);
    gauge(
        "coverage_missing",
        "Places where Flyball was armed and is missing now.",
        app.coverage.missing_count() as u64,
    );
    gauge("outbox_dead", "Deliveries that were given up after all retries.", dead);
    write_counters(app, &mut text);
    let mut family = MetricFamily::begin(&mut text, "build_info", "gauge", "The version of the server.");
    family.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    Ok(text)
}

/// Counters and histograms of the server.
fn write_counters(app: &AppState, text: &mut String) {
    let (meters, connections) = (&app.telemetry.metrics, &app.connections);
    let mut counter =
        |name, help, value: u64| MetricFamily::begin(text, name, "counter", help).sample(&[], value);
    counter("overload_refusals_total", "Requests refused with 429.", meters.overloads.get());
    counter(
        "log_lines_dropped_total",
        "Log lines dropped because the queue was full.",
        app.telemetry.log.dropped(),
    );
    let help = "Unauthenticated connections closed to make room or after a timeout.";
    let mut family = MetricFamily::begin(text, "unauthenticated_connections_closed_total", "counter", help);
    family.sample(&[("cause", "room")], connections.displaced.get());
    family.sample(&[("cause", "timeout")], connections.timed_out.get());
    let help = "Requests refused because a key exceeded a limit, by limit.";
    let mut family = MetricFamily::begin(text, "key_limit_refusals_total", "counter", help);
    for (limit, count) in app.key_limiter.refusals() {
        family.sample(&[("limit", limit)], count);
    }
    let help = "Deliveries by this server, by outcome.";
    let mut family = MetricFamily::begin(text, "deliveries_total", "counter", help);
    family.sample(&[("outcome", "done")], meters.delivered.get());
    family.sample(&[("outcome", "retried")], meters.delivery_retries.get());
    family.sample(&[("outcome", "dead")], meters.dead_deliveries.get());
    let help = "Spans by outcome; each retry is counted.";
    let mut family = MetricFamily::begin(text, "otlp_spans_total", "counter", help);
    family.sample(&[("outcome", "sent")], meters.spans_sent.get());
    family.sample(&[("outcome", "refused")], meters.spans_refused.get());
    family.sample(&[("outcome", "retried")], meters.span_retries.get());
    let help = "Requests by route, method and status.";
    let mut family = MetricFamily::begin(text, "http_requests_total", "counter", help);
    for (labels, count) in meters.requests() {
        let status = labels.status.to_string();
        family.sample(&[("route", &labels.route), ("method", labels.method), ("status", &status)], count);
    }
    let help = "Time until the response starts.";
    meters.request_duration.write_prometheus(&mut MetricFamily::begin(
        text,
        "http_request_duration_seconds",
        "histogram",
        help,
    ));
    let help = "Time from queueing an event to a durable decision.";
    meters.decision_duration.write_prometheus(&mut MetricFamily::begin(
        text,
        "decision_duration_seconds",
        "histogram",
        help,
    ));
}

/// Limits per key and the number of refusals per limit.
fn key_limits(app: &AppState) -> Value {
    let limits = app.key_limiter.limits();
    let refused: std::collections::BTreeMap<&str, u64> = app.key_limiter.refusals().collect();
    json!({
        "sessions_per_day": limits.sessions_per_day,
        "listeners": limits.listeners,
        "pending_plans": limits.pending_plans,
        "bytes_per_day": limits.bytes_per_day,
        "reads": limits.reads,
        "refused": refused,
    })
}

/// All metrics as JSON.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn as_json(app: &AppState) -> Result<Value, ApiError> {
    let (waiting, dead) = outbox_counts(app)?;
    let meters = &app.telemetry.metrics;
    let request = |(labels, count): (super::server_metrics::RequestLabels, u64)| json!({"route": labels.route, "method": labels.method, "status": labels.status, "count": count});
    let requests: Vec<Value> = meters.requests().into_iter().map(request).collect();
    let server = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "events_waiting": app.ingest.queued(),
        "events_waiting_limit": app.ingest.capacity(),
        "overload_refusals": meters.overloads.get(),
        "log_lines_dropped": app.telemetry.log.dropped(),
        "live_listeners": app.live.listeners(),
        "key_limits": key_limits(app),
        "unauthenticated_connections": {
            "open": app.connections.unauthenticated(),
            "limit": app.connections.limits().unauthenticated,
            "limit_per_address": app.connections.limits().unauthenticated_per_address,
            "closed_for_room": app.connections.displaced.get(),
            "timed_out": app.connections.timed_out.get(),
        },
        "outbox": {"waiting": waiting, "dead": dead},
        "deliveries": {"done": meters.delivered.get(), "again": meters.delivery_retries.get(), "dead": meters.dead_deliveries.get()},
        "otlp_spans": {
            "sent": meters.spans_sent.get(),
            "refused": meters.spans_refused.get(),
            "again": meters.span_retries.get(),
        },
        "requests": requests,
        "request_duration": meters.request_duration.to_json(),
        "decision_duration": meters.decision_duration.to_json(),
    });
    Ok(app.live.metrics.inspect(|counts, complete| {
        let mut all = json!(counts);
        if let Some(all) = all.as_object_mut() {
            all.insert("sessions".to_owned(), json!(counts.sessions_by_health()));
            all.insert("session_states".to_owned(), json!(counts.sessions_by_status()));
            all.insert("history_counted".to_owned(), json!(complete));
            all.insert("server".to_owned(), server);
        }
        all
    }))
}
