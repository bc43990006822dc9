//! Programs of a run that was killed: they know nothing of it and work on. Before the run is taken up again they are
//! ended, so that no step is under way twice.
//!
//! They are known by a variable of their environment that names the folder of the run. A program that made a session of
//! its own (a server that a step has started for good) is left alone.

use std::path::Path;

/// The variable.
pub(crate) const RUN: &str = "FLYBALL_RUN";

/// The session of the system that this process, and what it starts, is in.
pub(super) fn own_sid() -> i32 {
    rustix::process::getsid(None).map_or(0, |sid| sid.as_raw_nonzero().get())
}

/// Ends the programs of the run in this folder that are still there, in one of these sessions; tells how many.
#[cfg(target_os = "linux")]
pub(super) fn end(files: &Path, sids: &[i32]) -> usize {
    use rustix::process::{Signal, getsid, kill_process};
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(5);
    const TICK: Duration = Duration::from_millis(10);
    let until = Instant::now() + PATIENCE;
    let mut ended = BTreeSet::new();
    while !sids.is_empty() && Instant::now() < until {
        let here = |pid: &rustix::process::Pid| {
            getsid(Some(*pid)).is_ok_and(|sid| sids.contains(&sid.as_raw_nonzero().get()))
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
        // After the name in brackets: the state, then the parent.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        next = rest.split(' ').nth(1).and_then(|parent| parent.parse().ok());
    }
    all
}
