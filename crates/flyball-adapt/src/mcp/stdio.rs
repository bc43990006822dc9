//! A server as a child process: lines from the client to it, lines from it to the client, and an end for everybody.

use super::gate::{Act, Gate};
use crate::model_proxy::Trouble;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest line that is looked into. A longer one goes its way unseen, if it comes from the server.
const LINE: u64 = 128 * 1024 * 1024;
/// How long the server may take to end once its input is closed, and again once it is told to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the rest of the server's output may take once it has ended.
const REST: Duration = Duration::from_secs(2);

/// How often one looks whether something has ended.
const GLANCE: Duration = Duration::from_millis(5);

/// What the threads tell the one that waits.
enum News {
    /// The client sends nothing more.
    ClientGone,
    /// The server says nothing more.
    ServerSilent,
    /// The client takes nothing more.
    NobodyListens,
    /// Somebody wants us to end.
    Signal,
}

/// Where the client listens; lines are whole.
type Out = Arc<Mutex<Box<dyn Write + Send>>>;

/// Serves a client on stdin and stdout, with the server as a child process. Gives how the server ended.
///
/// # Errors
/// If the server cannot be started.
pub(super) fn serve(
    argv: &[OsString],
    gate: Gate,
    on_ready: crate::OnReady,
) -> Result<Option<ExitStatus>, Trouble> {
    let (tell, news) = channel();
    // Before the server is there: whoever ends us a moment after its start must not leave it behind.
    signals(tell.clone())?;
    on_ready();
    let mut child = start(argv)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let gate = Arc::new(gate);
    let out: Out = Arc::new(Mutex::new(Box::new(io::stdout())));
    let reader = output.map(|output| from_server(output, &gate, &out, tell.clone()));
    if let Some(input) = input {
        from_client(input, Arc::clone(&gate), Arc::clone(&out), tell);
    }
    let status = wait(&mut child, &news);
    // What it said last is still to be passed on.
    if let Some(reader) = reader {
        let until = std::time::Instant::now() + REST;
        while !reader.is_finished() && std::time::Instant::now() < until {
            std::thread::park_timeout(GLANCE);
        }
    }
    Ok(status)
}

fn start(argv: &[OsString]) -> Result<Child, Trouble> {
    let (program, args) = argv.split_first().map_or((None, argv), |(program, args)| (Some(program), args));
    let program = program.cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    // The server is the user's own command; Flyball's own keys are none of its business.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_own_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.env(super::MARK, "1");
    // A group of its own, so that the server's own children end with it.
    command.process_group(0);
    command.spawn().map_err(|error| Trouble {
        code: "cannot_start".to_owned(),
        what: format!("the server {} cannot be started: {error}", program.to_string_lossy()),
        advice: "check the command after --".to_owned(),
    })
}

/// Whether a variable of the environment holds a key, a token or a password of Flyball.
fn is_own_secret(name: &str) -> bool {
    let ends = |word: &str| name.ends_with(word);
    name.starts_with("FLYBALL_") && ["KEY", "TOKEN", "SECRET", "PASSWORD"].into_iter().any(ends)
}

/// Tells when a signal asks us to end. Once this has returned, no signal is missed.
fn signals(tell: Sender<News>) -> Result<(), Trouble> {
    use tokio::signal::unix::{SignalKind, signal};
    let trouble = |error: io::Error| Trouble {
        code: "cannot_start".to_owned(),
        what: format!("signals cannot be waited for: {error}"),
        advice: "the system is out of file descriptors or threads; end something and start again".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(trouble)?;
    let inside = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(trouble)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(trouble)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(trouble)?;
    drop(inside);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        // If nobody waits any more, everything is ending anyway.
        let _ = tell.send(News::Signal);
    });
    Ok(())
}

/// Waits for the server's end, and brings it about if it must be.
fn wait(child: &mut Child, news: &Receiver<News>) -> Option<ExitStatus> {
    match news.recv() {
        // Its input is closed with the thread that wrote to it.
        Ok(News::ClientGone) => end(child, false, news),
        Ok(News::NobodyListens | News::Signal) => end(child, true, news),
        // A server that says nothing more has ended, or will not be heard again.
        Ok(News::ServerSilent) | Err(_) => end(child, false, news),
    }
}

/// Waits a while, then tells the server to end, then ends it.
fn end(child: &mut Child, at_once: bool, news: &Receiver<News>) -> Option<ExitStatus> {
    let mut steps = vec![Signal::TERM, Signal::KILL];
    if at_once {
        signal_group(child, Signal::TERM);
        steps.remove(0);
    }
    for signal in steps {
        if let Some(status) = ended_within(child, PATIENCE, news) {
            end_the_rest(child);
            return Some(status);
        }
        signal_group(child, signal);
    }
    child.wait().ok()
}

