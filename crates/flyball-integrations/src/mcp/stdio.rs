//! Runs an MCP server as a child process, forwards lines in both directions, and shuts it down.

use super::guard::{McpForward, McpGuard};
use crate::listen::OnReady;
use crate::model_proxy::ProxyError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum length of an inspected line, in bytes. Longer lines from the server are forwarded without inspection.
const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;
/// How long the server may take to exit after its input is closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long draining the server's output may take after it has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Poll interval while waiting for a process to exit.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Events from the worker threads to the main thread.
enum StdioEvent {
    /// The client closed our stdin.
    ClientClosed,
    /// The server closed its stdout.
    ServerClosed,
    /// The client closed our stdout.
    ClientNotReading,
    /// A shutdown signal arrived.
    Signal,
}

/// The client's output, written one whole line at a time.
type SharedStdout = Arc<Mutex<Box<dyn Write + Send>>>;

/// Serves a client on stdin and stdout with the server as a child process. Returns the server's exit status.
///
/// # Errors
/// If the server cannot be started.
pub(super) fn serve(
    argv: &[OsString],
    guard: McpGuard,
    on_ready: OnReady,
) -> Result<Option<ExitStatus>, ProxyError> {
    let (events_tx, events) = channel();
    // Installed before the server starts, so that a signal right after the start cannot leave it running.
    watch_signals(events_tx.clone())?;
    on_ready();
    let mut child = spawn_server(argv)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let guard = Arc::new(guard);
    let out: SharedStdout = Arc::new(Mutex::new(Box::new(io::stdout())));
    let reader = output.map(|output| forward_server(output, &guard, &out, events_tx.clone()));
    if let Some(input) = input {
        forward_client(input, Arc::clone(&guard), Arc::clone(&out), events_tx);
    }
    let status = wait_for_server(&mut child, &events);
    // Forward the server's remaining output.
    if let Some(reader) = reader {
        let until = std::time::Instant::now() + DRAIN_TIMEOUT;
        while !reader.is_finished() && std::time::Instant::now() < until {
            std::thread::park_timeout(EXIT_POLL_INTERVAL);
        }
    }
    Ok(status)
}

fn spawn_server(argv: &[OsString]) -> Result<Child, ProxyError> {
    let (program, args) = argv.split_first().map_or((None, argv), |(program, args)| (Some(program), args));
    let program = program.cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    // The server is the user's command and must not inherit Flyball's secrets.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.env(super::PROXY_MARKER_VARIABLE, "1");
    // A separate process group, so that the server's child processes stop with it.
    command.process_group(0);
    command.spawn().map_err(|error| ProxyError {
        code: "cannot_start".to_owned(),
        message: format!("the server {} cannot be started: {error}", program.to_string_lossy()),
        help: "check the command after `--`".to_owned(),
    })
}

/// Whether an environment variable holds a key, token or password of Flyball.
fn is_own_secret(name: &str) -> bool {
    let ends = |word: &str| name.ends_with(word);
    name.starts_with("FLYBALL_") && ["KEY", "TOKEN", "SECRET", "PASSWORD"].into_iter().any(ends)
}

/// Reports shutdown signals. No signal is missed after this returns.
fn watch_signals(events_tx: Sender<StdioEvent>) -> Result<(), ProxyError> {
    use tokio::signal::unix::{SignalKind, signal};
    let signal_error = |error: io::Error| ProxyError {
        code: "cannot_start".to_owned(),
        message: format!("cannot install signal handlers: {error}"),
        help: "the system is out of file descriptors or threads; free some and start again".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(signal_error)?;
    let inside = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signal_error)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signal_error)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(signal_error)?;
    drop(inside);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        // A closed channel means that the process is already exiting.
        let _ = events_tx.send(StdioEvent::Signal);
    });
    Ok(())
}

/// Waits for the server to exit, and stops it if necessary.
fn wait_for_server(child: &mut Child, events: &Receiver<StdioEvent>) -> Option<ExitStatus> {
    match events.recv() {
        // The server's input is closed by the thread that writes to it.
        Ok(StdioEvent::ClientClosed) => stop_server(child, false, events),
        Ok(StdioEvent::ClientNotReading | StdioEvent::Signal) => stop_server(child, true, events),
        // A server that closed its stdout has exited or is of no more use.
        Ok(StdioEvent::ServerClosed) | Err(_) => stop_server(child, false, events),
    }
}

/// Waits for the server, then sends SIGTERM, then SIGKILL.
fn stop_server(child: &mut Child, at_once: bool, events: &Receiver<StdioEvent>) -> Option<ExitStatus> {
    let mut steps = vec![Signal::TERM, Signal::KILL];
    if at_once {
        signal_group(child, Signal::TERM);
        steps.remove(0);
    }
    for signal in steps {
        if let Some(status) = wait_with_timeout(child, EXIT_TIMEOUT, events) {
            stop_remaining_children(child);
            return Some(status);
        }
        signal_group(child, signal);
    }
    child.wait().ok()
}

/// Stops child processes that the server left running: SIGTERM first, then SIGKILL.
fn stop_remaining_children(child: &Child) {
    let until = std::time::Instant::now() + DRAIN_TIMEOUT;
    while signal_group(child, Signal::TERM) {
        if std::time::Instant::now() >= until {
            signal_group(child, Signal::KILL);
            return;
        }
        std::thread::park_timeout(EXIT_POLL_INTERVAL);
    }
}

