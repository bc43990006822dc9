//! Runs the real binary in a pseudoterminal and captures its screen.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Far longer than any test takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The binary in a pseudoterminal.
pub(crate) struct PtySession {
    child: Child,
    master: File,
    /// Kept open, so that the terminal outlives the process.
    slave: Option<File>,
    pieces: Receiver<Vec<u8>>,
    text: Vec<u8>,
    columns: usize,
}

/// Captured output.
pub(crate) struct PtyResult {
    pub(crate) code: i32,
    /// The raw output.
    pub(crate) text: String,
    /// The screen after each update of the live lines.
    pub(crate) frames: Vec<String>,
    /// The final screen, including scrolled lines.
    pub(crate) screen: String,
    /// See [`PtySession::has_default_settings`].
    pub(crate) settings_restored: bool,
}

impl PtySession {
    /// Starts `flyball` in a directory, in a terminal of this size.
    pub(crate) fn start(folder: &Path, args: &[&str], env: &[(&str, &str)], size: (u16, u16)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs([("PATH", std::env::var("PATH").unwrap_or_default().as_str()), ("TERM", "xterm")])
            .envs(env.iter().copied());
        Self::start_command(command, size)
    }

    /// Starts a program in a terminal of this size.
    pub(crate) fn start_command(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let slave = File::options().read(true).write(true).open(path).expect("the other end");
        let end = || Stdio::from(slave.try_clone().expect("a second handle"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        let master = File::from(master);
        let mut reader = master.try_clone().expect("a second handle");
        let (give, pieces) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once all other ends are closed.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if give.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        PtySession {
            child,
            master,
            slave: Some(slave),
            pieces,
            text: Vec::new(),
            columns: usize::from(columns),
        }
    }

    /// Waits for a text in the output.
    pub(crate) fn wait_for(&mut self, words: &str) {
        let begun = Instant::now();
        while !String::from_utf8_lossy(&self.text).contains(words) {
            let left = TEST_TIMEOUT.saturating_sub(begun.elapsed());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.text.extend(piece),
                Err(_) => panic!("{words:?} never appeared: {}", String::from_utf8_lossy(&self.text)),
            }
        }
    }

    /// Types a text.
    pub(crate) fn type_line(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("typed");
    }

    /// Sends Ctrl-C.
    pub(crate) fn send_ctrl_c(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("a signal");
    }

    /// Whether the terminal echoes input and reads it line by line, as by default.
    pub(crate) fn has_default_settings(&self) -> bool {
        let modes = tcgetattr(&self.master).expect("its modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits for the exit.
    pub(crate) fn wait(mut self) -> PtyResult {
        let begun = Instant::now();
        let code = loop {
            if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(20)) {
                self.text.extend(piece);
            } else if let Some(status) = self.child.try_wait().expect("a status") {
                break status.code().expect("an exit code, not a signal");
            }
            if begun.elapsed() > TEST_TIMEOUT {
                let _ = self.child.kill();
                panic!("it did not exit: {}", String::from_utf8_lossy(&self.text));
            }
        };
        let as_usual = self.has_default_settings();
        // With the other end closed, the rest of the output is read to its end.
        drop(self.slave.take());
        self.text.extend(self.pieces.iter().flatten());
        let text = String::from_utf8(self.text).expect("UTF-8");
        let (frames, screen) = replay_screen(&text, self.columns);
        PtyResult { code, text, frames, screen, settings_restored: as_usual }
    }
}

/// Renders a text as a terminal would, after every update and at the end.
fn replay_screen(text: &str, columns: usize) -> (Vec<String>, String) {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut frames = Vec::new();
    let mut chars = text.chars().peekable();
    let whole = |lines: &[Vec<char>]| {
        lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect::<String>()
    };
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                assert_eq!(chars.next(), Some('['), "only sequences of one kind are used");
                let mut number = String::new();
                while let Some(part) = chars.next_if(|c| !c.is_ascii_alphabetic()) {
                    number.push(part);
                }
                match chars.next() {
                    Some('A') => {
                        row = row.checked_sub(number.parse().expect("a number")).expect("not above the top")
                    }
                    Some('K') => lines[row].truncate(column),
                    Some('J') => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    Some('l') if number == "?2026" => frames.push(whole(&lines)),
                    Some('h') if number == "?2026" => {}
                    Some('m') => {}
                    other => panic!("an unknown sequence: {number}{other:?}"),
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                while lines.len() <= row {
                    lines.push(Vec::new());
                }
                let line = &mut lines[row];
                while line.len() <= column {
                    line.push(' ');
                }
                line[column] = c;
                column += 1;
            }
        }
        while lines.len() <= row {
            lines.push(Vec::new());
        }
    }
    (frames, whole(&lines))
}