/// Ends what the server has started itself and left behind: asked first, then not.
fn end_the_rest(child: &Child) {
    let until = std::time::Instant::now() + REST;
    while signal_group(child, Signal::TERM) {
        if std::time::Instant::now() >= until {
            signal_group(child, Signal::KILL);
            return;
        }
        std::thread::park_timeout(GLANCE);
    }
}

/// How the child ended, if it does in time.
fn ended_within(child: &mut Child, patience: Duration, news: &Receiver<News>) -> Option<ExitStatus> {
    let until = std::time::Instant::now() + patience;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if std::time::Instant::now() >= until {
            return None;
        }
        match news.recv_timeout(GLANCE) {
            Ok(News::Signal | News::NobodyListens) => return None,
            // Nobody is left to tell anything, and waiting is all there is to do.
            Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(GLANCE),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Sends a signal to the server and all that it has started. Gives whether anybody was there to get it.
fn signal_group(child: &Child, signal: Signal) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

/// Passes on what the client says.
fn from_client(mut input: ChildStdin, gate: Arc<Gate>, out: Out, tell: Sender<News>) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(io::stdin());
        let mut line = Vec::new();
        loop {
            match next(&mut lines, &mut line) {
                Ok(Line::End) | Err(_) => break,
                Ok(Line::Long) => {
                    // Nobody knows what it is, so it must not pass.
                    gate.complain(&too_long("it was not passed on"));
                    if skip(&mut lines).is_err() {
                        break;
                    }
                }
                Ok(Line::Whole) => {
                    let text = std::str::from_utf8(&line).map(|text| text.trim_end_matches('\n').to_owned());
                    let acts = match &text {
                        Ok(text) => gate.client_says(text),
                        Err(_) => Vec::new(),
                    };
                    let untouched =
                        matches!(acts.as_slice(), [Act::ToServer(same)] if Ok(same) == text.as_ref());
                    let written = if untouched || text.is_err() {
                        input.write_all(&line).and_then(|()| input.flush())
                    } else {
                        acts.into_iter().try_for_each(|act| match act {
                            Act::ToServer(text) => write_line(&mut input, &text),
                            Act::ToClient(text) => say(&out, &text),
                        })
                    };
                    if written.is_err() {
                        // The server takes nothing more; what it said last may still come.
                        break;
                    }
                }
            }
        }
        drop(input);
        let _ = tell.send(News::ClientGone);
    });
}

/// Passes on what the server says.
fn from_server(
    output: impl Read + Send + 'static,
    gate: &Arc<Gate>,
    out: &Out,
    tell: Sender<News>,
) -> JoinHandle<()> {
    let (gate, out) = (Arc::clone(gate), Arc::clone(out));
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            let passed = match next(&mut lines, &mut line) {
                Ok(Line::End) | Err(_) => break,
                Ok(Line::Long) => {
                    gate.complain(&too_long("it was passed on and not looked into"));
                    pass(&mut lines, &line, &out)
                }
                Ok(Line::Whole) => match std::str::from_utf8(&line) {
                    Ok(text) => {
                        let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
                        let new = gate.server_says(text);
                        let written = write_all(&out, &[new.as_bytes(), end.as_bytes()]);
                        let more = gate.notifications().into_iter();
                        more.fold(written, |written, line| {
                            written.and_then(|()| write_all(&out, &[line.as_bytes(), b"\n"]))
                        })
                    }
                    Err(_) => write_all(&out, &[&line]),
                },
            };
            if passed.is_err() {
                let _ = tell.send(News::NobodyListens);
                return;
            }
        }
        let _ = tell.send(News::ServerSilent);
    })
}

fn too_long(what: &str) -> Trouble {
    let what = format!("a line is longer than {LINE} bytes; {what}");
    Trouble { code: "line_too_long".to_owned(), what, advice: "send smaller messages".to_owned() }
}

/// A line that was read.
enum Line {
    /// With its end, or the last one without.
    Whole,
    /// Only its beginning.
    Long,
    /// There are no more.
    End,
}

/// Reads the next line.
fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = from.take(LINE).read_until(b'\n', line)?;
    Ok(match line.last() {
        _ if read == 0 => Line::End,
        Some(b'\n') => Line::Whole,
        _ if read as u64 == LINE => Line::Long,
        _ => Line::Whole,
    })
}

/// Passes over the rest of a line.
fn skip(from: &mut impl BufRead) -> io::Result<()> {
    let mut rest = Vec::new();
    while rest.last() != Some(&b'\n') {
        rest.clear();
        if from.take(LINE).read_until(b'\n', &mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Passes on a line of which only the beginning is read.
fn pass(from: &mut impl BufRead, begun: &[u8], out: &Out) -> io::Result<()> {
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

fn say(out: &Out, text: &str) -> io::Result<()> {
    write_all(out, &[text.as_bytes(), b"\n"])
}

fn write_all(out: &Out, parts: &[&[u8]]) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    for part in parts {
        out.write_all(part)?;
    }
    out.flush()
}
