//! One run of a gate's command: start it, capture its output, read its results.

use super::gate::{QualityGate, RESULTS_PLACEHOLDER, ResultsLocation, SCRATCH_PLACEHOLDER};
use super::gate_error::GateError;
use super::options::GateOptions;
use super::scratch::ScratchDir;
use crate::process::{self, CancelToken, OutputStream, ProcessEnd, ProcessSpec};
use flyball::units::format_duration;
use flyball_checks::{
    CheckFinding, CheckOutcome, FindingKind, ParsedResults, RawResults, determine_outcome, failed_because,
    read,
};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Number of bytes kept from the end of each stream, in addition to its start.
const TAIL_BYTES: usize = 64 * 1024;
/// Maximum length of a reported line.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// A line of a gate's output while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateLine<'a> {
    /// Gate name.
    pub gate: &'a str,
    /// Stream of the line.
    pub stream: OutputStream,
    /// The line without its line break. Machine-readable JSON lines are not reported.
    pub text: &'a str,
}

/// Result of one run of a gate.
#[derive(Debug)]
pub(crate) struct GateAttempt {
    pub(crate) outcome: CheckOutcome,
    pub(crate) results: ParsedResults,
    pub(crate) end: Option<ProcessEnd>,
    pub(crate) duration: Duration,
}

