//! Reads single key presses from the terminal without echo and restores the terminal when dropped.

use flyball_runner::process::CancelToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

/// How often Ctrl-C is checked.
const INTERRUPT_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A key press or its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPress {
    /// `q`, Ctrl-C, or the terminal is gone.
    Quit,
    /// Anything else.
    Other,
    /// No key within the timeout.
    Timeout,
}

/// Reads keys in raw mode; restores the terminal on drop.
pub(super) struct KeyReader {
    saved_termios: Option<Termios>,
    cancel: CancelToken,
}

impl KeyReader {
    /// Switches the terminal to single-key input; if stdin is not a terminal, only Ctrl-C works.
    pub(super) fn open() -> std::io::Result<Self> {
        let cancel = CancelToken::new();
        let pressed = cancel.clone();
        // If a handler is already installed, it ends the command on Ctrl-C.
        let _ = ctrlc::set_handler(move || pressed.cancel());
        let stdin = std::io::stdin();
        let before = if stdin.is_terminal() { Some(tcgetattr(&stdin)?) } else { None };
        if let Some(before) = &before {
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &single)?;
        }
        Ok(KeyReader { saved_termios: before, cancel })
    }

    /// Waits for a key up to a timeout.
    pub(super) fn wait(&self, most: Duration) -> KeyPress {
        if self.saved_termios.is_none() {
            return if self.cancel.wait_timeout(most) { KeyPress::Quit } else { KeyPress::Timeout };
        }
        let begun = Instant::now();
        let mut stdin = std::io::stdin();
        while begun.elapsed() < most {
            if self.cancel.is_cancelled() {
                return KeyPress::Quit;
            }
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&INTERRUPT_POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return KeyPress::Quit,
            }
            let mut keys = [0; 64];
            return match stdin.read(&mut keys) {
                Ok(0) | Err(_) => KeyPress::Quit,
                Ok(count) if keys.iter().take(count).any(|key| b"qQ\x03".contains(key)) => KeyPress::Quit,
                Ok(_) => KeyPress::Other,
            };
        }
        KeyPress::Timeout
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        if let Some(before) = &self.saved_termios {
            // If the terminal is gone, there is nothing to restore.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
