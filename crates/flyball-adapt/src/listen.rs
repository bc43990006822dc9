//! Serving HTTP until a signal says stop: for the proxies, each of which brings its own answer to a request.

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

/// How long answers that are under way may take to end, once we are to stop.
const GRACE: Duration = Duration::from_secs(30);
/// How long to wait when no connection can be taken, for want of file descriptors.
const BREATH: Duration = Duration::from_millis(100);
/// How long threads that are at work may take to end at last.
const LAST: Duration = Duration::from_secs(2);

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
    let served = runtime.block_on(listen(listener, on_ready, Arc::new(answer)));
    // Nobody waits for an answer that never ends.
    runtime.shutdown_timeout(LAST);
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

async fn listen<F, A, B>(listener: TcpListener, on_ready: OnReady, answer: Arc<F>) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut stop = Stop::new()?;
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
            tokio::time::sleep(BREATH).await;
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
            // A client that goes away in mid-sentence is no failure of ours.
            let _ = connection.await;
        });
    }
    drop(listener);
    tokio::select! {
        () = open.shutdown() => {}
        () = tokio::time::sleep(GRACE) => {}
        () = stop.wait() => {}
    }
    Ok(())
}
