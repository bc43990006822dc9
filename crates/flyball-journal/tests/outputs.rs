//! Large outputs on a real disk: exact borders, private files, disks that refuse, and what is cleaned up when.

#![allow(clippy::expect_used, clippy::panic, reason = "a failure is told by a panic")]

use flyball::policy::{LargeResponse, Mode};
use flyball_journal::{ORPHAN_AGE, OutputOptions, OutputOutcome as Outcome, SessionOutputs, Swept, sweep};
use std::fs::{File, FileTimes};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Tells a copy of this test program that it is the one with the small disk, and where that is.
const SMALL_DISK: &str = "FLYBALL_TEST_SMALL_DISK";

fn base(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("outputs-{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).expect("a folder");
    path
}

fn open(base: &Path, session: &str) -> SessionOutputs {
    SessionOutputs::open(base, session, OutputOptions::default()).expect("outputs")
}

fn saved(outputs: &SessionOutputs, text: &str) -> PathBuf {
    match outputs.fit(text.to_owned()).outcome {
        Outcome::Saved { path, .. } => path,
        other => panic!("it was not saved: {other:?}"),
    }
}

/// Sets the time of the last change, of a folder too.
fn change_at(path: &Path, time: SystemTime) {
    File::open(path).expect("it opens").set_times(FileTimes::new().set_modified(time)).expect("its times");
}

/// The time of the last change of a folder, as the "now" that a test counts from.
fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|found| found.modified()).expect("its times")
}

#[test]
fn the_border_is_exact_and_counted_in_characters() {
    let base = base("border");
    let outputs = open(&base, "s");
    // 200,000 characters of two bytes each stay; bytes are not what is counted.
    let at = "é".repeat(200_000);
    let fitted = outputs.fit(at.clone());
    assert_eq!((fitted.outcome.clone(), fitted.log("shell")), (Outcome::Whole, None));
    assert!(fitted.text == at);
    assert!(!outputs.folder().exists(), "nothing is made before it is needed");

    let over = "é".repeat(200_001);
    let fitted = outputs.fit(over.clone());
    let Outcome::Saved { path, chars: 200_001 } = &fitted.outcome else { panic!("{:?}", fitted.outcome) };
    assert!(std::fs::read_to_string(path).expect("the file") == over);
}

#[test]
fn the_model_gets_the_seeds_sentences_with_length_path_and_preview() {
    let base = base("words");
    let outputs = open(&base, "s");
    let text: String = (0..250_000_u32).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let fitted = outputs.fit(text.clone());
    let Outcome::Saved { path, .. } = &fitted.outcome else { panic!("{:?}", fitted.outcome) };
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
    assert_eq!(fitted.log("shell").as_deref(), Some(log));
}

#[test]
fn the_policy_sets_the_numbers_or_turns_it_off() {
    let policy = LargeResponse { threshold: Some(10), preview: 3, ..LargeResponse::default() };
    let outputs = SessionOutputs::open(&base("policy"), "s", OutputOptions::from(&policy)).expect("outputs");
    assert_eq!(outputs.fit("0123456789".into()).outcome, Outcome::Whole);
    assert!(outputs.fit("0123456789x".into()).text.ends_with("Preview (first 3 chars):\n012..."));
    for off in [
        LargeResponse { threshold: None, ..LargeResponse::default() },
        LargeResponse { mode: Mode::Off, ..LargeResponse::default() },
    ] {
        let outputs = SessionOutputs::open(&base("policy"), "s", OutputOptions::from(&off)).expect("outputs");
        assert_eq!(outputs.fit("x".repeat(1_000_000)).outcome, Outcome::Whole);
    }
    assert_eq!(OutputOptions::from(&LargeResponse::default()), OutputOptions::default());
}

