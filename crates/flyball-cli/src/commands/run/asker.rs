//! Asks the person at the terminal, if there is one.

use super::evidence::evidence_lines;
use super::lines::Lines;
use crate::person;
use crate::telling::{Plan, print_plan};
use crate::words::line;
use flyball::{Decision, Status, is_blank};
use flyball_journal::Desk;
use flyball_run::engine::Asker;
use flyball_run::process::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How often a waiting question checks whether the run was stopped.
const STOP_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How much of a question is shown.
const SHOWN: usize = 2_000;

/// Who can be asked: the person at the terminal, or nobody. An agent at a terminal of its own is nobody.
pub(super) fn asker(
    session: &str,
    json: bool,
    lines: &Arc<Lines>,
    cancel: &Cancel,
    desk: Option<Arc<dyn Desk>>,
) -> Arc<dyn Asker> {
    let terminal = !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if terminal && person::speaks(session).is_ok() {
        Arc::new(AtTerminal { lines: Arc::clone(lines), cancel: cancel.clone(), desk, one: Mutex::new(()) })
    } else {
        Arc::new(Nobody)
    }
}

struct Nobody;

impl Asker for Nobody {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&Decision>) -> Option<String> {
        None
    }
}

struct AtTerminal {
    lines: Arc<Lines>,
    cancel: Cancel,
    /// Where the run is kept, if it is.
    desk: Option<Arc<dyn Desk>>,
    /// Branches ask one after the other.
    one: Mutex<()>,
}

impl Asker for AtTerminal {
    fn ask(&self, session: &str, question: &str, about: Option<&Decision>) -> Option<String> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let evidence = self.evidence(session, about);
        let (mark, printed) = self.lines.so_far(|so_far| {
            let printed = so_far.lane(session).is_some_and(|lane| lane.has_told(question));
            (so_far.mark(session), printed)
        });
        let in_a_plan = about.is_some_and(|about| about.state == Status::AwaitingConfirmation);
        let mut text = evidence;
        let asked: Vec<String> = question.lines().map(|text| line(text, SHOWN)).collect();
        // A question that was printed right above is not printed again.
        let in_plan = asked.iter().all(|asked| text.iter().any(|known| known.contains(asked.as_str())));
        if !(in_plan || printed && (text.is_empty() || in_a_plan)) {
            text.extend(asked);
        }
        self.lines.aside(|| self.answer(mark.as_deref(), &text))
    }
}

impl AtTerminal {
    /// What the person should know before they answer.
    fn evidence(&self, session: &str, about: Option<&Decision>) -> Vec<String> {
        let Some(decision) = about else { return Vec::new() };
        match decision.state {
            Status::Halted | Status::Blocked => {
                let mut all = self
                    .lines
                    .so_far(|so_far| evidence_lines(so_far, self.desk.as_deref(), decision))
                    .unwrap_or_default();
                all.push(
                    "An answer releases the session, and the agent gets it. Ctrl-D leaves it halted."
                        .to_owned(),
                );
                all
            }
            Status::AwaitingConfirmation => self.plan(session).unwrap_or_default(),
            Status::Running | Status::Ended => Vec::new(),
        }
    }

    /// The steps of the plan that waits for an answer.
    fn plan(&self, session: &str) -> Option<Vec<String>> {
        let desk = self.desk.as_deref()?;
        let plan = self.lines.so_far(|so_far| {
            let state = so_far.session(session).map(flyball::Session::state)?;
            Plan::of(desk, session, state).ok().flatten()
        })?;
        let mut shown = Vec::new();
        print_plan(&plan, &mut shown, desk.now().ok()?).ok()?;
        Some(String::from_utf8_lossy(&shown).lines().map(str::to_owned).collect())
    }

    /// Prints the question and reads lines until one is an answer. Nothing at the end of the input, or if the run is
    /// stopped.
    fn answer(&self, mark: Option<&str>, question: &[String]) -> Option<String> {
        {
            let mut out = crate::terminal::stdout();
            for text in question {
                writeln!(out, "{text}").ok()?;
            }
            out.flush().ok()?;
        }
        // What was typed before the question was shown does not answer it.
        tcflush(std::io::stdin(), QueueSelector::IFlush).ok()?;
        loop {
            {
                let mut out = crate::terminal::stdout();
                let mark = mark.map(|mark| format!("{mark} ")).unwrap_or_default();
                write!(out, "{mark}> ").ok()?;
                out.flush().ok()?;
            }
            if !self.is_typed() {
                // The cursor is behind the prompt.
                let _ = writeln!(crate::terminal::stdout());
                return None;
            }
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).ok()?;
            if !line.ends_with('\n') {
                let _ = writeln!(crate::terminal::stdout());
                return None;
            }
            let answer = line.trim_end_matches(['\n', '\r']);
            if !is_blank(answer) {
                return Some(answer.to_owned());
            }
            writeln!(crate::terminal::stdout(), "An empty answer is not accepted. Write an answer, or press Ctrl-D to leave the question open.").ok()?;
        }
    }

    /// Waits until something is typed; `false` if the run is stopped before.
    fn is_typed(&self) -> bool {
        let stdin = std::io::stdin();
        while !self.cancel.is_cancelled() {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&STOP_POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Whatever else is wrong with it, reading will say.
                _ => return true,
            }
        }
        false
    }
}
