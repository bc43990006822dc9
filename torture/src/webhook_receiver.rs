//! A local webhook receiver that records the idempotency keys.

use crate::harness::TortureResult;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Listens until the process exits.
pub(crate) struct WebhookKeyReceiver {
    pub(crate) address: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl WebhookKeyReceiver {
    pub(crate) fn start() -> TortureResult<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let keys = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&keys);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // An incomplete request does not count.
                let Ok(key) = read_request_key(&stream) else { continue };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(key);
                let _ = (&stream)
                    .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Ok(WebhookKeyReceiver { address: format!("http://{address}/hook"), keys })
    }

    /// The keys received so far, with repeats.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads one request completely; returns its key.
fn read_request_key(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut key, mut line) = (0, String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "idempotency-key" => value.trim().clone_into(&mut key),
            _ => {}
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(key)
}
