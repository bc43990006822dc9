//! A request as it came, and reading it from a connection.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// The largest head that is read.
const MAX_HEAD: usize = 64 * 1024;
/// The largest body that is read.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 100;

/// A request that the server got.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `POST`
    pub method: String,
    /// The path, with what follows on the question mark.
    pub path: String,
    /// The headers; their names in small letters.
    pub headers: BTreeMap<String, String>,
    /// The body, byte for byte.
    pub raw: Vec<u8>,
    /// The body as JSON; null if it is none.
    pub body: Value,
    /// The status of the answer; 0 for one that was no HTTP.
    pub status: u16,
    /// Why it was refused, if it was.
    pub problem: Option<String>,
}

impl Request {
    /// A header by its name in small letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// How many assistant messages the request brings.
    #[must_use]
    pub fn rounds(&self) -> usize {
        let messages = self.body.get("messages").and_then(Value::as_array);
        let assistant = |message: &&Value| message.get("role") == Some(&Value::from("assistant"));
        messages.map_or(0, |messages| messages.iter().filter(assistant).count())
    }

    /// Reads the next request; `None` if the client has closed the connection.
    pub(crate) fn read(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let (head, mut request) = loop {
            if let Some(found) = parse_head(rest)? {
                break found;
            }
            if rest.len() > MAX_HEAD {
                return Err(bad("the head is too large"));
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
            read_exactly(from, rest, length.map_err(|_| bad("Content-Length is no number"))?)?
        };
        request.body = serde_json::from_slice(&request.raw).unwrap_or_default();
        Ok(Some(request))
    }
}

/// The length of the head and the request without its body; `None` if there is more of the head to come.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(usize, Request)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(&error.to_string())),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = parsed.headers.iter().map(|h| (h.name.to_ascii_lowercase(), text(h.value))).collect();
    let request = Request {
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
    if length > MAX_BODY {
        return Err(bad("the body is too large"));
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
        let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk has no size"))?;
        if body.len() + size > MAX_BODY {
            return Err(bad("the body is too large"));
        }
        body.extend(read_exactly(from, rest, size)?);
        // A chunk ends with an empty line, and so does the body: there are no trailers.
        if !read_line(from, rest)?.is_empty() {
            return Err(bad("a chunk is longer than it says"));
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
        if rest.len() > MAX_HEAD {
            return Err(bad("a line is too long"));
        }
        if !fill(from, rest)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads what is there; `false` if the client has closed the connection.
fn fill(from: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 8192];
    let got = from.read(&mut buffer)?;
    rest.extend_from_slice(buffer.get(..got).unwrap_or_default());
    Ok(got > 0)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
