//! Listening on TCP and on a Unix socket, and graceful shutdown.

use crate::app_state::{AppState, ServerConfig, SharedState};
use crate::auth::ClientPeer;
use crate::connections::{Connection, Connections};
use crate::coverage;
use crate::labels;
use crate::live;
use crate::otlp;
use crate::output_cleanup::remove_orphans_forever;
use crate::routes::HttpService;
use crate::runs::RunWorkers;
use crate::telemetry;
use crate::tls::Tls;
use crate::write_timeout::WriteTimeoutStream;
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

/// How long in-flight requests may take to finish after a shutdown signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);
/// How long no request may be in flight before open-ended streams are cut off at shutdown.
const QUIET_PERIOD: Duration = Duration::from_millis(300);
/// How long running threads may take to finish at the end.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for receiving a request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example when no file descriptors are left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// How long a client may read nothing before its connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 4_096;
/// Maximum size of a request head, in bytes; also the read buffer size for bodies.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Timeout for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Listeners of the server.
#[derive(Debug)]
pub struct ListenConfig {
    /// TCP listener.
    pub tcp: Option<std::net::TcpListener>,
    /// Unix socket and its path, which is removed on shutdown.
    pub socket: Option<(std::os::unix::net::UnixListener, PathBuf)>,
    /// Certificate and key. With these, the TCP listener accepts TLS only.
    pub tls: Option<Tls>,
}

impl ListenConfig {
    /// Whether traffic can be read and modified in transit: plain HTTP on a non-loopback address.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let beyond = |tcp: &std::net::TcpListener| tcp.local_addr().is_ok_and(|at| !at.ip().is_loopback());
        self.tls.is_none() && self.tcp.as_ref().is_some_and(beyond)
    }
}

/// Serves until SIGINT or SIGTERM. In-flight requests are drained before exit; a second signal exits immediately.
///
/// # Errors
/// If the policy cannot be used, or there is no way to listen.
pub fn serve(config: ServerConfig, listen: ListenConfig, on_ready: OnReady) -> io::Result<()> {
    disable_core_dumps();
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let socket = listen.socket.as_ref().map(|(_, path)| path.clone());
    let exposed = listen.is_exposed() && !config.insecure_http;
    let opened = AppState::open(config, listen.tls.is_some(), exposed);
    let (app, writers, log_writer) = opened.map_err(|error| io::Error::other(error.message))?;
    if exposed {
        app.telemetry.log.error("listen", "plain_http", PLAIN_HTTP);
    }
    let workers = RunWorkers::start(&app.runs);
    let served = runtime.block_on(run_until_shutdown(Arc::clone(&app), listen, workers, on_ready));
    drop(app);
    if let Ok(ShutdownOutcome::Drained) = served {
        // All requests are answered; the remaining threads end on their own.
        runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
        writers.join_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
        log_writer.finish();
    } else {
        runtime.shutdown_background();
    }
    if let Some(path) = socket {
        // A stale socket file would only make the next client fail to connect.
        let _ = std::fs::remove_file(path);
    }
    served.map(|_| ())
}

/// Disables core dumps: memory contains keys and agent content.
fn disable_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Lowering the limit is always allowed, so an error can be ignored.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Raises the file descriptor limit: the usual one is lower than the number of connections that the server accepts.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails, fewer connections are accepted.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Warning for plain HTTP on a non-loopback address.
pub const PLAIN_HTTP: &str = "plain HTTP on a network address: keys and sessions can be read and modified in \
    transit; use --tls-cert and --tls-key, or --insecure-http behind a TLS proxy";

/// Called once, when requests are accepted and shutdown signals are handled.
pub type OnReady = Box<dyn FnOnce() + Send>;

/// How it ended.
enum ShutdownOutcome {
    /// All in-flight requests were answered.
    Drained,
    /// A second signal arrived.
    Forced,
}

/// In-flight requests, and whether new ones are accepted.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequests {
    count: AtomicUsize,
    stopping: AtomicBool,
}

