//! The server: one thread per connection, recorded requests, byte-exact responses.

use crate::protocol::{ModelProtocol, RequestRejection};
use crate::request::RecordedRequest;
use crate::response_plan::{ResponsePlan, WriteStep};
use crate::script::{Framing, ServerScript};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a delayed response checks whether the client is still connected.
const DISCONNECT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running model server. Dropping it stops it.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ModelServerShared>,
    listener: Option<JoinHandle<()>>,
}

struct ModelServerShared {
    script: ServerScript,
    state: Mutex<ModelServerState>,
    changed: Condvar,
}

#[derive(Default)]
struct ModelServerState {
    stopping: bool,
    admitted: usize,
    abandoned: usize,
    requests: Vec<RecordedRequest>,
    connected: u64,
    /// Open connections, to shut down when the server stops.
    open: BTreeMap<u64, TcpStream>,
}

impl ModelServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(script: ServerScript) -> io::Result<Self> {
        ModelServer::start_on(script, 0)
    }

    /// Starts a server on a port of the loopback interface; 0 selects a free one.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn start_on(script: ServerScript, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ModelServerShared { script, state: Mutex::default(), changed: Condvar::new() });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept_connections(&listener, &shared)
        });
        Ok(ModelServer { address, shared, listener: Some(thread) })
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of connections so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.lock().connected
    }

    /// The requests so far, including rejected ones, in order of completion.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().requests.clone()
    }

    /// Waits for a number of requests; `false` on timeout.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize, longest: Duration) -> bool {
        self.shared.wait_until(longest, |state| state.requests.len() >= count)
    }

    /// Waits for a number of responses that were aborted because the client disconnected; `false` on timeout.
    #[must_use]
    pub fn wait_for_abandoned(&self, count: usize, longest: Duration) -> bool {
        self.shared.wait_until(longest, |state| state.abandoned >= count)
    }

    /// Waits until the server stops, which only happens if the listener fails.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let connections = {
            let mut state = self.shared.lock();
            state.stopping = true;
            std::mem::take(&mut state.open)
        };
        self.shared.changed.notify_all();
        for connection in connections.values() {
            // It may already be closed.
            let _ = connection.shutdown(Shutdown::Both);
        }
        // A connection wakes the listener, which then sees that it must stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl ModelServerShared {
    fn lock(&self) -> MutexGuard<'_, ModelServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(&self, longest: Duration, done: impl Fn(&ModelServerState) -> bool) -> bool {
        let until = Instant::now() + longest;
        let mut state = self.lock();
        while !done(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits, unless the server stops or the client disconnects; returns whether to continue.
    fn wait_unless_disconnected(&self, stream: &TcpStream, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.wait_until(left.min(DISCONNECT_POLL_INTERVAL), |state| state.stopping)
                || is_disconnected(stream)
            {
                return false;
            }
            if left.is_zero() {
                return true;
            }
        }
    }

    /// Records the request and plans its response.
    fn record_and_plan(&self, mut request: RecordedRequest) -> ResponsePlan {
        let mut state = self.lock();
        let plan = self.plan(&mut request, &mut state.admitted);
        request.status = plan.status;
        state.requests.push(request);
        self.changed.notify_all();
        plan
    }

    fn plan(&self, request: &mut RecordedRequest, admitted: &mut usize) -> ResponsePlan {
        let Some(protocol) = ModelProtocol::from_path(&request.path).filter(|_| request.method == "POST")
        else {
            request.problem = Some("no such path".to_owned());
            let text = format!("no route for {} {}\n", request.method, request.path);
            return ResponsePlan::full(404, "text/plain", text);
        };
        let reply = protocol.validate(&self.script, request).and_then(|()| {
            let reply = self.script.reply(*admitted, request.rounds());
            reply.ok_or_else(|| {
                RequestRejection::invalid(format!("the script has no reply {}", *admitted + 1), "script")
            })
        });
        match reply {
            Ok(reply) => {
                *admitted += 1;
                protocol.reply_plan(reply, &request.body, *admitted)
            }
            Err(refusal) => {
                request.problem = Some(refusal.message.clone());
                protocol.rejection_plan(&refusal)
            }
        }
    }
}

fn accept_connections(listener: &TcpListener, shared: &Arc<ModelServerShared>) {
    for stream in listener.incoming() {
        let mut state = shared.lock();
        if state.stopping {
            return;
        }
        let Ok(stream) = stream else { continue };
        state.connected += 1;
        let number = state.connected;
        if let Ok(copy) = stream.try_clone() {
            state.open.insert(number, copy);
        }
        drop(state);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // A client that disconnects early is not a failure of the server.
            let _ = serve_connection(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            shared.lock().open.remove(&number);
        });
    }
}

/// Serves the requests of one connection in order.
fn serve_connection(stream: &TcpStream, shared: &ModelServerShared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut rest = Vec::new();
    while let Some(request) = RecordedRequest::read(&mut &*stream, &mut rest)? {
        let wants_close =
            request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let plan = shared.record_and_plan(request);
        match write_response(stream, shared, &plan) {
            Ok(true) if plan.keeps_alive() && !wants_close => {}
            Ok(true) => return Ok(()),
            gone => {
                shared.lock().abandoned += 1;
                shared.changed.notify_all();
                return gone.map(|_| ());
            }
        }
    }
    Ok(())
}

/// Writes a response; `false` if the client disconnected.
fn write_response(
    mut stream: &TcpStream,
    shared: &ModelServerShared,
    plan: &ResponsePlan,
) -> io::Result<bool> {
    if !shared.wait_unless_disconnected(stream, plan.initial_delay()) {
        return Ok(false);
    }
    stream.write_all(plan.head().as_bytes())?;
    for step in &plan.steps {
        match step {
            WriteStep::WaitMs(wait)
                if !shared.wait_unless_disconnected(stream, Duration::from_millis(*wait)) =>
            {
                return Ok(false);
            }
            WriteStep::WaitMs(_) => {}
            WriteStep::Cut => return Ok(true),
            WriteStep::Write(_) | WriteStep::Bytes(_) => {
                stream.write_all(&frame_chunk(plan, step.bytes()))?
            }
        }
    }
    if plan.status != 0 && plan.framing == Framing::Chunked {
        stream.write_all(b"0\r\n\r\n")?;
    }
    Ok(true)
}

/// Frames bytes as a chunk. Never empty, because an empty chunk would end the body.
fn frame_chunk(plan: &ResponsePlan, bytes: &[u8]) -> Vec<u8> {
    if plan.status == 0 || plan.framing != Framing::Chunked || bytes.is_empty() {
        return bytes.to_vec();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Whether the client closed the connection.
fn is_disconnected(stream: &TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let _ = stream.set_nonblocking(false);
    match looked {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
