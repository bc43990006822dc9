//! Byte-exact responses: which bytes are written when, and how the connection ends.

use crate::script::{Framing, ReplyBehavior};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A byte-exact response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsePlan {
    /// Delay before the first byte, in milliseconds.
    pub before_ms: u64,
    /// The status; 0 writes no head, so that the steps are the whole response.
    pub status: u16,
    /// The headers, in order. Framing headers are added.
    pub headers: Vec<(String, String)>,
    /// How the body is framed.
    pub framing: Framing,
    /// Declared length, if it differs from that of the steps.
    pub length: Option<usize>,
    /// The body.
    pub steps: Vec<WriteStep>,
}

/// One step of writing a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteStep {
    /// Writes this text in one write and one chunk.
    Write(String),
    /// Writes these bytes in one write and one chunk.
    Bytes(Vec<u8>),
    /// Waits for a number of milliseconds.
    WaitMs(u64),
    /// Closes the connection; later steps are not written.
    Cut,
}

impl WriteStep {
    /// The bytes that the step writes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            WriteStep::Write(text) => text.as_bytes(),
            WriteStep::Bytes(bytes) => bytes,
            WriteStep::WaitMs(_) | WriteStep::Cut => &[],
        }
    }
}

impl ResponsePlan {
    /// A response written at once, with its length.
    #[must_use]
    pub fn full(status: u16, content_type: &str, body: String) -> Self {
        ResponsePlan {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            framing: Framing::Length,
            steps: vec![WriteStep::Write(body)],
            ..ResponsePlan::default()
        }
    }

    /// The head of the response; empty if the steps are the whole response.
    #[must_use]
    pub fn head(&self) -> String {
        if self.status == 0 {
            return String::new();
        }
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason_phrase(self.status));
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

    /// Delay before the first byte.
    #[must_use]
    pub const fn initial_delay(&self) -> Duration {
        Duration::from_millis(self.before_ms)
    }

    /// Whether the connection can be reused after this response.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.status != 0 && self.framing != Framing::Close && !self.steps.contains(&WriteStep::Cut)
    }

    /// The body of a behavior, with its chunking, delays and cut.
    #[must_use]
    pub(crate) fn for_reply(behaviour: &ReplyBehavior, content_type: &str, pieces: Vec<Vec<u8>>) -> Self {
        let pieces = match behaviour.write_bytes {
            0 => pieces,
            size => pieces.concat().chunks(size).map(<[u8]>::to_vec).collect(),
        };
        let length = Some(pieces.iter().map(Vec::len).sum());
        let mut left = behaviour.cut_at.unwrap_or(usize::MAX);
        let mut steps = Vec::new();
        for mut piece in pieces {
            if !steps.is_empty() && behaviour.gap_ms > 0 {
                steps.push(WriteStep::WaitMs(behaviour.gap_ms));
            }
            let whole = piece.len() <= left;
            piece.truncate(left);
            left -= piece.len();
            if !piece.is_empty() {
                steps.push(WriteStep::Bytes(piece));
            }
            if !whole || (left == 0 && behaviour.cut_at.is_some()) {
                steps.push(WriteStep::Cut);
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
        ResponsePlan { before_ms: behaviour.first_byte_ms, status, headers, framing, length, steps }
    }
}

/// Reason phrase of a status.
fn reason_phrase(status: u16) -> &'static str {
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
