//! `cargo xtask bench costs`: instructions of a cold hook call, an `observe --store` event and an HTTP event, counted by
//! callgrind; with `--beside PROGRAM`, those of another build of `flyball` and the ratio.
//!
//! Events are counted as the difference between a run with 2N of them and one with N, so that start-up is left out. The
//! counts of a server vary by a few percent with how its threads are scheduled.

use crate::run::{command, say, target};
use crate::{bench, tools};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pairs of events in the shorter run of `observe`.
const PAIRS: u64 = 500;
/// Requests in the shorter run of the server.
const REQUESTS: u64 = 500;
/// Cold hook calls that are counted, after [`WARM`] that are not.
const COLD: u64 = 4;
const WARM: u64 = 20;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let beside = match args {
        [] => None,
        [flag, program] if flag == "--beside" => Some(PathBuf::from(program)),
        _ => return Err("usage: cargo xtask bench costs [--beside PROGRAM]".to_owned()),
    };
    tools::need("valgrind", "valgrind")?;
    bench::programs()?;
    let own = target().join("release/flyball");
    for (name, measure) in [
        ("a cold hook call", hook as fn(&Path, &Path) -> Result<u64, String>),
        ("an event of `observe --store`", observe),
        ("an event over HTTP", http),
    ] {
        let here = measure(&own, &folder()?)?;
        match &beside {
            None => say(&format!("{name}: {here} instructions")),
            Some(other) => {
                let there = measure(other, &folder()?)?;
                let percent = here * 100 / there.max(1);
                say(&format!("{name}: {here} instructions, {there} before, {percent} %"));
            }
        }
    }
    let _ = fs::remove_dir_all(target().join("bench-costs"));
    Ok(())
}

/// An empty folder.
fn folder() -> Result<PathBuf, String> {
    let folder = target().join("bench-costs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join(".git")).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// `flyball` with arguments, in the folder and with nothing of the caller's settings.
fn flyball(program: &Path, folder: &Path, counted: bool, args: &[&str]) -> Command {
    let mut run = if counted {
        let mut valgrind = command("valgrind", &["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(program);
        valgrind
    } else {
        command(program, &[])
    };
    run.args(args).current_dir(folder).env_clear().env("HOME", folder).env("PATH", "/usr/bin:/bin");
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Runs a command with this input and returns its standard error.
fn feed(mut run: Command, input: &str) -> Result<String, String> {
    let mut child = run.spawn().map_err(failed("start"))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(failed("wait"))?;
    let written = writer.join().map_err(|_| "the writer panicked".to_owned())?;
    written.map_err(failed("write"))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(stderr)
    } else {
        Err(format!("it ended with {}: {stderr}", output.status))
    }
}

/// The instructions that callgrind reports.
fn collected(stderr: &str) -> Result<u64, String> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected : ").map(|(_, count)| count.trim()));
    line.and_then(|count| count.parse().ok()).ok_or_else(|| format!("callgrind reported no count: {stderr}"))
}

fn hook(program: &Path, folder: &Path) -> Result<u64, String> {
    let mut all = 0;
    for call in 0..WARM + COLD {
        for event in ["PreToolUse", "PostToolUse"] {
            let counted = call >= WARM && event == "PreToolUse";
            let result = if event == "PostToolUse" { r#","tool_response":{"stdout":"ok"}"# } else { "" };
            let input = format!(
                r#"{{"session_id":"s1","transcript_path":"/tmp/t.jsonl","cwd":"{}","hook_event_name":"{event}","tool_name":"Bash","tool_use_id":"toolu_{call}","tool_input":{{"command":"cargo test -p crate{call}"}}{result}}}"#,
                folder.display()
            );
            let run = flyball(program, folder, counted, &["hook", "claude-code", "--event", event]);
            let stderr = feed(run, &input)?;
            if counted {
                all += collected(&stderr)?;
            }
        }
    }
    Ok(all / COLD)
}

fn requested(call: u64) -> String {
    format!(
        r#"{{"type":"tool.requested","session":"s1","call":"c{call}","tool":"bash","args":{{"command":"cargo test -p crate{call}"}}}}"#
    )
}

fn observe(program: &Path, folder: &Path) -> Result<u64, String> {
    let count = |pairs: u64| {
        let finished = |call| {
            let output = "x".repeat(500);
            format!(
                r#"{{"type":"tool.finished","session":"s1","call":"c{call}","ok":true,"output":"{call} {output}"}}"#
            )
        };
        let lines: String =
            (0..pairs).map(|call| format!("{}\n{}\n", requested(call), finished(call))).collect();
        let store = format!("sqlite:{}", folder.join(format!("{pairs}.db")).display());
        collected(&feed(flyball(program, folder, true, &["observe", "--store", &store]), &lines)?)
    };
    Ok(count(2 * PAIRS)?.saturating_sub(count(PAIRS)?) / (2 * PAIRS))
}

fn http(program: &Path, folder: &Path) -> Result<u64, String> {
    let count = |requests: u64| {
        let store = format!("sqlite:{}", folder.join(format!("http-{requests}.db")).display());
        let key = key(program, folder, &store)?;
        let args = ["serve", "--listen", "127.0.0.1:0", "--no-socket", "--log", "off", "--store", &store];
        let mut server = flyball(program, folder, true, &args).spawn().map_err(failed("start"))?;
        let mut stderr = BufReader::new(server.stderr.take().ok_or("no standard error")?);
        let sent = address(&mut stderr).and_then(|address| send(&address, &key, requests));
        let mut kill = command("kill", &["-TERM", &server.id().to_string()]);
        kill.status().map_err(failed("kill"))?;
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map_err(failed("read"))?;
        server.wait().map_err(failed("wait"))?;
        sent?;
        collected(&rest)
    };
    Ok(count(2 * REQUESTS)?.saturating_sub(count(REQUESTS)?) / REQUESTS)
}

fn key(program: &Path, folder: &Path, store: &str) -> Result<String, String> {
    let args = ["token", "create", "bench", "--role", "agent", "--json", "--store", store];
    let output = flyball(program, folder, false, &args).output().map_err(failed("token create"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let secret = text.split(r#""secret":""#).nth(1).and_then(|rest| rest.split('"').next());
    secret.map(str::to_owned).ok_or_else(|| format!("no key: {text}"))
}

/// Where the server listens, as it prints it.
fn address(stderr: &mut impl BufRead) -> Result<String, String> {
    for line in stderr.lines() {
        let line = line.map_err(failed("read"))?;
        if let Some((_, rest)) = line.split_once("http://") {
            let end = rest.find([',', '/', ' ']).unwrap_or(rest.len());
            return Ok(rest.get(..end).unwrap_or_default().to_owned());
        }
    }
    Err("the server printed no address".to_owned())
}

/// Sends events one after the other over one connection.
fn send(address: &str, key: &str, requests: u64) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).map_err(failed("connect"))?;
    let mut buffer = [0; 8192];
    for call in 0..requests {
        let body = requested(call);
        let length = body.len();
        write!(
            stream,
            "POST /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .map_err(failed("send"))?;
        let read = stream.read(&mut buffer).map_err(failed("receive"))?;
        let answer = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        if !answer.starts_with("HTTP/1.1 200") {
            return Err(format!("event {call} was answered with {answer}"));
        }
    }
    Ok(())
}
