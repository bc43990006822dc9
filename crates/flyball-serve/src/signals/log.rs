//! Lines on stderr: a request, a trip, trouble. They are handed to a thread and written there; if nobody takes them in
//! time they are dropped and counted, because a log must not stand in the way of a decision.

use super::meters::Count;
use flyball::{Decision, Severity};
use flyball_view::words::{line, moment};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How many lines may wait.
const LINES: usize = 8_192;
/// An answer that takes so long is worth a line.
const SLOW: Duration = Duration::from_secs(1);
/// How long the last lines may take.
const LAST: Duration = Duration::from_secs(1);

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStyle {
    /// One JSON object a line, for programs: everything but events that were taken at once, which are in the journal.
    Json,
    /// What a person should know: trips, refusals for overload, failures.
    Text,
    /// Nothing.
    Off,
}

/// Where lines go.
#[derive(Debug)]
pub(crate) struct Log {
    style: LogStyle,
    clock: fn() -> Option<u64>,
    lines: Option<SyncSender<String>>,
    dropped: Count,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Scribe(Option<(JoinHandle<()>, Receiver<()>)>);

impl Scribe {
    /// Waits a moment for the last lines. If nobody takes them, they are lost.
    pub(crate) fn finish(self) {
        let Some((thread, done)) = self.0 else { return };
        // The sender goes with the thread: an error is as good as a word.
        if !matches!(done.recv_timeout(LAST), Err(std::sync::mpsc::RecvTimeoutError::Timeout)) {
            let _ = thread.join();
        }
    }
}

/// An event that was taken at once: the journal has it, and a line for each of them would cost as much as deciding.
fn is_daily(route: &str, took: Duration) -> bool {
    const EVENTS: [&str; 2] = ["/v1/events", "/v1/sessions/{session}/events"];
    took < SLOW && EVENTS.contains(&route)
}

impl Log {
    /// A log in a style.
    pub(crate) fn open(style: LogStyle, clock: fn() -> Option<u64>) -> (Self, Scribe) {
        if style == LogStyle::Off {
            return (Log { style, clock, lines: None, dropped: Count::default() }, Scribe(None));
        }
        let (lines, taken) = sync_channel::<String>(LINES);
        let (over, done) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let _over = over;
            write(&taken);
        });
        (Log { style, clock, lines: Some(lines), dropped: Count::default() }, Scribe(Some((thread, done))))
    }

    /// Lines that nobody took in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// A request was answered.
    pub(crate) fn request(
        &self,
        method: &str,
        route: &str,
        status: u16,
        took: Duration,
        by: Option<&str>,
        code: Option<&str>,
    ) {
        let level = level(status);
        let plain = level == "info" && (self.style == LogStyle::Text || is_daily(route, took));
        if self.style == LogStyle::Off || plain {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let words = || {
            let code = code.map(|code| format!(" {code}")).unwrap_or_default();
            let by = by.map(|by| format!(" by {}", line(by, 60))).unwrap_or_default();
            format!("{method} {route} {status}{code}{by} in {} ms", micros / 1_000)
        };
        let fields = || {
            json!({"what": "request", "method": method, "route": route, "status": status, "micros": micros, "by": by,
                   "code": code})
        };
        self.put(level, words, fields);
    }

    /// A decision: each of its trips is a line.
    pub(crate) fn trips(&self, decision: &Decision) {
        if self.style == LogStyle::Off {
            return;
        }
        for trip in decision.trips.iter().filter(|trip| trip.severity >= Severity::Warn) {
            let words = || {
                let (guard, reason) = (line(&trip.guard, 60), line(&trip.reason, 60));
                let session = line(&decision.session, 80);
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
            self.put("warn", words, fields);
        }
    }

    /// Something of ours failed.
    pub(crate) fn trouble(&self, at: &str, code: &str, what: &str) {
        let words = || format!("{at}: {code}: {}", line(what, 300));
        self.put(
            "error",
            words,
            || json!({"what": "trouble", "at_work_on": at, "code": code, "said": line(what, 300)}),
        );
    }

    fn put(&self, level: &str, words: impl Fn() -> String, fields: impl Fn() -> Value) {
        let Some(lines) = &self.lines else { return };
        let at = (self.clock)().unwrap_or_default();
        let text = match self.style {
            LogStyle::Json => {
                let mut fields = fields();
                if let Some(map) = fields.as_object_mut() {
                    map.retain(|_, value| !value.is_null());
                    map.insert("at".to_owned(), json!(at));
                    map.insert("level".to_owned(), json!(level));
                }
                fields.to_string()
            }
            LogStyle::Text => format!("{} {level}: {}", moment(at), words()),
            LogStyle::Off => return,
        };
        if lines.try_send(text).is_err() {
            self.dropped.add(1);
        }
    }
}

fn level(status: u16) -> &'static str {
    match status {
        500.. => "error",
        429 => "warn",
        _ => "info",
    }
}

/// Writes lines, those that wait together at once, until there is nobody left to write for.
fn write(lines: &Receiver<String>) {
    while let Ok(first) = lines.recv() {
        let mut text = first;
        text.push('\n');
        while text.len() < 64 * 1024
            && let Ok(next) = lines.try_recv()
        {
            text.push_str(&next);
            text.push('\n');
        }
        // If stderr is gone there is nobody left to tell.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
