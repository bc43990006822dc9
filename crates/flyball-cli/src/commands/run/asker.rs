//! Asking the person at the terminal, if one is there.

use super::lines::Lines;
use crate::words::line;
use flyball_run::engine::Asker;
use flyball_run::process::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How long nobody looks whether the run was stopped meanwhile.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How much of a question is shown.
const SHOWN: usize = 2_000;

/// Whoever can be asked: the person at the terminal, or nobody.
pub(super) fn asker(json: bool, lines: &Arc<Lines>, cancel: &Cancel) -> Arc<dyn Asker> {
    let there = !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if there {
        Arc::new(AtTerminal { lines: Arc::clone(lines), cancel: cancel.clone(), one: Mutex::new(()) })
    } else {
        Arc::new(Nobody)
    }
}

struct Nobody;

impl Asker for Nobody {
    fn ask(&self, _session: &str, _question: &str) -> Option<String> {
        None
    }
}

struct AtTerminal {
    lines: Arc<Lines>,
    cancel: Cancel,
    /// Branches ask one after the other.
    one: Mutex<()>,
}

impl Asker for AtTerminal {
    fn ask(&self, session: &str, question: &str) -> Option<String> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let (mark, told) = self.lines.so_far(|so_far| {
            let told = so_far.lane(session).and_then(|lane| lane.asks.as_deref()) == Some(question);
            (so_far.mark(session), told)
        });
        // A question that stands right above is not put twice.
        self.lines.aside(|| self.answer(mark.as_deref(), if told { "" } else { question }))
    }
}

impl AtTerminal {
    fn answer(&self, mark: Option<&str>, question: &str) -> Option<String> {
        {
            let mut out = crate::terminal::stdout();
            for text in question.lines() {
                writeln!(out, "{}", line(text, SHOWN)).ok()?;
            }
            let mark = mark.map(|mark| format!("{mark} ")).unwrap_or_default();
            write!(out, "{mark}> ").ok()?;
            out.flush().ok()?;
        }
        if !self.is_typed() {
            // The cursor stands behind the prompt.
            let _ = writeln!(std::io::stdout().lock());
            return None;
        }
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// Waits until something is typed; `false` if the run is stopped before.
    fn is_typed(&self) -> bool {
        let stdin = std::io::stdin();
        while !self.cancel.is_cancelled() {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&GLANCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Whatever else is wrong with it, reading will say.
                _ => return true,
            }
        }
        false
    }
}
