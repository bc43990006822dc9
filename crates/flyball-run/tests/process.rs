//! Programs that are run for real: their output, their ends, and that nothing of them is left behind.

#![allow(clippy::expect_used, reason = "a failure is told by a panic")]

use flyball_run::process::{Cancel, End, Job, NotStarted, Ran, Stream, run, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long enough that nothing here ever comes near it, unless it hangs.
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

fn shell(script: &str, dir: &Path) -> Job {
    Job::new(["sh", "-c", script], dir)
}

fn quietly(job: &Job) -> Ran {
    run(job, &Cancel::new(), &mut |_, _| {}).expect("it starts")
}

fn refused(job: &Job) -> NotStarted {
    run(job, &Cancel::new(), &mut |_, _| {}).expect_err("it does not start")
}

/// Whether a process runs; one that has ended and waits to be collected by its parent does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a file has a whole line, and gives that line.
fn line_of(path: &Path) -> String {
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
fn gone(pid: &str) {
    let begun = Instant::now();
    while runs(pid) {
        assert!(begun.elapsed() < FOREVER, "process {pid} still runs");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn both_streams_and_the_exit_code_come_back() {
    let ran = quietly(&shell("echo out; echo err >&2; exit 7", &folder("both")));
    assert_eq!(ran.end, End::Exit(7));
    assert!(!ran.ok());
    assert_eq!((ran.stdout_text().as_str(), ran.stderr_text().as_str()), ("out\n", "err\n"));
    assert_eq!(ran.dropped, 0);
    assert!(quietly(&shell("true", &folder("both"))).ok());
}

#[test]
fn it_runs_in_its_folder_with_its_environment_and_arguments_untouched() {
    let dir = folder("where");
    let mut job =
        Job::new(["sh", "-c", r#"pwd -P; echo "$COLOUR"; printf '%s|' "$@""#, "sh", "a b", "$HOME;*"], &dir);
    job.env = vec![("COLOUR".into(), "red".into()), ("COLOUR".into(), "blue".into())];
    let ran = quietly(&job);
    let real = dir.canonicalize().expect("the folder");
    assert_eq!(ran.stdout_text(), format!("{}\nblue\na b|$HOME;*|", real.display()));
}

#[test]
fn a_signal_of_its_own_is_told_apart_from_an_exit() {
    let ran = quietly(&shell("kill -SEGV $$", &folder("signal")));
    assert_eq!(ran.end, End::Signal(11));
}

#[test]
fn large_input_and_large_output_pass_at_the_same_time() {
    // Much more than a pipe holds in both directions: writing everything first would hang.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut job = Job::new(["cat"], folder("cat"));
    job.input = Some(bytes.clone());
    let ran = quietly(&job);
    assert!(ran.ok());
    assert!(ran.stdout == bytes, "{} bytes came back", ran.stdout.len());
}

#[test]
fn a_program_that_does_not_read_its_input_is_no_trouble() {
    let mut job = shell("exec 0<&-; echo done", &folder("deaf"));
    job.input = Some(vec![b'x'; 1_000_000]);
    assert_eq!(quietly(&job).stdout_text(), "done\n");
}

#[test]
fn without_input_the_program_reads_the_end_at_once() {
    let dir = folder("null");
    assert!(quietly(&Job::new(["cat"], &dir)).stdout.is_empty());
    let mut job = Job::new(["cat"], &dir);
    job.input = Some(Vec::new());
    job.deadline = Some(FOREVER);
    assert_eq!(quietly(&job).end, End::Exit(0));
}

#[test]
fn only_the_beginning_is_kept_but_everything_is_watched() {
    let mut job = shell("head -c 1000000 /dev/zero; head -c 500 /dev/zero >&2", &folder("keep"));
    job.keep = 1_000;
    let mut watched = (0_usize, 0_usize);
    let ran = run(&job, &Cancel::new(), &mut |stream, bytes| match stream {
        Stream::Stdout => watched.0 += bytes.len(),
        Stream::Stderr => watched.1 += bytes.len(),
    })
    .expect("it starts");
    assert_eq!((ran.stdout.len(), ran.stderr.len(), ran.dropped), (1_000, 500, 999_000));
    assert_eq!(watched, (1_000_000, 500));
}

#[test]
fn output_is_streamed_while_the_program_runs() {
    // The program waits for the file that its watcher writes: a run that tells only at the end would hang.
    let dir = folder("stream");
    let mut job = shell("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second", &dir);
    job.deadline = Some(FOREVER);
    let mut pieces = Vec::new();
    let ran = run(&job, &Cancel::new(), &mut |_, bytes| {
        pieces.push(text(bytes));
        std::fs::write(dir.join("go"), "").expect("the file");
    })
    .expect("it starts");
    assert_eq!(ran.end, End::Exit(0));
    assert_eq!(pieces, ["first\n", "second\n"]);
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    assert_eq!(text(b"a\xff\xc3\xa9"), "a\u{fffd}é");
}

#[test]
fn a_deadline_ends_the_program_and_its_children() {
    let dir = folder("deadline");
    let mut job = shell("echo begun; sleep 600 & echo $! > pid; wait", &dir);
    job.deadline = Some(Duration::from_secs(2));
    let begun = Instant::now();
    let ran = quietly(&job);
    assert_eq!(ran.end, End::Deadline);
    assert_eq!(ran.stdout_text(), "begun\n");
    assert!(begun.elapsed() < FOREVER);
    gone(&line_of(&dir.join("pid")));
}

#[test]
fn who_ignores_being_asked_is_killed_and_so_are_his_children() {
    let dir = folder("stubborn");
    let script = "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ > pid; while :; do sleep 1; done\" & \
                  echo $$ > own; while [ ! -s pid ]; do sleep 0.01; done; echo ready; while :; do sleep 1; done";
    let cancel = Cancel::new();
    let ran = run(&shell(script, &dir), &cancel, &mut |_, _| cancel.cancel()).expect("it starts");
    assert_eq!(ran.end, End::Cancelled);
    assert!(ran.duration < FOREVER);
    gone(&line_of(&dir.join("own")));
    gone(&line_of(&dir.join("pid")));
}

#[test]
fn who_is_asked_to_end_may_clean_up_and_say_so() {
    let mut job = shell(
        "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
        &folder("polite"),
    );
    job.deadline = Some(FOREVER);
    let cancel = Cancel::new();
    let button = cancel.clone();
    let ran = run(&job, &cancel, &mut |_, _| button.cancel()).expect("it starts");
    assert_eq!(ran.end, End::Cancelled);
    assert_eq!(ran.stdout_text(), "ready\ncleaned\n");
}

#[test]
fn a_stopped_program_is_woken_to_hear_that_it_is_ended() {
    let mut job = shell("trap 'echo cleaned; exit' TERM; kill -STOP $$; echo never", &folder("stopped"));
    job.deadline = Some(Duration::from_secs(2));
    let ran = quietly(&job);
    assert_eq!((ran.end, ran.stdout_text().as_str()), (End::Deadline, "cleaned\n"));
}

#[test]
fn endless_output_does_not_outrun_the_deadline() {
    let mut job = shell("yes", &folder("yes"));
    job.keep = 10;
    job.deadline = Some(Duration::from_secs(1));
    let ran = quietly(&job);
    assert_eq!((ran.end, ran.stdout.as_slice()), (End::Deadline, b"y\ny\ny\ny\ny\n".as_slice()));
    assert!(ran.dropped > 0);
}

#[test]
fn cancel_from_another_thread_wakes_the_run_at_once() {
    let dir = folder("cancel");
    let cancel = Cancel::new();
    let other = cancel.clone();
    let pid_file = dir.join("pid");
    let presser = std::thread::spawn(move || {
        let pid = line_of(&pid_file);
        other.cancel();
        pid
    });
    // Quiet and without a deadline: only the button can end it.
    let ran = run(&shell("echo $$ > pid; exec sleep 600", &dir), &cancel, &mut |_, _| {}).expect("it starts");
    assert_eq!(ran.end, End::Cancelled);
    assert!(ran.duration < FOREVER);
    gone(&presser.join().expect("the thread"));
    assert!(cancel.is_cancelled());
}

#[test]
fn one_cancel_ends_many_runs() {
    let cancel = Cancel::new();
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
            line_of(&dir.join("pid"));
        }
        cancel.cancel();
        for ran in runs {
            assert_eq!(ran.join().expect("the thread").expect("it starts").end, End::Cancelled);
        }
    });
}

#[test]
fn what_is_cancelled_or_out_of_time_beforehand_is_not_started() {
    let dir = folder("before");
    let cancel = Cancel::new();
    cancel.cancel();
    let mut job = shell("touch ran", &dir);
    assert_eq!(run(&job, &cancel, &mut |_, _| {}).expect("no error").end, End::Cancelled);
    job.deadline = Some(Duration::ZERO);
    assert_eq!(quietly(&job).end, End::Deadline);
    assert!(!dir.join("ran").exists());
}

#[test]
fn waiting_under_a_cancel_ends_with_it_or_with_the_time() {
    let cancel = Cancel::new();
    assert!(!cancel.wait(Duration::from_millis(1)));
    let other = cancel.clone();
    let waiter = std::thread::spawn(move || other.wait(FOREVER * 10));
    cancel.cancel();
    assert!(waiter.join().expect("the thread"));
    assert!(cancel.wait(Duration::ZERO));
}

#[test]
fn a_background_child_that_holds_the_output_does_not_hold_the_run() {
    let dir = folder("background");
    let mut job = shell("sleep 600 & echo $! > pid; echo done", &dir);
    job.deadline = Some(FOREVER);
    let ran = quietly(&job);
    assert_eq!((ran.end, ran.stdout_text().as_str()), (End::Exit(0), "done\n"));
    assert!(ran.duration < FOREVER);
    gone(&line_of(&dir.join("pid")));
}

#[test]
fn a_background_child_that_gave_up_the_output_is_ended_with_the_run() {
    let dir = folder("silent");
    let ran = quietly(&shell("sleep 600 >/dev/null 2>&1 & echo $! > pid", &dir));
    assert_eq!(ran.end, End::Exit(0));
    gone(&line_of(&dir.join("pid")));
}

#[test]
fn a_daemon_that_keeps_the_output_open_does_not_hold_the_run_either() {
    // It has left the group, so the run cannot end it; the test does.
    let dir = folder("daemon");
    let mut job =
        shell("setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done", &dir);
    job.deadline = Some(FOREVER);
    let ran = quietly(&job);
    assert_eq!(ran.end, End::Exit(0));
    let pid = line_of(&dir.join("pid"));
    assert!(runs(&pid));
    let number = pid.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a number");
    rustix::process::kill_process(number, rustix::process::Signal::KILL).expect("it can be killed");
}

#[test]
fn what_the_background_still_says_shortly_after_the_exit_is_heard() {
    let ran = quietly(&shell("(sleep 0.05; echo late) & echo early", &folder("late")));
    assert_eq!(ran.stdout_text(), "early\nlate\n");
}

#[test]
fn no_zombie_stays() {
    let dir = folder("zombie");
    for end in ["exit 0", "exit 3", "kill -9 $$"] {
        quietly(&shell(&format!("echo $$ > pid; {end}"), &dir));
        let pid = line_of(&dir.join("pid"));
        std::fs::remove_file(dir.join("pid")).expect("the file");
        assert!(!Path::new("/proc").join(&pid).join("stat").exists(), "{end} leaves {pid}");
    }
}

#[test]
fn what_cannot_be_started_is_told_with_distinct_codes() {
    let dir = folder("refused");
    std::fs::write(dir.join("plain"), "hello").expect("a file");
    std::fs::write(dir.join("orphan"), "#!/no/such/interpreter\n").expect("a file");
    std::fs::write(dir.join("garbage"), "\x7fELF nothing").expect("a file");
    for name in ["orphan", "garbage"] {
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).expect("permissions");
    }
    let mut long = Job::new(["true"], &dir);
    long.argv.extend((0..40).map(|_| "x".repeat(120_000)));
    let mut bad_name = Job::new(["true"], &dir);
    bad_name.env = vec![("A=B".into(), "c".into())];
    let cases = [
        (Job::new(Vec::<String>::new(), &dir), "command_empty"),
        (Job::new([""], &dir), "command_empty"),
        (Job::new(["true"], dir.join("nowhere")), "folder_missing"),
        (Job::new(["true"], dir.join("plain")), "folder_missing"),
        (Job::new(["no-such-program-here"], &dir), "program_not_found"),
        (Job::new(["./nowhere"], &dir), "program_not_found"),
        (Job::new(["./plain"], &dir), "program_not_executable"),
        (Job::new(["./garbage"], &dir), "program_not_executable"),
        (Job::new(["./orphan"], &dir), "interpreter_missing"),
        (Job::new(["echo", "a\0b"], &dir), "command_invalid"),
        (bad_name, "command_invalid"),
        (long, "command_too_long"),
    ];
    for (job, code) in cases {
        let error = refused(&job);
        assert_eq!(error.code, code, "{error}");
        assert!(!error.what.is_empty() && !error.hint.is_empty());
        assert!(error.to_string().ends_with(&format!("[{code}]")));
    }
}
