//! What is said while a run goes on: finished steps as plain lines, and below them, in a terminal, what happens now.

use super::so_far::SoFar;
use super::steps;
use super::view::{Moment, rows};
use crate::clock;
use crate::fail::Failure;
use crate::paint::{Style, paint_out};
use crate::screen::{Screen, Size, is_live};
use crate::words::{line, plural, span};
use flyball::PolicySource;
use flyball::policy::Policy;
use flyball_journal::Door;
use flyball_run::engine::{Past, Watcher};
use serde_json::json;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the live lines are drawn.
const TICK: Duration = Duration::from_millis(100);

/// Tells a person, or a program, how a run goes.
pub(crate) struct Lines {
    shared: Arc<Shared>,
    ticker: Mutex<Option<Ticker>>,
}

/// How it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A JSON object for each event.
    Json,
    /// Lines.
    Plain,
    /// Lines, and below them what happens now.
    Live,
}

struct Shared {
    form: Form,
    door: Door,
    told: Mutex<Told>,
}

struct Told {
    so_far: SoFar,
    screen: Screen,
    tick: usize,
    /// What is run and what limits it; said with the first event, because a run may not even begin.
    header: Vec<String>,
    /// Events of the past were seen, and that was not said yet.
    resumed: bool,
    stopping: bool,
    /// Lines that wait until a person has answered.
    held: Option<Vec<String>>,
}

/// Draws the live lines again and again.
struct Ticker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Lines {
    /// For a run in a session, under a policy.
    pub(crate) fn new(session: &str, source: PolicySource, json: bool) -> Result<Self, Failure> {
        let door = Door::new(&source.base().journal).map_err(|error| Failure::at("", &error))?;
        let form = match json {
            true => Form::Json,
            false if is_live() => Form::Live,
            false => Form::Plain,
        };
        let told = Told {
            so_far: SoFar::new(session, source),
            screen: Screen::default(),
            tick: 0,
            header: Vec::new(),
            resumed: false,
            stopping: false,
            held: None,
        };
        let shared = Arc::new(Shared { form, door, told: Mutex::new(told) });
        Ok(Lines { shared, ticker: Mutex::new(None) })
    }

    /// Gets ready to say what is run and what limits it; from now on the live lines are drawn.
    pub(crate) fn begin(&self, session: &str, goal: Option<&str>, policy: &Policy) {
        if self.shared.form == Form::Json {
            return;
        }
        let goal = goal.map(|goal| format!(": {}", line(goal, 200))).unwrap_or_default();
        let first = format!("{} {}{goal}", paint_out(Style::Strong, "session"), line(session, 200));
        self.shared.told().header = vec![first, paint_out(Style::Dim, &limits(policy))];
        if self.shared.form == Form::Live {
            let (stop, stopped) = channel::<()>();
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                    shared.told().draw(&shared, &[]);
                }
            });
            *self.ticker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ticker { stop, thread });
        }
    }

    /// Takes the live lines away; what is printed after this stays where it is.
    pub(crate) fn finish(&self) {
        let ticker = self.ticker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ticker { stop, thread }) = ticker {
            let _ = stop.send(());
            // If drawing has failed there is nothing to take away.
            let _ = thread.join();
            self.shared.told().take_down();
        }
    }

    /// The run was told to stop; it may take a moment until it does.
    pub(crate) fn stopping(&self) {
        let mut told = self.shared.told();
        if !std::mem::replace(&mut told.stopping, true) && self.shared.form != Form::Json {
            told.print(&self.shared, vec![paint_out(Style::Warn, "stopping: what is under way is ended")]);
        }
    }

    /// Does something with the terminal alone: the live lines are away, and others wait.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        {
            let mut told = self.shared.told();
            told.take_down();
            told.held = Some(Vec::new());
        }
        let done = act();
        let mut told = self.shared.told();
        let held = told.held.take().unwrap_or_default();
        told.print(&self.shared, held);
        done
    }

    /// Looks at what is known of the run.
    pub(super) fn so_far<T>(&self, look: impl FnOnce(&SoFar) -> T) -> T {
        look(&self.shared.told().so_far)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, lines: Vec<String>) {
        self.told().print(self, lines);
    }
}

