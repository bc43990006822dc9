//! Real receivers: an HTTP server that records posts, and an SMTP relay.

use crate::sse_client::RECEIVE_TIMEOUT;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedPost {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedPost {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Answers posts with these statuses, then with 200, and records them.
pub(crate) fn http_receiver(statuses: &'static [u16]) -> (String, Receiver<ReceivedPost>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    let (tell, posts) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter();
        for stream in listener.incoming() {
            let status = statuses.next().copied().unwrap_or(200);
            if respond(stream.unwrap(), status, &tell).is_none() {
                return;
            }
        }
    });
    (place, posts)
}

fn respond(mut stream: TcpStream, status: u16, tell: &Sender<ReceivedPost>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut headers, mut length, mut line) = (Vec::new(), 0, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        let (name, value) = line.split_once(':').unwrap();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    write!(stream, "HTTP/1.1 {status} So\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}").ok()?;
    tell.send(ReceivedPost { path, headers, body: String::from_utf8(body).unwrap() }).ok()
}

/// A message as received by the relay.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedEmail {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) text: String,
    /// The client's AUTH command.
    pub(crate) auth: Option<String>,
    /// Whether the connection was encrypted.
    pub(crate) encrypted: bool,
}

/// A relay that accepts and records messages. It offers AUTH PLAIN.
pub(crate) fn smtp_receiver() -> (String, Receiver<ReceivedEmail>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("smtp://{}", listener.local_addr().unwrap());
    let (tell, letters) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut line = BufReader::new(stream.unwrap());
            let _ = line
                .get_mut()
                .write_all(GREETING)
                .and_then(|()| serve_smtp(&mut line, &ReceivedEmail::default(), false, &tell));
        }
    });
    (place, letters)
}

/// The relay's greeting.
pub(crate) const GREETING: &[u8] = b"220 relay.test\r\n";

/// How an SMTP session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SmtpSessionEnd {
    /// The client quit.
    Quit,
    /// The client requested STARTTLS.
    StartTls,
}

/// Serves a client and records its messages; `begun` is the template for messages on this connection, `offer` whether
/// STARTTLS is offered.
pub(crate) fn serve_smtp<S: Read + Write>(
    reader: &mut BufReader<S>,
    begun: &ReceivedEmail,
    offer: bool,
    tell: &Sender<ReceivedEmail>,
) -> std::io::Result<SmtpSessionEnd> {
    let mut letter = begun.clone();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let said = line.trim_end().to_owned();
        line.clear();
        let reply = match said.split(' ').next().unwrap_or_default().to_uppercase().as_str() {
            "EHLO" if offer => "250-relay.test\r\n250-STARTTLS\r\n250 8BITMIME\r\n",
            "EHLO" => "250-relay.test\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n",
            "STARTTLS" if offer => {
                reader.get_mut().write_all(b"220 ready\r\n")?;
                return Ok(SmtpSessionEnd::StartTls);
            }
            "AUTH" => {
                letter.auth = Some(said);
                "235 ok\r\n"
            }
            "MAIL" => {
                letter.from = said;
                "250 ok\r\n"
            }
            "RCPT" => {
                letter.to.push(said);
                "250 ok\r\n"
            }
            "DATA" => {
                reader.get_mut().write_all(b"354 go ahead\r\n")?;
                while reader.read_line(&mut line)? > 0 && line != ".\r\n" {
                    letter.text.push_str(&line);
                    line.clear();
                }
                line.clear();
                let _ = tell.send(letter.clone());
                "250 queued\r\n"
            }
            "QUIT" => {
                reader.get_mut().write_all(b"221 bye\r\n")?;
                return Ok(SmtpSessionEnd::Quit);
            }
            _ => "250 ok\r\n",
        };
        reader.get_mut().write_all(reply.as_bytes())?;
    }
    Ok(SmtpSessionEnd::Quit)
}

/// Waits for the next delivery.
pub(crate) fn receive<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(RECEIVE_TIMEOUT).expect("nothing was delivered")
}
