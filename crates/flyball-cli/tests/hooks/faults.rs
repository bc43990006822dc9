//! What goes wrong: the answer is what the policy says, in time, in words that the host understands, and loud.

use crate::agent::{Agent, Heard, fed, installed};
use crate::kit;
use crate::voice::Ended;
use flyball_adapt::hook::{Host, Understood, understood};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Long before any host gives up.
const IN_TIME: Duration = Duration::from_secs(9);

/// Every host, side by side: most of these tests wait for a deadline.
fn everywhere(check: impl Fn(Host) + Sync) {
    std::thread::scope(|scope| {
        for host in Host::ALL {
            let check = &check;
            scope.spawn(move || check(host));
        }
    });
}

fn ls() -> Value {
    json!({"command": "ls"})
}

fn rm() -> Value {
    json!({"command": "rm -r build"})
}

/// Calls the hook before a tool, with a variable besides.
fn before(agent: &mut Agent, args: &Value, env: &[(&str, &str)]) -> Heard {
    let n = agent.tick();
    let host = agent.voice.host;
    let (event, input) = agent.voice.before(n, &format!("call-{n}"), host.shell(), args);
    let mut command = agent.command(event);
    command.envs(env.iter().copied());
    let began = Instant::now();
    let output = fed(command, input.to_string().as_bytes());
    assert!(began.elapsed() < IN_TIME, "{}", host.as_str());
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let means = understood(host, event, &out, &err, output.status.code().unwrap());
    assert!(!matches!(means, Understood::Broken(_)), "{}: {means:?}", host.as_str());
    Heard { means, out, err }
}

/// A failure of our own: reads go on, what changes something is refused, and both are told.
fn as_the_policy_says(host: Host, folder: &Path, env: &[(&str, &str)], code: &str) {
    for (on_error, reads, writes) in [("reads", false, false), ("allow", false, true), ("block", true, false)]
    {
        std::fs::write(folder.join("flyball.yaml"), format!("on_error: {on_error}\n")).unwrap();
        kit::trusted(folder);
        let mut agent = Agent::new(host, folder);
        agent.stamp = 100 * on_error.len() as u64;
        let (read, write) = (before(&mut agent, &ls(), env), before(&mut agent, &rm(), env));
        let at = format!("{} on_error: {on_error}, {code}", host.as_str());
        assert_eq!(read.stopped(), reads, "{at}: {:?}", read.means);
        assert_eq!(write.stopped(), !writes, "{at}: {:?}", write.means);
        for heard in [read, write] {
            let told = format!("{}{}", heard.out, heard.err);
            assert!(told.contains("Flyball") && told.contains(code), "{at}: {told}");
        }
    }
}

#[test]
fn a_store_that_cannot_be_opened() {
    for host in Host::ALL {
        let folder = installed(host, "no-store");
        std::fs::write(folder.join("no-folder"), "a file").unwrap();
        let url = format!("sqlite:{}", folder.join("no-folder/x.db").display());
        as_the_policy_says(host, &folder, &[("FLYBALL_STORE", &url)], "store_");
    }
}

#[test]
fn a_store_that_is_no_store() {
    let text = "this is no database, and never was one; it is only a text ".repeat(99);
    everywhere(|host| {
        let folder = installed(host, "no-database");
        std::fs::write(folder.join("x.db"), &text).unwrap();
        let url = format!("sqlite:{}", folder.join("x.db").display());
        as_the_policy_says(host, &folder, &[("FLYBALL_STORE", &url)], "store_");
        as_the_policy_says(host, &folder, &[("FLYBALL_STORE", "nonsense:")], "store_");
    });
}

/// A store with one event in it.
fn begun(host: Host, name: &str) -> (PathBuf, PathBuf) {
    let folder = installed(host, name);
    let mut agent = Agent::new(host, &folder);
    assert!(!before(&mut agent, &json!({"command": "pwd"}), &[]).stopped());
    let file = folder.join(".flyball/flyball.db");
    assert!(file.is_file());
    (folder, file)
}

#[test]
fn a_store_that_somebody_holds() {
    everywhere(|host| {
        let (folder, file) = begun(host, "locked");
        let held = rusqlite::Connection::open(&file).unwrap();
        held.execute_batch("BEGIN EXCLUSIVE").unwrap();
        as_the_policy_says(host, &folder, &[], "hook_deadline");
        let agent = Agent::new(host, &folder);
        let (event, input) = agent.voice.before(4_000, "soon", host.shell(), &ls());
        let args = ["hook", host.as_str(), "--deadline", "200ms", "--event", event];
        let run = kit::flyball(&folder, &args, input.to_string().as_bytes(), &[]);
        assert!(format!("{}{}", run.out, run.err).contains("after 200 ms"), "{} {}", run.out, run.err);
        held.execute_batch("COMMIT").unwrap();
        std::fs::remove_file(folder.join("flyball.yaml")).unwrap();
        let mut agent = Agent::new(host, &folder);
        agent.stamp = 5_000;
        assert_eq!(before(&mut agent, &ls(), &[]).means, Understood::GoesOn);
    });
}

