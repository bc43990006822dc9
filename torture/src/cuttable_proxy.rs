//! A proxy to the PostgreSQL server that can cut the connection at a commit: before the server receives it, or before
//! its reply arrives.

use crate::harness::TortureResult;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a commit, in the request as in the reply.
const COMMIT: &[u8] = b"COMMIT\0";

/// When to cut the next commit, and how often that happened.
#[derive(Default)]
struct CommitTrap {
    cut_request: AtomicBool,
    cut_reply: AtomicBool,
    cuts: AtomicU64,
}

/// A proxy to the server.
pub(crate) struct CuttableProxy {
    pub(crate) url: String,
    trap: Arc<CommitTrap>,
}

impl CuttableProxy {
    /// Starts a proxy to the server in `url`.
    pub(crate) fn connect_to(url: &str) -> TortureResult<Self> {
        let parts = url.split_once('@').and_then(|(front, rest)| Some((front, rest.split_once('/')?)));
        let Some((front, (server, database))) = parts else {
            return Err("the server address is not postgres://USER@HOST:PORT/DATABASE".to_owned());
        };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let trap = Arc::new(CommitTrap::default());
        let (server, armed) = (server.to_owned(), Arc::clone(&trap));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Without a server the client's connection is closed at once.
                let _ = TcpStream::connect(&server).and_then(|server| forward_both(client, server, &armed));
            }
        });
        Ok(CuttableProxy { url: format!("{front}@127.0.0.1:{port}/{database}"), trap })
    }

    /// Cuts the connection at the next commit, before the server receives it or before its reply arrives.
    pub(crate) fn cut_at_commit(&self, before: bool) {
        let which = if before { &self.trap.cut_request } else { &self.trap.cut_reply };
        which.store(true, Ordering::SeqCst);
    }

    /// Number of cuts so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.trap.cuts.load(Ordering::SeqCst)
    }
}

/// Forwards bytes in both directions until one side disconnects.
fn forward_both(client: TcpStream, server: TcpStream, trap: &Arc<CommitTrap>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let (there, back) = (Arc::clone(trap), Arc::clone(trap));
    std::thread::spawn(move || forward(from, to, &there.cut_request, &there.cuts));
    std::thread::spawn(move || forward(server, client, &back.cut_reply, &back.cuts));
    Ok(())
}

fn forward(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool, cuts: &AtomicU64) {
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