impl Told {
    /// Prints lines; those that come while a person is asked wait.
    fn print(&mut self, shared: &Shared, lines: Vec<String>) {
        let lines: Vec<String> = std::mem::take(&mut self.header).into_iter().chain(lines).collect();
        if let Some(held) = &mut self.held {
            held.extend(lines);
            return;
        }
        if shared.form == Form::Live {
            self.draw(shared, &lines);
            return;
        }
        let mut out = crate::terminal::stdout();
        for text in lines {
            // If nobody listens any more, the run goes on all the same.
            let _ = writeln!(out, "{text}");
        }
    }

    fn draw(&mut self, shared: &Shared, above: &[String]) {
        if self.held.is_some() || !self.header.is_empty() {
            return;
        }
        self.tick += 1;
        let moment = Moment {
            so_far: &self.so_far,
            now: clock::now().unwrap_or_default(),
            tick: self.tick,
            size: Size::now(),
            stopping: self.stopping,
            clean: &|text| shared.door.clean(text).into_owned(),
        };
        let block = rows(&moment);
        let _ = self.screen.draw(&mut std::io::stdout().lock(), moment.size, above, &block);
    }

    fn take_down(&mut self) {
        let _ = self.screen.clear(&mut std::io::stdout().lock(), Size::now());
    }

    /// Where a run goes on that was taken up again.
    fn resumed(&self) -> String {
        let root = self.so_far.root();
        let Some(report) = self.so_far.report(root) else { return "taken up again".to_owned() };
        let node = report.node.as_deref().map(|node| format!(", at {}", line(node, 80))).unwrap_or_default();
        let inside = |nodes: &[String]| report.node.as_ref().is_some_and(|node| nodes.contains(node));
        let around = report.loops.iter().filter(|found| inside(&found.nodes));
        let badges: String = around.map(|found| format!(", {}", found.badge)).collect();
        format!("taken up again after {}{node}{badges}", plural(report.events, "event"))
    }
}

impl Watcher for Lines {
    fn event(&self, past: &Past, live: bool) {
        let mut told = self.shared.told();
        if self.shared.form == Form::Json {
            told.so_far.take(past);
            if live {
                let whole = json!({"event": past.event.to_json(), "decision": past.decision});
                let _ = writeln!(crate::terminal::stdout(), "{whole}");
            }
            return;
        }
        if !told.header.is_empty() {
            told.print(&self.shared, Vec::new());
        }
        if live && std::mem::take(&mut told.resumed) {
            let words = paint_out(Style::Dim, &told.resumed());
            told.print(&self.shared, vec![words]);
        }
        let closed = told.so_far.take(past);
        if !live {
            told.resumed = true;
            return;
        }
        let lines = steps::lines(past, &told.so_far, &closed);
        told.print(&self.shared, lines);
    }

    fn output(&self, session: &str, _node: &str, text: &str) {
        if self.shared.form == Form::Live {
            // It is shown with the next tick: a program may print faster than anybody reads.
            self.shared.told().so_far.printed(session, text);
        }
    }

    fn note(&self, text: &str) {
        if self.shared.form != Form::Json {
            self.shared.print(vec![paint_out(Style::Dim, &format!("  {}", line(text, 400)))]);
        }
    }
}

/// What stops a run at the latest, in one line.
fn limits(policy: &Policy) -> String {
    let budgets = &policy.budgets;
    if !budgets.mode.is_on() {
        return "  limits: none, the budgets are switched off".to_owned();
    }
    let some = |limit: Option<u64>, show: &dyn Fn(u64) -> String| limit.map(show);
    let parts = [
        some(budgets.loops.iterations, &|limit| format!("{} of a loop", plural(limit, "iteration"))),
        some(budgets.session.runtime_ms, &|limit| format!("{} at work", span(limit))),
        some(budgets.turn.timeout_ms, &|limit| format!("{} a turn", span(limit))),
        some(budgets.session.turns, &|limit| plural(limit, "turn")),
        some(budgets.session.tokens, &|limit| plural(limit, "token")),
        some(budgets.session.cost_micro_usd, &crate::words::dollars),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("  limits: {}", if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
}
