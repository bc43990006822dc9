//! `cargo xtask bench costs`: instructions of a cold hook call, an `observe --store` event and an HTTP event, counted by
//! callgrind; with `--beside PROGRAM`, compared with another build of `flyball`.
//!
//! The cost of an event is the difference between a run with 2N events and one with N, which excludes startup. The
//! counts of a server vary by a few percent with thread scheduling.

use crate::command::{cargo, command, print_line, run as run_command, target_dir};
use crate::external_checks::into_result;
use crate::tools;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Event pairs in the shorter run of `observe`.
const OBSERVE_PAIRS: u64 = 500;
/// Requests in the shorter run of the server.
const HTTP_REQUESTS: u64 = 500;
/// Cold hook calls that are counted, after [`WARMUP_CALLS`] that are not.
const MEASURED_CALLS: u64 = 4;
const WARMUP_CALLS: u64 = 20;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let beside = match args {
        [] => None,
        [flag, program] if flag == "--beside" => Some(PathBuf::from(program)),
        _ => return Err("usage: cargo xtask bench costs [--beside PROGRAM]".to_owned()),
    };
    tools::ensure_program("valgrind", "valgrind")?;
    let build = ["build", "--release", "--package", "flyball-cli"];
    run_command(cargo(&build)).and_then(into_result)?;
    let own = target_dir().join("release/flyball");
    for (name, measure) in [
        ("a cold hook call", measure_hook as fn(&Path, &Path) -> Result<u64, String>),
        ("an event of `observe --store`", measure_observe),
        ("an event over HTTP", measure_http),
    ] {
        let here = measure(&own, &empty_dir()?)?;
        match &beside {
            None => print_line(&format!("{name}: {here} instructions")),
            Some(other) => {
                let there = measure(other, &empty_dir()?)?;
                let percent = here * 100 / there.max(1);
                print_line(&format!("{name}: {here} instructions, {there} before, {percent} %"));
            }
        }
    }
    let _ = fs::remove_dir_all(target_dir().join("bench-costs"));
    Ok(())
}

