//! Passthrough: unrelated lines are unchanged in both directions, and any end of a process is handled.

use super::mcp_harness::{TEST_TIMEOUT, event_outline, proxy_command, test_dir};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

/// Lines that the proxy must not touch, including garbage.
const PASSTHROUGH_LINES: [&[u8]; 12] = [
    br#"{"jsonrpc":"2.0", "method":"notifications/initialized"}"#,
    br#"{"z":1,"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"progressToken":1.50}}}"#,
    br#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
    br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
    br#"{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"a":"\u00e9\/"}}"#,
    br#"[{"jsonrpc":"2.0","id":3,"method":"ping"}, {"jsonrpc":"2.0","method":"x"}]"#,
    b"not json at all",
    b"{\"half\": ",
    b"",
    b"\xff\xfe not even text \x00",
    b"  {\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"no id\"}}  \r",
    b"[1,2,[]]",
];

fn start(folder: &Path, more: &[&str], shell: &str) -> Child {
    let mut command = proxy_command(folder, more, shell);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Writes everything, closes stdin, and reads everything.
fn run_to_end(mut child: Child, input: Vec<u8>) -> (Vec<u8>, String, Option<i32>) {
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // A server that has exited reads nothing more.
        let _ = stdin.write_all(&input);
    });
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(started.elapsed() < TEST_TIMEOUT, "a process hangs");
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn lines_pass_byte_for_byte_in_both_directions() {
    let folder = test_dir("bytes");
    let mut input = PASSTHROUGH_LINES.join(&b"\n"[..]);
    input.extend_from_slice(b"\nthe last one without an end");
    // The server's input goes into a file and back.
    let child = start(&folder, &[], "tee got");
    let (out, err, code) = run_to_end(child, input.clone());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(std::fs::read(folder.join("got")).unwrap(), input, "to the server");
    assert_eq!(out, input, "to the client");
}

#[test]
fn fifty_megabyte_line_passes() {
    let folder = test_dir("large");
    let mut input = br#"{"jsonrpc":"2.0","method":"x","params":""#.to_vec();
    input.resize(50 * 1024 * 1024, b'a');
    input.extend_from_slice(b"\"}\n");
    let (out, err, code) = run_to_end(start(&folder, &[], "cat"), input.clone());
    assert_eq!(code, Some(0), "{err}");
    assert!(out == input, "{} bytes came back of {}", out.len(), input.len());
}

#[test]
fn batched_call_is_guarded() {
    let folder = test_dir("list");
    let call =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
    let list = format!("[{},{}]\n", call(1), call(2));
    let (out, err, _) = run_to_end(start(&folder, &["--preset", "observe"], "cat"), list.into_bytes());
    assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n{}\n", call(1), call(2)), "{err}");
    assert_eq!(event_outline(&folder).len(), 2);
}

#[test]
fn proxy_exits_when_the_server_exits() {
    for (shell, code) in [("exit 0", 0), ("exit 7", 1), ("kill -9 $$", 1)] {
        let folder = test_dir(&format!("ends-{}", shell.replace(['$', ' ', '-'], "")));
        let mut child = start(&folder, &[], shell);
        // The client keeps stdin open.
        let _stdin = child.stdin.take().unwrap();
        let started = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(started.elapsed() < TEST_TIMEOUT);
        assert_eq!(output.status.code(), Some(code), "{shell}");
    }
}

#[test]
fn server_that_does_not_start_is_reported() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(["mcp", "--", "/no/such/server"]).current_dir(test_dir("nostart")).env_clear();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("error[cannot_start]"), "{err}");
}

/// Whether a process exists.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // A zombie has exited; its parent has not reaped it yet.
    !stat.is_empty() && !stat.contains(") Z ")
}

fn wait_until_gone(pid: &str) -> bool {
    let until = Instant::now() + TEST_TIMEOUT;
    while is_alive(pid) {
        if Instant::now() > until {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// A server and its child that ignore signals; both print their process ids.
const UNKILLABLE_SERVER: &str = "trap '' TERM HUP INT; (trap '' HUP INT; while :; do sleep 1; done) & echo $! $$; while :; do sleep 1; done";

#[test]
fn disconnected_client_leaves_no_process_behind() {
    let folder = test_dir("deaf");
    let mut child = start(&folder, &[], UNKILLABLE_SERVER);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    for pid in line.split_whitespace() {
        assert!(wait_until_gone(pid), "{pid} is still alive");
    }
}

#[test]
fn signal_stops_the_server_too() {
    let folder = test_dir("signal");
    let mut child = start(&folder, &[], UNKILLABLE_SERVER);
    let _stdin = child.stdin.take();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    for pid in line.split_whitespace() {
        assert!(wait_until_gone(pid), "{pid} is still alive");
    }
}

#[test]
fn store_failure_passes_only_declared_reads_by_default() {
    let declared = "tools: {t: {effect: read}}\n";
    for (n, (policy, more, through)) in [
        ("", &[][..], false),
        (declared, &[][..], true),
        ("on_error: allow\n", &[][..], true),
        ("on_error: block\ntools: {t: {effect: read}}\n", &[][..], false),
        ("", &["--on-error", "allow"][..], true),
        (declared, &["--on-error", "block"][..], false),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = test_dir(&format!("store-{n}"));
        std::fs::write(folder.join("policy.yaml"), policy).unwrap();
        let named: &[&str] = if policy.is_empty() { &[] } else { &["--policy", "policy.yaml"] };
        let more = &[named, more].concat();
        let mut child = start(&folder, more, "while read -r line; do echo \"$line\"; done");
        let (mut stdin, mut out) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut say = |line: &str| {
            stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
            let mut heard = String::new();
            out.read_line(&mut heard).unwrap();
            heard
        };
        // Creates the store first.
        let first =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}"#;
        assert_eq!(say(first), format!("{first}\n"));
        let store = rusqlite::Connection::open(folder.join(".flyball/flyball.db")).unwrap();
        let tables: Vec<String> = store
            .prepare("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        for table in tables {
            store.execute_batch(&format!("PRAGMA foreign_keys=OFF; DROP TABLE \"{table}\";")).unwrap();
        }
        let second = first.replace("\"id\":1", "\"id\":2").replace("\"a\":1", "\"a\":2");
        let heard = say(&second);
        if through {
            assert_eq!(heard, format!("{second}\n"), "{n}");
        } else {
            assert!(heard.contains("\"isError\":true") && heard.contains("could not evaluate"), "{heard}");
        }
        drop(stdin);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        child.wait().unwrap();
        assert!(err.contains("error["), "{err}");
    }
}
