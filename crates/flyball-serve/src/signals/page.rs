//! The counts for whoever asks: in the text format of Prometheus, and as JSON.

use crate::office::Office;
use crate::problem::Problem;
use flyball::metrics::Family;
use flyball_journal::ErrandState;
use serde_json::{Value, json};

/// Errands that wait, and those that were given up.
fn errands(office: &Office) -> Result<(u64, u64), Problem> {
    let desk = office.desk();
    Ok((desk.errand_count(ErrandState::Waiting)?, desk.errand_count(ErrandState::Dead)?))
}

/// Everything in the text format of Prometheus.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn as_text(office: &Office) -> Result<String, Problem> {
    let (waiting, dead) = errands(office)?;
    let (mut text, complete) = office.live.tally.look(|counts, complete| (counts.to_prometheus(), complete));
    let meters = &office.signals.meters;
    let mut gauge = |name, help, value: u64| Family::begin(&mut text, name, "gauge", help).line(&[], value);
    gauge("history_counted", "1 once everything in the store is counted, 0 until then.", u64::from(complete));
    gauge("events_waiting", "Events that wait for the store.", office.intake.waiting() as u64);
    gauge("events_waiting_limit", "Events that may wait.", office.intake.length() as u64);
    gauge("live_listeners", "Listeners to live events.", office.live.listeners() as u64);
    let (connections, limits) = (&office.connections, office.connections.limits());
    gauge(
        "unauthenticated_connections",
        "Open connections on which nobody has authenticated.",
        connections.unauthenticated() as u64,
    );
    gauge(
        "unauthenticated_connections_limit",
        "Open connections on which nobody needs to have authenticated.",
        limits.unauthenticated as u64,
    );
    gauge("errands_waiting", "Deliveries that wait for their next try.", waiting);
    gauge(
        "posts_fallen",
        "Places where Flyball stood guard and does no longer.",
        office.posts.fallen() as u64,
    );
    gauge("errands_dead", "Deliveries that were given up.", dead);
    let mut counter =
        |name, help, value: u64| Family::begin(&mut text, name, "counter", help).line(&[], value);
    counter("overload_refusals_total", "Requests refused with 429.", meters.overloads.get());
    counter(
        "log_lines_dropped_total",
        "Lines of the log that nobody took in time.",
        office.signals.log.dropped(),
    );
    let help = "Unauthenticated connections that were closed: to make room, or because nothing came.";
    let mut family = Family::begin(&mut text, "unauthenticated_connections_closed_total", "counter", help);
    family.line(&[("cause", "room")], connections.displaced.get());
    family.line(&[("cause", "timeout")], connections.timed_out.get());
    let help = "Requests refused because a key has used up a limit, by limit.";
    let mut family = Family::begin(&mut text, "key_limit_refusals_total", "counter", help);
    for (limit, count) in office.usage.refused() {
        family.line(&[("limit", limit)], count);
    }
    let help = "Deliveries of this server by outcome.";
    let mut family = Family::begin(&mut text, "deliveries_total", "counter", help);
    family.line(&[("outcome", "done")], meters.delivered.get());
    family.line(&[("outcome", "again")], meters.deferred.get());
    family.line(&[("outcome", "dead")], meters.died.get());
    let help = "Spans for the collector by outcome; attempts that are made again are counted once each.";
    let mut family = Family::begin(&mut text, "otlp_spans_total", "counter", help);
    family.line(&[("outcome", "sent")], meters.spans_sent.get());
    family.line(&[("outcome", "refused")], meters.spans_refused.get());
    family.line(&[("outcome", "again")], meters.spans_again.get());
    let help = "Requests by route, method and status.";
    let mut family = Family::begin(&mut text, "http_requests_total", "counter", help);
    for (asked, count) in meters.requests() {
        let status = asked.status.to_string();
        family.line(&[("route", &asked.route), ("method", asked.method), ("status", &status)], count);
    }
    let help = "How long requests take until the answer begins.";
    meters.answers.write(&mut Family::begin(&mut text, "http_request_duration_seconds", "histogram", help));
    let help = "How long decisions take, from the line to the disk.";
    meters.decisions.write(&mut Family::begin(&mut text, "decision_duration_seconds", "histogram", help));
    let mut family = Family::begin(&mut text, "build_info", "gauge", "The version of the server.");
    family.line(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    Ok(text)
}

/// The limits of a key, and how often each has refused a request.
fn key_limits(office: &Office) -> Value {
    let limits = office.usage.limits();
    let refused: std::collections::BTreeMap<&str, u64> = office.usage.refused().collect();
    json!({
        "sessions_per_day": limits.sessions_per_day,
        "listeners": limits.listeners,
        "pending_plans": limits.pending_plans,
        "bytes_per_day": limits.bytes_per_day,
        "reads": limits.reads,
        "refused": refused,
    })
}

/// Everything as JSON.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn as_json(office: &Office) -> Result<Value, Problem> {
    let (waiting, dead) = errands(office)?;
    let meters = &office.signals.meters;
    let request = |(asked, count): (super::meters::Asked, u64)| json!({"route": asked.route, "method": asked.method, "status": asked.status, "count": count});
    let requests: Vec<Value> = meters.requests().into_iter().map(request).collect();
    let server = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "events_waiting": office.intake.waiting(),
        "events_waiting_limit": office.intake.length(),
        "overload_refusals": meters.overloads.get(),
        "log_lines_dropped": office.signals.log.dropped(),
        "live_listeners": office.live.listeners(),
        "key_limits": key_limits(office),
        "unauthenticated_connections": {
            "open": office.connections.unauthenticated(),
            "limit": office.connections.limits().unauthenticated,
            "limit_per_address": office.connections.limits().unauthenticated_per_address,
            "closed_for_room": office.connections.displaced.get(),
            "timed_out": office.connections.timed_out.get(),
        },
        "errands": {"waiting": waiting, "dead": dead},
        "deliveries": {"done": meters.delivered.get(), "again": meters.deferred.get(), "dead": meters.died.get()},
        "otlp_spans": {
            "sent": meters.spans_sent.get(),
            "refused": meters.spans_refused.get(),
            "again": meters.spans_again.get(),
        },
        "requests": requests,
        "request_duration": meters.answers.to_json(),
        "decision_duration": meters.decisions.to_json(),
    });
    Ok(office.live.tally.look(|counts, complete| {
        let mut all = json!(counts);
        if let Some(all) = all.as_object_mut() {
            all.insert("sessions".to_owned(), json!(counts.sessions()));
            all.insert("session_states".to_owned(), json!(counts.states()));
            all.insert("history_counted".to_owned(), json!(complete));
            all.insert("server".to_owned(), server);
        }
        all
    }))
}