impl InFlightRequests {
    /// Whether the server is shutting down and rejects new requests.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// A request in flight.
pub(crate) struct InFlightGuard(SharedState);

impl InFlightGuard {
    /// Counts a request; `None` once the server is shutting down.
    pub(crate) fn start(app: SharedState) -> Option<Self> {
        app.in_flight.count.fetch_add(1, Ordering::SeqCst);
        let inside = InFlightGuard(app);
        // Count before checking, so that shutdown waits for every accepted request.
        if inside.0.in_flight.is_stopping() { None } else { Some(inside) }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Signals that end the server.
struct ShutdownSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl ShutdownSignal {
    fn new() -> io::Result<Self> {
        Ok(ShutdownSignal {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Accepts connections and serves requests.
struct HttpListener {
    service: Arc<HttpService>,
    http: http1::Builder,
    graceful: GracefulShutdown,
    connection_slots: Arc<Semaphore>,
    connections: Arc<Connections>,
    tls: Option<Tls>,
}

impl HttpListener {
    /// Serves a connection on the socket.
    fn serve_socket(&self, stream: tokio::net::UnixStream, uid: u32) {
        // Connections over the limit are dropped.
        let Ok(slot) = Arc::clone(&self.connection_slots).try_acquire_owned() else { return };
        let connection = self.connections.add(None);
        let served = self.serve(stream, ClientPeer::Socket { uid }, Arc::clone(&connection));
        tokio::spawn(async move {
            until_closed(served, &connection).await;
            drop(slot);
        });
    }

    /// Serves a TCP connection.
    fn serve_tcp(&self, stream: tokio::net::TcpStream, from: std::net::IpAddr) {
        let Ok(slot) = Arc::clone(&self.connection_slots).try_acquire_owned() else { return };
        let _ = stream.set_nodelay(true);
        let (peer, connection) = (ClientPeer::Tcp { from: Some(from) }, self.connections.add(Some(from)));
        let Some(Tls(acceptor)) = &self.tls else {
            let served = self.serve(stream, peer, Arc::clone(&connection));
            tokio::spawn(async move {
                until_closed(served, &connection).await;
                drop(slot);
            });
            return;
        };
        let (handshake, http, http_service, watcher) =
            (acceptor.accept(stream), self.http.clone(), Arc::clone(&self.service), self.graceful.watcher());
        tokio::spawn(async move {
            let served = async {
                let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await else { return };
                let service = connection_service(http_service, peer, Arc::clone(&connection));
                let stream = TokioIo::new(WriteTimeoutStream::new(stream, WRITE_TIMEOUT));
                let _ = watcher.watch(http.serve_connection(stream, service)).await;
            };
            until_closed(served, &connection).await;
            drop(slot);
        });
    }

    fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: ClientPeer,
        connection: Arc<Connection>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let service = connection_service(Arc::clone(&self.service), peer, connection);
        let stream = TokioIo::new(WriteTimeoutStream::new(stream, WRITE_TIMEOUT));
        let served = self.graceful.watch(self.http.serve_connection(stream, service));
        async move {
            // A client that disconnects midway is not an error.
            let _ = served.await;
        }
    }
}

/// The service that handles a connection's requests.
fn connection_service(
    http_service: Arc<HttpService>,
    peer: ClientPeer,
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
        let (http_service, connection) = (Arc::clone(&http_service), Arc::clone(&connection));
        async move {
            let response = http_service.handle(request.map(axum::body::Body::new)).await;
            connection.answered();
            Ok::<_, Infallible>(response)
        }
    })
}

/// Serves a connection until it ends or must make room for others.
async fn until_closed(served: impl Future<Output = ()>, connection: &Connection) {
    tokio::select! {
        () = served => {}
        () = connection.must_close() => {}
    }
}

async fn run_until_shutdown(
    app: Arc<AppState>,
    listen: ListenConfig,
    workers: RunWorkers,
    on_ready: OnReady,
) -> io::Result<ShutdownOutcome> {
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
    let mut stop = ShutdownSignal::new()?;
    // It writes to the store, which may block or run its own event loop.
    tokio::task::spawn_blocking(on_ready).await.map_err(io::Error::other)?;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER_BYTES);
    tokio::spawn(live::run_feed(Arc::clone(&app)));
    tokio::spawn(coverage::monitor_coverage(Arc::clone(&app)));
    tokio::spawn(labels::poll_forever(Arc::clone(&app)));
    tokio::spawn(remove_orphans_forever(Arc::clone(&app)));
    telemetry::start_dispatchers(&app);
    otlp::start_exporter(&app);
    let listener = HttpListener {
        service: Arc::new(HttpService::new(Arc::clone(&app))),
        http,
        graceful: GracefulShutdown::new(),
        connection_slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        connections: Arc::clone(&app.connections),
        tls: listen.tls,
    };
    loop {
        tokio::select! {
            accepted = accept_tcp(tcp.as_ref()) => match accepted {
                Ok((stream, from)) => listener.serve_tcp(stream, from.ip()),
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            },
            accepted = accept_socket(socket.as_ref()) => match accepted {
                Ok((stream, uid)) => listener.serve_socket(stream, uid),
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            },
            () = stop.wait() => break,
        }
    }
    drop((tcp, socket));
    app.telemetry.close();
    app.in_flight.stopping.store(true, Ordering::SeqCst);
    workers.close();
    let all_done = async {
        tokio::select! {
            () = listener.graceful.shutdown() => {}
            () = wait_until_quiet(&app) => {}
            () = tokio::time::sleep(SHUTDOWN_GRACE) => {}
        }
        // Runs stop and return their jobs to the queue; another server continues them.
        let _ = tokio::task::spawn_blocking(move || workers.finish()).await;
    };
    Ok(tokio::select! {
        () = all_done => ShutdownOutcome::Drained,
        () = stop.wait() => ShutdownOutcome::Forced,
    })
}

/// Waits until no request has been in flight for a while; what is still open then are open-ended streams.
async fn wait_until_quiet(app: &AppState) {
    let mut quiet = Duration::ZERO;
    let tick = QUIET_PERIOD / 10;
    while quiet < QUIET_PERIOD {
        tokio::time::sleep(tick).await;
        let idle = app.in_flight.count.load(Ordering::SeqCst) == 0;
        quiet = if idle { quiet + tick } else { Duration::ZERO };
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
