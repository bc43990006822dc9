//! Asks questions of the person at the terminal, if there is one.

use super::run_printer::RunPrinter;
use super::trip_evidence::evidence_lines;
use crate::caller_check;
use crate::formatting::single_line;
use crate::plan_printer::{PlanView, print_plan};
use flyball::{Decision, SessionPhase, is_blank};
use flyball_runner::engine::HumanInput;
use flyball_runner::process::CancelToken;
use flyball_store::AdminStore;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How often a waiting question checks whether the run was stopped.
const STOP_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Maximum length of a question.
const MAX_QUESTION_CHARS: usize = 2_000;

/// The prompter for the person at the terminal; it never answers without a terminal or if an agent controls it.
pub(super) fn prompter(
    session: &str,
    json: bool,
    lines: &Arc<RunPrinter>,
    cancel: &CancelToken,
    admin_store: Option<Arc<dyn AdminStore>>,
) -> Arc<dyn HumanInput> {
    let terminal = !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if terminal && caller_check::require_person(session).is_ok() {
        Arc::new(TerminalPrompter {
            lines: Arc::clone(lines),
            cancel: cancel.clone(),
            admin_store,
            prompt_lock: Mutex::new(()),
        })
    } else {
        Arc::new(NoPrompter)
    }
}

struct NoPrompter;

impl HumanInput for NoPrompter {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&Decision>) -> Option<String> {
        None
    }
}

struct TerminalPrompter {
    lines: Arc<RunPrinter>,
    cancel: CancelToken,
    /// The store with the run, if it is stored.
    admin_store: Option<Arc<dyn AdminStore>>,
    /// Serializes the questions of parallel branches.
    prompt_lock: Mutex<()>,
}

impl HumanInput for TerminalPrompter {
    fn ask(&self, session: &str, question: &str, about: Option<&Decision>) -> Option<String> {
        let _one = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let evidence = self.evidence_lines(session, about);
        let (mark, printed) = self.lines.with_run_state(|run_state| {
            let printed = run_state.branch(session).is_some_and(|branch| branch.has_shown(question));
            (run_state.branch_label(session), printed)
        });
        let in_a_plan = about.is_some_and(|about| about.state == SessionPhase::AwaitingConfirmation);
        let mut text = evidence;
        let asked: Vec<String> = question.lines().map(|text| single_line(text, MAX_QUESTION_CHARS)).collect();
        // Do not repeat a question printed right above.
        let in_plan = asked.iter().all(|asked| text.iter().any(|known| known.contains(asked.as_str())));
        if !(in_plan || printed && (text.is_empty() || in_a_plan)) {
            text.extend(asked);
        }
        self.lines.with_terminal(|| self.read_answer(mark.as_deref(), &text))
    }
}

impl TerminalPrompter {
    /// The evidence shown before the question.
    fn evidence_lines(&self, session: &str, about: Option<&Decision>) -> Vec<String> {
        let Some(decision) = about else { return Vec::new() };
        match decision.state {
            SessionPhase::Halted | SessionPhase::Blocked => {
                let mut all = self
                    .lines
                    .with_run_state(|run_state| {
                        evidence_lines(run_state, self.admin_store.as_deref(), decision)
                    })
                    .unwrap_or_default();
                all.push(
                    "An answer releases the session and is passed to the agent. Ctrl-D leaves it halted."
                        .to_owned(),
                );
                all
            }
            SessionPhase::AwaitingConfirmation => self.plan_lines(session).unwrap_or_default(),
            SessionPhase::Running | SessionPhase::Ended => Vec::new(),
        }
    }

    /// The steps of the plan awaiting approval.
    fn plan_lines(&self, session: &str) -> Option<Vec<String>> {
        let admin_store = self.admin_store.as_deref()?;
        let plan = self.lines.with_run_state(|run_state| {
            let state = run_state.session(session).map(flyball::Session::state)?;
            PlanView::load(admin_store, session, state).ok().flatten()
        })?;
        let mut shown = Vec::new();
        print_plan(&plan, &mut shown, admin_store.now().ok()?).ok()?;
        Some(String::from_utf8_lossy(&shown).lines().map(str::to_owned).collect())
    }

    /// Prints the question and reads lines until one is an answer. `None` at the end of input or if the run is stopped.
    fn read_answer(&self, mark: Option<&str>, question: &[String]) -> Option<String> {
        {
            let mut out = crate::terminal::stdout();
            for text in question {
                writeln!(out, "{text}").ok()?;
            }
            out.flush().ok()?;
        }
        // Discard input typed before the question was shown.
        tcflush(std::io::stdin(), QueueSelector::IFlush).ok()?;
        loop {
            {
                let mut out = crate::terminal::stdout();
                let mark = mark.map(|mark| format!("{mark} ")).unwrap_or_default();
                write!(out, "{mark}> ").ok()?;
                out.flush().ok()?;
            }
            if !self.wait_for_input() {
                // The cursor is after the prompt.
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

    /// Waits for input; `false` if the run is stopped first.
    fn wait_for_input(&self) -> bool {
        let stdin = std::io::stdin();
        while !self.cancel.is_cancelled() {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&STOP_POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Any other error is reported when reading.
                _ => return true,
            }
        }
        false
    }
}
