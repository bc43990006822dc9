//! Listening: TCP on this machine, and a socket beside it; and stopping without losing anything.

use crate::doors;
use crate::live;
use crate::office::{Office, Setting};
use crate::otlp;
use crate::patience::Patient;
use crate::signals;
use crate::who::Peer;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// How long answers that are under way may take to end, once we are to stop.
const GRACE: Duration = Duration::from_secs(20);
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let socket = listen.socket.as_ref().map(|(_, path)| path.clone());
    let (office, committers, scribe) = Office::open(setting).map_err(|error| io::Error::other(error.what))?;
    let served = runtime.block_on(run(Arc::clone(&office), listen));
    drop(office);
    runtime.shutdown_timeout(LAST);
    committers.finish();
    scribe.finish();
    if let Some(path) = socket {
        // Whoever finds it there the next time sees that nobody listens.
        let _ = std::fs::remove_file(path);
    }
    served
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
    router: axum::Router,
    http: http1::Builder,
    open: GracefulShutdown,
    seats: Arc<Semaphore>,
}

impl Reception {
    fn greet(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        // Whoever finds no seat is hung up on: there is not even room to say so.
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return };
        let service =
            self.router.clone().map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(peer);
                request.map(axum::body::Body::new)
            });
        let connection = self
            .http
            .serve_connection(TokioIo::new(Patient::new(stream, STALL)), TowerToHyperService::new(service));
        let connection = self.open.watch(connection);
        tokio::spawn(async move {
            // A client that goes away in mid-sentence is no failure of ours.
            let _ = connection.await;
            drop(seat);
        });
    }
}

async fn run(office: Arc<Office>, listen: Listen) -> io::Result<()> {
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
    signals::deliver(&office);
    otlp::push(&office);
    let reception = Reception {
        router: doors::router(Arc::clone(&office)),
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
    tokio::select! {
        () = reception.open.shutdown() => {}
        () = tokio::time::sleep(GRACE) => {}
        () = stop.wait() => {}
    }
    Ok(())
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
