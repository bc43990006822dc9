//! A minimal HTTP client on a kept-alive connection.

use crate::BenchResult;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A kept-alive connection.
pub(crate) struct BenchHttpClient {
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

/// A response.
pub(crate) struct BenchHttpReply {
    pub(crate) status: u16,
    pub(crate) retry_after: bool,
}

impl BenchHttpClient {
    /// Connects.
    pub(crate) async fn connect(address: &str, key: &str) -> BenchResult<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let bearer = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nHost: {address}\r\n{bearer}Content-Type: application/json\r\n"
        );
        Ok(BenchHttpClient { stream, head, buffer: Vec::with_capacity(4_096) })
    }

    /// Posts an event.
    pub(crate) async fn post(&mut self, event: &str) -> BenchResult<BenchHttpReply> {
        let request = format!("{}Content-Length: {}\r\n\r\n{event}", self.head, event.len());
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if let Some(reply) = parse_reply(&self.buffer) {
                return Ok(reply);
            }
        }
    }
}

/// The response, once it is complete.
fn parse_reply(buffer: &[u8]) -> Option<BenchHttpReply> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(buffer.get(..end)?).ok()?;
    let field = |name: &str| {
        let value = |line: &str| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.split("\r\n").find_map(value)
    };
    let length = field("content-length")?.parse::<usize>().ok()?;
    if buffer.len() < end + 4 + length {
        return None;
    }
    let status = head.get(9..12)?.parse().ok()?;
    Some(BenchHttpReply { status, retry_after: status != 200 && field("retry-after").is_some() })
}
