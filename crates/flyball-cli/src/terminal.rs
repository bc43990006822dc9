//! Sanitized standard output: session text cannot move the cursor, hide text or reverse it.

use flyball::escape_deceptive;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Error, ErrorKind, IsTerminal, Result, Stdout, Write};

/// Maximum length of an incomplete UTF-8 character at the end of a write.
const MAX_PARTIAL_CHAR: usize = 3;

/// The reader of standard output has gone. Only stdout fails with this error, so that a broken connection to a server or
/// a child process is still reported.
#[derive(Debug)]
pub(crate) struct StdoutClosed;

impl std::fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output was closed by its reader")
    }
}

impl std::error::Error for StdoutClosed {}

/// Standard output, byte for byte. A closed pipe is reported as [`StdoutClosed`].
#[derive(Debug)]
pub(crate) struct RawStdout(Stdout);

/// Standard output for generated text and for programs.
pub(crate) fn raw_stdout() -> RawStdout {
    RawStdout(std::io::stdout())
}

fn mark_closed(error: Error) -> Error {
    if error.kind() == ErrorKind::BrokenPipe {
        Error::new(ErrorKind::BrokenPipe, StdoutClosed)
    } else {
        error
    }
}

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes).map_err(mark_closed)
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(mark_closed)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush().map_err(mark_closed)
    }
}

impl RawStdout {
    /// Fails if the reader has gone, even if there is nothing to write.
    fn check_open(&self) -> Result<()> {
        let mut watched = [PollFd::new(&self.0, PollFlags::empty())];
        poll(&mut watched, Some(&rustix::time::Timespec::default()))?;
        let [stdout] = watched;
        if stdout.revents().contains(PollFlags::ERR) {
            return Err(mark_closed(ErrorKind::BrokenPipe.into()));
        }
        Ok(())
    }
}

/// Standard output for text and JSON. Characters that deceive a reader are written as `\u001b`, which is the spelling of
/// JSON too. Only the colors of `paint.rs` pass, and only on a terminal.
#[derive(Debug)]
pub(crate) struct SanitizedStdout {
    out: RawStdout,
    colors: bool,
    /// The beginning of a character split across two writes.
    partial_char: Vec<u8>,
}

/// Sanitized standard output.
pub(crate) fn stdout() -> SanitizedStdout {
    let out = raw_stdout();
    let colors = out.0.is_terminal();
    SanitizedStdout { out, colors, partial_char: Vec::new() }
}

impl SanitizedStdout {
    /// Fails if the reader has gone, even if there is nothing to write.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.out.check_open()
    }

    fn write_sanitized(&mut self, text: &str) -> Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}').filter(|_| self.colors) {
            let (before, after) = rest.split_at(at);
            self.out.write_all(escape_deceptive(before).as_bytes())?;
            let color = color_sequence_len(after);
            self.out.write_all(after.get(..color).unwrap_or_default().as_bytes())?;
            if color == 0 {
                self.out.write_all(b"\\u001b")?;
            }
            rest = after.get(color.max(1)..).unwrap_or_default();
        }
        self.out.write_all(escape_deceptive(rest).as_bytes())
    }
}

/// Length of the color sequence at the start of a text: `ESC [ numbers m`.
fn color_sequence_len(text: &str) -> usize {
    let Some(inside) = text.strip_prefix("\u{1b}[") else { return 0 };
    let numbers = inside.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if inside.as_bytes().get(numbers) == Some(&b'm') { numbers + 3 } else { 0 }
}

impl Write for SanitizedStdout {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = bytes.len();
        let joined;
        let bytes = if self.partial_char.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.partial_char).as_slice(), bytes].concat();
            joined.as_slice()
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => self.write_sanitized(text)?,
            Err(error) => {
                let (text, rest) = bytes.split_at(error.valid_up_to());
                self.write_sanitized(&String::from_utf8_lossy(text))?;
                if error.error_len().is_none() && rest.len() <= MAX_PARTIAL_CHAR {
                    self.partial_char = rest.to_vec();
                } else {
                    self.write_sanitized(&String::from_utf8_lossy(rest))?;
                }
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}
