//! Log lines on stderr: requests, trips and errors. A separate thread writes them. If the queue is full, lines are
//! dropped and counted, because logging must not delay decisions.

use super::server_metrics::AtomicCounter;
use flyball::{Decision, TripSeverity};
use flyball_view::formatting::{single_line, utc_time};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of queued lines.
const MAX_QUEUED_LINES: usize = 8_192;
/// Requests slower than this are logged.
const SLOW_REQUEST: Duration = Duration::from_secs(1);
/// How long the last lines may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerLogStyle {
    /// One JSON object per line: everything except fast event requests, which are in the store.
    Json,
    /// Text for people: trips, overload and failures.
    Text,
    /// Nothing.
    Off,
}

/// The server log.
#[derive(Debug)]
pub(crate) struct ServerLog {
    style: ServerLogStyle,
    clock: fn() -> Option<u64>,
    lines: Option<SyncSender<String>>,
    dropped: AtomicCounter,
}

/// The writer thread.
#[derive(Debug)]
pub(crate) struct LogWriter(Option<(JoinHandle<()>, Receiver<()>)>);

impl LogWriter {
    /// Waits briefly for the last lines; unwritten ones are lost.
    pub(crate) fn finish(self) {
        let Some((thread, done)) = self.0 else { return };
        // The channel closes when the thread ends, so an error also means that it is done.
        if !matches!(done.recv_timeout(FLUSH_TIMEOUT), Err(std::sync::mpsc::RecvTimeoutError::Timeout)) {
            let _ = thread.join();
        }
    }
}

/// Whether a request is a fast event request: the store has the event, and logging each would cost as much as
/// deciding.
fn is_routine(route: &str, took: Duration) -> bool {
    const EVENTS: [&str; 2] = ["/v1/events", "/v1/sessions/{session}/events"];
    took < SLOW_REQUEST && EVENTS.contains(&route)
}

impl ServerLog {
    /// Opens a log in this format.
    pub(crate) fn open(style: ServerLogStyle, clock: fn() -> Option<u64>) -> (Self, LogWriter) {
        if style == ServerLogStyle::Off {
            return (
                ServerLog { style, clock, lines: None, dropped: AtomicCounter::default() },
                LogWriter(None),
            );
        }
        let (lines, taken) = sync_channel::<String>(MAX_QUEUED_LINES);
        let (over, done) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let _over = over;
            write_lines(&taken);
        });
        (
            ServerLog { style, clock, lines: Some(lines), dropped: AtomicCounter::default() },
            LogWriter(Some((thread, done))),
        )
    }

    /// Number of dropped lines.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Logs a request.
    pub(crate) fn request(
        &self,
        method: &str,
        route: &str,
        status: u16,
        took: Duration,
        by: Option<&str>,
        code: Option<&str>,
    ) {
        let level = status_level(status);
        let plain = level == "info" && (self.style == ServerLogStyle::Text || is_routine(route, took));
        if self.style == ServerLogStyle::Off || plain {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let text = || {
            let code = code.map(|code| format!(" {code}")).unwrap_or_default();
            let by = by.map(|by| format!(" by {}", single_line(by, 60))).unwrap_or_default();
            format!("{method} {route} {status}{code}{by} in {} ms", micros / 1_000)
        };
        let fields = || {
            json!({"what": "request", "method": method, "route": route, "status": status, "micros": micros, "by": by,
                   "code": code})
        };
        self.write_line(level, text, fields);
    }

    /// Logs each trip of a decision.
    pub(crate) fn trips(&self, decision: &Decision) {
        if self.style == ServerLogStyle::Off {
            return;
        }
        for trip in decision.trips.iter().filter(|trip| trip.severity >= TripSeverity::Warn) {
            let text = || {
                let (guard, reason) = (single_line(&trip.guard, 60), single_line(&trip.reason, 60));
                let session = single_line(&decision.session, 80);
                format!(
                    "{} in {session}: {guard}, {reason}, {} of {}",
                    trip.severity.as_str(),
                    trip.count,
                    trip.limit
                )
            };
            let fields = || {
                json!({"what": "trip", "session": decision.session, "seq": decision.seq, "guard": trip.guard,
                       "reason": trip.reason, "severity": trip.severity.as_str(), "count": trip.count,
                       "limit": trip.limit, "decision": decision.decision.as_str()})
            };
            self.write_line("warn", text, fields);
        }
    }

    /// Logs an internal error.
    pub(crate) fn error(&self, at: &str, code: &str, message: &str) {
        let text = || format!("{at}: {code}: {}", single_line(message, 300));
        self.write_line(
            "error",
            text,
            || json!({"what": "error", "component": at, "code": code, "message": single_line(message, 300)}),
        );
    }

    fn write_line(&self, level: &str, text: impl Fn() -> String, fields: impl Fn() -> Value) {
        let Some(lines) = &self.lines else { return };
        let at = (self.clock)().unwrap_or_default();
        let line = match self.style {
            ServerLogStyle::Json => {
                let mut fields = fields();
                if let Some(map) = fields.as_object_mut() {
                    map.retain(|_, value| !value.is_null());
                    map.insert("at".to_owned(), json!(at));
                    map.insert("level".to_owned(), json!(level));
                }
                fields.to_string()
            }
            ServerLogStyle::Text => format!("{} {level}: {}", utc_time(at), text()),
            ServerLogStyle::Off => return,
        };
        if lines.try_send(line).is_err() {
            self.dropped.add(1);
        }
    }
}

fn status_level(status: u16) -> &'static str {
    match status {
        500.. => "error",
        429 => "warn",
        _ => "info",
    }
}

/// Writes lines, batching queued ones, until the channel closes.
fn write_lines(lines: &Receiver<String>) {
    while let Ok(first) = lines.recv() {
        let mut text = first;
        text.push('\n');
        while text.len() < 64 * 1024
            && let Ok(next) = lines.try_recv()
        {
            text.push_str(&next);
            text.push('\n');
        }
        // If stderr is closed, there is nowhere left to report it.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
