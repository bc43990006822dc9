//! Prints a run's progress: finished steps as lines and, on a terminal, a live view below them.

use super::live_view::{LiveViewInput, rows};
use super::run_state::RunState;
use super::step_lines;
use crate::clock;
use crate::color::{TextStyle, style_stdout};
use crate::error::CliError;
use crate::formatting::{format_duration, plural, single_line};
use crate::live_screen::{LiveScreen, TerminalSize, is_interactive};
use flyball::PolicySource;
use flyball::policy::Policy;
use flyball_runner::engine::{RecordedEvent, RunListener};
use flyball_store::RedactingParser;
use serde_json::json;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Redraw interval of the live view.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Reports the progress of a run to a person or a program.
pub(crate) struct RunPrinter {
    shared: Arc<PrinterShared>,
    ticker: Mutex<Option<RedrawThread>>,
}

/// Output mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputMode {
    /// One JSON object per event.
    Json,
    /// Plain lines.
    Plain,
    /// Plain lines with the live view below them.
    Live,
}

struct PrinterShared {
    mode: OutputMode,
    redactor: RedactingParser,
    state: Mutex<PrinterState>,
}

struct PrinterState {
    run_state: RunState,
    screen: LiveScreen,
    tick: usize,
    /// The run and its limits; printed with the first event, because a run may fail to start.
    header: Vec<String>,
    /// Replayed events were seen, and the resume line was not printed yet.
    resume_pending: bool,
    stopping: bool,
    /// Lines deferred until a person has answered.
    deferred: Option<Vec<String>>,
}

/// The thread that redraws the live view.
struct RedrawThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl RunPrinter {
    /// A printer for a run in a session, under a policy.
    pub(crate) fn new(session: &str, source: PolicySource, json: bool) -> Result<Self, CliError> {
        let redactor =
            RedactingParser::new(&source.base().journal).map_err(|error| CliError::from_core("", &error))?;
        let form = match json {
            true => OutputMode::Json,
            false if is_interactive() => OutputMode::Live,
            false => OutputMode::Plain,
        };
        let state = PrinterState {
            run_state: RunState::new(session, source),
            screen: LiveScreen::default(),
            tick: 0,
            header: Vec::new(),
            resume_pending: false,
            stopping: false,
            deferred: None,
        };
        let shared = Arc::new(PrinterShared { mode: form, redactor, state: Mutex::new(state) });
        Ok(RunPrinter { shared, ticker: Mutex::new(None) })
    }

    /// Prepares the header and starts the live view.
    pub(crate) fn begin(&self, session: &str, goal: Option<&str>, policy: &Policy) {
        if self.shared.mode == OutputMode::Json {
            return;
        }
        let goal = goal.map(|goal| format!(": {}", single_line(goal, 200))).unwrap_or_default();
        let first =
            format!("{} {}{goal}", style_stdout(TextStyle::Heading, "session"), single_line(session, 200));
        self.shared.lock_state().header = vec![first, style_stdout(TextStyle::Dim, &limits_text(policy))];
        if self.shared.mode == OutputMode::Live {
            let (stop, stopped) = channel::<()>();
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(REDRAW_INTERVAL) {
                    shared.lock_state().draw(&shared, &[]);
                }
            });
            *self.ticker.lock().unwrap_or_else(PoisonError::into_inner) = Some(RedrawThread { stop, thread });
        }
    }

    /// Ends the live view; later output is printed normally.
    pub(crate) fn finish(&self) {
        let ticker = self.ticker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(RedrawThread { stop, thread }) = ticker {
            let _ = stop.send(());
            // If the thread panicked, there is nothing to clear.
            let _ = thread.join();
            self.shared.lock_state().clear();
        }
    }

    /// Marks the run as stopping, which may take a moment.
    pub(crate) fn mark_stopping(&self) {
        let mut state = self.shared.lock_state();
        if !std::mem::replace(&mut state.stopping, true) && self.shared.mode != OutputMode::Json {
            state.print(
                &self.shared,
                vec![style_stdout(TextStyle::Warning, "stopping: ending the current step")],
            );
        }
    }

    /// Runs a function with exclusive use of the terminal: the live view is cleared and other lines are deferred.
    pub(crate) fn with_terminal<T>(&self, act: impl FnOnce() -> T) -> T {
        {
            let mut state = self.shared.lock_state();
            state.clear();
            state.deferred = Some(Vec::new());
        }
        let done = act();
        let mut state = self.shared.lock_state();
        let held = state.deferred.take().unwrap_or_default();
        state.print(&self.shared, held);
        done
    }

    /// Calls a function with the run's state.
    pub(super) fn with_run_state<T>(&self, look: impl FnOnce(&RunState) -> T) -> T {
        look(&self.shared.lock_state().run_state)
    }
}

