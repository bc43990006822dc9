//! HTTP server loop for the proxies; each proxy supplies its request handler.

use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long in-flight responses may take after a shutdown signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// Delay after an accept error, for example when no file descriptors are left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// How long the runtime's threads may take to stop.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Called once, as soon as requests are accepted and a shutdown signal can no longer kill the process outright.
pub type OnReady = Box<dyn FnOnce() + Send>;

/// Serves until SIGINT or SIGTERM: answers that are under way may end, a second signal ends them.
pub(crate) fn serve<F, A, B>(listener: TcpListener, on_ready: OnReady, answer: F) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(accept_loop(listener, on_ready, Arc::new(answer)));
    // Do not wait for a response that never ends.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    served
}

/// Signals that request a shutdown.
struct ProxyShutdownSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl ProxyShutdownSignal {
    fn new() -> io::Result<Self> {
        Ok(ProxyShutdownSignal {
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

async fn accept_loop<F, A, B>(listener: TcpListener, on_ready: OnReady, answer: Arc<F>) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut stop = ProxyShutdownSignal::new()?;
    // It writes to the store, which may block or run its own event loop.
    tokio::task::spawn_blocking(on_ready).await.map_err(io::Error::other)?;
    let open = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.preserve_header_case(true).timer(TokioTimer::new());
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.wait() => break,
        };
        let Ok((stream, _)) = stream else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let answer = Arc::clone(&answer);
        let service = service_fn(move |request| {
            let answered = answer(request);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that disconnects is not an error.
            let _ = connection.await;
        });
    }
    drop(listener);
    tokio::select! {
        () = open.shutdown() => {}
        () = tokio::time::sleep(SHUTDOWN_GRACE) => {}
        () = stop.wait() => {}
    }
    Ok(())
}
