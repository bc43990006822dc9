//! Real programs: output, ways to end, and no leftovers.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use flyball_runner::process::{
    CancelToken, OutputStream, ProcessEnd, ProcessOutput, ProcessSpec, SpawnError, lossy_text, run,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reached only by a hang.
const FOREVER: Duration = Duration::from_secs(60);

fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("process-{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn shell(script: &str, dir: &Path) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", script], dir)
}

fn run_silent(job: &ProcessSpec) -> ProcessOutput {
    run(job, &CancelToken::new(), &mut |_, _| {}).expect("it starts")
}

fn spawn_error(job: &ProcessSpec) -> SpawnError {
    run(job, &CancelToken::new(), &mut |_, _| {}).expect_err("it does not start")
}

/// Whether a process is running; a zombie is not.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a file contains a complete line, and returns it.
fn wait_for_line(path: &Path) -> String {
    let begun = Instant::now();
    loop {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        if found.ends_with('\n') {
            return found.trim().to_owned();
        }
        assert!(begun.elapsed() < FOREVER, "{} was never written", path.display());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Waits until a process is gone.
fn wait_until_gone(pid: &str) {
    let begun = Instant::now();
    while is_running(pid) {
        assert!(begun.elapsed() < FOREVER, "process {pid} still runs");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn both_streams_and_exit_code_are_returned() {
    let ran = run_silent(&shell("echo out; echo err >&2; exit 7", &folder("both")));
    assert_eq!(ran.end, ProcessEnd::Exit(7));
    assert!(!ran.ok());
    assert_eq!((ran.stdout_text().as_str(), ran.stderr_text().as_str()), ("out\n", "err\n"));
    assert_eq!(ran.dropped_bytes, 0);
    assert!(run_silent(&shell("true", &folder("both"))).ok());
}

#[test]
fn directory_environment_and_arguments_are_passed_unchanged() {
    let dir = folder("where");
    let mut job = ProcessSpec::new(
        ["sh", "-c", r#"pwd -P; echo "$COLOUR"; printf '%s|' "$@""#, "sh", "a b", "$HOME;*"],
        &dir,
    );
    job.env = vec![("COLOUR".into(), "red".into()), ("COLOUR".into(), "blue".into())];
    let ran = run_silent(&job);
    let real = dir.canonicalize().expect("the folder");
    assert_eq!(ran.stdout_text(), format!("{}\nblue\na b|$HOME;*|", real.display()));
}

#[test]
fn signal_is_distinguished_from_exit() {
    let ran = run_silent(&shell("kill -SEGV $$", &folder("signal")));
    assert_eq!(ran.end, ProcessEnd::Signal(11));
}

#[test]
fn large_input_and_output_do_not_deadlock() {
    // More than a pipe holds in both directions: writing everything first would deadlock.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut job = ProcessSpec::new(["cat"], folder("cat"));
    job.input = Some(bytes.clone());
    let ran = run_silent(&job);
    assert!(ran.ok());
    assert!(ran.stdout == bytes, "{} bytes came back", ran.stdout.len());
}

#[test]
fn unread_input_is_not_an_error() {
    let mut job = shell("exec 0<&-; echo done", &folder("deaf"));
    job.input = Some(vec![b'x'; 1_000_000]);
    assert_eq!(run_silent(&job).stdout_text(), "done\n");
}

#[test]
fn missing_input_is_immediate_eof() {
    let dir = folder("null");
    assert!(run_silent(&ProcessSpec::new(["cat"], &dir)).stdout.is_empty());
    let mut job = ProcessSpec::new(["cat"], &dir);
    job.input = Some(Vec::new());
    job.deadline = Some(FOREVER);
    assert_eq!(run_silent(&job).end, ProcessEnd::Exit(0));
}

#[test]
fn output_is_truncated_but_fully_streamed() {
    let mut job = shell("head -c 1000000 /dev/zero; head -c 500 /dev/zero >&2", &folder("keep"));
    job.max_kept_bytes = 1_000;
    let mut watched = (0_usize, 0_usize);
    let ran = run(&job, &CancelToken::new(), &mut |stream, bytes| match stream {
        OutputStream::Stdout => watched.0 += bytes.len(),
        OutputStream::Stderr => watched.1 += bytes.len(),
    })
    .expect("it starts");
    assert_eq!((ran.stdout.len(), ran.stderr.len(), ran.dropped_bytes), (1_000, 500, 999_000));
    assert_eq!(watched, (1_000_000, 500));
}

#[test]
fn output_is_streamed_while_the_program_runs() {
    // The program waits for a file that its watcher writes: reporting only at the end would deadlock.
    let dir = folder("stream");
    let mut job = shell("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second", &dir);
    job.deadline = Some(FOREVER);
    let mut pieces = Vec::new();
    let ran = run(&job, &CancelToken::new(), &mut |_, bytes| {
        pieces.push(lossy_text(bytes));
        std::fs::write(dir.join("go"), "").expect("the file");
    })
    .expect("it starts");
    assert_eq!(ran.end, ProcessEnd::Exit(0));
    assert_eq!(pieces, ["first\n", "second\n"]);
}

#[test]
fn invalid_utf8_becomes_replacement_characters() {
    assert_eq!(lossy_text(b"a\xff\xc3\xa9"), "a\u{fffd}é");
}

#[test]
fn deadline_kills_program_and_children() {
    let dir = folder("deadline");
    let mut job = shell("echo begun; sleep 600 & echo $! > pid; wait", &dir);
    job.deadline = Some(Duration::from_secs(2));
    let begun = Instant::now();
    let ran = run_silent(&job);
    assert_eq!(ran.end, ProcessEnd::DeadlineExceeded);
    assert_eq!(ran.stdout_text(), "begun\n");
    assert!(begun.elapsed() < FOREVER);
    wait_until_gone(&wait_for_line(&dir.join("pid")));
}

#[test]
fn process_ignoring_sigterm_is_killed_with_children() {
    let dir = folder("stubborn");
    let script = "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ > pid; while :; do sleep 1; done\" & \
                  echo $$ > own; while [ ! -s pid ]; do sleep 0.01; done; echo ready; while :; do sleep 1; done";
    let cancel = CancelToken::new();
    let ran = run(&shell(script, &dir), &cancel, &mut |_, _| cancel.cancel()).expect("it starts");
    assert_eq!(ran.end, ProcessEnd::Cancelled);
    assert!(ran.duration < FOREVER);
    wait_until_gone(&wait_for_line(&dir.join("own")));
    wait_until_gone(&wait_for_line(&dir.join("pid")));
}

#[test]
fn sigterm_handler_can_clean_up_and_print() {
    let mut job = shell(
        "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
        &folder("polite"),
    );
    job.deadline = Some(FOREVER);
    let cancel = CancelToken::new();
    let button = cancel.clone();
    let ran = run(&job, &cancel, &mut |_, _| button.cancel()).expect("it starts");
    assert_eq!(ran.end, ProcessEnd::Cancelled);
    assert_eq!(ran.stdout_text(), "ready\ncleaned\n");
}

#[test]
fn stopped_process_is_continued_and_terminated() {
    let mut job = shell("trap 'echo cleaned; exit' TERM; kill -STOP $$; echo never", &folder("stopped"));
    job.deadline = Some(Duration::from_secs(2));
    let ran = run_silent(&job);
    assert_eq!((ran.end, ran.stdout_text().as_str()), (ProcessEnd::DeadlineExceeded, "cleaned\n"));
}

#[test]
fn endless_output_is_stopped_at_the_deadline() {
    let mut job = shell("yes", &folder("yes"));
    job.max_kept_bytes = 10;
    job.deadline = Some(Duration::from_secs(1));
    let ran = run_silent(&job);
    assert_eq!(
        (ran.end, ran.stdout.as_slice()),
        (ProcessEnd::DeadlineExceeded, b"y\ny\ny\ny\ny\n".as_slice())
    );
    assert!(ran.dropped_bytes > 0);
}

#[test]
fn cancel_from_another_thread_takes_effect_immediately() {
    let dir = folder("cancel");
    let cancel = CancelToken::new();
    let other = cancel.clone();
    let pid_file = dir.join("pid");
    let presser = std::thread::spawn(move || {
        let pid = wait_for_line(&pid_file);
        other.cancel();
        pid
    });
    // Silent and without a deadline: only cancellation can end it.
    let ran = run(&shell("echo $$ > pid; exec sleep 600", &dir), &cancel, &mut |_, _| {}).expect("it starts");
    assert_eq!(ran.end, ProcessEnd::Cancelled);
    assert!(ran.duration < FOREVER);
    wait_until_gone(&presser.join().expect("the thread"));
    assert!(cancel.is_cancelled());
}

#[test]
fn one_token_cancels_many_processes() {
    let cancel = CancelToken::new();
    let dirs: Vec<PathBuf> = (0..4).map(|_| folder("many")).collect();
    std::thread::scope(|scope| {
        let runs: Vec<_> = dirs
            .iter()
            .map(|dir| {
                let cancel = cancel.clone();
                scope
                    .spawn(move || run(&shell("echo $$ > pid; exec sleep 600", dir), &cancel, &mut |_, _| {}))
            })
            .collect();
        for dir in &dirs {
            wait_for_line(&dir.join("pid"));
        }
        cancel.cancel();
        for ran in runs {
            assert_eq!(ran.join().expect("the thread").expect("it starts").end, ProcessEnd::Cancelled);
        }
    });
}

#[test]
fn cancelled_or_expired_job_is_not_started() {
    let dir = folder("before");
    let cancel = CancelToken::new();
    cancel.cancel();
    let mut job = shell("touch ran", &dir);
    assert_eq!(run(&job, &cancel, &mut |_, _| {}).expect("no error").end, ProcessEnd::Cancelled);
    job.deadline = Some(Duration::ZERO);
    assert_eq!(run_silent(&job).end, ProcessEnd::DeadlineExceeded);
    assert!(!dir.join("ran").exists());
}

#[test]
fn wait_timeout_ends_on_cancel_or_timeout() {
    let cancel = CancelToken::new();
    assert!(!cancel.wait_timeout(Duration::from_millis(1)));
    let other = cancel.clone();
    let waiter = std::thread::spawn(move || other.wait_timeout(FOREVER * 10));
    cancel.cancel();
    assert!(waiter.join().expect("the thread"));
    assert!(cancel.wait_timeout(Duration::ZERO));
}

#[test]
fn background_child_holding_output_does_not_block() {
    let dir = folder("background");
    let mut job = shell("sleep 600 & echo $! > pid; echo done", &dir);
    job.deadline = Some(FOREVER);
    let ran = run_silent(&job);
    assert_eq!((ran.end, ran.stdout_text().as_str()), (ProcessEnd::Exit(0), "done\n"));
    assert!(ran.duration < FOREVER);
    wait_until_gone(&wait_for_line(&dir.join("pid")));
}

#[test]
fn detached_background_child_is_killed() {
    let dir = folder("silent");
    let ran = run_silent(&shell("sleep 600 >/dev/null 2>&1 & echo $! > pid", &dir));
    assert_eq!(ran.end, ProcessEnd::Exit(0));
    wait_until_gone(&wait_for_line(&dir.join("pid")));
}

#[test]
fn daemon_holding_output_does_not_block() {
    // It has left the group, so the run cannot kill it; the test does.
    let dir = folder("daemon");
    let mut job =
        shell("setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done", &dir);
    job.deadline = Some(FOREVER);
    let ran = run_silent(&job);
    assert_eq!(ran.end, ProcessEnd::Exit(0));
    let pid = wait_for_line(&dir.join("pid"));
    assert!(is_running(&pid));
    let number = pid.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a number");
    rustix::process::kill_process(number, rustix::process::Signal::KILL).expect("it can be killed");
}

#[test]
fn late_background_output_is_captured() {
    let ran = run_silent(&shell("(sleep 0.05; echo late) & echo early", &folder("late")));
    assert_eq!(ran.stdout_text(), "early\nlate\n");
}

#[test]
fn no_zombie_process_remains() {
    let dir = folder("zombie");
    for end in ["exit 0", "exit 3", "kill -9 $$"] {
        run_silent(&shell(&format!("echo $$ > pid; {end}"), &dir));
        let pid = wait_for_line(&dir.join("pid"));
        std::fs::remove_file(dir.join("pid")).expect("the file");
        assert!(!Path::new("/proc").join(&pid).join("stat").exists(), "{end} leaves {pid}");
    }
}

#[test]
fn spawn_errors_have_distinct_codes() {
    let dir = folder("refused");
    std::fs::write(dir.join("plain"), "hello").expect("a file");
    std::fs::write(dir.join("orphan"), "#!/no/such/interpreter\n").expect("a file");
    std::fs::write(dir.join("garbage"), "\x7fELF nothing").expect("a file");
    for name in ["orphan", "garbage"] {
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).expect("permissions");
    }
    let mut long = ProcessSpec::new(["true"], &dir);
    long.argv.extend((0..40).map(|_| "x".repeat(120_000)));
    let mut bad_name = ProcessSpec::new(["true"], &dir);
    bad_name.env = vec![("A=B".into(), "c".into())];
    let cases = [
        (ProcessSpec::new(Vec::<String>::new(), &dir), "command_empty"),
        (ProcessSpec::new([""], &dir), "command_empty"),
        (ProcessSpec::new(["true"], dir.join("nowhere")), "folder_missing"),
        (ProcessSpec::new(["true"], dir.join("plain")), "folder_missing"),
        (ProcessSpec::new(["no-such-program-here"], &dir), "program_not_found"),
        (ProcessSpec::new(["./nowhere"], &dir), "program_not_found"),
        (ProcessSpec::new(["./plain"], &dir), "program_not_executable"),
        (ProcessSpec::new(["./garbage"], &dir), "program_not_executable"),
        (ProcessSpec::new(["./orphan"], &dir), "interpreter_missing"),
        (ProcessSpec::new(["echo", "a\0b"], &dir), "command_invalid"),
        (bad_name, "command_invalid"),
        (long, "command_too_long"),
    ];
    for (job, code) in cases {
        let error = spawn_error(&job);
        assert_eq!(error.code, code, "{error}");
        assert!(!error.message.is_empty() && !error.help.is_empty());
        assert!(error.to_string().ends_with(&format!("[{code}]")));
    }
}
