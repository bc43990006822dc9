//! `cargo xtask bench audit`: measures an audit against a Python script that only parses the same files.
//!
//! The files are renamed copies of the repository's transcripts: three of four are one long session of ordinary work
//! (`bench/audit/session.jsonl`, with different files in each copy), the fourth is many short sessions, some with
//! loops. Machines are noisy, so both programs run alternately and the median of several rounds counts. Peak memory is
//! as reported by the kernel.

use crate::bench;
use crate::command::{command, print_line, repo_root, target_dir};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
/// Default size of the data in MB; `--mb` overrides it.
const DEFAULT_SIZE_MB: u64 = 1000;
/// Size of one file in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// One session of ordinary work, with outputs of realistic length.
const BASE_SESSION: &str = "bench/audit/session.jsonl";
/// Its working folder, replaced in each copy.
const BASE_FOLDER: &str = "/srv/app";
/// Every n-th file consists of short sessions, some with loops.
const SHORT_SESSION_INTERVAL: u64 = 4;
/// Folders of the short sessions, and the prefix of their names.
const FIXTURES: [(&str, &str); 2] =
    [("examples/transcripts", "claude-code"), ("fixtures/transcripts/claude-code", "")];
const MIN_SPEEDUP: u64 = 4;
const MAX_MEMORY_MB: u64 = 300;

/// Time and memory of one run.
struct Measurement {
    milliseconds: u64,
    peak_kb: u64,
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let megabytes = match args {
        [] => DEFAULT_SIZE_MB,
        [flag, number] if flag == "--mb" => {
            number.parse().map_err(|_| format!("'{number}' is not a number"))?
        }
        [other, ..] => return Err(format!("unknown argument '{other}'; see `cargo xtask help`")),
    };
    bench::build_programs()?;
    let folder = target_dir().join("bench-audit");
    let _ = fs::remove_dir_all(&folder);
    let (files, bytes) = generate_sessions(&folder, megabytes << 20)?;
    print_line(&format!("\n{files} files, {} MB in {}", bytes >> 20, folder.display()));
    let flyball = target_dir().join("release/flyball");
    let place = folder.display().to_string();
    let mut theirs = Vec::new();
    let mut ours = Vec::new();
    for round in 1..=ROUNDS {
        let python = measure(command("python3", &["bench/audit/parse.py", &place]))?;
        let audit = measure(command(&flyball, &["audit", &place, "--json"]))?;
        print_line(&format!(
            "round {round}: Python {} ms, flyball audit {} ms",
            python.milliseconds, audit.milliseconds
        ));
        theirs.push(python.milliseconds);
        ours.push(audit);
    }
    let peak = ours.iter().map(|took| took.peak_kb).max().unwrap_or(0) / 1024;
    let (parse, audit) = (median(theirs), median(ours.iter().map(|took| took.milliseconds).collect()));
    let tenths = parse * 10 / audit.max(1);
    print_line(&format!("json.loads of every line: {parse} ms; flyball audit: {audit} ms"));
    let mark = |met: bool| if met { "" } else { "  MISSED" };
    let times = format!("{}.{}", tenths / 10, tenths % 10);
    print_line(&format!(
        "  {times} times as fast (goal: at least {MIN_SPEEDUP}){}",
        mark(tenths >= MIN_SPEEDUP * 10)
    ));
    print_line(&format!(
        "  peak memory {peak} MB (goal: under {MAX_MEMORY_MB}){}",
        mark(peak < MAX_MEMORY_MB)
    ));
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// Fills a folder with sessions; returns the number of files and bytes.
fn generate_sessions(folder: &Path, bytes: u64) -> Result<(u64, u64), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(said)?;
    let ordinary = transcript_lines(&repo_root().join(BASE_SESSION)).ok_or("the base session is missing")?;
    let short = short_sessions()?;
    let (mut files, mut written, mut copy) = (0_u64, 0, 0_u64);
    while written < bytes {
        let path = folder.join(format!("session-{files:05}.jsonl"));
        let mut file = BufWriter::new(fs::File::create(path).map_err(said)?);
        let mut size = 0;
        let turn = usize::try_from(files / SHORT_SESSION_INTERVAL).unwrap_or(0) % short.len();
        let (seed, long) = if files % SHORT_SESSION_INTERVAL == SHORT_SESSION_INTERVAL - 1 {
            (&short[turn], false)
        } else {
            (&ordinary, true)
        };
        while size < FILE_BYTES {
            copy += 1;
            for line in seed {
                let line = rename_session(line, copy, if long { files } else { copy });
                size += line.len() as u64 + 1;
                writeln!(file, "{line}").map_err(said)?;
            }
        }
        file.flush().map_err(said)?;
        written += size;
        files += 1;
    }
    Ok((files, written))
}

/// The short sessions.
fn short_sessions() -> Result<Vec<Vec<String>>, String> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for (folder, begins) in FIXTURES {
        for entry in fs::read_dir(repo_root().join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(begins) && name.ends_with(".jsonl") && !name.ends_with(".events.jsonl") {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    let found: Vec<Vec<String>> = paths.iter().filter_map(|path| transcript_lines(path)).collect();
    if found.is_empty() { Err("there are no transcripts to repeat".to_owned()) } else { Ok(found) }
}

/// The lines of a transcript; `None` for fixtures with invalid lines, at which Python would stop.
fn transcript_lines(path: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let whole = lines.iter().all(|line| line.starts_with('{') && line.ends_with('}'));
    (whole && lines.len() > 1).then_some(lines)
}

/// The line in another session, with other ids and in another folder.
fn rename_session(line: &str, copy: u64, session: u64) -> String {
    let mut line = line.replace(BASE_FOLDER, &format!("{BASE_FOLDER}-{copy}"));
    for key in ["sessionId", "uuid", "parentUuid", "requestId", "id", "tool_use_id"] {
        let number = if key == "sessionId" { session } else { copy };
        line = line.replace(&format!("\"{key}\":\""), &format!("\"{key}\":\"{number}-"));
    }
    line
}

/// Runs and measures a command. Its peak memory is polled while it runs.
fn measure(mut command: Command) -> Result<Measurement, String> {
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut peak_kb = 0;
    let status = loop {
        peak_kb = peak_memory_kb(&child).max(peak_kb);
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None => sleep_briefly(),
        }
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    if status.success() {
        Ok(Measurement { milliseconds, peak_kb })
    } else {
        Err(format!("{command:?} failed"))
    }
}

#[allow(clippy::disallowed_methods, reason = "a measurement polls another process")]
fn sleep_briefly() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Peak memory of a process so far in kB, if the kernel reports it.
fn peak_memory_kb(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn median(mut list: Vec<u64>) -> u64 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or(0)
}