#[test]
fn a_disk_that_is_full() {
    // No file of this process may grow: what the disk says when it is full, as a write sees it.
    everywhere(|host| {
        let (folder, _) = begun(host, "full");
        let mut agent = Agent::new(host, &folder);
        agent.stamp = 50;
        for (args, stopped) in [(ls(), false), (rm(), true)] {
            let n = agent.tick();
            let (event, input) = agent.voice.before(n, &format!("call-{n}"), host.shell(), &args);
            let own = agent.command(event);
            let mut limited = std::process::Command::new("sh");
            limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
            limited.arg(own.get_program()).args(own.get_args()).current_dir(&folder);
            limited.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            limited.stderr(std::process::Stdio::piped());
            let output = fed(limited, input.to_string().as_bytes());
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let means = understood(host, event, &out, &err, output.status.code().unwrap());
            assert_eq!(matches!(means, Understood::Refuses(_)), stopped, "{}: {out} {err}", host.as_str());
            let told = format!("{out}{err}");
            assert!(told.contains("Flyball") && told.contains("store_"), "{}: {told}", host.as_str());
        }
    });
}

#[test]
fn a_policy_that_cannot_be_read() {
    for host in Host::ALL {
        let folder = installed(host, "bad-policy");
        std::fs::write(folder.join("flyball.yaml"), "guards: {repetitoin: off}\n").unwrap();
        let mut agent = Agent::new(host, &folder);
        let (read, write) = (before(&mut agent, &ls(), &[]), before(&mut agent, &rm(), &[]));
        assert!(!read.stopped() && write.stopped(), "{}", host.as_str());
        let told = format!("{}{}", read.out, read.err);
        assert!(told.contains("policy_unknown_guard") && told.contains("flyball.yaml:1"), "{told}");
    }
}

#[test]
fn what_is_no_input_is_refused_before_a_tool_and_let_go_elsewhere() {
    for host in Host::ALL {
        let folder = installed(host, "garbage");
        let mut agent = Agent::new(host, &folder);
        let (event, whole) = agent.voice.before(1, "c1", host.shell(), &ls());
        let whole = whole.to_string();
        let half = &whole.as_bytes()[..whole.len() / 2];
        for input in [&b""[..], b"\n", half, b"\xff\x00\xfe", b"null", b"[1,2]", b"{\"a\":"] {
            let heard = agent.hear_bytes(event, input);
            assert!(heard.stopped(), "{} {input:?}: {:?}", host.as_str(), heard.means);
            assert!(format!("{}{}", heard.out, heard.err).contains("hook_input"), "{}", heard.out);
        }
        let stamp = agent.tick();
        for said in [agent.voice.spoke(stamp, "x"), Some(agent.voice.prompt(stamp, "x", "user"))]
            .into_iter()
            .flatten()
        {
            let heard = agent.hear_bytes(said.0, b"{\"half");
            assert!(!heard.stopped(), "{} {}: {:?}", host.as_str(), said.0, heard.means);
        }
    }
}

#[test]
fn fifty_megabytes() {
    for host in Host::ALL {
        let folder = installed(host, "large");
        let agent = Agent::new(host, &folder);
        let large = json!("0123456789abcdef".repeat(50 << 16));
        let after = agent.voice.after(1, "c1", host.shell(), &ls(), &Ended::Well(&large));
        let args = json!({"path": "x", "content": large});
        for (n, (event, input)) in
            [after, agent.voice.before(2, "c2", "write_file", &args)].into_iter().enumerate()
        {
            let input = input.to_string();
            let began = Instant::now();
            let heard = agent.hear_bytes(event, input.as_bytes());
            assert!(began.elapsed() < IN_TIME);
            assert!(n == 1 || !heard.stopped(), "{}: what has run is never refused", host.as_str());
        }
        let store = folder.join(".flyball/flyball.db");
        assert!(store.metadata().map_or(0, |meta| meta.len()) < 4_000_000, "a bounded part is stored");
    }
}

#[test]
fn an_event_that_nobody_knows() {
    for host in Host::ALL {
        let folder = installed(host, "unknown");
        let input = json!({"hook_event_name": "PreFrobnicate", "event": "PreFrobnicate", "session_id": "s1",
            "sessionId": "s1", "conversation_id": "s1", "cwd": folder});
        let args = ["hook", host.as_str(), "--event", "PreFrobnicate"];
        let run = kit::flyball(&folder, &args, input.to_string().as_bytes(), &[]);
        assert_eq!(run.code, 0, "{}", host.as_str());
        assert!(format!("{}{}", run.out, run.err).contains("PreFrobnicate"), "{}", run.out);
        let means = understood(host, "PreFrobnicate", &run.out, &run.err, run.code);
        assert!(matches!(means, Understood::GoesOn), "{}: {means:?}", host.as_str());
    }
}

