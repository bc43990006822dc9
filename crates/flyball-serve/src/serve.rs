//! Listening: TCP on this machine, and a socket beside it; and stopping without losing anything.

use crate::connections::{Connection, Connections};
use crate::doors::Entrance;
use crate::labels;
use crate::live;
use crate::office::{Office, Setting, Shared};
use crate::otlp;
use crate::output_sweep::sweep_orphans;
use crate::patience::Patient;
use crate::posts;
use crate::runs::Workers;
use crate::signals;
use crate::tls::Tls;
use crate::who::Peer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

/// How long answers that are under way may take to end, once we are to stop.
const GRACE: Duration = Duration::from_secs(20);
/// How long nobody must have waited for an answer before streams without an end are cut off.
const STILL: Duration = Duration::from_millis(300);
/// How long threads that are at work may take to end at last.
const LAST: Duration = Duration::from_secs(5);
/// How long the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(10);
/// How long to wait when no connection can be taken, for want of file descriptors.
const BREATH: Duration = Duration::from_millis(50);
/// How long a client may leave what we send it where it is, before we hang up.
const STALL: Duration = Duration::from_secs(60);
/// How many connections may be open.
const CONNECTIONS: usize = 4_096;
/// The largest head of a request, in bytes; also how much of a body is read at once.
const HEAD_BYTES: usize = 64 * 1024;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Where to listen.
#[derive(Debug)]
pub struct Listen {
    /// An address of the network.
    pub tcp: Option<std::net::TcpListener>,
    /// A socket of this machine, and where it is, so that it can be removed at the end.
    pub socket: Option<(std::os::unix::net::UnixListener, PathBuf)>,
    /// A certificate and its key: the address of the network speaks TLS, and nothing else.
    pub tls: Option<Tls>,
}

impl Listen {
    /// Whether anybody between here and the clients can read and change what is sent: plain HTTP beyond loopback.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let beyond = |tcp: &std::net::TcpListener| tcp.local_addr().is_ok_and(|at| !at.ip().is_loopback());
        self.tls.is_none() && self.tcp.as_ref().is_some_and(beyond)
    }
}

/// Called once, when requests are accepted and shutdown signals are handled.
pub type OnReady = Box<dyn FnOnce() + Send>;

/// Serves until SIGINT or SIGTERM. What was taken is answered; a second signal ends it at once.
///
/// # Errors
/// If the policy cannot be used, or there is no way to listen.
pub fn serve(setting: Setting, listen: Listen, on_ready: OnReady) -> io::Result<()> {
    no_core_file();
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let socket = listen.socket.as_ref().map(|(_, path)| path.clone());
    let exposed = listen.is_exposed() && !setting.insecure_http;
    let opened = Office::open(setting, listen.tls.is_some(), exposed);
    let (office, committers, scribe) = opened.map_err(|error| io::Error::other(error.what))?;
    if exposed {
        office.signals.log.trouble("listen", "plain_http", PLAIN_HTTP);
    }
    let workers = Workers::start(&office.runs);
    let served = runtime.block_on(run(Arc::clone(&office), listen, workers, on_ready));
    drop(office);
    if let Ok(End::Drained) = served {
        // Everybody has their answer; what is left are threads that end by themselves.
        runtime.shutdown_timeout(LAST);
        committers.finish(LAST);
        scribe.finish();
    } else {
        runtime.shutdown_background();
    }
    if let Some(path) = socket {
        // Whoever finds it there the next time sees that nobody listens.
        let _ = std::fs::remove_file(path);
    }
    served.map(|_| ())
}

/// What is in memory does not end up in a file if we are ever to crash: keys and what agents said are in it.
fn no_core_file() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Lowering it is always allowed; a system that refuses even that has its own ways.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Each connection needs a file descriptor, and the usual limit is lower than the number of connections that we take.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the system refuses, fewer connections are taken.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The warning for plain HTTP beyond this machine.
pub const PLAIN_HTTP: &str = "plain HTTP beyond this machine: keys and sessions can be read and changed on the way; \
    use --tls-cert and --tls-key, or --insecure-http behind a proxy that speaks TLS";

/// How it ended.
enum End {
    /// Everything that was taken is answered.
    Drained,
    /// Somebody could not wait.
    AtOnce,
}

/// Who is being served, and whether anybody else will be.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    inside: AtomicUsize,
    stopping: AtomicBool,
}

impl Presence {
    /// Whether the server is about to stop: nobody new is let in.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// One request that is not answered yet.
pub(crate) struct Inside(Shared);

impl Inside {
    /// Counts somebody who waits for an answer; nobody is let in once we are to stop.
    pub(crate) fn enter(office: Shared) -> Option<Self> {
        office.presence.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(office);
        // Counted first, looked at afterwards: whoever gets in is waited for.
        if inside.0.presence.is_stopping() { None } else { Some(inside) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.presence.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The signals that end us.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Takes connections and answers them.
struct Reception {
    entrance: Arc<Entrance>,
    http: http1::Builder,
    open: GracefulShutdown,
    seats: Arc<Semaphore>,
    connections: Arc<Connections>,
    tls: Option<Tls>,
}

impl Reception {
    /// Serves a connection on the socket.
    fn greet_socket(&self, stream: tokio::net::UnixStream, uid: u32) {
        // Connections over the limit are dropped.
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return };
        let connection = self.connections.add(None);
        let served = self.serve(stream, Peer::Socket { uid }, Arc::clone(&connection));
        tokio::spawn(async move {
            until_closed(served, &connection).await;
            drop(seat);
        });
    }

    /// Serves a connection over the network.
    fn greet_tcp(&self, stream: tokio::net::TcpStream, from: std::net::IpAddr) {
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return };
        let _ = stream.set_nodelay(true);
        let (peer, connection) = (Peer::Tcp { from: Some(from) }, self.connections.add(Some(from)));
        let Some(Tls(acceptor)) = &self.tls else {
            let served = self.serve(stream, peer, Arc::clone(&connection));
            tokio::spawn(async move {
                until_closed(served, &connection).await;
                drop(seat);
            });
            return;
        };
        let (handshake, http, entrance, watcher) =
            (acceptor.accept(stream), self.http.clone(), Arc::clone(&self.entrance), self.open.watcher());
        tokio::spawn(async move {
            let served = async {
                let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, handshake).await else { return };
                let service = service(entrance, peer, Arc::clone(&connection));
                let stream = TokioIo::new(Patient::new(stream, STALL));
                let _ = watcher.watch(http.serve_connection(stream, service)).await;
            };
            until_closed(served, &connection).await;
            drop(seat);
        });
    }

    fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        connection: Arc<Connection>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let service = service(Arc::clone(&self.entrance), peer, connection);
        let stream = TokioIo::new(Patient::new(stream, STALL));
        let served = self.open.watch(self.http.serve_connection(stream, service));
        async move {
            // A client that goes away in mid-sentence is no failure of ours.
            let _ = served.await;
        }
    }
}

/// Answers the requests of a connection.
fn service(
    entrance: Arc<Entrance>,
    peer: Peer,
    connection: Arc<Connection>,
) -> impl hyper::service::Service<
    hyper::Request<hyper::body::Incoming>,
    Response = axum::response::Response,
    Error = Infallible,
    Future: Send,
> + Send {
    service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        if !connection.is_authenticated() {
            request.extensions_mut().insert(Arc::clone(&connection));
        }
        let (entrance, connection) = (Arc::clone(&entrance), Arc::clone(&connection));
        async move {
            let response = entrance.answer(request.map(axum::body::Body::new)).await;
            connection.answered();
            Ok::<_, Infallible>(response)
        }
    })
}

/// Serves a connection until it ends, or must make room for others.
async fn until_closed(served: impl Future<Output = ()>, connection: &Connection) {
    tokio::select! {
        () = served => {}
        () = connection.must_close() => {}
    }
}

async fn run(office: Arc<Office>, listen: Listen, workers: Workers, on_ready: OnReady) -> io::Result<End> {
    let tcp = listen.tcp.map(|tcp| {
        tcp.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(tcp)
    });
    let tcp = tcp.transpose()?;
    let socket = listen.socket.map(|(socket, _)| {
        socket.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(socket)
    });
    let socket = socket.transpose()?;
    let mut stop = Stop::new()?;
    // It writes to the store, which may block or run its own event loop.
    tokio::task::spawn_blocking(on_ready).await.map_err(io::Error::other)?;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    tokio::spawn(live::follow(Arc::clone(&office)));
    tokio::spawn(posts::watch(Arc::clone(&office)));
    tokio::spawn(labels::follow(Arc::clone(&office)));
    tokio::spawn(sweep_orphans(Arc::clone(&office)));
    signals::deliver(&office);
    otlp::push(&office);
    let reception = Reception {
        entrance: Arc::new(Entrance::new(Arc::clone(&office))),
        http,
        open: GracefulShutdown::new(),
        seats: Arc::new(Semaphore::new(CONNECTIONS)),
        connections: Arc::clone(&office.connections),
        tls: listen.tls,
    };
    loop {
        tokio::select! {
            accepted = accept_tcp(tcp.as_ref()) => match accepted {
                Ok((stream, from)) => reception.greet_tcp(stream, from.ip()),
                Err(_) => tokio::time::sleep(BREATH).await,
            },
            accepted = accept_socket(socket.as_ref()) => match accepted {
                Ok((stream, uid)) => reception.greet_socket(stream, uid),
                Err(_) => tokio::time::sleep(BREATH).await,
            },
            () = stop.wait() => break,
        }
    }
    drop((tcp, socket));
    office.signals.close();
    office.presence.stopping.store(true, Ordering::SeqCst);
    workers.close();
    let all_done = async {
        tokio::select! {
            () = reception.open.shutdown() => {}
            () = still(&office) => {}
            () = tokio::time::sleep(GRACE) => {}
        }
        // Runs stop where they are and put their orders back; another server goes on.
        let _ = tokio::task::spawn_blocking(move || workers.finish()).await;
    };
    Ok(tokio::select! {
        () = all_done => End::Drained,
        () = stop.wait() => End::AtOnce,
    })
}

/// Waits until nobody has waited for an answer for a while: what is still open then are streams that have no end.
async fn still(office: &Office) {
    let mut quiet = Duration::ZERO;
    let tick = STILL / 10;
    while quiet < STILL {
        tokio::time::sleep(tick).await;
        let nobody = office.presence.inside.load(Ordering::SeqCst) == 0;
        quiet = if nobody { quiet + tick } else { Duration::ZERO };
    }
}

async fn accept_tcp(
    listener: Option<&tokio::net::TcpListener>,
) -> io::Result<(tokio::net::TcpStream, std::net::SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn accept_socket(
    listener: Option<&tokio::net::UnixListener>,
) -> io::Result<(tokio::net::UnixStream, u32)> {
    let Some(listener) = listener else { return std::future::pending().await };
    let (stream, _) = listener.accept().await?;
    let uid = stream.peer_cred()?.uid();
    Ok((stream, uid))
}
