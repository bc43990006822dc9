//! A proxy to the server that cuts the connection at the worst moment: after the commit, before its reply arrives.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A proxy to the server.
pub(crate) struct CommitCutProxy {
    pub(crate) url: String,
    armed: Arc<AtomicBool>,
}

impl CommitCutProxy {
    /// Starts a proxy to the server in `url`.
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
                std::thread::spawn(move || forward(from, to, &AtomicBool::new(false)));
                let trap = Arc::clone(&trap);
                std::thread::spawn(move || forward(server, client, &trap));
            }
        });
        CommitCutProxy { url: format!("{front}@127.0.0.1:{port}/{database}"), armed }
    }

    /// Cuts the connection when the next commit is acknowledged.
    pub(crate) fn cut_at_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool) {
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