/// Runs a gate's command once.
pub(crate) fn run_attempt(
    gate: &QualityGate,
    workspace: &Path,
    options: &GateOptions,
    cancel: &CancelToken,
    on_line: &mut dyn FnMut(GateLine<'_>),
) -> GateAttempt {
    match run_in_scratch(gate, workspace, options, cancel, on_line) {
        Ok(attempt) => attempt,
        Err(error) => {
            let message = format!("could not be started: {} [{}]; {}", error.message, error.code, error.help);
            let findings = vec![CheckFinding::new(FindingKind::Other, &*gate.name, &message)];
            let reading =
                ParsedResults { findings, text: message, partial: true, ..ParsedResults::default() };
            GateAttempt {
                outcome: CheckOutcome::Failed,
                results: reading,
                end: None,
                duration: Duration::ZERO,
            }
        }
    }
}

fn run_in_scratch(
    gate: &QualityGate,
    workspace: &Path,
    options: &GateOptions,
    cancel: &CancelToken,
    on_line: &mut dyn FnMut(GateLine<'_>),
) -> Result<GateAttempt, GateError> {
    let scratch = ScratchDir::new().map_err(|error| {
        let what = format!("cannot create a temporary folder for the results: {error}");
        GateError::new("gate_no_scratch", what, "check free space and permissions of the temporary folder")
    })?;
    let dir = workspace.join(&gate.dir);
    let results = match &gate.results {
        ResultsLocation::Stdout => None,
        ResultsLocation::Scratch(name) => Some(scratch.path().join(name)),
        ResultsLocation::File(path) => Some(dir.join(path)),
    };
    let fill = |text: &str| substitute(text, scratch.path(), results.as_deref());
    for (name, content) in &gate.scratch_files {
        fs::write(scratch.path().join(name), fill(content)).map_err(|error| {
            let what = format!("cannot write '{name}' for gate '{}': {error}", gate.name);
            GateError::new("gate_no_scratch", what, "check free space in the temporary folder")
        })?;
    }
    let mut job = ProcessSpec::new(gate.argv.iter().map(|part| fill(part)), &dir);
    job.env = gate.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    job.deadline = Some(gate.deadline);
    job.max_kept_bytes = options.max_output_bytes;
    let before = results.as_deref().map(file_stamp);
    let mut captures = [StreamCapture::new(OutputStream::Stdout), StreamCapture::new(OutputStream::Stderr)];
    let ran = process::run(&job, cancel, &mut |stream, bytes| {
        if let Some(capture) = captures.iter_mut().find(|capture| capture.stream == stream) {
            capture.push(bytes, &mut |text| on_line(GateLine { gate: &gate.name, stream, text }));
        }
    })
    .map_err(|error| GateError::new(error.code, error.message, error.help))?;
    let [mut out, mut err] = captures;
    for capture in [&mut out, &mut err] {
        let stream = capture.stream;
        capture.flush_line(&mut |text| on_line(GateLine { gate: &gate.name, stream, text }));
    }
    let fresh = results.as_deref().filter(|path| before.as_ref() != Some(&file_stamp(path)));
    let document = fresh.and_then(|path| read_results_file(path, options.max_output_bytes));
    let root = dir.canonicalize().unwrap_or_else(|_| dir.clone());
    let mut reading = read(
        gate.format,
        &RawResults {
            stdout: &joined_output(&ran.stdout, &out),
            stderr: &joined_output(&ran.stderr, &err),
            results: document.as_deref(),
            wants_results: results.is_some(),
            truncated: ran.dropped_bytes > 0,
            kind: gate.kind,
            root: &root,
            module: go_module(&dir).as_deref(),
        },
    );
    for finding in &mut reading.findings {
        prefix_with_dir(finding, &gate.dir);
    }
    let outcome = attempt_outcome(gate, ran.end, &mut reading);
    Ok(GateAttempt { outcome, results: reading, end: Some(ran.end), duration: ran.duration })
}

/// Outcome of a run; updates the findings that count.
fn attempt_outcome(gate: &QualityGate, end: ProcessEnd, reading: &mut ParsedResults) -> CheckOutcome {
    match end {
        ProcessEnd::Exit(code) => determine_outcome(&gate.name, gate.kind, code, reading),
        ProcessEnd::Cancelled => CheckOutcome::Skipped { reason: "cancelled before it ended".to_owned() },
        ProcessEnd::DeadlineExceeded => {
            let deadline = u64::try_from(gate.deadline.as_millis()).unwrap_or(u64::MAX);
            let message = format!("exceeded its deadline of {}", format_duration(deadline));
            failed_because(&gate.name, &message, reading)
        }
        ProcessEnd::Signal(signal) => {
            failed_because(&gate.name, &format!("killed by signal {signal}"), reading)
        }
    }
}

fn substitute(text: &str, scratch: &Path, results: Option<&Path>) -> String {
    let text = text.replace(SCRATCH_PLACEHOLDER, &scratch.to_string_lossy());
    results.map_or_else(|| text.clone(), |path| text.replace(RESULTS_PLACEHOLDER, &path.to_string_lossy()))
}

/// Makes the file of a finding relative to the workspace if the gate runs in a subfolder.
fn prefix_with_dir(finding: &mut CheckFinding, dir: &Path) {
    if let Some(file) =
        finding.file.as_mut().filter(|file| !file.starts_with('/') && !dir.as_os_str().is_empty())
    {
        *file = dir.join(&*file).to_string_lossy().into_owned();
    }
}

/// Modification time and size, to detect whether a file was rewritten.
fn file_stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// Contents of a results file; `None` if it exceeds the limit, because a partial document is useless.
fn read_results_file(path: &Path, most: usize) -> Option<String> {
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let file = File::open(path).ok()?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
    fits.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn go_module(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(dir.join("go.mod")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("module ")).map(|name| name.trim().to_owned())
}

/// The kept start and, if output was dropped in between, the end.
fn joined_output(kept: &[u8], capture: &StreamCapture) -> String {
    let mut text = process::lossy_text(kept);
    if capture.total > kept.len() {
        let after = capture.total - kept.len();
        let tail: Vec<u8> =
            capture.tail.iter().copied().skip(capture.tail.len().saturating_sub(after)).collect();
        text.push_str("\n[... output omitted ...]\n");
        text.push_str(&process::lossy_text(&tail));
    }
    text
}

/// Splits a stream into lines for the watcher and keeps its end.
struct StreamCapture {
    stream: OutputStream,
    line: Vec<u8>,
    tail: VecDeque<u8>,
    total: usize,
}

impl StreamCapture {
    fn new(stream: OutputStream) -> Self {
        StreamCapture { stream, line: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn push(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&str)) {
        self.total = self.total.saturating_add(bytes.len());
        let last = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        let over = (self.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(last);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room).filter(|byte| **byte != b'\n'));
            if piece.ends_with(b"\n") {
                self.flush_line(on_line);
            }
        }
    }

    fn flush_line(&mut self, on_line: &mut dyn FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let for_programs = self.stream == OutputStream::Stdout && text.starts_with(['{', '[', '<']);
        if !line.is_empty() && !for_programs {
            on_line(text.trim_end_matches('\r'));
        }
    }
}