#[test]
fn folder_and_file_are_private_and_their_names_are_made_up() {
    let base = base("private");
    let outputs = open(&base, "../../etc/passwd\0/evil");
    let (one, two) = (saved(&outputs, &"x".repeat(200_001)), saved(&outputs, &"y".repeat(200_001)));
    assert_ne!(one, two);
    assert_eq!(saved(&outputs, &"x".repeat(200_001)), one, "the same output is stored once");
    let mode = |path: &Path| path.metadata().expect("it is there").mode() & 0o7777;
    assert_eq!((mode(&outputs.folder()), mode(&one)), (0o700, 0o600));
    assert_eq!(outputs.folder().parent(), Some(base.as_path()));
    for name in [outputs.folder(), one].map(|path| path.file_stem().expect("a name").to_owned()) {
        let name = name.to_str().expect("text");
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn sessions_share_nothing_and_one_comes_back_to_its_own() {
    let base = base("sessions");
    let (one, two) = (open(&base, "one"), open(&base, "two"));
    let (of_one, of_two) = (saved(&one, &"1".repeat(200_001)), saved(&two, &"2".repeat(200_001)));
    assert_ne!(one.folder(), two.folder());
    assert!(one.owns(&of_one) && !one.owns(&of_two));
    let refused = one.read(&of_two).expect_err("it is somebody else's");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    drop(one);

    let again = open(&base, "one");
    let mut text = String::new();
    again.read(&of_one).expect("its own").read_to_string(&mut text).expect("text");
    assert_eq!(text.len(), 200_001);

    again.end_session().expect("it ends");
    assert!(!of_one.exists() && !again.folder().exists());
    assert!(of_two.exists(), "the other session still has its file");
}

#[test]
fn only_its_own_files_can_be_read_and_no_link_is_followed() {
    let base = base("links");
    let outputs = open(&base, "s");
    let file = saved(&outputs, &"x".repeat(200_001));
    let secret = base.join("secret.txt");
    std::fs::write(&secret, "secret").expect("a file");
    let link = outputs.folder().join("0123456789abcdef0123456789abcdef.txt");
    symlink(&secret, &link).expect("a link");
    assert!(outputs.owns(&link));
    assert!(outputs.read(&link).is_err(), "a link is not followed");
    for other in [
        secret,
        outputs.folder(),
        outputs.folder().join("other.txt"),
        outputs.folder().join("..").join("secret.txt"),
        outputs.folder().join("x").join("..").join(file.file_name().expect("a name")),
    ] {
        assert!(!outputs.owns(&other) && outputs.read(&other).is_err(), "{}", other.display());
    }
}

#[test]
fn after_its_end_a_session_saves_nothing_more() {
    let base = base("ended");
    let outputs = open(&base, "s");
    outputs.end_session().expect("nothing to remove is no error");
    let fitted = outputs.fit("x".repeat(200_001));
    assert!(
        matches!(&fitted.outcome, Outcome::Cut { why, .. } if why.contains("ended")),
        "{:?}",
        fitted.outcome
    );
    assert!(!outputs.folder().exists());
}

#[test]
fn a_folder_that_was_removed_under_us_is_made_again() {
    let base = base("removed");
    let outputs = open(&base, "s");
    saved(&outputs, &"x".repeat(200_001));
    std::fs::remove_dir_all(outputs.folder()).expect("it goes");
    let path = saved(&outputs, &"y".repeat(200_001));
    assert_eq!(std::fs::read_to_string(path).expect("the file").len(), 200_001);
}

/// What has to be true when an output could not be saved.
fn is_cut_honestly(outputs: &SessionOutputs) -> String {
    let fitted = outputs.fit("ä".repeat(300_000));
    let Outcome::Cut { chars: 300_000, why } = &fitted.outcome else { panic!("{:?}", fitted.outcome) };
    let wanted = format!(
        "{}\n\n[TRUNCATED: Response was 300000 characters, showing first 199600]\n[The rest is lost, it could not \
         be saved: {why}]",
        "ä".repeat(199_600)
    );
    assert_eq!(fitted.text, wanted);
    assert!(fitted.text.chars().count() <= 200_000, "the words about the cut fit too");
    let log = fitted.log("shell").expect("a line");
    assert!(log.contains("truncated") && !log.contains("written"), "{log}");
    why.clone()
}

#[test]
fn a_place_that_refuses_cuts_the_output_and_says_so() {
    let base = base("refuses");
    std::fs::write(base.join("file"), "").expect("a file");
    is_cut_honestly(&open(&base.join("file"), "s"));
    is_cut_honestly(&open(&base.join("file").join("below"), "s"));
    // Not even root can make a folder here.
    is_cut_honestly(&open(Path::new("/proc/self/flyball"), "s"));

    let read_only = base.join("read-only");
    std::fs::create_dir(&read_only).expect("a folder");
    std::fs::set_permissions(&read_only, PermissionsExt::from_mode(0o500)).expect("permissions");
    if File::create(read_only.join("probe")).is_err() {
        is_cut_honestly(&open(&read_only, "s"));
    }

    let elsewhere = base.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, base.join("link")).expect("a link");
    assert!(is_cut_honestly(&open(&base.join("link"), "s")).contains("link"));
    assert_eq!(elsewhere.read_dir().expect("the folder").count(), 0);

    let open_to_all = base.join("open");
    std::fs::create_dir(&open_to_all).expect("a folder");
    std::fs::set_permissions(&open_to_all, PermissionsExt::from_mode(0o777)).expect("permissions");
    assert!(is_cut_honestly(&open(&open_to_all, "s")).contains("open to others"));
}

#[test]
fn a_session_folder_prepared_by_somebody_is_not_used() {
    let base = base("prepared");
    let outputs = open(&base, "s");
    let elsewhere = base.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, outputs.folder()).expect("a link");
    is_cut_honestly(&outputs);
    assert_eq!(elsewhere.read_dir().expect("the folder").count(), 0);

    std::fs::remove_file(outputs.folder()).expect("the link goes");
    std::fs::create_dir(outputs.folder()).expect("a folder");
    std::fs::set_permissions(outputs.folder(), PermissionsExt::from_mode(0o755)).expect("permissions");
    assert!(is_cut_honestly(&outputs).contains("open to others"));
}

