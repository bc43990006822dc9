//! Every flag of every command has an effect: the command is run with and without it, and the difference is named.
//! `flags.txt` lists all flags; a unit test next to the parser compares the list with the parser.

use crate::command_harness::{CliStore, CommandOutput, repo_root, run_flyball, test_dir};
use crate::difference::recorded;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The proof that a flag has an effect.
enum FlagProof {
    /// The output or exit code (`exit N`) contains this text only with these arguments.
    Shows(&'static [&'static str], &'static str),
    /// It contains this text only without these arguments.
    Hides(&'static [&'static str], &'static str),
    /// This file exists only with these arguments.
    CreatesFile(&'static [&'static str], &'static str),
    /// This file exists only without these arguments.
    KeepsFile(&'static [&'static str], &'static str),
    /// The store contains this text afterwards only with these arguments.
    Records(&'static [&'static str], &'static str),
    /// Stdout is JSON only with the flag.
    Json,
    /// It has no effect, and the command's help says so in these words.
    Documented(&'static str),
    /// It needs a server, an upstream or a crash; this test proves it.
    TestedElsewhere(&'static str),
}
use FlagProof::{CreatesFile, Documented, Hides, Json, KeepsFile, Records, Shows, TestedElsewhere};

/// A command line that works without the flag, and its stdin. A flag in it is replaced by the same flag of a proof and
/// removed by `!--flag`.
struct BaseCommand {
    command: &'static str,
    args: &'static [&'static str],
    input: &'static str,
}

const fn base_command(command: &'static str, args: &'static [&'static str]) -> BaseCommand {
    BaseCommand { command, args, input: "" }
}

const HOOK_INPUT: &str = r#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"touch x"},"tool_use_id":"t1"}"#;

const BASE_COMMANDS: [BaseCommand; 41] = [
    base_command("run", &["workflow.yaml"]),
    base_command("resume", &["cut-1"]),
    base_command("replay", &["events.jsonl"]),
    base_command("audit", &["events.jsonl"]),
    BaseCommand {
        command: "observe",
        args: &[],
        input: r#"{"type":"session.started","session":"x","at":0}"#,
    },
    base_command("tell", &["progress", "signal=tests", "failing=a", "--session", "quiet"]),
    base_command("proxy", &["--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"]),
    base_command("mcp", &["--", "cat"]),
    BaseCommand { command: "hook", args: &["claude-code", "--event", "PreToolUse"], input: HOOK_INPUT },
    base_command("hook install", &["hook", "claude-code", "install"]),
    base_command("hook uninstall", &["hook", "gemini", "uninstall"]),
    base_command("hook test", &["hook", "gemini", "test"]),
    base_command("init", &[]),
    base_command("man", &[]),
    base_command("check", &["strict.yaml"]),
    base_command("config", &[]),
    base_command("graph", &["asks-1"]),
    base_command("explain", &["loops"]),
    base_command("status", &["loops"]),
    base_command("top", &[]),
    base_command("list", &[]),
    base_command("release", &["loops", "--why", "because"]),
    base_command("approve", &["asks"]),
    base_command("deny", &["asks"]),
    base_command("stop", &["quiet", "--why", "because"]),
    base_command("unlabel", &["labeled", "--why", "because"]),
    base_command("send", &["quiet", "hello"]),
    base_command("prune", &[]),
    base_command("doctor", &[]),
    base_command("activity", &[]),
    base_command("metrics", &[]),
    base_command("outbox", &[]),
    base_command("output", &["0"]),
    base_command("serve", &["--listen", "127.0.0.1:0", "--no-socket"]),
    base_command("token create", &["token", "create", "bot", "--role", "agent"]),
    base_command("token list", &["token", "list"]),
    base_command("token revoke", &["token", "revoke", "nobody"]),
    base_command("backup", &["copy.db"]),
    base_command("restore", &["copy.db"]),
    base_command("trust", &["strict.yaml"]),
    base_command("policy accept", &["policy", "accept", "quiet", "--why", "because"]),
];

/// The proof for a flag of one command. Other flags are covered by [`proof_for_common_flag`].
fn proof_for_command(line: &str) -> Option<FlagProof> {
    Some(match line {
        "run --session" => Shows(&["--session", "mine"], "session mine"),
        "run --keep-nothing" => KeepsFile(&["--keep-nothing"], "new/.flyball/flyball.db"),
        "resume --rerun" => Shows(&["--rerun"], "success after"),
        "resume --skip" => Shows(&["--skip"], "treated as failed"),
        "replay --format" => Shows(&["--format", "claude-code"], "exit 1"),
        "explain --format" => Shows(&["--format", "claude-code"], "has no effect with a session"),
        "explain --session" => Shows(&["--session", "x"], "has no effect with a session"),
        "graph --session" => Shows(&["--session", "x"], "has no effect with a session"),
        "graph --format" => Shows(&["--format", "mermaid"], "flowchart"),
        "audit --prices" => Shows(&["--prices", "nowhere.yaml"], "nowhere.yaml"),
        "audit --html" => CreatesFile(&["--html", "page.html"], "page.html"),
        "audit --write-policy" => CreatesFile(&["--write-policy", "fitted.yaml"], "fitted.yaml"),
        "audit --force" => Shows(&["--force"], "exit 2"),
        "audit --jobs" => Shows(&["--jobs", "0"], "exit 2"),
        "observe --json" => Documented("decisions are always JSON"),
        "observe --store" => CreatesFile(&["--store", "sqlite:other.db"], "other.db"),
        "tell --session" => Shows(&["--session", "nobody"], "nobody"),
        "proxy --upstream" => Shows(&["--upstream", "nonsense"], "nonsense"),
        "proxy --listen" => Shows(&["--listen", "127.0.0.2:0"], "127.0.0.2"),
        "proxy --price" | "proxy --prices" => TestedElsewhere("proxy/agent_loops.rs"),
        "proxy --on-error" => TestedElsewhere("proxy/failures.rs"),
        "mcp --session" => TestedElsewhere("mcp/mcp_harness.rs"),
        "mcp --on-error" => TestedElsewhere("mcp/passthrough.rs"),
        "mcp --url" | "mcp --listen" => TestedElsewhere("mcp/http.rs"),
        "mcp --header" => Shows(&["--header", "A=B"], "exit 2"),
        "hook --event" => TestedElsewhere("hooks/golden_tables.rs"),
        "hook --deadline" => Shows(&["--deadline", "1ms"], "hook_deadline"),
        "hook install --project" | "hook uninstall --project" | "hook test --project" => {
            Shows(&["--project", "--user"], "exit 2")
        }
        "hook install --user" => CreatesFile(&["--user"], "new/.claude/settings.json.user"),
        "hook install --dry-run" => KeepsFile(&["--dry-run"], ".claude/settings.json"),
        "hook uninstall --user" => CreatesFile(&["--user"], ".gemini/settings.json"),
        "hook uninstall --dry-run" => CreatesFile(&["--dry-run"], ".gemini/settings.json"),
        "hook test --user" => Shows(&["--user"], "NOT ARMED"),
        "init --force" => TestedElsewhere("cli/setup_commands.rs"),
        "man --out" => CreatesFile(&["--out", "pages"], "pages/flyball-run.1"),
        "config --origin" => Shows(&["--origin"], "default"),
        "top --once" => Documented("always so without a terminal"),
        "top --limit" | "list --limit" => Hides(&["--limit", "1"], "quiet"),
        "list --blocked" => Hides(&["--blocked"], "quiet"),
        "list --waiting" => Hides(&["--waiting"], "quiet"),
        "list --struggling" => Hides(&["--struggling"], "quiet"),
        "release --guard" => Shows(&["--guard", "visits"], "visits"),
        "release --mode" => Shows(&["--mode", "reset"], "its counters start over"),
        "release --n" => Shows(&["--n", "7"], "7 more"),
        "release --why" | "stop --why" | "unlabel --why" => {
            Records(&["--why", "unmistakable"], "unmistakable")
        }
        "release --by" | "approve --by" | "deny --by" | "stop --by" | "unlabel --by" | "send --by" => {
            Records(&["--by", "berta"], "berta")
        }
        "approve --why" | "deny --why" => Records(&["--why", "unmistakable"], "unmistakable"),
        "prune --older-than" => Shows(&["--older-than", "5 parsecs"], "bad_duration"),
        "prune --dry-run" => Shows(&["--dry-run"], "Would delete"),
        "prune --set" => Shows(&["--set", "journal.retention=off"], "bad_duration"),
        "doctor --accept" => Shows(&["--accept"], "agent_not_allowed"),
        "activity --kind" => Hides(&["--kind", "decision"], "hello"),
        "activity --limit" => Hides(&["--limit", "1"], "asks"),
        "activity --follow" => TestedElsewhere("wired/flags.rs"),
        line if line.starts_with("output --") => TestedElsewhere("cli/large_outputs.rs"),
        "outbox --dead" => Hides(&["--dead"], "s/2/0"),
        "outbox --waiting" => Hides(&["--waiting"], "s/1/0"),
        "outbox --deliver" => Shows(&["--deliver"], "delivered,"),
        "outbox --retry" => Shows(&["--retry", "s/1/0"], "will be retried"),
        "outbox --policy" => Shows(&["--deliver", "--policy", "nowhere.yaml"], "nowhere.yaml"),
        "outbox --preset" => Shows(&["--deliver", "--preset", "nonsense"], "nonsense"),
        "outbox --set" => Shows(&["--deliver", "--set", "nonsense.key=1"], "nonsense"),
        "serve --listen" => Shows(&["--listen", "127.0.0.2:0"], "127.0.0.2"),
        "serve --no-tcp" => Hides(&["!--listen", "!--no-socket", "--no-tcp"], "127.0.0.1"),
        "serve --socket" => CreatesFile(&["!--no-socket", "--socket", "a.sock"], "a.sock"),
        "serve --no-socket" | "serve --operator-uid" | "serve --admin-uid" => {
            TestedElsewhere("serve/approval_attacks.rs")
        }
        "serve --agent-uid" => {
            CreatesFile(&["!--no-socket", "--socket", "a.sock", "--agent-uid", "1"], "open a.sock")
        }
        "serve --host" => TestedElsewhere("serve/malicious_requests.rs"),
        "serve --queue" => TestedElsewhere("fleet/overload.rs"),
        "serve --workflows" => Shows(&["--workflows", "nowhere"], "no such folder"),
        "serve --workers" => Shows(&["--workers", "1"], "exit 2"),
        "serve --hot-sessions" => Shows(&["--hot-sessions", "many"], "exit 2"),
        "serve --log" => TestedElsewhere("signals/health.rs"),
        "serve --otlp" => TestedElsewhere("signals/traces.rs"),
        "serve --otlp-content" => TestedElsewhere("signals/planted_secrets.rs"),
        "serve --watch" => TestedElsewhere("pages/coverage.rs"),
        "token create --role" => Shows(&["--role", "admin"], "flyball_admin_"),
        "token create --sessions" => Records(&["--sessions", "team-"], "team-"),
        "token create --expires" => Shows(&["--expires", "never"], "never"),
        "backup --force" | "backup --json" | "backup --store" => TestedElsewhere("cli/backup.rs"),
        "restore --json" | "restore --store" => TestedElsewhere("cli/backup.rs"),
        "policy accept --by" | "policy accept --json" | "policy accept --why" => {
            TestedElsewhere("hooks/project_trust.rs")
        }
        "trust --dry-run" | "trust --json" | "trust --list" | "trust --revoke" => {
            TestedElsewhere("cli/trust.rs")
        }
        "proxy --host" => TestedElsewhere("proxy/failures.rs"),
        "token create --all-sessions" => TestedElsewhere("serve/false_claims.rs"),
        "serve --tls-cert" | "serve --tls-key" | "serve --insecure-http" => TestedElsewhere("serve/tls.rs"),
        "serve --proof-max-age" => TestedElsewhere("pages/login.rs"),
        line if line.starts_with("serve --key-") || line.starts_with("serve --max-unauthenticated") => {
            TestedElsewhere("serve/limits.rs")
        }
        _ => return None,
    })
}

/// The proof for a flag with the same meaning everywhere: an invalid value is an error only if the flag is read.
fn proof_for_common_flag(flag: &str) -> Option<FlagProof> {
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

/// A step that kills the run the first time, like a crash.
const INTERRUPTED_WORKFLOW: &str = r#"{version: 1, name: cut, nodes: [{name: work, kind: command, run: "test -e mark || { touch mark; kill -9 $PPID; }", on_failure: failed, on_success: done}]}"#;

/// A project with a populated store and some files.
fn template_project(name: &str) -> PathBuf {
    let store = CliStore::project_store(&format!("flags-{name}"));
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
    let run = run_flyball(&store.folder, &["run", "workflow.yaml"], b"", &[("USER", "anna")]);
    assert_eq!(run.code, 4, "{}{}", run.out, run.err);
    std::fs::write(store.folder.join("cut.yaml"), INTERRUPTED_WORKFLOW).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut cut = Command::new(env!("CARGO_BIN_EXE_flyball"));
    cut.args(["run", "cut.yaml"]).current_dir(&store.folder).env_clear().env("PATH", path);
    let cut = cut.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(cut.code(), None, "the step kills the run");
    store.event(r#"{"type":"user.message","session":"quiet","text":"hello"}"#);
    store.observe(&calls("loops", 9));
    let plan = json!([{"tool": "delete_task", "args": {"id": 7}}]);
    store.event(
        &json!({"type": "confirmation.requested", "session": "asks", "plan": plan, "question": "Delete?"})
            .to_string(),
    );
    let mut labeled = vec![json!({"type": "session.started", "session": "labeled", "policy": {"preset": "simple", "guards": {"visits": {"limit": 2}}}}).to_string()];
    for _ in 0..4 {
        labeled.push(json!({"type": "turn.started", "session": "labeled", "node": "test"}).to_string());
        labeled.push(json!({"type": "turn.finished", "session": "labeled", "node": "test"}).to_string());
    }
    store.observe(&labeled.join("\n"));
    for (key, state) in [("s/1/0", "dead"), ("s/2/0", "waiting")] {
        let row = format!(
            "INSERT INTO flyball_outbox VALUES ('{key}', 's', 'notify', '0', '{{}}', '{state}', 5, 99999999999999, 'refused')"
        );
        store.open_database().execute(&row, []).unwrap();
    }
    assert_eq!(run_flyball(&store.folder, &["hook", "gemini", "install"], b"", &[]).code, 0);
    store.folder
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
    let mode = std::fs::metadata(from).unwrap().permissions();
    std::fs::set_permissions(to, mode).unwrap();
}

/// Runs a command in a copy of the template. A server is stopped as soon as it prints its address.
fn run_in_copy(base: &BaseCommand, more: &[&str], template: &Path) -> (PathBuf, CommandOutput) {
    let place = test_dir("flags-run");
    copy_dir(template, &place);
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
        return (place.clone(), run_server(&place, &args, &env));
    }
    let run = run_flyball(&place, &args, base.input.as_bytes(), &env);
    (place, run)
}

fn run_server(place: &Path, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
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
            return CommandOutput { code: 0, out: String::new(), err };
        }
    }
    CommandOutput { code: child.wait().unwrap().code().unwrap_or(-1), out: String::new(), err }
}

fn combined_output(run: &CommandOutput) -> String {
    format!("{}\n{}\nexit {}\n", run.out, run.err, run.code)
}

fn is_json(run: &CommandOutput) -> bool {
    let whole = serde_json::from_str::<Value>(&run.out).is_ok();
    whole
        || !run.out.trim().is_empty()
            && run.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
}

/// The reason why a flag has no effect, if it has none.
fn flag_error(
    line: &str,
    base: &BaseCommand,
    template: &Path,
    cache: &mut BTreeMap<&'static str, String>,
) -> Option<String> {
    let flag = line.rsplit_once(' ').unwrap().1;
    let Some(proof) = proof_for_command(line).or_else(|| proof_for_common_flag(flag)) else {
        return Some("there is no proof for it".to_owned());
    };
    let mut without = || {
        cache
            .entry(base.command)
            .or_insert_with(|| combined_output(&run_in_copy(base, &[], template).1))
            .clone()
    };
    let seen = |with: &[&str], text: &str| {
        (combined_output(&run_in_copy(base, with, template).1).contains(text), text.to_owned())
    };
    match proof {
        Shows(with, text) => {
            let (with, text) = seen(with, text);
            (!with || without().contains(&text)).then(|| format!("{text:?} is shown with it: {with}"))
        }
        Hides(with, text) => {
            let (with, text) = seen(with, text);
            (with || !without().contains(&text)).then(|| format!("{text:?} is shown with it: {with}"))
        }
        CreatesFile(with, file) => {
            let made = |more: &[&str]| creates_file(base, more, template, file);
            (!made(with) || made(&[])).then(|| format!("it does not create {file}"))
        }
        KeepsFile(with, file) => {
            let made = |more: &[&str]| creates_file(base, more, template, file);
            (made(with) || !made(&[])).then(|| format!("it does not keep {file} from being created"))
        }
        Records(with, text) => {
            let recorded = |more: &[&str]| {
                let place = run_in_copy(base, more, template).0.join(".flyball");
                let files = ["flyball.db", "flyball.db-wal"].map(|name| std::fs::read(place.join(name)));
                let mut bytes = files.into_iter().flatten().flatten().collect::<Vec<u8>>();
                bytes.retain(|byte| *byte != 0);
                String::from_utf8_lossy(&bytes).contains(text)
            };
            (!recorded(with) || recorded(&[])).then(|| format!("it does not record {text:?}"))
        }
        Json => {
            let (with, without) =
                (run_in_copy(base, &["--json"], template).1, run_in_copy(base, &[], template).1);
            (!is_json(&with) || is_json(&without)).then(|| combined_output(&with))
        }
        Documented(words) => {
            let mut help: Vec<&str> = base.command.split(' ').collect();
            help.push("--help");
            let help =
                run_flyball(template, &help, b"", &[]).out.split_whitespace().collect::<Vec<_>>().join(" ");
            (!help.contains(words)).then_some(help)
        }
        TestedElsewhere(file) => {
            let path = repo_root().join("crates/flyball-cli/tests").join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (!text.contains(&format!("\"{flag}\""))).then(|| format!("{file} does not use it"))
        }
    }
}

/// Whether a file exists after a run. `new/` marks a file of the template that is removed before the run.
fn creates_file(base: &BaseCommand, more: &[&str], template: &Path, file: &str) -> bool {
    if file == "new/.claude/settings.json.user" {
        return run_in_copy(base, more, template).0.join("home/.claude/settings.json").exists();
    }
    if let Some(file) = file.strip_prefix("open ") {
        use std::os::unix::fs::PermissionsExt;
        let path = run_in_copy(base, more, template).0.join(file);
        return path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o006 != 0);
    }
    if let Some(file) = file.strip_prefix("new/") {
        let bare = test_dir("flags-bare");
        std::fs::copy(template.join("workflow.yaml"), bare.join("workflow.yaml")).unwrap();
        return run_in_copy(base, more, &bare).0.join(file).exists();
    }
    run_in_copy(base, more, template).0.join(file).exists()
}

