//! Store identity: deleted, replaced, truncated or rolled back files are detected before anything is acknowledged, by
//! the process that uses them and by every later one.

use crate::command_harness::{CommandOutput, run_flyball, run_flyball_with_env, test_dir};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A project with a separate home directory.
struct IdentityProject {
    folder: PathBuf,
    home: String,
}

impl IdentityProject {
    fn new(name: &str) -> Self {
        let outer = test_dir(name);
        let folder = outer.join("project");
        std::fs::create_dir_all(folder.join(".git")).unwrap();
        IdentityProject { folder, home: outer.join("home").to_str().unwrap().to_owned() }
    }

    fn database(&self) -> PathBuf {
        self.folder.join(".flyball/flyball.db")
    }

    /// Runs a command as an operator.
    fn run(&self, args: &[&str]) -> CommandOutput {
        run_flyball(&self.folder, args, b"", &[("HOME", &self.home), ("USER", "anna")])
    }

    /// Whether the hook allows a command.
    fn hook_allows(&self, call: u32, command: &str) -> Result<(), String> {
        self.hook(&self.folder, &[("HOME", &self.home)], call, command)
    }

    fn hook(&self, cwd: &Path, env: &[(&str, &str)], call: u32, command: &str) -> Result<(), String> {
        let input = json!({"session_id": "s1", "transcript_path": "/tmp/t.jsonl", "cwd": cwd,
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": format!("t{call}"),
            "tool_input": {"command": command}});
        let args = ["hook", "claude-code", "--event", "PreToolUse"];
        let run = run_flyball_with_env(cwd, &args, input.to_string().as_bytes(), env);
        let answer: Value = serde_json::from_str(&run.out).unwrap_or_default();
        let denied = answer["hookSpecificOutput"]["permissionDecision"] == "deny" || run.code == 2;
        if denied { Err(format!("{}{}", run.out, run.err)) } else { Ok(()) }
    }

    /// Makes calls until a guard halts the session.
    fn run_until_halted(&self) {
        let halted =
            (0..30).any(|call| self.hook_allows(call, "make all").is_err_and(|why| why.contains("halted")));
        assert!(halted, "the session was not halted");
    }

    #[track_caller]
    fn assert_store_rejected(&self, what: &str) {
        let why = self.hook_allows(900, "rm -rf build").expect_err(what);
        assert!(why.contains("store_replaced"), "{what}: {why}");
        let list = self.run(&["list"]);
        assert!(list.code == 1 && list.err.starts_with("error[store_replaced]"), "{what}: {}", list.err);
        assert!(list.err.contains("flyball doctor --accept"), "{what}: {}", list.err);
        let doctor = self.run(&["doctor"]);
        assert_eq!(doctor.code, 1, "{what}: {}", doctor.out);
        assert!(
            doctor.out.contains("store_replaced") && doctor.out.contains("flyball restore"),
            "{}",
            doctor.out
        );
    }
}

#[test]
fn removing_the_store_does_not_lift_a_halt() {
    let project = IdentityProject::new("identity-removed");
    assert!(project.hook_allows(0, "make all").is_ok(), "a new project needs no setup");
    project.run_until_halted();
    std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    project.assert_store_rejected("the folder was removed");
    let why = project.hook_allows(901, "rm -rf build").unwrap_err();
    assert!(why.contains("claude-code:s1"), "the halted session is named: {why}");
    assert!(!project.folder.join(".flyball").exists(), "nothing was created");
    // An empty file, or another store, does not help.
    std::fs::create_dir_all(project.folder.join(".flyball")).unwrap();
    std::fs::write(project.database(), "").unwrap();
    project.assert_store_rejected("the file is empty");
    let other = IdentityProject::new("identity-removed-other");
    assert!(other.hook_allows(0, "make all").is_ok());
    assert_eq!(other.run(&["backup", "copy.db"]).code, 0);
    std::fs::copy(other.folder.join("copy.db"), project.database()).unwrap();
    project.assert_store_rejected("another store");
}