/// The child's exit status, if it exits in time.
fn wait_with_timeout(
    child: &mut Child,
    timeout: Duration,
    events: &Receiver<StdioEvent>,
) -> Option<ExitStatus> {
    let until = std::time::Instant::now() + timeout;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if std::time::Instant::now() >= until {
            return None;
        }
        match events.recv_timeout(EXIT_POLL_INTERVAL) {
            Ok(StdioEvent::Signal | StdioEvent::ClientNotReading) => return None,
            // All senders are gone; keep polling for the exit.
            Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(EXIT_POLL_INTERVAL),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Sends a signal to the server's process group. Returns whether the group still exists.
fn signal_group(child: &Child, signal: Signal) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

/// Forwards messages from the client.
fn forward_client(
    mut input: ChildStdin,
    guard: Arc<McpGuard>,
    out: SharedStdout,
    events_tx: Sender<StdioEvent>,
) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(io::stdin());
        let mut line = Vec::new();
        loop {
            match read_line(&mut lines, &mut line) {
                Ok(LineRead::Eof) | Err(_) => break,
                Ok(LineRead::TooLong) => {
                    // A line that cannot be inspected must not reach the server.
                    guard.report_error(&too_long("it was not forwarded"));
                    if skip_line(&mut lines).is_err() {
                        break;
                    }
                }
                Ok(LineRead::Whole) => {
                    let text = std::str::from_utf8(&line).map(|text| text.trim_end_matches('\n').to_owned());
                    let forwards = match &text {
                        Ok(text) => guard.handle_client_message(text),
                        Err(_) => Vec::new(),
                    };
                    let untouched = matches!(forwards.as_slice(), [McpForward::ToServer(same)] if Ok(same) == text.as_ref());
                    let written = if untouched || text.is_err() {
                        input.write_all(&line).and_then(|()| input.flush())
                    } else {
                        forwards.into_iter().try_for_each(|act| match act {
                            McpForward::ToServer(text) => write_line(&mut input, &text),
                            McpForward::ToClient(text) => write_message(&out, &text),
                        })
                    };
                    if written.is_err() {
                        // The server closed its input; its remaining output is still drained.
                        break;
                    }
                }
            }
        }
        drop(input);
        let _ = events_tx.send(StdioEvent::ClientClosed);
    });
}

/// Forwards messages from the server.
fn forward_server(
    output: impl Read + Send + 'static,
    guard: &Arc<McpGuard>,
    out: &SharedStdout,
    events_tx: Sender<StdioEvent>,
) -> JoinHandle<()> {
    let (guard, out) = (Arc::clone(guard), Arc::clone(out));
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            let passed = match read_line(&mut lines, &mut line) {
                Ok(LineRead::Eof) | Err(_) => break,
                Ok(LineRead::TooLong) => {
                    guard.report_error(&too_long("it was forwarded without inspection"));
                    forward_long_line(&mut lines, &line, &out)
                }
                Ok(LineRead::Whole) => match std::str::from_utf8(&line) {
                    Ok(text) => {
                        let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
                        let new = guard.handle_server_message(text);
                        let written = write_parts(&out, &[new.as_bytes(), end.as_bytes()]);
                        let more = guard.take_notifications().into_iter();
                        more.fold(written, |written, line| {
                            written.and_then(|()| write_parts(&out, &[line.as_bytes(), b"\n"]))
                        })
                    }
                    Err(_) => write_parts(&out, &[&line]),
                },
            };
            if passed.is_err() {
                let _ = events_tx.send(StdioEvent::ClientNotReading);
                return;
            }
        }
        let _ = events_tx.send(StdioEvent::ServerClosed);
    })
}

fn too_long(what: &str) -> ProxyError {
    let what = format!("a line is longer than {MAX_LINE_BYTES} bytes; {what}");
    ProxyError { code: "line_too_long".to_owned(), message: what, help: "send smaller messages".to_owned() }
}

/// The result of reading a line.
enum LineRead {
    /// A complete line, or the last one without a line end.
    Whole,
    /// Only the beginning of a line.
    TooLong,
    /// End of input.
    Eof,
}

/// Reads the next line.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<LineRead> {
    line.clear();
    let read = from.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    Ok(match line.last() {
        _ if read == 0 => LineRead::Eof,
        Some(b'\n') => LineRead::Whole,
        _ if read as u64 == MAX_LINE_BYTES => LineRead::TooLong,
        _ => LineRead::Whole,
    })
}

/// Skips the rest of a line.
fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    let mut rest = Vec::new();
    while rest.last() != Some(&b'\n') {
        rest.clear();
        if from.take(MAX_LINE_BYTES).read_until(b'\n', &mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Forwards a line of which only the beginning has been read.
fn forward_long_line(from: &mut impl BufRead, begun: &[u8], out: &SharedStdout) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    out.write_all(begun)?;
    let mut rest = Vec::new();
    while rest.last() != Some(&b'\n') {
        rest.clear();
        if from.take(1024 * 1024).read_until(b'\n', &mut rest)? == 0 {
            break;
        }
        out.write_all(&rest)?;
    }
    out.flush()
}

fn write_line(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.write_all(b"\n")?;
    to.flush()
}

fn write_message(out: &SharedStdout, text: &str) -> io::Result<()> {
    write_parts(out, &[text.as_bytes(), b"\n"])
}

fn write_parts(out: &SharedStdout, parts: &[&[u8]]) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    for part in parts {
        out.write_all(part)?;
    }
    out.flush()
}
