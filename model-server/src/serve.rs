//! The server: a thread for each connection, requests recorded, answers written to the byte.

use crate::plan::{Plan, Step};
use crate::protocol::{Protocol, Refusal};
use crate::request::Request;
use crate::script::{Framing, Script};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a waiting answer looks whether the client is still there.
const GLANCE: Duration = Duration::from_millis(10);

/// A running model server. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    script: Script,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopping: bool,
    admitted: usize,
    abandoned: usize,
    requests: Vec<Request>,
    connected: u64,
    /// Those that are open, to be shut when the server ends.
    open: BTreeMap<u64, TcpStream>,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(script: Script) -> io::Result<Self> {
        Server::start_on(script, 0)
    }

    /// Starts a server on a port of the loopback interface; 0 is any free one.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn start_on(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { script, state: Mutex::default(), changed: Condvar::new() });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Ok(Server { address, shared, listener: Some(thread) })
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.lock().connected
    }

    /// The requests so far, refused ones included, in the order in which they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Waits until there were so many requests; `false` if that takes longer than the time given.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize, longest: Duration) -> bool {
        self.shared.wait_until(longest, |state| state.requests.len() >= count)
    }

    /// Waits until so many answers were given up because the client had closed the connection; `false` if that takes
    /// longer than the time given.
    #[must_use]
    pub fn wait_for_abandoned(&self, count: usize, longest: Duration) -> bool {
        self.shared.wait_until(longest, |state| state.abandoned >= count)
    }

    /// Waits until the server ends, which is for ever unless the listener fails.
    pub fn wait(mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let connections = {
            let mut state = self.shared.lock();
            state.stopping = true;
            std::mem::take(&mut state.open)
        };
        self.shared.changed.notify_all();
        for connection in connections.values() {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
        // The listener sees that it must stop when somebody connects.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(&self, longest: Duration, done: impl Fn(&State) -> bool) -> bool {
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

    /// Waits, unless the server stops or the client goes away; says whether to go on.
    fn pause(&self, stream: &TcpStream, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.wait_until(left.min(GLANCE), |state| state.stopping) || is_gone(stream) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
        }
    }

    /// Records the request and says how it is answered.
    fn answer(&self, mut request: Request) -> Plan {
        let mut state = self.lock();
        let plan = self.plan(&mut request, &mut state.admitted);
        request.status = plan.status;
        state.requests.push(request);
        self.changed.notify_all();
        plan
    }

    fn plan(&self, request: &mut Request, admitted: &mut usize) -> Plan {
        let Some(protocol) = Protocol::of(&request.path).filter(|_| request.method == "POST") else {
            request.problem = Some("no such path".to_owned());
            let text = format!("there is no {} {}\n", request.method, request.path);
            return Plan::whole(404, "text/plain", text);
        };
        let reply = protocol.admit(&self.script, request).and_then(|()| {
            let reply = self.script.reply(*admitted, request.rounds());
            reply.ok_or_else(|| {
                Refusal::invalid(format!("the script has no reply {}", *admitted + 1), "script")
            })
        });
        match reply {
            Ok(reply) => {
                *admitted += 1;
                protocol.answer(reply, &request.body, *admitted)
            }
            Err(refusal) => {
                request.problem = Some(refusal.message.clone());
                protocol.refuse(&refusal)
            }
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
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
            // A client that goes away in mid-sentence is no failure of the server's.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            shared.lock().open.remove(&number);
        });
    }
}

/// Answers the requests of one connection, one after the other.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut rest = Vec::new();
    while let Some(request) = Request::read(&mut &*stream, &mut rest)? {
        let wants_close =
            request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let plan = shared.answer(request);
        match write(stream, shared, &plan) {
            Ok(true) if plan.keeps_open() && !wants_close => {}
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

/// Writes an answer; `false` if it was given up because the client went away.
fn write(mut stream: &TcpStream, shared: &Shared, plan: &Plan) -> io::Result<bool> {
    if !shared.pause(stream, plan.before()) {
        return Ok(false);
    }
    stream.write_all(plan.head().as_bytes())?;
    for step in &plan.steps {
        match step {
            Step::WaitMs(wait) if !shared.pause(stream, Duration::from_millis(*wait)) => return Ok(false),
            Step::WaitMs(_) => {}
            Step::Cut => return Ok(true),
            Step::Write(_) | Step::Bytes(_) => stream.write_all(&framed(plan, step.bytes()))?,
        }
    }
    if plan.status != 0 && plan.framing == Framing::Chunked {
        stream.write_all(b"0\r\n\r\n")?;
    }
    Ok(true)
}

/// The bytes with the frame of a chunk around them. An empty chunk would end the body, so there is none.
fn framed(plan: &Plan, bytes: &[u8]) -> Vec<u8> {
    if plan.status == 0 || plan.framing != Framing::Chunked || bytes.is_empty() {
        return bytes.to_vec();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Whether the client has closed the connection.
fn is_gone(stream: &TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let _ = stream.set_nonblocking(false);
    match looked {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
