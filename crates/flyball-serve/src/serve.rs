//! Listening: TCP on this machine, and a socket beside it; and stopping without losing anything.

use crate::doors::Entrance;
use crate::live;
use crate::office::{Office, Setting, Shared};
use crate::otlp;
use crate::patience::Patient;
use crate::posts;
use crate::runs::Workers;
use crate::signals;
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

/// Where to listen.
#[derive(Debug)]
pub struct Listen {
    /// An address of the network.
    pub tcp: Option<std::net::TcpListener>,
    /// A socket of this machine, and where it is, so that it can be removed at the end.
    pub socket: Option<(std::os::unix::net::UnixListener, PathBuf)>,
}

/// Serves until SIGINT or SIGTERM. What was taken is answered; a second signal ends it at once.
///
/// # Errors
/// If the policy cannot be used, or there is no way to listen.
pub fn serve(setting: Setting, listen: Listen) -> io::Result<()> {
    no_core_file();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let socket = listen.socket.as_ref().map(|(_, path)| path.clone());
    let (office, committers, scribe) = Office::open(setting).map_err(|error| io::Error::other(error.what))?;
    let workers = Workers::start(&office.runs);
    let served = runtime.block_on(run(Arc::clone(&office), listen, workers));
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
}

impl Reception {
    fn greet(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        // Whoever finds no seat is hung up on: there is not even room to say so.
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return };
        let entrance = Arc::clone(&self.entrance);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer);
            let entrance = Arc::clone(&entrance);
            async move { Ok::<_, Infallible>(entrance.answer(request.map(axum::body::Body::new)).await) }
        });
        let stream = TokioIo::new(Patient::new(stream, STALL));
        let connection = self.http.serve_connection(stream, service);
        let connection = self.open.watch(connection);
        tokio::spawn(async move {
            // A client that goes away in mid-sentence is no failure of ours.
            let _ = connection.await;
            drop(seat);
        });
    }
}

async fn run(office: Arc<Office>, listen: Listen, workers: Workers) -> io::Result<End> {
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
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    tokio::spawn(live::follow(Arc::clone(&office)));
    tokio::spawn(posts::watch(Arc::clone(&office)));
    signals::deliver(&office);
    otlp::push(&office);
    let reception = Reception {
        entrance: Arc::new(Entrance::new(Arc::clone(&office))),
        http,
        open: GracefulShutdown::new(),
        seats: Arc::new(Semaphore::new(CONNECTIONS)),
    };
    loop {
        tokio::select! {
            accepted = accept_tcp(tcp.as_ref()) => match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true);
                    reception.greet(stream, Peer::Tcp { from: Some(from.ip()) });
                }
                Err(_) => tokio::time::sleep(BREATH).await,
            },
            accepted = accept_socket(socket.as_ref()) => match accepted {
                Ok((stream, uid)) => reception.greet(stream, Peer::Socket { uid }),
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