/// Creates an empty folder.
fn empty_dir() -> Result<PathBuf, String> {
    let folder = target_dir().join("bench-costs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join(".git")).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// `flyball` with arguments, in the folder and without the caller's settings.
fn flyball_command(program: &Path, folder: &Path, counted: bool, args: &[&str]) -> Command {
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

fn io_error(what: &str) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Runs a command with this input and returns its standard error.
fn run_with_input(mut run: Command, input: &str) -> Result<String, String> {
    let mut child = run.spawn().map_err(io_error("start"))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(io_error("wait"))?;
    let written = writer.join().map_err(|_| "the writer panicked".to_owned())?;
    written.map_err(io_error("write"))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(stderr) } else { Err(format!("exited with {}: {stderr}", output.status)) }
}

/// The instruction count reported by callgrind.
fn parse_instructions(stderr: &str) -> Result<u64, String> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected : ").map(|(_, count)| count.trim()));
    line.and_then(|count| count.parse().ok()).ok_or_else(|| format!("callgrind reported no count: {stderr}"))
}

fn measure_hook(program: &Path, folder: &Path) -> Result<u64, String> {
    let mut all = 0;
    for call in 0..WARMUP_CALLS + MEASURED_CALLS {
        for event in ["PreToolUse", "PostToolUse"] {
            let counted = call >= WARMUP_CALLS && event == "PreToolUse";
            let result = if event == "PostToolUse" { r#","tool_response":{"stdout":"ok"}"# } else { "" };
            let input = format!(
                r#"{{"session_id":"s1","transcript_path":"/tmp/t.jsonl","cwd":"{}","hook_event_name":"{event}","tool_name":"Bash","tool_use_id":"toolu_{call}","tool_input":{{"command":"cargo test -p crate{call}"}}{result}}}"#,
                folder.display()
            );
            let run = flyball_command(program, folder, counted, &["hook", "claude-code", "--event", event]);
            let stderr = run_with_input(run, &input)?;
            if counted {
                all += parse_instructions(&stderr)?;
            }
        }
    }
    Ok(all / MEASURED_CALLS)
}

fn tool_request(call: u64) -> String {
    format!(
        r#"{{"type":"tool.requested","session":"s1","call":"c{call}","tool":"bash","args":{{"command":"cargo test -p crate{call}"}}}}"#
    )
}

fn measure_observe(program: &Path, folder: &Path) -> Result<u64, String> {
    let count = |pairs: u64| {
        let finished = |call| {
            let output = "x".repeat(500);
            format!(
                r#"{{"type":"tool.finished","session":"s1","call":"c{call}","ok":true,"output":"{call} {output}"}}"#
            )
        };
        let lines: String =
            (0..pairs).map(|call| format!("{}\n{}\n", tool_request(call), finished(call))).collect();
        let store = format!("sqlite:{}", folder.join(format!("{pairs}.db")).display());
        parse_instructions(&run_with_input(
            flyball_command(program, folder, true, &["observe", "--store", &store]),
            &lines,
        )?)
    };
    Ok(count(2 * OBSERVE_PAIRS)?.saturating_sub(count(OBSERVE_PAIRS)?) / (2 * OBSERVE_PAIRS))
}

fn measure_http(program: &Path, folder: &Path) -> Result<u64, String> {
    let count = |requests: u64| {
        let store = format!("sqlite:{}", folder.join(format!("http-{requests}.db")).display());
        let key = create_key(program, folder, &store)?;
        let args = ["serve", "--listen", "127.0.0.1:0", "--no-socket", "--log", "off", "--store", &store];
        let mut server = flyball_command(program, folder, true, &args).spawn().map_err(io_error("start"))?;
        let mut stderr = BufReader::new(server.stderr.take().ok_or("no standard error")?);
        let sent = read_address(&mut stderr).and_then(|address| send_events(&address, &key, requests));
        let mut kill = command("kill", &["-TERM", &server.id().to_string()]);
        kill.status().map_err(io_error("kill"))?;
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map_err(io_error("read"))?;
        server.wait().map_err(io_error("wait"))?;
        sent?;
        parse_instructions(&rest)
    };
    Ok(count(2 * HTTP_REQUESTS)?.saturating_sub(count(HTTP_REQUESTS)?) / HTTP_REQUESTS)
}

fn create_key(program: &Path, folder: &Path, store: &str) -> Result<String, String> {
    let args = ["token", "create", "bench", "--role", "agent", "--json", "--store", store];
    let output = flyball_command(program, folder, false, &args).output().map_err(io_error("token create"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let secret = text.split(r#""secret":""#).nth(1).and_then(|rest| rest.split('"').next());
    secret.map(str::to_owned).ok_or_else(|| format!("no key: {text}"))
}

/// The address printed by the server.
fn read_address(stderr: &mut impl BufRead) -> Result<String, String> {
    for line in stderr.lines() {
        let line = line.map_err(io_error("read"))?;
        if let Some((_, rest)) = line.split_once("http://") {
            let end = rest.find([',', '/', ' ']).unwrap_or(rest.len());
            return Ok(rest.get(..end).unwrap_or_default().to_owned());
        }
    }
    Err("the server printed no address".to_owned())
}

/// Sends events one after the other over one connection.
fn send_events(address: &str, key: &str, requests: u64) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).map_err(io_error("connect"))?;
    let mut buffer = [0; 8192];
    for call in 0..requests {
        let body = tool_request(call);
        let length = body.len();
        write!(
            stream,
            "POST /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .map_err(io_error("send"))?;
        let read = stream.read(&mut buffer).map_err(io_error("receive"))?;
        let answer = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        if !answer.starts_with("HTTP/1.1 200") {
            return Err(format!("event {call} was answered with {answer}"));
        }
    }
    Ok(())
}
