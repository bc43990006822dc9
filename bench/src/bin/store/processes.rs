//! Cold processes, like hooks: one event, one commit, one answer; compared with the baseline, and many at once.

use crate::BenchResult;
use crate::event_lines::line;
use crate::stats::{percentile_permille, ratio};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a program, sends it one line, and waits for its answer and exit.
fn run_with_input(command: &mut Command, line: &str) -> BenchResult<(Duration, String)> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(line.as_bytes())?;
        pipe.write_all(b"\n")?;
    }
    let done = child.wait_with_output()?;
    let took = began.elapsed();
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok((took, String::from_utf8_lossy(&done.stdout).into_owned()))
}

fn observe_command(flyball: &str, file: &str) -> Command {
    let mut command = Command::new(flyball);
    command.args(["observe", "--store", &format!("sqlite:{file}")]);
    command
}

/// Median of `runs` of cold `flyball observe` and the baseline program, alternating, on the same file.
pub(crate) fn bench_cold_observe(flyball: &str, file: &str, runs: u64) -> BenchResult<Vec<String>> {
    compare_with_baseline("flyball", file, runs, |run| {
        let text = line("cold", run);
        let (took, said) = run_with_input(&mut observe_command(flyball, file), &text)?;
        if !said.contains(r#""decision":"allow""#) {
            return Err(format!("flyball said {said}").into());
        }
        Ok((took, text))
    })
}

/// The same for the cold hook of a coding agent, alternating before and after a call.
pub(crate) fn bench_cold_hook(flyball: &str, file: &str, runs: u64) -> BenchResult<Vec<String>> {
    compare_with_baseline("hook", file, runs, |run| {
        let (event, text) = hook_input(run);
        let mut command = Command::new(flyball);
        command
            .args(["hook", "claude-code", "--event", event])
            .env("FLYBALL_STORE", format!("sqlite:{file}"));
        let (took, said) = run_with_input(&mut command, &text)?;
        // No output means that the call is allowed.
        if said.is_empty() { Ok((took, text)) } else { Err(format!("the hook said {said}").into()) }
    })
}

/// Alternates a program and the baseline, with the same text.
fn compare_with_baseline(
    name: &str,
    file: &str,
    runs: u64,
    ours_once: impl Fn(u64) -> BenchResult<(Duration, String)>,
) -> BenchResult<Vec<String>> {
    let own = std::env::current_exe()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let (took, text) = ours_once(run)?;
        ours.push(took);
        bare.push(run_with_input(Command::new(&own).args(["one", file]), &text)?.0);
    }
    let (ours, bare) = (percentile_permille(&mut ours, 500), percentile_permille(&mut bare, 500));
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Ok(vec![format!(
        "cold {name} {} us, bare program {} us, ratio {} (median of {runs})",
        micros(ours),
        micros(bare),
        ratio(micros(ours), micros(bare))
    )])
}

/// Runs many lanes at once for a while, each starting one cold process after the other.
pub(crate) fn bench_shared_file(
    flyball: &str,
    file: &str,
    processes: u64,
    seconds: u64,
) -> BenchResult<Vec<String>> {
    let (began, end) = (Instant::now(), Duration::from_secs(seconds));
    let counts: Vec<(u64, u64, Duration)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..processes)
            .map(|lane| {
                scope.spawn(move || {
                    let (mut served, mut errors, mut longest) = (0, 0, Duration::ZERO);
                    while began.elapsed() < end {
                        let text = line(&format!("lane-{lane}"), served + errors);
                        match run_with_input(&mut observe_command(flyball, file), &text) {
                            Ok((took, _)) => {
                                served += 1;
                                longest = longest.max(took);
                            }
                            Err(_) => errors += 1,
                        }
                    }
                    (served, errors, longest)
                })
            })
            .collect();
        all.into_iter().filter_map(|lane| lane.join().ok()).collect()
    });
    let served = counts.iter().map(|count| count.0);
    let (least, most) = (served.clone().min().unwrap_or(0), served.clone().max().unwrap_or(0));
    let errors: u64 = counts.iter().map(|count| count.1).sum();
    let longest = counts.iter().map(|count| count.2).max().unwrap_or_default();
    Ok(vec![format!(
        "{processes} processes for {seconds} s: {} served, least {least}, most {most}, least/most {}, {errors} errors, longest {} us",
        served.sum::<u64>(),
        ratio(least, most),
        longest.as_micros()
    )])
}

/// Input of a coding agent's hook, before or after a call.
fn hook_input(number: u64) -> (&'static str, String) {
    let call = number / 2;
    let about = format!(
        r#""session_id":"hook","transcript_path":null,"cwd":"/","permission_mode":"default","tool_name":"Bash","tool_use_id":"toolu_{call}","tool_input":{{"command":"python -m pytest -q tests/test_invoice_{call}.py -k rounding"}}"#
    );
    if number.is_multiple_of(2) {
        return ("PreToolUse", format!(r#"{{"hook_event_name":"PreToolUse",{about}}}"#));
    }
    let response =
        r#""tool_response":{"stdout":"collected 12 items\n1 failed, 11 passed in 0.18s","stderr":""}"#;
    ("PostToolUse", format!(r#"{{"hook_event_name":"PostToolUse",{about},{response}}}"#))
}