#[test]
fn a_host_that_never_ends_its_input_is_answered() {
    everywhere(|host| {
        let agent = Agent::new(host, &installed(host, "hangs"));
        let (event, _) = agent.voice.before(1, "c1", host.shell(), &ls());
        let began = Instant::now();
        let mut child = agent.command(event).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"session_id\":").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(began.elapsed() < IN_TIME);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let means = understood(host, event, &out, &err, output.status.code().unwrap());
        let told = format!("{out}{err}");
        assert!(matches!(means, Understood::Refuses(_)), "{}: {told}", host.as_str());
        assert!(told.contains("hook_deadline"), "{}: {told}", host.as_str());
        drop(stdin);
    });
}

#[test]
fn a_hook_that_was_killed_is_called_again_and_counts_once() {
    everywhere(killed);
}

fn killed(host: Host) {
    let folder = installed(host, "killed");
    let mut agent = Agent::new(host, &folder);
    for n in 1..=5_u64 {
        let (event, input) = agent.voice.before(n, &format!("call-{n}"), host.shell(), &ls());
        // Killed at another moment each time: before the input, in its middle, after it.
        for part in 0..=4_usize {
            let mut child = agent.command(event).spawn().unwrap();
            let text = input.to_string();
            let mut stdin = child.stdin.take().unwrap();
            let _ = stdin.write_all(&text.as_bytes()[..text.len() * part / 4]);
            if part == 4 {
                drop(stdin);
                let _ = child.wait_timeout(n);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let heard = agent.hear(&(event, input));
        assert!(!heard.stopped(), "{} call {n}: {:?}", host.as_str(), heard.means);
        agent.hear(&agent.voice.after(
            n,
            &format!("call-{n}"),
            host.shell(),
            &ls(),
            &Ended::Well(&json!("a")),
        ));
    }
    agent.stamp = 6;
    assert!(before(&mut agent, &ls(), &[]).stopped(), "{}: five ran, the sixth is refused", host.as_str());
    let verified = kit::flyball(&folder, &["doctor", "--json"], b"", &[("PATH", "/usr/bin:/bin")]);
    assert!(verified.out.contains(r#""check":"integrity","ok":true"#), "{}", verified.out);
}

/// Gives a child a few milliseconds, another number of them each time.
trait WaitTimeout {
    fn wait_timeout(&mut self, ms: u64) -> bool;
}

impl WaitTimeout for std::process::Child {
    fn wait_timeout(&mut self, ms: u64) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(ms * 3) {
            if matches!(self.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

#[test]
fn a_clock_that_was_set_back() {
    for host in Host::ALL {
        let folder = installed(host, "clock");
        let mut agent = Agent::new(host, &folder);
        // The session's last event is of a time that has not come yet for this clock.
        let event = json!({"type": "compaction", "session": agent.session(), "at": 4_000_000_000_000_u64});
        let line = event.to_string();
        let run = kit::flyball(&folder, &["observe", "--store"], line.as_bytes(), &[]);
        assert_eq!(run.code, 0, "{}", run.err);
        for n in 1..=6 {
            let heard = before(&mut agent, &ls(), &[]);
            assert_eq!(heard.stopped(), n == 6, "{} {n}: {:?}", host.as_str(), heard.means);
            let stamp = agent.stamp;
            let id = format!("call-{stamp}");
            if !heard.stopped() {
                agent.hear(&agent.voice.after(stamp, &id, host.shell(), &ls(), &Ended::Well(&json!("a"))));
            }
        }
    }
}

#[test]
fn a_clock_that_jumps_ahead_is_time_at_work_as_the_policy_says() {
    for (runtime, stops) in [("4h", true), ("0", false)] {
        everywhere(|host| {
            let folder = installed(host, &format!("ahead-{runtime}"));
            let policy = format!("budgets: {{session: {{runtime: {runtime}}}}}\n");
            std::fs::write(folder.join("flyball.yaml"), policy).unwrap();
            kit::trusted(&folder);
            let mut agent = Agent::new(host, &folder);
            // The session's last event is of a time long before the one that this clock tells now.
            let event = json!({"type": "compaction", "session": agent.session(), "at": 1_000});
            let run = kit::flyball(&folder, &["observe", "--store"], event.to_string().as_bytes(), &[]);
            assert_eq!(run.code, 0, "{}", run.err);
            let heard = before(&mut agent, &ls(), &[]);
            assert_eq!(heard.stopped(), stops, "{} {runtime}: {:?}", host.as_str(), heard.means);
        });
    }
}
