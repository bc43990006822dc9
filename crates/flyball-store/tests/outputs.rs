//! Large outputs on a real disk: exact limits, private files, write failures, and cleanup.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

use flyball::policy::{GuardMode, LargeResponsePolicy};
use flyball_store::{
    CleanupSummary, MIN_ORPHAN_AGE, OutputOptions, OutputOutcome, SessionOutputs, remove_orphans,
};
use std::fs::{File, FileTimes};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Tells a copy of this test program to run on the small disk at this path.
const SMALL_DISK_VARIABLE: &str = "FLYBALL_TEST_SMALL_DISK";

fn test_base(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("outputs-{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).expect("a folder");
    path
}

fn open_outputs(base: &Path, session: &str) -> SessionOutputs {
    SessionOutputs::open(base, session, OutputOptions::default()).expect("outputs")
}

fn save(outputs: &SessionOutputs, text: &str) -> PathBuf {
    match outputs.save_if_large(text.to_owned()).outcome {
        OutputOutcome::Saved { path, .. } => path,
        other => panic!("expected a saved output: {other:?}"),
    }
}

/// Sets the modification time of a file or directory.
fn set_modified_at(path: &Path, time: SystemTime) {
    File::open(path).expect("it opens").set_times(FileTimes::new().set_modified(time)).expect("its times");
}

/// Modification time of a directory, used as the test's current time.
fn modified_at(path: &Path) -> SystemTime {
    path.metadata().and_then(|found| found.modified()).expect("its times")
}

#[test]
fn threshold_is_exact_and_counted_in_chars() {
    let base = test_base("border");
    let outputs = open_outputs(&base, "s");
    // 200,000 characters of two bytes each are not large: characters count, not bytes.
    let at = "é".repeat(200_000);
    let fitted = outputs.save_if_large(at.clone());
    assert_eq!((fitted.outcome.clone(), fitted.log_line("shell")), (OutputOutcome::Unchanged, None));
    assert!(fitted.text == at);
    assert!(!outputs.session_dir().exists(), "nothing is created before it is needed");

    let over = "é".repeat(200_001);
    let fitted = outputs.save_if_large(over.clone());
    let OutputOutcome::Saved { path, chars: 200_001 } = &fitted.outcome else {
        panic!("{:?}", fitted.outcome)
    };
    assert!(std::fs::read_to_string(path).expect("the file") == over);
}

#[test]
fn preview_text_matches_the_specification() {
    let base = test_base("words");
    let outputs = open_outputs(&base, "s");
    let text: String = (0..250_000_u32).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let fitted = outputs.save_if_large(text.clone());
    let OutputOutcome::Saved { path, .. } = &fitted.outcome else { panic!("{:?}", fitted.outcome) };
    let beginning =
        format!("Tool response too large (250000 characters). Full output saved to: {}\n", path.display());
    assert!(fitted.text.starts_with(&beginning), "{}", fitted.text);
    for sentence in [
        "To examine the output:\n",
        "- Use read tool to view the file",
        "- Use search tool to search within the file\n",
        "- The file will be cleaned up when the session ends\n",
    ] {
        assert!(fitted.text.contains(sentence), "{sentence} is not in {}", fitted.text);
    }
    assert!(fitted.text.ends_with(&format!("Preview (first 1000 chars):\n{}...", &text[..1_000])));
    let log = "large response from shell (250000 chars) written to temp file";
    assert_eq!(fitted.log_line("shell").as_deref(), Some(log));
}

#[test]
fn policy_sets_limits_or_disables() {
    let policy = LargeResponsePolicy { threshold: Some(10), preview: 3, ..LargeResponsePolicy::default() };
    let outputs =
        SessionOutputs::open(&test_base("policy"), "s", OutputOptions::from(&policy)).expect("outputs");
    assert_eq!(outputs.save_if_large("0123456789".into()).outcome, OutputOutcome::Unchanged);
    assert!(outputs.save_if_large("0123456789x".into()).text.ends_with("Preview (first 3 chars):\n012..."));
    for off in [
        LargeResponsePolicy { threshold: None, ..LargeResponsePolicy::default() },
        LargeResponsePolicy { mode: GuardMode::Off, ..LargeResponsePolicy::default() },
    ] {
        let outputs =
            SessionOutputs::open(&test_base("policy"), "s", OutputOptions::from(&off)).expect("outputs");
        assert_eq!(outputs.save_if_large("x".repeat(1_000_000)).outcome, OutputOutcome::Unchanged);
    }
    assert_eq!(OutputOptions::from(&LargeResponsePolicy::default()), OutputOptions::default());
}

#[test]
fn directory_and_file_are_private_with_generated_names() {
    let base = test_base("private");
    let outputs = open_outputs(&base, "../../etc/passwd\0/evil");
    let (one, two) = (save(&outputs, &"x".repeat(200_001)), save(&outputs, &"y".repeat(200_001)));
    assert_ne!(one, two);
    assert_eq!(save(&outputs, &"x".repeat(200_001)), one, "the same output is stored once");
    let mode = |path: &Path| path.metadata().expect("it is there").mode() & 0o7777;
    assert_eq!((mode(&outputs.session_dir()), mode(&one)), (0o700, 0o600));
    assert_eq!(outputs.session_dir().parent(), Some(base.as_path()));
    for name in [outputs.session_dir(), one].map(|path| path.file_stem().expect("a name").to_owned()) {
        let name = name.to_str().expect("text");
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn sessions_are_isolated_and_reopen_their_own_files() {
    let base = test_base("sessions");
    let (one, two) = (open_outputs(&base, "one"), open_outputs(&base, "two"));
    let (of_one, of_two) = (save(&one, &"1".repeat(200_001)), save(&two, &"2".repeat(200_001)));
    assert_ne!(one.session_dir(), two.session_dir());
    assert!(one.owns(&of_one) && !one.owns(&of_two));
    let refused = one.read(&of_two).expect_err("it belongs to another session");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    drop(one);

    let again = open_outputs(&base, "one");
    let mut text = String::new();
    again.read(&of_one).expect("its own").read_to_string(&mut text).expect("text");
    assert_eq!(text.len(), 200_001);

    again.end_session().expect("it ends");
    assert!(!of_one.exists() && !again.session_dir().exists());
    assert!(of_two.exists(), "the other session still has its file");
}

#[test]
fn only_own_files_are_readable_and_links_are_not_followed() {
    let base = test_base("links");
    let outputs = open_outputs(&base, "s");
    let file = save(&outputs, &"x".repeat(200_001));
    let secret = base.join("secret.txt");
    std::fs::write(&secret, "secret").expect("a file");
    let link = outputs.session_dir().join("0123456789abcdef0123456789abcdef.txt");
    symlink(&secret, &link).expect("a link");
    assert!(outputs.owns(&link));
    assert!(outputs.read(&link).is_err(), "a link is not followed");
    for other in [
        secret,
        outputs.session_dir(),
        outputs.session_dir().join("other.txt"),
        outputs.session_dir().join("..").join("secret.txt"),
        outputs.session_dir().join("x").join("..").join(file.file_name().expect("a name")),
    ] {
        assert!(!outputs.owns(&other) && outputs.read(&other).is_err(), "{}", other.display());
    }
}

#[test]
fn ended_session_saves_nothing() {
    let base = test_base("ended");
    let outputs = open_outputs(&base, "s");
    outputs.end_session().expect("nothing to remove is not an error");
    let fitted = outputs.save_if_large("x".repeat(200_001));
    assert!(
        matches!(&fitted.outcome, OutputOutcome::Truncated { why, .. } if why.contains("ended")),
        "{:?}",
        fitted.outcome
    );
    assert!(!outputs.session_dir().exists());
}

#[test]
fn removed_directory_is_recreated() {
    let base = test_base("removed");
    let outputs = open_outputs(&base, "s");
    save(&outputs, &"x".repeat(200_001));
    std::fs::remove_dir_all(outputs.session_dir()).expect("it goes");
    let path = save(&outputs, &"y".repeat(200_001));
    assert_eq!(std::fs::read_to_string(path).expect("the file").len(), 200_001);
}

/// Checks the result of an output that could not be saved; returns the reason.
fn assert_truncated(outputs: &SessionOutputs) -> String {
    let fitted = outputs.save_if_large("ä".repeat(300_000));
    let OutputOutcome::Truncated { chars: 300_000, why } = &fitted.outcome else {
        panic!("{:?}", fitted.outcome)
    };
    let wanted = format!(
        "{}\n\n[TRUNCATED: Response was 300000 characters, showing first 199600]\n[The rest is lost, it could not \
         be saved: {why}]",
        "ä".repeat(199_600)
    );
    assert_eq!(fitted.text, wanted);
    assert!(fitted.text.chars().count() <= 200_000, "the truncation notice fits too");
    let log = fitted.log_line("shell").expect("a line");
    assert!(log.contains("truncated") && !log.contains("written"), "{log}");
    why.clone()
}

#[test]
fn unusable_base_truncates_output_with_a_notice() {
    let base = test_base("refuses");
    std::fs::write(base.join("file"), "").expect("a file");
    assert_truncated(&open_outputs(&base.join("file"), "s"));
    assert_truncated(&open_outputs(&base.join("file").join("below"), "s"));
    // Not even root can create a directory here.
    assert_truncated(&open_outputs(Path::new("/proc/self/flyball"), "s"));

    let read_only = base.join("read-only");
    std::fs::create_dir(&read_only).expect("a folder");
    std::fs::set_permissions(&read_only, PermissionsExt::from_mode(0o500)).expect("permissions");
    if File::create(read_only.join("probe")).is_err() {
        assert_truncated(&open_outputs(&read_only, "s"));
    }

    let elsewhere = base.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, base.join("link")).expect("a link");
    assert!(assert_truncated(&open_outputs(&base.join("link"), "s")).contains("link"));
    assert_eq!(elsewhere.read_dir().expect("the folder").count(), 0);

    let open_to_all = base.join("open");
    std::fs::create_dir(&open_to_all).expect("a folder");
    std::fs::set_permissions(&open_to_all, PermissionsExt::from_mode(0o777)).expect("permissions");
    assert!(assert_truncated(&open_outputs(&open_to_all, "s")).contains("other users have access"));
}

#[test]
fn insecure_session_directory_is_rejected() {
    let base = test_base("prepared");
    let outputs = open_outputs(&base, "s");
    let elsewhere = base.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, outputs.session_dir()).expect("a link");
    assert_truncated(&outputs);
    assert_eq!(elsewhere.read_dir().expect("the folder").count(), 0);

    std::fs::remove_file(outputs.session_dir()).expect("the link goes");
    std::fs::create_dir(outputs.session_dir()).expect("a folder");
    std::fs::set_permissions(outputs.session_dir(), PermissionsExt::from_mode(0o755)).expect("permissions");
    assert!(assert_truncated(&outputs).contains("other users have access"));
}

#[test]
fn session_bytes_limit_is_enforced() {
    let base = test_base("room");
    let options = OutputOptions { session_bytes: 500_000, ..OutputOptions::default() };
    let outputs = SessionOutputs::open(&base, "s", options.clone()).expect("outputs");
    save(&outputs, &"x".repeat(249_000));
    save(&outputs, &"y".repeat(249_000));
    assert!(assert_truncated(&outputs).contains("500000 bytes"));
    // Also when the session is opened again.
    drop(outputs);
    assert!(
        assert_truncated(&SessionOutputs::open(&base, "s", options).expect("outputs"))
            .contains("500000 bytes")
    );
}

/// Runs one test of this program again, on a small disk that the shell script creates.
fn rerun_with_small_disk(test: &str, script: &str, place: &Path) -> Option<std::process::Output> {
    let program = std::env::current_exe().expect("this program");
    let args = ["-c", script, "sh"];
    Command::new("sh")
        .args(args)
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(SMALL_DISK_VARIABLE, place)
        .output()
        .ok()
}

#[test]
fn file_size_limit_truncates_and_leaves_no_partial_file() {
    if let Some(place) = std::env::var_os(SMALL_DISK_VARIABLE) {
        let outputs = open_outputs(Path::new(&place), "s");
        assert_truncated(&outputs);
        assert_eq!(
            outputs.session_dir().read_dir().expect("the folder").count(),
            0,
            "a partial file was left"
        );
        return;
    }
    let place = test_base("rlimit");
    // 64 blocks of 512 or 1024 bytes. Without the trap the signal would kill the program.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let test = "file_size_limit_truncates_and_leaves_no_partial_file";
    let ran = rerun_with_small_disk(test, script, &place).expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
fn full_disk_is_reported() {
    if let Some(place) = std::env::var_os(SMALL_DISK_VARIABLE) {
        let outputs = open_outputs(&Path::new(&place).join("base"), "s");
        let why = assert_truncated(&outputs);
        assert!(why.contains("No space left"), "{why}");
        assert_eq!(
            outputs.session_dir().read_dir().expect("the folder").count(),
            0,
            "a partial file was left"
        );
        return;
    }
    let place = test_base("full");
    let probe = "mount -t tmpfs -o size=64k none \"$FLYBALL_TEST_SMALL_DISK\"";
    let may =
        Command::new("unshare").args(["-Urm", "sh", "-c", probe]).env(SMALL_DISK_VARIABLE, &place).output();
    if !may.is_ok_and(|ran| ran.status.success()) {
        // Mounting is not permitted here; the previous test shows the same with a limit.
        return;
    }
    let script = "exec unshare -Urm sh -c 'mount -t tmpfs -o size=64k,mode=700 none \"$FLYBALL_TEST_SMALL_DISK\" && \
                  exec \"$@\"' sh \"$@\"";
    let ran = rerun_with_small_disk("full_disk_is_reported", script, &place).expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
fn cleanup_removes_orphans_and_keeps_young_and_held_directories() {
    let base = test_base("sweep");
    let names = ["gone", "young", "alive", "just old enough"];
    let all = names.map(|name| open_outputs(&base, name));
    for outputs in &all {
        save(outputs, &"x".repeat(200_001));
    }
    let [gone, young, alive, border] = all;
    let folders = [&gone, &young, &alive, &border].map(SessionOutputs::session_dir);
    let now = modified_at(&folders[1]);
    let ages =
        [MIN_ORPHAN_AGE * 2, MIN_ORPHAN_AGE - Duration::from_secs(60), MIN_ORPHAN_AGE * 2, MIN_ORPHAN_AGE];
    for (folder, age) in folders.iter().zip(ages) {
        for entry in folder.read_dir().expect("the folder") {
            set_modified_at(&entry.expect("an entry").path(), now - age);
        }
        set_modified_at(folder, now - age);
    }
    // A dropped session no longer holds its directory.
    drop((gone, young, border));
    // Foreign entries are kept and links are not followed, at any age.
    std::fs::create_dir(base.join("somebody")).expect("a folder");
    set_modified_at(&base.join("somebody"), now - MIN_ORPHAN_AGE * 9);
    let precious = self::test_base("precious");
    std::fs::write(precious.join("file"), "").expect("a file");
    set_modified_at(&precious, now - MIN_ORPHAN_AGE * 9);
    symlink(&precious, base.join("0123456789abcdef0123456789abcdef")).expect("a link");

    let summary =
        remove_orphans(&base, now + Duration::from_secs(1), MIN_ORPHAN_AGE).expect("cleanup succeeds");
    assert_eq!(summary, CleanupSummary { removed: 2, kept: 2, failed: 0 });
    assert_eq!(folders.map(|folder| folder.exists()), [false, true, true, false]);
    assert!(base.join("somebody").exists() && precious.join("file").exists());
    drop(alive);
}

#[test]
fn young_file_keeps_old_directory_and_links_are_not_followed() {
    let base = test_base("inside");
    let outputs = open_outputs(&base, "s");
    let file = save(&outputs, &"x".repeat(200_001));
    let precious = self::test_base("precious");
    std::fs::write(precious.join("file"), "").expect("a file");
    symlink(&precious, outputs.session_dir().join("link")).expect("a link");
    let folder = outputs.session_dir();
    drop(outputs);
    let now = modified_at(&file) + MIN_ORPHAN_AGE;
    set_modified_at(&folder, now - MIN_ORPHAN_AGE * 3);
    set_modified_at(&file, now - Duration::from_secs(5));
    assert_eq!(remove_orphans(&base, now, MIN_ORPHAN_AGE).expect("cleanup succeeds").kept, 1);
    let later = now + MIN_ORPHAN_AGE * 2;
    assert_eq!(remove_orphans(&base, later, MIN_ORPHAN_AGE).expect("cleanup succeeds").removed, 1);
    assert!(!folder.exists() && precious.join("file").exists());
    // With a clock that runs behind, nothing is old.
    assert_eq!(
        remove_orphans(&base, SystemTime::UNIX_EPOCH, MIN_ORPHAN_AGE).expect("cleanup succeeds"),
        CleanupSummary::default()
    );
}

#[test]
fn cleanup_of_missing_base_succeeds() {
    assert_eq!(
        remove_orphans(&test_base("none").join("nowhere"), SystemTime::UNIX_EPOCH, MIN_ORPHAN_AGE)
            .expect("no error"),
        CleanupSummary::default()
    );
}

#[test]
fn concurrent_saves_lose_nothing() {
    let base = test_base("threads");
    let outputs = open_outputs(&base, "s");
    let paths: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n: u8| {
                let outputs = &outputs;
                scope.spawn(move || save(outputs, &char::from(b'a' + n).to_string().repeat(200_001)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread")).collect()
    });
    for (n, path) in (0_u8..).zip(&paths) {
        let text = std::fs::read_to_string(path).expect("the file");
        assert!(text.len() == 200_001 && text.bytes().all(|byte| byte == b'a' + n));
    }
}
