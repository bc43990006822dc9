//! An answer to the byte: which bytes are written when, and how the connection ends.

use crate::script::{Behaviour, Framing};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An answer to the byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// How long to wait before the first byte, in milliseconds.
    pub before_ms: u64,
    /// The status; 0 writes no head at all, so that the steps are the whole answer.
    pub status: u16,
    /// The headers, in this order; those of the framing are added.
    pub headers: Vec<(String, String)>,
    /// How the body is framed.
    pub framing: Framing,
    /// The length to declare, if it is to be another than that of the steps.
    pub length: Option<usize>,
    /// The body.
    pub steps: Vec<Step>,
}

/// One step of writing a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Write this text, at once and as one chunk.
    Write(String),
    /// Write these bytes, at once and as one chunk.
    Bytes(Vec<u8>),
    /// Wait so many milliseconds.
    WaitMs(u64),
    /// Close the connection here; what follows is not written.
    Cut,
}

impl Step {
    /// The bytes that the step writes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Step::Write(text) => text.as_bytes(),
            Step::Bytes(bytes) => bytes,
            Step::WaitMs(_) | Step::Cut => &[],
        }
    }
}

impl Plan {
    /// An answer that is written at once, with its length.
    #[must_use]
    pub fn whole(status: u16, content_type: &str, body: String) -> Self {
        Plan {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            framing: Framing::Length,
            steps: vec![Step::Write(body)],
            ..Plan::default()
        }
    }

    /// The head of the answer; empty if the steps are the whole answer.
    #[must_use]
    pub fn head(&self) -> String {
        if self.status == 0 {
            return String::new();
        }
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.framing {
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::Length => {
                let steps = self.steps.iter().map(|step| step.bytes().len()).sum();
                let length: usize = self.length.unwrap_or(steps);
                head.push_str(&format!("Content-Length: {length}\r\n"));
            }
            Framing::Close => head.push_str("Connection: close\r\n"),
        }
        head.push_str("\r\n");
        head
    }

    /// How long to wait before the first byte.
    #[must_use]
    pub const fn before(&self) -> Duration {
        Duration::from_millis(self.before_ms)
    }

    /// Whether the connection can be used again after this answer.
    #[must_use]
    pub fn keeps_open(&self) -> bool {
        self.status != 0 && self.framing != Framing::Close && !self.steps.contains(&Step::Cut)
    }

    /// The body of a behaviour, in the pieces, with the waits and up to the cut that it wants.
    #[must_use]
    pub(crate) fn shaped(behaviour: &Behaviour, content_type: &str, pieces: Vec<Vec<u8>>) -> Self {
        let pieces = match behaviour.write_bytes {
            0 => pieces,
            size => pieces.concat().chunks(size).map(<[u8]>::to_vec).collect(),
        };
        let length = Some(pieces.iter().map(Vec::len).sum());
        let mut left = behaviour.cut_at.unwrap_or(usize::MAX);
        let mut steps = Vec::new();
        for mut piece in pieces {
            if !steps.is_empty() && behaviour.gap_ms > 0 {
                steps.push(Step::WaitMs(behaviour.gap_ms));
            }
            let whole = piece.len() <= left;
            piece.truncate(left);
            left -= piece.len();
            if !piece.is_empty() {
                steps.push(Step::Bytes(piece));
            }
            if !whole || (left == 0 && behaviour.cut_at.is_some()) {
                steps.push(Step::Cut);
                break;
            }
        }
        let content_type = behaviour.content_type.as_deref().unwrap_or(content_type);
        let mut headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        headers.extend(behaviour.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(after) = &behaviour.retry_after {
            headers.push(("Retry-After".to_owned(), after.clone()));
        }
        let status = behaviour.status.unwrap_or(200);
        let framing = behaviour.framing;
        Plan { before_ms: behaviour.first_byte_ms, status, headers, framing, length, steps }
    }
}

/// The usual words for a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Status",
    }
}
