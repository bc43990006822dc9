//! The store has an identity: files that are deleted, replaced, truncated or rolled back are noticed before anything is
//! acknowledged, by the process that uses them and by every later one.

use crate::kit::{Run, flyball, flyball_bare, folder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A project with a home folder beside it.
struct Project {
    folder: PathBuf,
    home: String,
}

impl Project {
    fn new(name: &str) -> Self {
        let outer = folder(name);
        let folder = outer.join("project");
        std::fs::create_dir_all(folder.join(".git")).unwrap();
        Project { folder, home: outer.join("home").to_str().unwrap().to_owned() }
    }

    fn database(&self) -> PathBuf {
        self.folder.join(".flyball/flyball.db")
    }

    /// A command of a person.
    fn run(&self, args: &[&str]) -> Run {
        flyball(&self.folder, args, b"", &[("HOME", &self.home), ("USER", "anna")])
    }

    /// Whether the hook lets a command run.
    fn allows(&self, call: u32, command: &str) -> Result<(), String> {
        self.hook(&self.folder, &[("HOME", &self.home)], call, command)
    }

    fn hook(&self, cwd: &Path, env: &[(&str, &str)], call: u32, command: &str) -> Result<(), String> {
        let input = json!({"session_id": "s1", "transcript_path": "/tmp/t.jsonl", "cwd": cwd,
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": format!("t{call}"),
            "tool_input": {"command": command}});
        let args = ["hook", "claude-code", "--event", "PreToolUse"];
        let run = flyball_bare(cwd, &args, input.to_string().as_bytes(), env);
        let answer: Value = serde_json::from_str(&run.out).unwrap_or_default();
        let denied = answer["hookSpecificOutput"]["permissionDecision"] == "deny" || run.code == 2;
        if denied { Err(format!("{}{}", run.out, run.err)) } else { Ok(()) }
    }

    /// Works until a guard halts the session.
    fn halt(&self) {
        let halted =
            (0..30).any(|call| self.allows(call, "make all").is_err_and(|why| why.contains("halted")));
        assert!(halted, "the session was not halted");
    }

    #[track_caller]
    fn refused(&self, what: &str) {
        let why = self.allows(900, "rm -rf build").expect_err(what);
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
    let project = Project::new("identity-removed");
    assert!(project.allows(0, "make all").is_ok(), "a new project needs no ceremony");
    project.halt();
    std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    project.refused("the folder is gone");
    let why = project.allows(901, "rm -rf build").unwrap_err();
    assert!(why.contains("claude-code:s1"), "the halted session is named: {why}");
    assert!(!project.folder.join(".flyball").exists(), "nothing was made");
    // An empty file, or another store, does not help.
    std::fs::create_dir_all(project.folder.join(".flyball")).unwrap();
    std::fs::write(project.database(), "").unwrap();
    project.refused("the file is empty");
    let other = Project::new("identity-removed-other");
    assert!(other.allows(0, "make all").is_ok());
    assert_eq!(other.run(&["backup", "copy.db"]).code, 0);
    std::fs::copy(other.folder.join("copy.db"), project.database()).unwrap();
    project.refused("another store");
}

#[test]
fn only_a_person_accepts_a_new_store() {
    let project = Project::new("identity-accept");
    project.halt();
    std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    let env = [("HOME", project.home.as_str()), ("CLAUDECODE", "1")];
    let run = flyball(&project.folder, &["doctor", "--accept"], b"", &env);
    assert!(run.code == 1 && run.err.starts_with("error[agent_speaks]"), "{}{}", run.out, run.err);
    project.refused("an agent accepts nothing");
    project.run(&["doctor", "--accept"]);
    assert!(project.allows(902, "make all").is_ok());
    let doctor = project.run(&["doctor"]);
    assert!(doctor.out.contains("ok     store") && doctor.out.contains("is noticed"), "{}", doctor.out);
}

#[test]
fn an_old_copy_that_is_put_back_is_noticed() {
    let project = Project::new("identity-rollback");
    assert!(project.allows(0, "make all").is_ok());
    assert_eq!(project.run(&["backup", "old.db"]).code, 0);
    project.halt();
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(project.folder.join(format!(".flyball/flyball.db{ending}")));
    }
    std::fs::copy(project.folder.join("old.db"), project.database()).unwrap();
    project.refused("an old copy");
}

#[test]
fn new_moved_and_recreated_projects_work_without_ceremony() {
    let project = Project::new("identity-moved");
    project.halt();
    // The whole project moves, with its halt.
    let moved = project.folder.with_file_name("moved");
    std::fs::rename(&project.folder, &moved).unwrap();
    let env = [("HOME", project.home.as_str())];
    let why = project.hook(&moved, &env, 903, "ls").unwrap_err();
    assert!(why.contains("halted") && !why.contains("store_replaced"), "{why}");
    // Another checkout in its old place is another project.
    std::fs::create_dir_all(project.folder.join(".git")).unwrap();
    assert!(project.allows(904, "make all").is_ok());
}

#[test]
fn without_a_home_folder_the_store_works_and_doctor_warns() {
    let project = Project::new("identity-homeless");
    for call in 0..2 {
        assert!(project.hook(&project.folder, &[], call, "make all").is_ok());
        std::fs::remove_dir_all(project.folder.join(".flyball")).unwrap();
    }
    assert!(project.hook(&project.folder, &[], 3, "make all").is_ok());
    let doctor = flyball_bare(&project.folder, &["doctor"], b"", &[]);
    assert!(doctor.out.contains("warning: no high-water mark"), "{}", doctor.out);
    assert!(doctor.out.contains("ok     store"), "{}", doctor.out);
}

#[test]
fn a_state_folder_that_cannot_be_written_is_a_warning() {
    let project = Project::new("identity-read-only");
    // A file where the folder should be: not even root can write below it.
    std::fs::create_dir_all(Path::new(&project.home).join(".local")).unwrap();
    std::fs::write(Path::new(&project.home).join(".local/state"), "").unwrap();
    assert!(project.allows(0, "make all").is_ok());
    let doctor = project.run(&["doctor"]);
    assert!(doctor.out.contains("warning: no high-water mark"), "{}", doctor.out);
}

/// A process that records events and stays.
struct Observer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Observer {
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
        Observer { child, stdin, stdout }
    }

    fn ask(&mut self, number: u32) -> Value {
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

fn with(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn shorten(path: &Path, divide: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.checked_div(divide).map_or(0, |rest| rest / 4096 * 4096)).unwrap();
}

#[test]
fn changed_files_are_noticed_before_the_next_acknowledgement() {
    type Attack = fn(&Path);
    let attacks: [(&str, Attack); 12] = [
        ("database deleted", |path| std::fs::remove_file(path).unwrap()),
        ("database renamed", |path| std::fs::rename(path, with(path, "-away")).unwrap()),
        ("database replaced", |path| {
            std::fs::copy(path.with_file_name("other.db"), with(path, "-x")).unwrap();
            std::fs::rename(with(path, "-x"), path).unwrap();
        }),
        ("database overwritten", |path| {
            let _ = std::fs::copy(path.with_file_name("other.db"), path).unwrap();
        }),
        ("database emptied", |path| shorten(path, 0)),
        ("database truncated", |path| shorten(path, 2)),
        ("log deleted", |path| std::fs::remove_file(with(path, "-wal")).unwrap()),
        ("log emptied", |path| shorten(&with(path, "-wal"), 0)),
        ("log truncated", |path| shorten(&with(path, "-wal"), 2)),
        ("log replaced", |path| {
            std::fs::copy(with(path, "-wal"), with(path, "-x")).unwrap();
            std::fs::rename(with(path, "-x"), with(path, "-wal")).unwrap();
        }),
        ("log zeroed", |path| {
            let zeros = vec![0; std::fs::metadata(with(path, "-wal")).unwrap().len() as usize];
            let mut file = std::fs::OpenOptions::new().write(true).open(with(path, "-wal")).unwrap();
            file.write_all(&zeros).unwrap();
        }),
        ("all deleted", |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap()),
    ];
    for repeated in [false, true] {
        for (at, (name, attack)) in attacks.iter().enumerate() {
            let outer = folder(&format!("identity-attack-{at}-{repeated}"));
            let dir = outer.join("inner");
            std::fs::create_dir_all(&dir).unwrap();
            // The other store has as many pages, and was not closed just now.
            let event = br#"{"type":"user.message","session":"o","text":"x"}"#;
            flyball(&dir, &["observe", "--store", "sqlite:other.db"], event, &[]);
            let mut observer = Observer::start(&dir, "x.db");
            for number in 0..3 {
                assert_eq!(observer.ask(number)["decision"], "allow");
            }
            attack(&dir.join("x.db"));
            // An event that was answered before is not answered from memory either.
            for number in if repeated { [2, 50] } else { [50, 51] } {
                let answer = observer.ask(number);
                assert_eq!(answer["decision"], "block", "{name}: {answer}");
                assert_eq!(answer["error"]["code"], "store_replaced", "{name}: {answer}");
            }
            assert_eq!(observer.finish(), 1, "{name}");
        }
    }
}

#[test]
fn other_processes_may_write_and_empty_the_log() {
    let dir = folder("identity-others");
    let (mut a, mut b) = (Observer::start(&dir, "x.db"), Observer::start(&dir, "x.db"));
    for number in 0..40 {
        assert_eq!(a.ask(2 * number)["decision"], "allow");
        if number % 4 == 0 {
            let sql = rusqlite::Connection::open(dir.join("x.db")).unwrap();
            sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
        assert_eq!(a.ask(2 * number)["decision"], "allow", "a duplicate");
        assert_eq!(b.ask(2 * number + 1)["decision"], "allow");
        if number % 10 == 0 {
            assert_eq!(b.finish(), 0);
            b = Observer::start(&dir, "x.db");
        }
    }
    assert_eq!((a.finish(), b.finish()), (0, 0));
}

#[test]
fn a_process_that_is_killed_while_it_makes_a_store_leaves_nothing_behind_that_is_rejected() {
    let dir = folder("identity-killed");
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
        // At another moment each time; as long as the process has not ended it does no harm to be late.
        std::thread::park_timeout(std::time::Duration::from_micros(round * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        let database = inner.join(".flyball/flyball.db");
        let made = database.exists();
        assert!(!made || std::fs::metadata(&database).unwrap().len() > 0, "round {round}: an empty file");
        let list = flyball(&inner, &["list"], b"", &[]);
        assert_eq!(list.code, i32::from(!made), "round {round}: {}", list.err);
        assert!(made || list.err.contains("there is no store"), "round {round}: {}", list.err);
        let run = flyball(&inner, &["observe", "--store"], event, &[]);
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
fn a_hook_whose_deadline_passes_leaves_no_empty_store() {
    let dir = folder("identity-deadline");
    let input = json!({"session_id": "s1", "cwd": dir, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_use_id": "t", "tool_input": {"command": "ls"}});
    for round in 0..20 {
        let _ = std::fs::remove_dir_all(dir.join(".flyball"));
        let deadline = format!("{}ms", round % 8 + 1);
        let args = ["hook", "claude-code", "--event", "PreToolUse", "--deadline", &deadline];
        flyball_bare(&dir, &args, input.to_string().as_bytes(), &[]);
        let database = dir.join(".flyball/flyball.db");
        let run = flyball_bare(&dir, &["list"], b"", &[]);
        if database.exists() {
            assert_eq!(run.code, 0, "round {round}: {}", run.err);
        } else {
            assert!(run.err.contains("there is no store"), "round {round}: {}", run.err);
        }
    }
}

#[test]
fn an_empty_file_is_explained_and_finished_by_the_next_event() {
    let dir = folder("identity-empty");
    std::fs::create_dir_all(dir.join(".flyball")).unwrap();
    std::fs::set_permissions(dir.join(".flyball"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    std::fs::write(dir.join(".flyball/flyball.db"), "").unwrap();
    let run = flyball(&dir, &["status"], b"", &[]);
    assert!(run.code == 1 && run.err.starts_with("error[store_missing]"), "{}", run.err);
    assert!(run.err.contains("making the store was interrupted"), "{}", run.err);
    let event = br#"{"type":"user.message","session":"s","text":"x"}"#;
    assert_eq!(flyball(&dir, &["observe", "--store"], event, &[]).code, 0);
    assert_eq!(flyball(&dir, &["status"], b"", &[]).code, 0);
}

#[test]
fn processes_that_make_a_store_at_the_same_time_share_it() {
    let dir = folder("identity-together");
    for round in 0..5 {
        let name = format!("x{round}.db");
        let mut all: Vec<Observer> = (0..6).map(|_| Observer::start(&dir, &name)).collect();
        for (number, observer) in all.iter_mut().enumerate() {
            assert_eq!(observer.ask(number as u32)["decision"], "allow");
        }
        all.into_iter().for_each(|observer| assert_eq!(observer.finish(), 0));
        let sql = rusqlite::Connection::open(dir.join(&name)).unwrap();
        let count: i64 = sql.query_row("SELECT count(*) FROM flyball_events", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 6);
    }
}