impl Drop for RunPrinter {
    fn drop(&mut self) {
        self.finish();
    }
}

impl PrinterShared {
    fn lock_state(&self) -> MutexGuard<'_, PrinterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, lines: Vec<String>) {
        self.lock_state().print(self, lines);
    }
}

impl PrinterState {
    /// Prints lines, or defers them while a person is being asked.
    fn print(&mut self, shared: &PrinterShared, lines: Vec<String>) {
        let lines: Vec<String> = std::mem::take(&mut self.header).into_iter().chain(lines).collect();
        if let Some(held) = &mut self.deferred {
            held.extend(lines);
            return;
        }
        if shared.mode == OutputMode::Live {
            self.draw(shared, &lines);
            return;
        }
        let mut out = crate::terminal::stdout();
        for text in lines {
            // A closed stdout does not stop the run.
            let _ = writeln!(out, "{text}");
        }
    }

    fn draw(&mut self, shared: &PrinterShared, above: &[String]) {
        if self.deferred.is_some() || !self.header.is_empty() {
            return;
        }
        self.tick += 1;
        let moment = LiveViewInput {
            run_state: &self.run_state,
            now: clock::now().unwrap_or_default(),
            tick: self.tick,
            size: TerminalSize::current(),
            stopping: self.stopping,
            redact: &|text| shared.redactor.redact(text).into_owned(),
        };
        let block = rows(&moment);
        let _ = self.screen.draw(&mut std::io::stdout().lock(), moment.size, above, &block);
    }

    fn clear(&mut self) {
        let _ = self.screen.clear(&mut std::io::stdout().lock(), TerminalSize::current());
    }

    /// The position at which a resumed run continues.
    fn resumed_text(&self) -> String {
        let root = self.run_state.root();
        let Some(report) = self.run_state.report(root) else { return "resumed".to_owned() };
        let node =
            report.node.as_deref().map(|node| format!(", at {}", single_line(node, 80))).unwrap_or_default();
        let inside = |nodes: &[String]| report.node.as_ref().is_some_and(|node| nodes.contains(node));
        let around = report.loops.iter().filter(|found| inside(&found.nodes));
        let badges: String = around.map(|found| format!(", {}", found.badge)).collect();
        format!("resumed after {}{node}{badges}", plural(report.events, "event"))
    }
}

impl RunListener for RunPrinter {
    fn on_event(&self, recorded: &RecordedEvent, live: bool) {
        let mut state = self.shared.lock_state();
        if self.shared.mode == OutputMode::Json {
            state.run_state.push(recorded);
            if live {
                let whole = json!({"event": recorded.event.to_json(), "decision": recorded.decision});
                let _ = writeln!(crate::terminal::stdout(), "{whole}");
            }
            return;
        }
        if !state.header.is_empty() {
            state.print(&self.shared, Vec::new());
        }
        if live && std::mem::take(&mut state.resume_pending) {
            let words = style_stdout(TextStyle::Dim, &state.resumed_text());
            state.print(&self.shared, vec![words]);
        }
        let closed = state.run_state.push(recorded);
        if !live {
            state.resume_pending = true;
            return;
        }
        let lines = step_lines::step_lines(recorded, &state.run_state, &closed);
        state.print(&self.shared, lines);
    }

    fn on_output(&self, session: &str, _node: &str, text: &str) {
        if self.shared.mode == OutputMode::Live {
            // Shown on the next redraw: a program may print faster than anyone can read.
            self.shared.lock_state().run_state.push_output(session, text);
        }
    }

    fn on_note(&self, text: &str) {
        if self.shared.mode != OutputMode::Json {
            self.shared.print(vec![style_stdout(TextStyle::Dim, &format!("  {}", single_line(text, 400)))]);
        }
    }
}

/// The limits of a run in one line.
fn limits_text(policy: &Policy) -> String {
    let budgets = &policy.budgets;
    if !budgets.mode.is_on() {
        return "  limits: none (budgets are off)".to_owned();
    }
    let some = |limit: Option<u64>, show: &dyn Fn(u64) -> String| limit.map(show);
    let parts = [
        some(budgets.loops.iterations, &|limit| format!("{} per loop", plural(limit, "iteration"))),
        some(budgets.session.runtime_ms, &|limit| format!("{} active", format_duration(limit))),
        some(budgets.turn.timeout_ms, &|limit| format!("{} per turn", format_duration(limit))),
        some(budgets.session.turns, &|limit| plural(limit, "turn")),
        some(budgets.session.tokens, &|limit| plural(limit, "token")),
        some(budgets.session.cost_micro_usd, &crate::formatting::format_dollars),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("  limits: {}", if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
}
