//! Programs of a run that was killed: they know nothing of it and work on. Before the run is taken up again they are
//! ended, so that no step is under way twice.
//!
//! They are known by a variable of their environment that names the folder of the run. A program that made a session of
//! its own (a server that a step has started for good) is left alone.

use std::path::Path;

/// The variable that marks every program of a run: it names the folder of the run.
pub const RUN: &str = "FLYBALL_RUN";

/// The session of the system that this process, and what it starts, is in. 0 is one that began outside of the container
/// in which we run: it has no number here, and everything that made no session of its own is in it.
#[cfg(target_os = "linux")]
pub(super) fn own_sid() -> i32 {
    sid_of("self").unwrap_or(NOWHERE)
}

/// Elsewhere nothing is ever looked for.
#[cfg(not(target_os = "linux"))]
pub(super) fn own_sid() -> i32 {
    NOWHERE
}

/// The number of no session.
const NOWHERE: i32 = -1;

/// The session of a process, as the system lists it.
#[cfg(target_os = "linux")]
fn sid_of(pid: impl std::fmt::Display) -> Option<i32> {
    stat(pid)?.split(' ').nth(3)?.parse().ok()
}

/// What the system lists of a process, after the name in brackets: the state, the parent, the group, the session.
#[cfg(target_os = "linux")]
fn stat(pid: impl std::fmt::Display) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Ends the programs of the run in this folder that are still there, in one of these sessions; tells how many.
#[cfg(target_os = "linux")]
pub(super) fn end(files: &Path, sids: &[i32]) -> usize {
    use rustix::process::{Signal, kill_process};
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(5);
    const TICK: Duration = Duration::from_millis(10);
    let until = Instant::now() + PATIENCE;
    let mut ended = BTreeSet::new();
    while !sids.is_empty() && Instant::now() < until {
        let here = |pid: &rustix::process::Pid| {
            sid_of(pid.as_raw_nonzero()).is_some_and(|sid| sid != NOWHERE && sids.contains(&sid))
        };
        let found: Vec<_> = of_run(files).into_iter().filter(here).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            // Whoever is gone by now needs no signal.
            let _ = kill_process(pid, Signal::KILL);
            ended.insert(pid.as_raw_nonzero());
        }
        std::thread::park_timeout(TICK);
    }
    ended.len()
}

/// Elsewhere there is no way to find them.
#[cfg(not(target_os = "linux"))]
pub(super) fn end(_files: &Path, _sids: &[i32]) -> usize {
    0
}

/// The processes whose environment names the run, without ourselves and those above us.
#[cfg(target_os = "linux")]
fn of_run(files: &Path) -> Vec<rustix::process::Pid> {
    use std::os::unix::ffi::OsStrExt;

    let mut wanted = format!("{RUN}=").into_bytes();
    wanted.extend_from_slice(files.as_os_str().as_bytes());
    let above = above();
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let of_run = |pid: &i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == wanted)
    };
    let found = pids.filter(|pid| !above.contains(pid)).filter(of_run);
    found.filter_map(rustix::process::Pid::from_raw).collect()
}

#[cfg(target_os = "linux")]
fn above() -> Vec<i32> {
    let mut all = Vec::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(pid) = next.filter(|pid| *pid > 0 && !all.contains(pid)) {
        all.push(pid);
        next = stat(pid).and_then(|stat| stat.split(' ').nth(1)?.parse().ok());
    }
    all
}