#[test]
fn a_session_has_only_so_much_room() {
    let base = base("room");
    let options = OutputOptions { session_bytes: 500_000, ..OutputOptions::default() };
    let outputs = SessionOutputs::open(&base, "s", options.clone()).expect("outputs");
    saved(&outputs, &"x".repeat(249_000));
    saved(&outputs, &"y".repeat(249_000));
    assert!(is_cut_honestly(&outputs).contains("500000 bytes"));
    // Also in the next life of the session.
    drop(outputs);
    assert!(
        is_cut_honestly(&SessionOutputs::open(&base, "s", options).expect("outputs"))
            .contains("500000 bytes")
    );
}

/// Runs one test of this program again, in a world with a small disk that the shell script makes.
fn again_with_small_disk(test: &str, script: &str, place: &Path) -> Option<std::process::Output> {
    let program = std::env::current_exe().expect("this program");
    let args = ["-c", script, "sh"];
    Command::new("sh")
        .args(args)
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(SMALL_DISK, place)
        .output()
        .ok()
}

#[test]
fn a_file_that_may_not_grow_is_cut_and_no_half_of_it_stays() {
    if let Some(place) = std::env::var_os(SMALL_DISK) {
        let outputs = open(Path::new(&place), "s");
        is_cut_honestly(&outputs);
        assert_eq!(outputs.folder().read_dir().expect("the folder").count(), 0, "half a file was left");
        return;
    }
    let place = base("rlimit");
    // 64 blocks of 512 or 1024 bytes; without the trap the signal would end the program.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let test = "a_file_that_may_not_grow_is_cut_and_no_half_of_it_stays";
    let ran = again_with_small_disk(test, script, &place).expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
fn a_disk_that_is_full_is_told_as_such() {
    if let Some(place) = std::env::var_os(SMALL_DISK) {
        let outputs = open(&Path::new(&place).join("base"), "s");
        let why = is_cut_honestly(&outputs);
        assert!(why.contains("No space left"), "{why}");
        assert_eq!(outputs.folder().read_dir().expect("the folder").count(), 0, "half a file was left");
        return;
    }
    let place = base("full");
    let probe = "mount -t tmpfs -o size=64k none \"$FLYBALL_TEST_SMALL_DISK\"";
    let may = Command::new("unshare").args(["-Urm", "sh", "-c", probe]).env(SMALL_DISK, &place).output();
    if !may.is_ok_and(|ran| ran.status.success()) {
        // Here nobody may mount a disk; the test before this one has shown the same with a limit.
        return;
    }
    let script = "exec unshare -Urm sh -c 'mount -t tmpfs -o size=64k,mode=700 none \"$FLYBALL_TEST_SMALL_DISK\" && \
                  exec \"$@\"' sh \"$@\"";
    let ran = again_with_small_disk("a_disk_that_is_full_is_told_as_such", script, &place).expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
fn a_sweep_removes_orphans_and_keeps_the_young_and_the_living() {
    let base = base("sweep");
    let names = ["gone", "young", "alive", "just old enough"];
    let all = names.map(|name| open(&base, name));
    for outputs in &all {
        saved(outputs, &"x".repeat(200_001));
    }
    let [gone, young, alive, border] = all;
    let folders = [&gone, &young, &alive, &border].map(SessionOutputs::folder);
    let now = changed(&folders[1]);
    let ages = [ORPHAN_AGE * 2, ORPHAN_AGE - Duration::from_secs(60), ORPHAN_AGE * 2, ORPHAN_AGE];
    for (folder, age) in folders.iter().zip(ages) {
        for entry in folder.read_dir().expect("the folder") {
            change_at(&entry.expect("an entry").path(), now - age);
        }
        change_at(folder, now - age);
    }
    // A session that is gone holds its folder no more.
    drop((gone, young, border));
    // What does not look like ours stays, and a link is not followed, however old it is.
    std::fs::create_dir(base.join("somebody")).expect("a folder");
    change_at(&base.join("somebody"), now - ORPHAN_AGE * 9);
    let precious = self::base("precious");
    std::fs::write(precious.join("file"), "").expect("a file");
    change_at(&precious, now - ORPHAN_AGE * 9);
    symlink(&precious, base.join("0123456789abcdef0123456789abcdef")).expect("a link");

    let swept = sweep(&base, now + Duration::from_secs(1), ORPHAN_AGE).expect("it sweeps");
    assert_eq!(swept, Swept { removed: 2, kept: 2, failed: 0 });
    assert_eq!(folders.map(|folder| folder.exists()), [false, true, true, false]);
    assert!(base.join("somebody").exists() && precious.join("file").exists());
    drop(alive);
}

#[test]
fn a_young_file_keeps_an_old_folder_and_a_link_inside_is_not_followed() {
    let base = base("inside");
    let outputs = open(&base, "s");
    let file = saved(&outputs, &"x".repeat(200_001));
    let precious = self::base("precious");
    std::fs::write(precious.join("file"), "").expect("a file");
    symlink(&precious, outputs.folder().join("link")).expect("a link");
    let folder = outputs.folder();
    drop(outputs);
    let now = changed(&file) + ORPHAN_AGE;
    change_at(&folder, now - ORPHAN_AGE * 3);
    change_at(&file, now - Duration::from_secs(5));
    assert_eq!(sweep(&base, now, ORPHAN_AGE).expect("it sweeps").kept, 1);
    let later = now + ORPHAN_AGE * 2;
    assert_eq!(sweep(&base, later, ORPHAN_AGE).expect("it sweeps").removed, 1);
    assert!(!folder.exists() && precious.join("file").exists());
    // A clock that runs behind makes nothing old.
    assert_eq!(sweep(&base, SystemTime::UNIX_EPOCH, ORPHAN_AGE).expect("it sweeps"), Swept::default());
}

#[test]
fn a_base_that_is_not_there_is_swept_clean() {
    assert_eq!(
        sweep(&base("none").join("nowhere"), SystemTime::UNIX_EPOCH, ORPHAN_AGE).expect("no error"),
        Swept::default()
    );
}

#[test]
fn many_threads_save_at_once_without_losing_anything() {
    let base = base("threads");
    let outputs = open(&base, "s");
    let paths: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n: u8| {
                let outputs = &outputs;
                scope.spawn(move || saved(outputs, &char::from(b'a' + n).to_string().repeat(200_001)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread")).collect()
    });
    for (n, path) in (0_u8..).zip(&paths) {
        let text = std::fs::read_to_string(path).expect("the file");
        assert!(text.len() == 200_001 && text.bytes().all(|byte| byte == b'a' + n));
    }
}
