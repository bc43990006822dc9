//! One run of one gate's command: start it, listen to it, read what it left behind.

use super::config::span;
use super::error::GateError;
use super::gate::{Gate, RESULTS, Results, SCRATCH};
use super::options::Options;
use super::scratch::Scratch;
use crate::process::{self, Cancel, End, Job, Stream};
use flyball_checks::{Finding, FindingKind, Outcome, Raw, Reading, failed_because, judge, read};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How many bytes of the end of each stream are kept beside its beginning.
const TAIL: usize = 64 * 1024;
/// The longest line that is told while it runs.
const LINE: usize = 4 * 1024;

/// One line of a gate's output, while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The gate's name.
    pub gate: &'a str,
    /// Which stream it came on.
    pub stream: Stream,
    /// The line without its end. Lines of JSON meant for programs are not told.
    pub text: &'a str,
}

/// What one run of a gate came to.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    pub(crate) reading: Reading,
    pub(crate) end: Option<End>,
    pub(crate) duration: Duration,
}

/// Runs a gate's command once.
pub(crate) fn attempt(
    gate: &Gate,
    workspace: &Path,
    options: &Options,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(Line<'_>),
) -> Attempt {
    match run_in_scratch(gate, workspace, options, cancel, on_line) {
        Ok(attempt) => attempt,
        Err(error) => {
            let message = format!("it could not be started: {} [{}]; {}", error.what, error.code, error.hint);
            let findings = vec![Finding::new(FindingKind::Other, &*gate.name, &message)];
            let reading = Reading { findings, text: message, partial: true, ..Reading::default() };
            Attempt { outcome: Outcome::Failed, reading, end: None, duration: Duration::ZERO }
        }
    }
}

fn run_in_scratch(
    gate: &Gate,
    workspace: &Path,
    options: &Options,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(Line<'_>),
) -> Result<Attempt, GateError> {
    let scratch = Scratch::new().map_err(|error| {
        let what = format!("no folder for the results could be made: {error}");
        GateError::new(
            "gate_no_scratch",
            what,
            "look at the space and the rights of the folder for temporary files",
        )
    })?;
    let dir = workspace.join(&gate.dir);
    let results = match &gate.results {
        Results::Stdout => None,
        Results::Scratch(name) => Some(scratch.path().join(name)),
        Results::File(path) => Some(dir.join(path)),
    };
    let fill = |text: &str| filled(text, scratch.path(), results.as_deref());
    for (name, content) in &gate.scratch_files {
        fs::write(scratch.path().join(name), fill(content)).map_err(|error| {
            let what = format!("'{name}' could not be written for gate '{}': {error}", gate.name);
            GateError::new("gate_no_scratch", what, "look at the space of the folder for temporary files")
        })?;
    }
    let mut job = Job::new(gate.argv.iter().map(|part| fill(part)), &dir);
    job.env = gate.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    job.deadline = Some(gate.deadline);
    job.keep = options.keep;
    let before = results.as_deref().map(stamp);
    let mut ears = [Ear::new(Stream::Stdout), Ear::new(Stream::Stderr)];
    let ran = process::run(&job, cancel, &mut |stream, bytes| {
        if let Some(ear) = ears.iter_mut().find(|ear| ear.stream == stream) {
            ear.hear(bytes, &mut |text| on_line(Line { gate: &gate.name, stream, text }));
        }
    })
    .map_err(|error| GateError::new(error.code, error.what, error.hint))?;
    let [mut out, mut err] = ears;
    for ear in [&mut out, &mut err] {
        let stream = ear.stream;
        ear.end(&mut |text| on_line(Line { gate: &gate.name, stream, text }));
    }
    let fresh = results.as_deref().filter(|path| before.as_ref() != Some(&stamp(path)));
    let document = fresh.and_then(|path| load(path, options.keep));
    let root = dir.canonicalize().unwrap_or_else(|_| dir.clone());
    let mut reading = read(
        gate.format,
        &Raw {
            stdout: &whole(&ran.stdout, &out),
            stderr: &whole(&ran.stderr, &err),
            results: document.as_deref(),
            wants_results: results.is_some(),
            truncated: ran.dropped > 0,
            kind: gate.kind,
            root: &root,
            module: go_module(&dir).as_deref(),
        },
    );
    for finding in &mut reading.findings {
        under(finding, &gate.dir);
    }
    let outcome = outcome(gate, ran.end, &mut reading);
    Ok(Attempt { outcome, reading, end: Some(ran.end), duration: ran.duration })
}

/// The outcome of a run, and the findings that count.
fn outcome(gate: &Gate, end: End, reading: &mut Reading) -> Outcome {
    match end {
        End::Exit(code) => judge(&gate.name, gate.kind, code, reading),
        End::Cancelled => Outcome::Skipped { reason: "cancelled before it ended".to_owned() },
        End::Deadline => {
            let message = format!("it ran longer than its deadline of {}", span(gate.deadline));
            failed_because(&gate.name, &message, reading)
        }
        End::Signal(signal) => {
            failed_because(&gate.name, &format!("it was ended by signal {signal}"), reading)
        }
    }
}

fn filled(text: &str, scratch: &Path, results: Option<&Path>) -> String {
    let text = text.replace(SCRATCH, &scratch.to_string_lossy());
    results.map_or_else(|| text.clone(), |path| text.replace(RESULTS, &path.to_string_lossy()))
}

/// A file is named from the workspace, also if the gate runs in a folder below it.
fn under(finding: &mut Finding, dir: &Path) {
    if let Some(file) =
        finding.file.as_mut().filter(|file| !file.starts_with('/') && !dir.as_os_str().is_empty())
    {
        *file = dir.join(&*file).to_string_lossy().into_owned();
    }
}

/// What tells a file that was written anew from one that lay there before.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// A results file, unless it is larger than what is read; half a document would be none.
fn load(path: &Path, most: usize) -> Option<String> {
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

/// The beginning that was kept, and the end if something between them was not.
fn whole(kept: &[u8], ear: &Ear) -> String {
    let mut text = process::text(kept);
    if ear.total > kept.len() {
        let after = ear.total - kept.len();
        let tail: Vec<u8> = ear.tail.iter().copied().skip(ear.tail.len().saturating_sub(after)).collect();
        text.push_str("\n[... output left out ...]\n");
        text.push_str(&process::text(&tail));
    }
    text
}

/// Listens to one stream: cuts it into lines for the one who watches, and remembers its end.
struct Ear {
    stream: Stream,
    line: Vec<u8>,
    tail: VecDeque<u8>,
    total: usize,
}

impl Ear {
    fn new(stream: Stream) -> Self {
        Ear { stream, line: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn hear(&mut self, bytes: &[u8], tell: &mut dyn FnMut(&str)) {
        self.total = self.total.saturating_add(bytes.len());
        let last = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
        let over = (self.tail.len() + last.len()).saturating_sub(TAIL);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(last);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room).filter(|byte| **byte != b'\n'));
            if piece.ends_with(b"\n") {
                self.end(tell);
            }
        }
    }

    fn end(&mut self, tell: &mut dyn FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let for_programs = self.stream == Stream::Stdout && text.starts_with(['{', '[', '<']);
        if !line.is_empty() && !for_programs {
            tell(text.trim_end_matches('\r'));
        }
    }
}
