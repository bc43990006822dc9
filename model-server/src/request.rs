//! A recorded request, and reading it from a connection.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// Maximum size of a request head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum size of a body.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of headers.
const MAX_HEADERS: usize = 100;

/// A request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// `POST`
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers by lowercase name.
    pub headers: BTreeMap<String, String>,
    /// The body, byte for byte.
    pub raw: Vec<u8>,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
    /// Status of the response; 0 if the response was not HTTP.
    pub status: u16,
    /// Why it was rejected, if it was.
    pub problem: Option<String>,
}

impl RecordedRequest {
    /// A header by its lowercase name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Number of assistant messages in the request.
    #[must_use]
    pub fn rounds(&self) -> usize {
        let messages = self.body.get("messages").and_then(Value::as_array);
        let assistant = |message: &&Value| message.get("role") == Some(&Value::from("assistant"));
        messages.map_or(0, |messages| messages.iter().filter(assistant).count())
    }

    /// Reads the next request; `None` if the client closed the connection.
    pub(crate) fn read(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let (head, mut request) = loop {
            if let Some(found) = parse_head(rest)? {
                break found;
            }
            if rest.len() > MAX_HEAD_BYTES {
                return Err(invalid_data("the head is too large"));
            }
            if !fill(from, rest)? {
                return if rest.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        rest.drain(..head);
        request.raw = if request.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            read_chunks(from, rest)?
        } else {
            let length = request.header("content-length").map_or(Ok(0), str::parse);
            read_exactly(from, rest, length.map_err(|_| invalid_data("Content-Length is not a number"))?)?
        };
        request.body = serde_json::from_slice(&request.raw).unwrap_or_default();
        Ok(Some(request))
    }
}

/// The length of the head, and the request without its body; `None` if the head is incomplete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(usize, RecordedRequest)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(invalid_data(&error.to_string())),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = parsed.headers.iter().map(|h| (h.name.to_ascii_lowercase(), text(h.value))).collect();
    let request = RecordedRequest {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers,
        raw: Vec::new(),
        body: Value::Null,
        status: 0,
        problem: None,
    };
    Ok(Some((length, request)))
}

fn read_exactly(from: &mut impl Read, rest: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BODY_BYTES {
        return Err(invalid_data("the body is too large"));
    }
    while rest.len() < length {
        if !fill(from, rest)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(rest.drain(..length).collect())
}

fn read_chunks(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from, rest)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid_data("a chunk has no size"))?;
        if body.len() + size > MAX_BODY_BYTES {
            return Err(invalid_data("the body is too large"));
        }
        body.extend(read_exactly(from, rest, size)?);
        // A chunk ends with an empty line, and so does the body: there are no trailers.
        if !read_line(from, rest)?.is_empty() {
            return Err(invalid_data("a chunk is longer than it says"));
        }
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_line(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let line: Vec<u8> = rest.drain(..at + 2).take(at).collect();
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if rest.len() > MAX_HEAD_BYTES {
            return Err(invalid_data("a line is too long"));
        }
        if !fill(from, rest)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads available bytes; `false` if the client closed the connection.
fn fill(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 8192];
    let got = from.read(&mut buffer)?;
    rest.extend_from_slice(buffer.get(..got).unwrap_or_default());
    Ok(got > 0)
}

fn invalid_data(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
