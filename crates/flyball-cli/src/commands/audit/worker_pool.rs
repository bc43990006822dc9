//! Worker threads of the audit: each takes the next file and sums up its findings; the sums are merged at the end.
//!
//! The largest files come first, so that no thread is left with one at the end. The order does not affect the report:
//! see `flyball_integrations::audit::AuditSummary`.

use super::file_walk::{TranscriptFile, WalkResult, unreadable};
use flyball_integrations::audit::{AuditConfig, AuditSummary, Auditor, UnreadableFile};
use flyball_integrations::transcript::{self, Transcript, TranscriptError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Size of the read buffer.
const READ_BUFFER_BYTES: usize = 1 << 18;
/// Delay before a progress bar appears.
const PROGRESS_BAR_DELAY: Duration = Duration::from_secs(1);
/// Error code of a file of unknown format.
const UNKNOWN_FORMAT_CODE: &str = "unknown_format";

/// Audits all files with this many threads.
pub(super) fn audit_files(walked: &WalkResult, config: &AuditConfig, jobs: usize) -> AuditSummary {
    let mut order: Vec<&TranscriptFile> = walked.files.iter().collect();
    order.sort_by_key(|found| std::cmp::Reverse(found.bytes));
    let next = AtomicUsize::new(0);
    let bar = SharedProgressBar::new(order.iter().map(|found| found.bytes).sum());
    let work = || {
        let mut mine = AuditSummary::default();
        while let Some(found) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            audit_file(found, config, &bar, &mut mine);
        }
        mine
    };
    let mut all = AuditSummary::default();
    std::thread::scope(|scope| {
        let crew: Vec<_> = (1..jobs.clamp(1, order.len().max(1))).map(|_| scope.spawn(work)).collect();
        all.merge(work());
        for hand in crew {
            match hand.join() {
                Ok(theirs) => all.merge(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    for folder in &walked.unreadable {
        all.add_broken_file(&Default::default(), folder.clone(), 0);
    }
    bar.inner.finish_and_clear();
    all
}

/// Audits one file.
fn audit_file(
    found: &TranscriptFile,
    config: &AuditConfig,
    bar: &SharedProgressBar,
    audit_summary: &mut AuditSummary,
) {
    let name = found.path.display().to_string();
    let file = match File::open(&found.path) {
        Ok(file) => file,
        Err(error) => {
            return audit_summary.add_broken_file(&Default::default(), unreadable(&found.path, &error), 0);
        }
    };
    let stem = found.path.file_stem().unwrap_or_default().to_string_lossy();
    let mut input = BufReader::with_capacity(READ_BUFFER_BYTES, ProgressReader { file, bar });
    let mut auditor = Auditor::new(config, &name);
    let transcript = Transcript { name: &stem, format: None, fallback_format: None, input: &mut input };
    let read = transcript::read(transcript, &mut |item| {
        auditor.push(item);
        true
    });
    let nothing = auditor.is_empty();
    let findings = auditor.finish();
    match read {
        Ok(_) if nothing => audit_summary.add_unknown_file(name, found.bytes),
        Ok(summary) => audit_summary.add_file(&findings, &summary, found.bytes),
        Err(broken) if is_not_a_transcript(&broken, nothing) => {
            audit_summary.add_unknown_file(name, found.bytes)
        }
        Err(TranscriptError { line, error }) => {
            let place = if line > 0 { format!("{name}:{line}") } else { name };
            let why = UnreadableFile {
                location: place,
                code: error.code.as_str().to_owned(),
                message: error.message,
            };
            audit_summary.add_broken_file(&findings, why, found.bytes);
        }
    }
}

/// Whether a file is not a transcript: its format is unknown or its first line is invalid.
fn is_not_a_transcript(broken: &TranscriptError, nothing: bool) -> bool {
    let code = broken.error.code.as_str();
    code == UNKNOWN_FORMAT_CODE
        || nothing && broken.line <= 1 && matches!(code, "invalid_json" | "not_utf8" | "missing_field")
}

/// A progress bar that appears only on a terminal and when the audit takes long.
struct SharedProgressBar {
    inner: ProgressBar,
    started: Instant,
    enabled: bool,
    shown_once: Once,
}

impl SharedProgressBar {
    fn new(total: u64) -> Self {
        let shown = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left");
        let inner = shown.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        SharedProgressBar {
            inner,
            started: Instant::now(),
            enabled: std::io::stderr().is_terminal(),
            shown_once: Once::new(),
        }
    }

    fn advance(&self, bytes: u64) {
        if !self.enabled {
            return;
        }
        if self.started.elapsed() > PROGRESS_BAR_DELAY {
            self.shown_once.call_once(|| self.inner.set_draw_target(ProgressDrawTarget::stderr()));
        }
        self.inner.inc(bytes);
    }
}

/// A reader that advances the progress bar.
struct ProgressReader<'a> {
    file: File,
    bar: &'a SharedProgressBar,
}

impl Read for ProgressReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}
