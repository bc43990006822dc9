//! Keys of the terminal, one at a time and without being shown, as long as this lives.

use flyball_run::process::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

/// How long nobody looks whether Ctrl-C was pressed.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressed {
    /// `q`, or Ctrl-C, or the terminal is gone.
    Quit,
    /// Anything else.
    Other,
    /// Nothing, for as long as was waited.
    Nothing,
}

/// The keys. When this is dropped the terminal is as it was.
pub(super) struct Keys {
    before: Option<Termios>,
    cancel: Cancel,
}

impl Keys {
    /// Lets keys come one by one; without a terminal at stdin only Ctrl-C is heard.
    pub(super) fn open() -> std::io::Result<Self> {
        let cancel = Cancel::new();
        let pressed = cancel.clone();
        // If there is a handler already, Ctrl-C ends the command as well, by that.
        let _ = ctrlc::set_handler(move || pressed.cancel());
        let stdin = std::io::stdin();
        let before = if stdin.is_terminal() { Some(tcgetattr(&stdin)?) } else { None };
        if let Some(before) = &before {
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &single)?;
        }
        Ok(Keys { before, cancel })
    }

    /// Waits for a key, at most so long.
    pub(super) fn wait(&self, most: Duration) -> Pressed {
        if self.before.is_none() {
            return if self.cancel.wait(most) { Pressed::Quit } else { Pressed::Nothing };
        }
        let begun = Instant::now();
        let mut stdin = std::io::stdin();
        while begun.elapsed() < most {
            if self.cancel.is_cancelled() {
                return Pressed::Quit;
            }
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&GLANCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return Pressed::Quit,
            }
            let mut keys = [0; 64];
            return match stdin.read(&mut keys) {
                Ok(0) | Err(_) => Pressed::Quit,
                Ok(count) if keys.iter().take(count).any(|key| b"qQ\x03".contains(key)) => Pressed::Quit,
                Ok(_) => Pressed::Other,
            };
        }
        Pressed::Nothing
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If the terminal is gone there is nothing to put back.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