#[test]
fn only_a_person_accepts_a_new_store() {
    let project = IdentityProject::new("identity-accept");
    project.run_until_halted();
    std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    let env = [("HOME", project.home.as_str()), ("CLAUDECODE", "1")];
    let run = run_flyball(&project.folder, &["doctor", "--accept"], b"", &env);
    assert!(run.code == 1 && run.err.starts_with("error[agent_not_allowed]"), "{}{}", run.out, run.err);
    project.assert_store_rejected("an agent cannot accept the store");
    project.run(&["doctor", "--accept"]);
    assert!(project.hook_allows(902, "make all").is_ok());
    let doctor = project.run(&["doctor"]);
    assert!(doctor.out.contains("ok     store") && doctor.out.contains("is detected"), "{}", doctor.out);
}

#[test]
fn restored_old_copy_is_detected() {
    let project = IdentityProject::new("identity-rollback");
    assert!(project.hook_allows(0, "make all").is_ok());
    assert_eq!(project.run(&["backup", "old.db"]).code, 0);
    project.run_until_halted();
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(project.folder.join(format!(".flyball/flyball.db{ending}")));
    }
    std::fs::copy(project.folder.join("old.db"), project.database()).unwrap();
    project.assert_store_rejected("an old copy");
}

#[test]
fn new_moved_and_recreated_projects_work_without_confirmation() {
    let project = IdentityProject::new("identity-moved");
    project.run_until_halted();
    // The whole project moves, with its halt.
    let moved = project.folder.with_file_name("moved");
    std::fs::rename(&project.folder, &moved).unwrap();
    let env = [("HOME", project.home.as_str())];
    let why = project.hook(&moved, &env, 903, "ls").unwrap_err();
    assert!(why.contains("halted") && !why.contains("store_replaced"), "{why}");
    // Another checkout at the old path is another project.
    std::fs::create_dir_all(project.folder.join(".git")).unwrap();
    assert!(project.hook_allows(904, "make all").is_ok());
}

#[test]
fn without_a_home_folder_the_store_works_and_doctor_warns() {
    let project = IdentityProject::new("identity-homeless");
    for call in 0..2 {
        assert!(project.hook(&project.folder, &[], call, "make all").is_ok());
        std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    }
    assert!(project.hook(&project.folder, &[], 3, "make all").is_ok());
    let doctor = run_flyball_with_env(&project.folder, &["doctor"], b"", &[]);
    assert!(doctor.out.contains("warning: no high-water mark"), "{}", doctor.out);
    assert!(doctor.out.contains("ok     store"), "{}", doctor.out);
}

#[test]
fn unwritable_state_folder_is_a_warning() {
    let project = IdentityProject::new("identity-read-only");
    // Put a file where the directory should be: not even root can write under it.
    std::fs::create_dir_all(Path::new(&project.home).join(".local")).unwrap();
    std::fs::write(Path::new(&project.home).join(".local/state"), "").unwrap();
    assert!(project.hook_allows(0, "make all").is_ok());
    let doctor = project.run(&["doctor"]);
    assert!(doctor.out.contains("warning: no high-water mark"), "{}", doctor.out);
}

