//! Real receivers: an HTTP server that keeps what is posted to it, and a relay that speaks SMTP.

use crate::ear::PATIENCE;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A request that was received.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Answers posts with these statuses, then with 200, and keeps them.
pub(crate) fn http(statuses: &'static [u16]) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    let (tell, posts) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter();
        for stream in listener.incoming() {
            let status = statuses.next().copied().unwrap_or(200);
            if answer(stream.unwrap(), status, &tell).is_none() {
                return;
            }
        }
    });
    (place, posts)
}

fn answer(mut stream: TcpStream, status: u16, tell: &Sender<Post>) -> Option<()> {
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
    tell.send(Post { path, headers, body: String::from_utf8(body).unwrap() }).ok()
}

/// A letter as the relay got it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Letter {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) text: String,
    /// What the client said to show who it is.
    pub(crate) auth: Option<String>,
    /// It came on an encrypted line.
    pub(crate) sealed: bool,
}

/// A relay that takes letters and keeps them. It offers a plain login.
pub(crate) fn smtp() -> (String, Receiver<Letter>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("smtp://{}", listener.local_addr().unwrap());
    let (tell, letters) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut line = BufReader::new(stream.unwrap());
            let _ = line
                .get_mut()
                .write_all(GREETING)
                .and_then(|()| talk(&mut line, &Letter::default(), false, &tell));
        }
    });
    (place, letters)
}

/// What a relay says first.
pub(crate) const GREETING: &[u8] = b"220 relay.test\r\n";

/// How a talk with a relay went on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// They are done.
    Bye,
    /// The client wants to go on encrypted.
    Sealing,
}

/// Talks with a client and keeps its letters; `begun` is what every letter on this line has, `offer` whether it may go
/// on encrypted.
pub(crate) fn talk<S: Read + Write>(
    reader: &mut BufReader<S>,
    begun: &Letter,
    offer: bool,
    tell: &Sender<Letter>,
) -> std::io::Result<Ended> {
    let mut letter = begun.clone();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let said = line.trim_end().to_owned();
        line.clear();
        let reply = match said.split(' ').next().unwrap_or_default().to_uppercase().as_str() {
            "EHLO" if offer => "250-relay.test\r\n250-STARTTLS\r\n250 8BITMIME\r\n",
            "EHLO" => "250-relay.test\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n",
            "STARTTLS" if offer => {
                reader.get_mut().write_all(b"220 go on\r\n")?;
                return Ok(Ended::Sealing);
            }
            "AUTH" => {
                letter.auth = Some(said);
                "235 so it is\r\n"
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
                reader.get_mut().write_all(b"354 go on\r\n")?;
                while reader.read_line(&mut line)? > 0 && line != ".\r\n" {
                    letter.text.push_str(&line);
                    line.clear();
                }
                line.clear();
                let _ = tell.send(letter.clone());
                "250 taken\r\n"
            }
            "QUIT" => {
                reader.get_mut().write_all(b"221 bye\r\n")?;
                return Ok(Ended::Bye);
            }
            _ => "250 ok\r\n",
        };
        reader.get_mut().write_all(reply.as_bytes())?;
    }
    Ok(Ended::Bye)
}

/// The next thing that must come.
pub(crate) fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("nothing was delivered")
}