#[test]
fn every_flag_of_every_command_has_an_effect() {
    let template = template_project("effects");
    let mut errors = Vec::new();
    let mut cache = BTreeMap::new();
    for line in include_str!("flags.txt").lines() {
        let command = line.rsplit_once(' ').unwrap().0;
        let Some(base) = BASE_COMMANDS.iter().find(|base| base.command == command) else {
            errors.push(format!("{line}: the command has no base"));
            continue;
        };
        errors.extend(
            flag_error(line, base, &template, &mut cache).map(|problem| format!("{line}: {problem}")),
        );
    }
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
    recorded("flags of commands", include_str!("flags.txt").lines().count());
}

#[test]
fn activity_follow_runs_until_stopped() {
    let template = template_project("follow");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(["activity", "--follow"]).current_dir(&template).env_clear();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("hello")));
    assert!(child.try_wait().unwrap().is_none(), "the server has exited unexpectedly");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn flags_without_effect_together_are_rejected() {
    let template = template_project("together");
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
        let run = run_flyball(&template, args, b"", &[]);
        assert_eq!(run.code, 2, "{args:?}: {}{}", run.out, run.err);
        assert!(run.err.contains("--"), "{args:?}: {}", run.err);
    }
    // A workflow file's limits come from the given policy.
    let run = run_flyball(&template, &["graph", "workflow.yaml", "--policy", "nowhere.yaml"], b"", &[]);
    assert!(run.code == 1 && run.err.contains("nowhere.yaml"), "{}{}", run.out, run.err);
}
