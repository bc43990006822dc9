//! A line to the server that can be cut at the worst moment: when the commit was made and its answer is on the way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A line to the server.
pub(crate) struct Proxy {
    pub(crate) url: String,
    armed: Arc<AtomicBool>,
}

impl Proxy {
    /// A line to where `url` leads.
    pub(crate) fn new(url: &str) -> Self {
        let (front, rest) = url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let armed = Arc::new(AtomicBool::new(false));
        let (server, trap) = (server.to_owned(), Arc::clone(&armed));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else { return };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, &AtomicBool::new(false)));
                let trap = Arc::clone(&trap);
                std::thread::spawn(move || pass(server, client, &trap));
            }
        });
        Proxy { url: format!("{front}@127.0.0.1:{port}/{database}"), armed }
    }

    /// The next commit is the last thing that anybody hears of the server on its line.
    pub(crate) fn cut_at_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let part = &bytes[..read];
        let commit = part.windows(7).any(|window| window == b"COMMIT\0");
        if commit && armed.swap(false, Ordering::SeqCst) {
            break;
        }
        if to.write_all(part).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
