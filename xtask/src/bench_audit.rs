//! `cargo xtask bench audit`: what an audit costs, beside a Python script that only parses the same files.
//!
//! The files are made by repeating our own transcripts under other names until there is enough of them: three of four
//! are one long session of ordinary work (`bench/audit/session.jsonl`, whose calls read, edit and test other files each
//! time), the fourth is many short ones, loops among them. Machines are noisy: both go in turn, and the middle of
//! several rounds counts. Peak memory is what the kernel saw.

use crate::bench;
use crate::run::{command, root, say, target};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
/// How much is made, in MB, unless `--mb` says otherwise.
const SIZE_MB: u64 = 1000;
/// How large one file is, in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// One session of ordinary work, with outputs as long as they are there.
const ORDINARY: &str = "bench/audit/session.jsonl";
/// The folder of its work, which is another one each time that it is repeated.
const FOLDER: &str = "/srv/app";
/// Every so many files are short sessions, loops among them.
const EVERY: u64 = 4;
/// Where those are taken from, and how their names begin.
const FIXTURES: [(&str, &str); 2] =
    [("examples/transcripts", "claude-code"), ("fixtures/transcripts/claude-code", "")];
const GOAL_TIMES: u64 = 4;
const GOAL_MB: u64 = 300;

/// What one run took.
struct Took {
    milliseconds: u64,
    peak_kb: u64,
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let megabytes = match args {
        [] => SIZE_MB,
        [flag, number] if flag == "--mb" => number.parse().map_err(|_| format!("'{number}' is no number"))?,
        [other, ..] => return Err(format!("'{other}' is not known here; see `cargo xtask help`")),
    };
    bench::programs()?;
    let folder = target().join("bench-audit");
    let _ = fs::remove_dir_all(&folder);
    let (files, bytes) = make(&folder, megabytes << 20)?;
    say(&format!("\n{files} files, {} MB in {}", bytes >> 20, folder.display()));
    let flyball = target().join("release/flyball");
    let place = folder.display().to_string();
    let mut theirs = Vec::new();
    let mut ours = Vec::new();
    for round in 1..=ROUNDS {
        let python = measure(command("python3", &["bench/audit/parse.py", &place]))?;
        let audit = measure(command(&flyball, &["audit", &place, "--json"]))?;
        say(&format!(
            "round {round}: Python {} ms, flyball audit {} ms",
            python.milliseconds, audit.milliseconds
        ));
        theirs.push(python.milliseconds);
        ours.push(audit);
    }
    let peak = ours.iter().map(|took| took.peak_kb).max().unwrap_or(0) / 1024;
    let (parse, audit) = (middle(theirs), middle(ours.iter().map(|took| took.milliseconds).collect()));
    let tenths = parse * 10 / audit.max(1);
    say(&format!("json.loads of every line: {parse} ms; flyball audit: {audit} ms"));
    let mark = |met: bool| if met { "" } else { "  MISSED" };
    let times = format!("{}.{}", tenths / 10, tenths % 10);
    say(&format!("  {times} times as fast (goal: at least {GOAL_TIMES}){}", mark(tenths >= GOAL_TIMES * 10)));
    say(&format!("  peak memory {peak} MB (goal: under {GOAL_MB}){}", mark(peak < GOAL_MB)));
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// Fills a folder with sessions; gives how many files and bytes there are.
fn make(folder: &Path, bytes: u64) -> Result<(u64, u64), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(said)?;
    let ordinary = lines(&root().join(ORDINARY)).ok_or("the ordinary session is not there")?;
    let short = short()?;
    let (mut files, mut written, mut copy) = (0_u64, 0, 0_u64);
    while written < bytes {
        let path = folder.join(format!("session-{files:05}.jsonl"));
        let mut file = BufWriter::new(fs::File::create(path).map_err(said)?);
        let mut size = 0;
        let turn = usize::try_from(files / EVERY).unwrap_or(0) % short.len();
        let (seed, long) = if files % EVERY == EVERY - 1 { (&short[turn], false) } else { (&ordinary, true) };
        while size < FILE_BYTES {
            copy += 1;
            for line in seed {
                let line = renamed(line, copy, if long { files } else { copy });
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
fn short() -> Result<Vec<Vec<String>>, String> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for (folder, begins) in FIXTURES {
        for entry in fs::read_dir(root().join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(begins) && name.ends_with(".jsonl") && !name.ends_with(".events.jsonl") {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    let found: Vec<Vec<String>> = paths.iter().filter_map(|path| lines(path)).collect();
    if found.is_empty() { Err("there are no transcripts to repeat".to_owned()) } else { Ok(found) }
}

/// The lines of a transcript. Broken ones are fixtures of another kind: Python would stop at them.
fn lines(path: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let whole = lines.iter().all(|line| line.starts_with('{') && line.ends_with('}'));
    (whole && lines.len() > 1).then_some(lines)
}

/// The same line in another session, with other ids, in another folder.
fn renamed(line: &str, copy: u64, session: u64) -> String {
    let mut line = line.replace(FOLDER, &format!("{FOLDER}-{copy}"));
    for key in ["sessionId", "uuid", "parentUuid", "requestId", "id", "tool_use_id"] {
        let number = if key == "sessionId" { session } else { copy };
        line = line.replace(&format!("\"{key}\":\""), &format!("\"{key}\":\"{number}-"));
    }
    line
}

/// Runs a command and measures it. Its memory is looked at while it runs, as the kernel counts its peak.
fn measure(mut command: Command) -> Result<Took, String> {
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut peak_kb = 0;
    let status = loop {
        peak_kb = peak(&child).max(peak_kb);
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None => pause(),
        }
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    if status.success() { Ok(Took { milliseconds, peak_kb }) } else { Err(format!("{command:?} failed")) }
}

#[allow(clippy::disallowed_methods, reason = "a measurement looks at another process from time to time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// The most memory that a process has had so far, in kB, where the kernel tells.
fn peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn middle(mut list: Vec<u64>) -> u64 {
    list.sort_unstable();
    list.get(list.len() / 2).copied().unwrap_or(0)
}
