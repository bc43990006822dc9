//! Orphan cleanup: kills programs that a killed run left behind before the run resumes, so that no step runs twice at
//! once.
//!
//! Orphans are recognized by an environment variable that names the run directory. A program in its own process session
//! (such as a server that a step started as a daemon) is left alone.

use std::path::Path;

/// Environment variable that marks every program of a run; contains the run directory.
pub const RUN_DIR_VAR: &str = "FLYBALL_RUN";

/// Process session ID of this process and its children. 0 means a session that started outside our container: it has no
/// ID here, and all processes without their own session belong to it.
#[cfg(target_os = "linux")]
pub(super) fn own_sid() -> i32 {
    sid_of("self").unwrap_or(NO_SID)
}

/// Other platforms do not support orphan cleanup.
#[cfg(not(target_os = "linux"))]
pub(super) fn own_sid() -> i32 {
    NO_SID
}

/// ID that matches no process session.
const NO_SID: i32 = -1;

/// Process session ID of a process.
#[cfg(target_os = "linux")]
fn sid_of(pid: impl std::fmt::Display) -> Option<i32> {
    proc_stat(pid)?.split(' ').nth(3)?.parse().ok()
}

/// Fields of `/proc/PID/stat` after the command name: state, parent, group, session.
#[cfg(target_os = "linux")]
fn proc_stat(pid: impl std::fmt::Display) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Kills remaining programs of the run in this directory that belong to one of these process sessions. Returns how
/// many.
#[cfg(target_os = "linux")]
pub(super) fn kill_orphans(files: &Path, sids: &[i32]) -> usize {
    use rustix::process::{Signal, kill_process};
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    const KILL_TIMEOUT: Duration = Duration::from_secs(5);
    const KILL_POLL_INTERVAL: Duration = Duration::from_millis(10);
    let until = Instant::now() + KILL_TIMEOUT;
    let mut ended = BTreeSet::new();
    while !sids.is_empty() && Instant::now() < until {
        let here = |pid: &rustix::process::Pid| {
            sid_of(pid.as_raw_nonzero()).is_some_and(|sid| sid != NO_SID && sids.contains(&sid))
        };
        let found: Vec<_> = processes_of_run(files).into_iter().filter(here).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            // The process may be gone already.
            let _ = kill_process(pid, Signal::KILL);
            ended.insert(pid.as_raw_nonzero());
        }
        std::thread::park_timeout(KILL_POLL_INTERVAL);
    }
    ended.len()
}

/// Other platforms cannot find orphans.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_orphans(_files: &Path, _sids: &[i32]) -> usize {
    0
}

/// Processes whose environment names the run, except this process and its ancestors.
#[cfg(target_os = "linux")]
fn processes_of_run(files: &Path) -> Vec<rustix::process::Pid> {
    use std::os::unix::ffi::OsStrExt;

    let mut wanted = format!("{RUN_DIR_VAR}=").into_bytes();
    wanted.extend_from_slice(files.as_os_str().as_bytes());
    let above = own_ancestors();
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
fn own_ancestors() -> Vec<i32> {
    let mut all = Vec::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(pid) = next.filter(|pid| *pid > 0 && !all.contains(pid)) {
        all.push(pid);
        next = proc_stat(pid).and_then(|stat| stat.split(' ').nth(1)?.parse().ok());
    }
    all
}
