//! A line to the PostgreSQL server that can be cut at a commit: before the server hears of it, or before its answer
//! is heard.

use crate::kit::Fallible;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a commit looks like, in the question as in the answer.
const COMMIT: &[u8] = b"COMMIT\0";

/// Where the next commit is cut off, and how often that happened.
#[derive(Default)]
struct Trap {
    asked: AtomicBool,
    answered: AtomicBool,
    cuts: AtomicU64,
}

/// A line to the server.
pub(crate) struct Line {
    pub(crate) url: String,
    trap: Arc<Trap>,
}

impl Line {
    /// A line to where `url` leads.
    pub(crate) fn to(url: &str) -> Fallible<Self> {
        let parts = url.split_once('@').and_then(|(front, rest)| Some((front, rest.split_once('/')?)));
        let Some((front, (server, database))) = parts else {
            return Err("the address of the server is not postgres://USER@HOST:PORT/DATABASE".to_owned());
        };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let trap = Arc::new(Trap::default());
        let (server, armed) = (server.to_owned(), Arc::clone(&trap));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Without a server there is no line: the client sees that at once.
                let _ = TcpStream::connect(&server).and_then(|server| join(client, server, &armed));
            }
        });
        Ok(Line { url: format!("{front}@127.0.0.1:{port}/{database}"), trap })
    }

    /// The next commit never reaches the server, or is the last thing that anybody hears of it on that line.
    pub(crate) fn cut_at_commit(&self, before: bool) {
        let which = if before { &self.trap.asked } else { &self.trap.answered };
        which.store(true, Ordering::SeqCst);
    }

    /// How often it was cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.trap.cuts.load(Ordering::SeqCst)
    }
}

/// Passes bytes both ways until one side is gone.
fn join(client: TcpStream, server: TcpStream, trap: &Arc<Trap>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let (there, back) = (Arc::clone(trap), Arc::clone(trap));
    std::thread::spawn(move || pass(from, to, &there.asked, &there.cuts));
    std::thread::spawn(move || pass(server, client, &back.answered, &back.cuts));
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool, cuts: &AtomicU64) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let part = bytes.get(..read).unwrap_or_default();
        let commit = part.windows(COMMIT.len()).any(|window| window == COMMIT);
        if commit && armed.swap(false, Ordering::SeqCst) {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(part).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