/// A long-running process that records events.
struct ObserveProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl ObserveProcess {
    fn start(folder: &Path, name: &str) -> Self {
        let store = format!("sqlite:{name}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["observe", "--store", &store])
            .current_dir(folder)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        ObserveProcess { child, stdin, stdout }
    }

    fn send_event(&mut self, number: u32) -> Value {
        let event = json!({"type": "tool.requested", "session": "s", "id": format!("e{number}"),
            "call": format!("c{number}"), "tool": "bash", "args": {"command": format!("ls {number}")}});
        writeln!(self.stdin.as_mut().unwrap(), "{event}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }

    fn finish(mut self) -> i32 {
        drop(self.stdin.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn truncate(path: &Path, divide: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.checked_div(divide).map_or(0, |rest| rest / 4096 * 4096)).unwrap();
}

#[test]
fn changed_files_are_detected_before_the_next_acknowledgement() {
    type FileAttack = fn(&Path);
    let attacks: [(&str, FileAttack); 12] = [
        ("database deleted", |path| std::fs::remove_file(path).unwrap()),
        ("database renamed", |path| std::fs::rename(path, with_suffix(path, "-away")).unwrap()),
        ("database replaced", |path| {
            std::fs::copy(path.with_file_name("other.db"), with_suffix(path, "-x")).unwrap();
            std::fs::rename(with_suffix(path, "-x"), path).unwrap();
        }),
        ("database overwritten", |path| {
            let _ = std::fs::copy(path.with_file_name("other.db"), path).unwrap();
        }),
        ("database emptied", |path| truncate(path, 0)),
        ("database truncated", |path| truncate(path, 2)),
        ("log deleted", |path| std::fs::remove_file(with_suffix(path, "-wal")).unwrap()),
        ("log emptied", |path| truncate(&with_suffix(path, "-wal"), 0)),
        ("log truncated", |path| truncate(&with_suffix(path, "-wal"), 2)),
        ("log replaced", |path| {
            std::fs::copy(with_suffix(path, "-wal"), with_suffix(path, "-x")).unwrap();
            std::fs::rename(with_suffix(path, "-x"), with_suffix(path, "-wal")).unwrap();
        }),
        ("log zeroed", |path| {
            let zeros = vec![0; std::fs::metadata(with_suffix(path, "-wal")).unwrap().len() as usize];
            let mut file = std::fs::OpenOptions::new().write(true).open(with_suffix(path, "-wal")).unwrap();
            file.write_all(&zeros).unwrap();
        }),
        ("all deleted", |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap()),
    ];
    for repeated in [false, true] {
        for (at, (name, attack)) in attacks.iter().enumerate() {
            let outer = test_dir(&format!("identity-attack-{at}-{repeated}"));
            let dir = outer.join("inner");
            std::fs::create_dir_all(&dir).unwrap();
            // The other store has as many pages, and was not closed recently.
            let event = br#"{"type":"user.message","session":"o","text":"x"}"#;
            run_flyball(&dir, &["observe", "--store", "sqlite:other.db"], event, &[]);
            let mut observer = ObserveProcess::start(&dir, "x.db");
            for number in 0..3 {
                assert_eq!(observer.send_event(number)["decision"], "allow");
            }
            attack(&dir.join("x.db"));
            // An already answered event is not answered from memory either.
            for number in if repeated { [2, 50] } else { [50, 51] } {
                let answer = observer.send_event(number);
                assert_eq!(answer["decision"], "block", "{name}: {answer}");
                assert_eq!(answer["error"]["code"], "store_replaced", "{name}: {answer}");
            }
            assert_eq!(observer.finish(), 1, "{name}");
        }
    }
}

#[test]
fn other_processes_may_write_and_truncate_the_wal() {
    let dir = test_dir("identity-others");
    let (mut a, mut b) = (ObserveProcess::start(&dir, "x.db"), ObserveProcess::start(&dir, "x.db"));
    for number in 0..40 {
        assert_eq!(a.send_event(2 * number)["decision"], "allow");
        if number % 4 == 0 {
            let sql = rusqlite::Connection::open(dir.join("x.db")).unwrap();
            sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
        assert_eq!(a.send_event(2 * number)["decision"], "allow", "a duplicate");
        assert_eq!(b.send_event(2 * number + 1)["decision"], "allow");
        if number % 10 == 0 {
            assert_eq!(b.finish(), 0);
            b = ObserveProcess::start(&dir, "x.db");
        }
    }
    assert_eq!((a.finish(), b.finish()), (0, 0));
}

#[test]
fn store_creation_that_is_killed_leaves_a_usable_state() {
    let dir = test_dir("identity-killed");
    let event = br#"{"type":"tool.requested","session":"s","call":"c","tool":"bash","args":{}}"#;
    for round in 0..40_u64 {
        let inner = dir.join(format!("r{round}"));
        std::fs::create_dir_all(inner.join(".git")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["observe", "--store"])
            .current_dir(&inner)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Kill it at a different moment each time; being late does no harm while the process runs.
        std::thread::park_timeout(std::time::Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let database = inner.join(".flyball/flyball.db");
        let made = database.exists();
        assert!(!made || std::fs::metadata(&database).unwrap().len() > 0, "round {round}: an empty file");
        let list = run_flyball(&inner, &["list"], b"", &[]);
        assert_eq!(list.code, i32::from(!made), "round {round}: {}", list.err);
        assert!(made || list.err.contains("no such store"), "round {round}: {}", list.err);
        let run = run_flyball(&inner, &["observe", "--store"], event, &[]);
        assert_eq!(run.code, 0, "round {round}: {}", run.err);
        let names: Vec<_> =
            std::fs::read_dir(inner.join(".flyball")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(
            !names.iter().any(|name| name.to_string_lossy().contains("-new")),
            "round {round}: {names:?}"
        );
    }
}

#[test]
fn hook_past_its_deadline_leaves_no_empty_store() {
    let dir = test_dir("identity-deadline");
    let input = json!({"session_id": "s1", "cwd": dir, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_use_id": "t", "tool_input": {"command": "ls"}});
    for round in 0..20 {
        let _ = std::fs::remove_dir_all(dir.join(".flyball"));
        let deadline = format!("{}ms", round % 8 + 1);
        let args = ["hook", "claude-code", "--event", "PreToolUse", "--deadline", &deadline];
        run_flyball_with_env(&dir, &args, input.to_string().as_bytes(), &[]);
        let database = dir.join(".flyball/flyball.db");
        let run = run_flyball_with_env(&dir, &["list"], b"", &[]);
        if database.exists() {
            assert_eq!(run.code, 0, "round {round}: {}", run.err);
        } else {
            assert!(run.err.contains("no such store"), "round {round}: {}", run.err);
        }
    }
}

#[test]
fn empty_store_file_is_explained_and_completed_by_the_next_event() {
    let dir = test_dir("identity-empty");
    std::fs::create_dir_all(dir.join(".flyball")).unwrap();
    std::fs::set_permissions(dir.join(".flyball"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    std::fs::write(dir.join(".flyball/flyball.db"), "").unwrap();
    let run = run_flyball(&dir, &["status"], b"", &[]);
    assert!(run.code == 1 && run.err.starts_with("error[store_missing]"), "{}", run.err);
    assert!(run.err.contains("creating the store was interrupted"), "{}", run.err);
    let event = br#"{"type":"user.message","session":"s","text":"x"}"#;
    assert_eq!(run_flyball(&dir, &["observe", "--store"], event, &[]).code, 0);
    assert_eq!(run_flyball(&dir, &["status"], b"", &[]).code, 0);
}

#[test]
fn processes_that_create_a_store_concurrently_share_it() {
    let dir = test_dir("identity-together");
    for round in 0..5 {
        let name = format!("x{round}.db");
        let mut all: Vec<ObserveProcess> = (0..6).map(|_| ObserveProcess::start(&dir, &name)).collect();
        for (number, observer) in all.iter_mut().enumerate() {
            assert_eq!(observer.send_event(number as u32)["decision"], "allow");
        }
        all.into_iter().for_each(|observer| assert_eq!(observer.finish(), 0));
        let sql = rusqlite::Connection::open(dir.join(&name)).unwrap();
        let count: i64 = sql.query_row("SELECT count(*) FROM flyball_events", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 6);
    }
}
