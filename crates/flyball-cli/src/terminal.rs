//! Where text of sessions leaves for a terminal: nothing in it moves the cursor, hides text or turns it around.

use flyball::visible;
use std::io::{IsTerminal, Result, Stdout, Write};

/// The longest piece of a character that may come in the next write.
const PIECE: usize = 3;

/// Standard output for text and JSON. Characters that deceive a reader are written as `\u001b`, which is the spelling of
/// JSON too. Only the colors of `paint.rs` pass, and only on a terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    out: Stdout,
    colors: bool,
    /// The beginning of a character that was cut in two.
    rest: Vec<u8>,
}

/// Standard output.
pub(crate) fn stdout() -> Terminal {
    let out = std::io::stdout();
    let colors = out.is_terminal();
    Terminal { out, colors, rest: Vec::new() }
}

impl Terminal {
    fn put(&mut self, text: &str) -> Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}').filter(|_| self.colors) {
            let (before, after) = rest.split_at(at);
            self.out.write_all(visible(before).as_bytes())?;
            let color = color(after);
            self.out.write_all(after.get(..color).unwrap_or_default().as_bytes())?;
            if color == 0 {
                self.out.write_all(b"\\u001b")?;
            }
            rest = after.get(color.max(1)..).unwrap_or_default();
        }
        self.out.write_all(visible(rest).as_bytes())
    }
}

/// How long the color is that a text begins with: `ESC [ numbers m`.
fn color(text: &str) -> usize {
    let Some(inside) = text.strip_prefix("\u{1b}[") else { return 0 };
    let numbers = inside.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if inside.as_bytes().get(numbers) == Some(&b'm') { numbers + 3 } else { 0 }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = bytes.len();
        let joined;
        let bytes = if self.rest.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.rest).as_slice(), bytes].concat();
            joined.as_slice()
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => self.put(text)?,
            Err(error) => {
                let (text, rest) = bytes.split_at(error.valid_up_to());
                self.put(&String::from_utf8_lossy(text))?;
                if error.error_len().is_none() && rest.len() <= PIECE {
                    self.rest = rest.to_vec();
                } else {
                    self.put(&String::from_utf8_lossy(rest))?;
                }
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}
