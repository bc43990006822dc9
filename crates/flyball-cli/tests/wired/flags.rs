//! Every flag of every command has an effect: it is run with and without, and the difference is named. `flags.txt` lists
//! all flags; a unit test beside the parser compares the list with the parser itself.

use crate::difference::recorded;
use crate::kit::{Run, Store, flyball, folder, root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How the effect of a flag is shown.
enum Proof {
    /// Only with these arguments, the output or the exit code (`exit N`) has this text.
    Shows(&'static [&'static str], &'static str),
    /// Only without these arguments it has.
    Hides(&'static [&'static str], &'static str),
    /// Only with these arguments this file is there.
    Makes(&'static [&'static str], &'static str),
    /// Only without these arguments it is.
    Spares(&'static [&'static str], &'static str),
    /// Only with these arguments the store holds this text afterwards.
    Records(&'static [&'static str], &'static str),
    /// Only with the flag, stdout is JSON.
    Json,
    /// It changes nothing, and the help of the command says so in these words.
    Documented(&'static str),
    /// It needs a server, an upstream or a crash; this test shows it.
    Elsewhere(&'static str),
}
use Proof::{Documented, Elsewhere, Hides, Json, Makes, Records, Shows, Spares};

/// A command line that works without the flag, and what comes on stdin. A flag of it gives way to the same flag of a
/// proof, and to `!--flag`.
struct Base {
    command: &'static str,
    args: &'static [&'static str],
    input: &'static str,
}

const fn base(command: &'static str, args: &'static [&'static str]) -> Base {
    Base { command, args, input: "" }
}

const HOOK_INPUT: &str = r#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"touch x"},"tool_use_id":"t1"}"#;

const BASES: [Base; 39] = [
    base("run", &["workflow.yaml"]),
    base("resume", &["cut-1"]),
    base("replay", &["events.jsonl"]),
    base("audit", &["events.jsonl"]),
    Base { command: "observe", args: &[], input: r#"{"type":"session.started","session":"x","at":0}"# },
    base("tell", &["progress", "signal=tests", "failing=a", "--session", "quiet"]),
    base("proxy", &["--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"]),
    base("mcp", &["--", "cat"]),
    Base { command: "hook", args: &["claude-code", "--event", "PreToolUse"], input: HOOK_INPUT },
    base("hook install", &["hook", "claude-code", "install"]),
    base("hook uninstall", &["hook", "gemini", "uninstall"]),
    base("hook test", &["hook", "gemini", "test"]),
    base("check", &["strict.yaml"]),
    base("config", &[]),
    base("graph", &["asks-1"]),
    base("explain", &["loops"]),
    base("status", &["loops"]),
    base("top", &[]),
    base("list", &[]),
    base("release", &["loops", "--why", "because"]),
    base("approve", &["asks"]),
    base("deny", &["asks"]),
    base("stop", &["quiet", "--why", "because"]),
    base("unlabel", &["labelled", "--why", "because"]),
    base("send", &["quiet", "hello"]),
    base("prune", &[]),
    base("doctor", &[]),
    base("activity", &[]),
    base("metrics", &[]),
    base("outbox", &[]),
    base("output", &["0"]),
    base("serve", &["--listen", "127.0.0.1:0", "--no-socket"]),
    base("token create", &["token", "create", "bot", "--role", "agent"]),
    base("token list", &["token", "list"]),
    base("token revoke", &["token", "revoke", "nobody"]),
    base("backup", &["copy.db"]),
    base("restore", &["copy.db"]),
    base("trust", &["strict.yaml"]),
    base("policy accept", &["policy", "accept", "quiet", "--why", "because"]),
];

/// What is special to one command. Other flags are proven by [`common`].
fn special(line: &str) -> Option<Proof> {
    Some(match line {
        "run --session" => Shows(&["--session", "mine"], "session mine"),
        "run --keep-nothing" => Spares(&["--keep-nothing"], "new/.flyball/flyball.db"),
        "resume --rerun" => Shows(&["--rerun"], "success after"),
        "resume --skip" => Shows(&["--skip"], "taken as failed"),
        "replay --format" => Shows(&["--format", "claude-code"], "exit 1"),
        "explain --format" => Shows(&["--format", "claude-code"], "has no effect with a session"),
        "explain --session" => Shows(&["--session", "x"], "has no effect with a session"),
        "graph --session" => Shows(&["--session", "x"], "has no effect with a session"),
        "graph --format" => Shows(&["--format", "mermaid"], "flowchart"),
        "audit --prices" => Shows(&["--prices", "nowhere.yaml"], "nowhere.yaml"),
        "audit --html" => Makes(&["--html", "page.html"], "page.html"),
        "audit --write-policy" => Makes(&["--write-policy", "fitted.yaml"], "fitted.yaml"),
        "audit --force" => Shows(&["--force"], "exit 2"),
        "audit --jobs" => Shows(&["--jobs", "0"], "exit 2"),
        "observe --json" => Documented("always JSON"),
        "observe --store" => Makes(&["--store", "sqlite:other.db"], "other.db"),
        "tell --session" => Shows(&["--session", "nobody"], "nobody"),
        "proxy --upstream" => Shows(&["--upstream", "nonsense"], "nonsense"),
        "proxy --listen" => Shows(&["--listen", "127.0.0.2:0"], "127.0.0.2"),
        "proxy --price" | "proxy --prices" => Elsewhere("proxy/agents.rs"),
        "proxy --on-error" => Elsewhere("proxy/troubles.rs"),
        "mcp --session" => Elsewhere("mcp/kit.rs"),
        "mcp --on-error" => Elsewhere("mcp/bytes.rs"),
        "mcp --url" | "mcp --listen" => Elsewhere("mcp/http.rs"),
        "mcp --header" => Shows(&["--header", "A=B"], "exit 2"),
        "hook --event" => Elsewhere("hooks/golden.rs"),
        "hook --deadline" => Shows(&["--deadline", "1ms"], "hook_deadline"),
        "hook install --project" | "hook uninstall --project" | "hook test --project" => {
            Shows(&["--project", "--user"], "exit 2")
        }
        "hook install --user" => Makes(&["--user"], "new/.claude/settings.json.user"),
        "hook install --dry-run" => Spares(&["--dry-run"], ".claude/settings.json"),
        "hook uninstall --user" => Makes(&["--user"], ".gemini/settings.json"),
        "hook uninstall --dry-run" => Makes(&["--dry-run"], ".gemini/settings.json"),
        "hook test --user" => Shows(&["--user"], "NOT ARMED"),
        "config --origin" => Shows(&["--origin"], "default"),
        "top --once" => Documented("without a terminal it is printed once anyway"),
        "top --limit" | "list --limit" => Hides(&["--limit", "1"], "quiet"),
        "list --blocked" => Hides(&["--blocked"], "quiet"),
        "list --waiting" => Hides(&["--waiting"], "quiet"),
        "list --struggling" => Hides(&["--struggling"], "quiet"),
        "release --guard" => Shows(&["--guard", "visits"], "visits"),
        "release --mode" => Shows(&["--mode", "reset"], "counts from the beginning"),
        "release --n" => Shows(&["--n", "7"], "7 more"),
        "release --why" | "stop --why" | "unlabel --why" => {
            Records(&["--why", "unmistakable"], "unmistakable")
        }
        "release --by" | "approve --by" | "deny --by" | "stop --by" | "unlabel --by" | "send --by" => {
            Records(&["--by", "berta"], "berta")
        }
        "approve --why" | "deny --why" => Records(&["--why", "unmistakable"], "unmistakable"),
        "prune --older-than" => Shows(&["--older-than", "5 parsecs"], "bad_age"),
        "prune --dry-run" => Shows(&["--dry-run"], "Would take away"),
        "prune --set" => Shows(&["--set", "journal.retention=off"], "bad_age"),
        "doctor --accept" => Shows(&["--accept"], "agent_speaks"),
        "activity --kind" => Hides(&["--kind", "decision"], "hello"),
        "activity --limit" => Hides(&["--limit", "1"], "asks"),
        "activity --follow" => Elsewhere("wired/flags.rs"),
        line if line.starts_with("output --") => Elsewhere("cli/outputs.rs"),
        "outbox --dead" => Hides(&["--dead"], "s/2/0"),
        "outbox --waiting" => Hides(&["--waiting"], "s/1/0"),
        "outbox --deliver" => Shows(&["--deliver"], "done,"),
        "outbox --retry" => Shows(&["--retry", "s/1/0"], "will be tried again"),
        "outbox --policy" => Shows(&["--deliver", "--policy", "nowhere.yaml"], "nowhere.yaml"),
        "outbox --preset" => Shows(&["--deliver", "--preset", "nonsense"], "nonsense"),
        "outbox --set" => Shows(&["--deliver", "--set", "nonsense.key=1"], "nonsense"),
        "serve --listen" => Shows(&["--listen", "127.0.0.2:0"], "127.0.0.2"),
        "serve --no-tcp" => Hides(&["!--listen", "!--no-socket", "--no-tcp"], "127.0.0.1"),
        "serve --socket" => Makes(&["!--no-socket", "--socket", "a.sock"], "a.sock"),
        "serve --no-socket" | "serve --operator-uid" | "serve --admin-uid" => Elsewhere("serve/attacks.rs"),
        "serve --agent-uid" => {
            Makes(&["!--no-socket", "--socket", "a.sock", "--agent-uid", "1"], "open a.sock")
        }
        "serve --host" => Elsewhere("serve/bombs.rs"),
        "serve --queue" => Elsewhere("fleet/overload.rs"),
        "serve --workflows" => Shows(&["--workflows", "nowhere"], "no such folder"),
        "serve --workers" => Shows(&["--workers", "1"], "exit 2"),
        "serve --hot-sessions" => Shows(&["--hot-sessions", "many"], "exit 2"),
        "serve --log" => Elsewhere("signals/health.rs"),
        "serve --otlp" => Elsewhere("signals/traces.rs"),
        "serve --otlp-content" => Elsewhere("signals/canaries.rs"),
        "serve --watch" => Elsewhere("pages/posts.rs"),
        "token create --role" => Shows(&["--role", "admin"], "flyball_admin_"),
        "token create --sessions" => Records(&["--sessions", "team-"], "team-"),
        "token create --expires" => Shows(&["--expires", "never"], "never"),
        "backup --force" | "backup --json" | "backup --store" => Elsewhere("cli/backup.rs"),
        "restore --json" | "restore --store" => Elsewhere("cli/backup.rs"),
        "policy accept --by" | "policy accept --json" | "policy accept --why" => Elsewhere("hooks/trust.rs"),
        "trust --dry-run" | "trust --json" | "trust --list" | "trust --revoke" => Elsewhere("cli/trust.rs"),
        "proxy --host" => Elsewhere("proxy/troubles.rs"),
        "token create --all-sessions" => Elsewhere("serve/claims.rs"),
        "serve --tls-cert" | "serve --tls-key" | "serve --insecure-http" => Elsewhere("serve/tls.rs"),
        "serve --proof-max-age" => Elsewhere("pages/login.rs"),
        line if line.starts_with("serve --key-") || line.starts_with("serve --max-unauthenticated") => {
            Elsewhere("serve/limits.rs")
        }
        _ => return None,
    })
}

/// Flags that mean the same everywhere: a wrong value is an error only if somebody reads it.
fn common(flag: &str) -> Option<Proof> {
    Some(match flag {
        "--store" => Shows(&["--store", "nonsense:x"], "store_address"),
        "--policy" => Shows(&["--policy", "nowhere.yaml"], "nowhere.yaml"),
        "--preset" => Shows(&["--preset", "nonsense"], "nonsense"),
        "--set" => Shows(&["--set", "nonsense.key=1"], "nonsense"),
        "--json" => Json,
        _ => return None,
    })
}

const WORKFLOW: &str =
    r#"{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: "Which day?", next: done}]}"#;

/// A step that ends the run itself the first time, as a crash would.
const CUT_OFF: &str = r#"{version: 1, name: cut, nodes: [{name: work, kind: command, run: "test -e mark || { touch mark; kill -9 $PPID; }", on_failure: failed, on_success: done}]}"#;

/// A project with a store in which something has happened, and files to look at.
fn template(name: &str) -> PathBuf {
    let store = Store::own(&format!("flags-{name}"));
    let calls = |session: &str, count: usize| {
        let mut lines = vec![json!({"type": "session.started", "session": session}).to_string()];
        for n in 1..=count {
            let call = format!("c{n}");
            let asked = json!({"type": "tool.requested", "session": session, "call": call, "tool": "bash", "args": {"command": "ls"}});
            let done = json!({"type": "tool.finished", "session": session, "call": call, "ok": true, "output": "a b c"});
            lines.extend([asked.to_string(), done.to_string()]);
        }
        lines.join("\n")
    };
    let events = calls("s1", 6);
    std::fs::write(store.folder.join("events.jsonl"), &events).unwrap();
    std::fs::write(store.folder.join("workflow.yaml"), WORKFLOW).unwrap();
    std::fs::write(store.folder.join("strict.yaml"), "guards: {repetition: {limit: 3}}\n").unwrap();
    let run = flyball(&store.folder, &["run", "workflow.yaml"], b"", &[("USER", "anna")]);
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    std::fs::write(store.folder.join("cut.yaml"), CUT_OFF).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut cut = Command::new(env!("CARGO_BIN_EXE_flyball"));
    cut.args(["run", "cut.yaml"]).current_dir(&store.folder).env_clear().env("PATH", path);
    let cut = cut.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(cut.code(), None, "the step ends the run");
    store.event(r#"{"type":"user.message","session":"quiet","text":"hello"}"#);
    store.observe(&calls("loops", 9));
    let plan = json!([{"tool": "delete_task", "args": {"id": 7}}]);
    store.event(
        &json!({"type": "confirmation.requested", "session": "asks", "plan": plan, "question": "Delete?"})
            .to_string(),
    );
    let mut labelled = vec![json!({"type": "session.started", "session": "labelled", "policy": {"preset": "simple", "guards": {"visits": {"limit": 2}}}}).to_string()];
    for _ in 0..4 {
        labelled.push(json!({"type": "turn.started", "session": "labelled", "node": "test"}).to_string());
        labelled.push(json!({"type": "turn.finished", "session": "labelled", "node": "test"}).to_string());
    }
    store.observe(&labelled.join("\n"));
    for (key, state) in [("s/1/0", "dead"), ("s/2/0", "waiting")] {
        let row = format!(
            "INSERT INTO flyball_outbox VALUES ('{key}', 's', 'notify', '0', '{{}}', '{state}', 5, 99999999999999, 'refused')"
        );
        store.sql().execute(&row, []).unwrap();
    }
    assert_eq!(flyball(&store.folder, &["hook", "gemini", "install"], b"", &[]).code, 0);
    store.folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
    let mode = std::fs::metadata(from).unwrap().permissions();
    std::fs::set_permissions(to, mode).unwrap();
}

/// Runs a command in a copy of the template. A server is ended as soon as it says where it listens.
fn run(base: &Base, more: &[&str], template: &Path) -> (PathBuf, Run) {
    let place = folder("flags-run");
    copy(template, &place);
    let own = base.args.first().is_some_and(|first| base.command.split(' ').next() == Some(*first));
    let mut args: Vec<&str> = if own { Vec::new() } else { vec![base.command] };
    let (before, after) = match base.args.iter().position(|word| *word == "--") {
        Some(at) => base.args.split_at(at),
        None => (base.args, &[][..]),
    };
    let mut before = before.iter();
    while let Some(word) = before.next() {
        if more.iter().any(|other| other.trim_start_matches('!') == *word && word.starts_with("--")) {
            if *word != "--no-socket" {
                before.next();
            }
            continue;
        }
        args.push(word);
    }
    args.extend(more.iter().filter(|word| !word.starts_with('!')));
    args.extend(after);
    let home = place.join("home");
    let home = home.to_str().unwrap();
    let path = std::env::var("PATH").unwrap();
    let agent = if base.command == "doctor" { "1" } else { "" };
    let mut env = vec![
        ("USER", "anna"),
        ("HOME", home),
        ("PATH", path.as_str()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ];
    if !agent.is_empty() {
        env.push(("CLAUDECODE", agent));
    }
    if ["serve", "proxy"].contains(&base.command) {
        return (place.clone(), serve(&place, &args, &env));
    }
    let run = flyball(&place, &args, base.input.as_bytes(), &env);
    (place, run)
}

fn serve(place: &Path, args: &[&str], env: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(place).env_clear().envs(env.iter().copied());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while lines.read_line(&mut err).unwrap() > 0 {
        let listens = err.contains("127.0.0.") || err.contains(".sock");
        if listens && err.contains("flyball ") && !err.contains("error") {
            child.kill().unwrap();
            child.wait().unwrap();
            return Run { code: 0, out: String::new(), err };
        }
    }
    Run { code: child.wait().unwrap().code().unwrap_or(-1), out: String::new(), err }
}

fn said(run: &Run) -> String {
    format!("{}\n{}\nexit {}\n", run.out, run.err, run.code)
}

fn is_json(run: &Run) -> bool {
    let whole = serde_json::from_str::<Value>(&run.out).is_ok();
    whole
        || !run.out.trim().is_empty()
            && run.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
}

/// Why a flag has no effect, if it has none.
fn fault(
    line: &str,
    base: &Base,
    template: &Path,
    cache: &mut BTreeMap<&'static str, String>,
) -> Option<String> {
    let flag = line.rsplit_once(' ').unwrap().1;
    let Some(proof) = special(line).or_else(|| common(flag)) else {
        return Some("nobody says how its effect is shown".to_owned());
    };
    let mut without =
        || cache.entry(base.command).or_insert_with(|| said(&run(base, &[], template).1)).clone();
    let seen =
        |with: &[&str], text: &str| (said(&run(base, with, template).1).contains(text), text.to_owned());
    match proof {
        Shows(with, text) => {
            let (with, text) = seen(with, text);
            (!with || without().contains(&text)).then(|| format!("{text:?} is shown with it: {with}"))
        }
        Hides(with, text) => {
            let (with, text) = seen(with, text);
            (with || !without().contains(&text)).then(|| format!("{text:?} is shown with it: {with}"))
        }
        Makes(with, file) => {
            let made = |more: &[&str]| made(base, more, template, file);
            (!made(with) || made(&[])).then(|| format!("{file} is not made by it"))
        }
        Spares(with, file) => {
            let made = |more: &[&str]| made(base, more, template, file);
            (made(with) || !made(&[])).then(|| format!("{file} is not spared by it"))
        }
        Records(with, text) => {
            let recorded = |more: &[&str]| {
                let place = run(base, more, template).0.join(".flyball");
                let files = ["flyball.db", "flyball.db-wal"].map(|name| std::fs::read(place.join(name)));
                let mut bytes = files.into_iter().flatten().flatten().collect::<Vec<u8>>();
                bytes.retain(|byte| *byte != 0);
                String::from_utf8_lossy(&bytes).contains(text)
            };
            (!recorded(with) || recorded(&[])).then(|| format!("{text:?} is not recorded by it"))
        }
        Json => {
            let (with, without) = (run(base, &["--json"], template).1, run(base, &[], template).1);
            (!is_json(&with) || is_json(&without)).then(|| said(&with))
        }
        Documented(words) => {
            let mut help: Vec<&str> = base.command.split(' ').collect();
            help.push("--help");
            let help =
                flyball(template, &help, b"", &[]).out.split_whitespace().collect::<Vec<_>>().join(" ");
            (!help.contains(words)).then_some(help)
        }
        Elsewhere(file) => {
            let path = root().join("crates/flyball-cli/tests").join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (!text.contains(&format!("\"{flag}\""))).then(|| format!("{file} does not use it"))
        }
    }
}

/// Whether a file is there after a run. `new/` stands for one that the template has already, and is taken away before.
fn made(base: &Base, more: &[&str], template: &Path, file: &str) -> bool {
    if file == "new/.claude/settings.json.user" {
        return run(base, more, template).0.join("home/.claude/settings.json").exists();
    }
    if let Some(file) = file.strip_prefix("open ") {
        use std::os::unix::fs::PermissionsExt;
        let path = run(base, more, template).0.join(file);
        return path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o006 != 0);
    }
    if let Some(file) = file.strip_prefix("new/") {
        let bare = folder("flags-bare");
        std::fs::copy(template.join("workflow.yaml"), bare.join("workflow.yaml")).unwrap();
        return run(base, more, &bare).0.join(file).exists();
    }
    run(base, more, template).0.join(file).exists()
}

#[test]
fn every_flag_of_every_command_has_an_effect() {
    let template = template("effects");
    let mut faults = Vec::new();
    let mut cache = BTreeMap::new();
    for line in include_str!("flags.txt").lines() {
        let command = line.rsplit_once(' ').unwrap().0;
        let Some(base) = BASES.iter().find(|base| base.command == command) else {
            faults.push(format!("{line}: the command has no base"));
            continue;
        };
        faults.extend(fault(line, base, &template, &mut cache).map(|fault| format!("{line}: {fault}")));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    recorded("flags of commands", include_str!("flags.txt").lines().count());
}

#[test]
fn following_the_activity_goes_on_until_it_is_ended() {
    let template = template("follow");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(["activity", "--follow"]).current_dir(&template).env_clear();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("hello")));
    assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn flags_that_have_no_effect_together_are_refused() {
    let template = template("together");
    for args in [
        &["status", "--policy", "strict.yaml"][..],
        &["status", "--set", "guards.repetition.limit=3"],
        &["prune", "--older-than", "30d", "--preset", "strict"],
        &["release", "loops", "--why", "x", "--mode", "reset", "--n", "3"],
        &["audit", "events.jsonl", "--force"],
        &["outbox", "--policy", "strict.yaml"],
        &["outbox", "--deliver", "--dead"],
        &["outbox", "--retry", "s/1/0", "--deliver"],
        &["explain", "loops", "--format", "flyball"],
        &["graph", "loops", "--session", "x"],
        &["serve", "--no-socket", "--agent-uid", "1"],
        &["serve", "--no-tcp", "--listen", "127.0.0.1:0"],
        &["serve", "--workers", "2"],
        &["hook", "--event", "Stop", "claude-code", "install"],
        &["hook", "--store", "sqlite:x.db", "claude-code", "uninstall"],
        &["hook", "--preset", "strict", "claude-code", "test"],
    ] {
        let run = flyball(&template, args, b"", &[]);
        assert_eq!(run.code, 2, "{args:?}: {}{}", run.out, run.err);
        assert!(run.err.contains("--"), "{args:?}: {}", run.err);
    }
    // The limits of a workflow file are those of the policy that was named.
    let run = flyball(&template, &["graph", "workflow.yaml", "--policy", "nowhere.yaml"], b"", &[]);
    assert!(run.code == 1 && run.err.contains("nowhere.yaml"), "{}{}", run.out, run.err);
}
