//! All cores at work: each thread takes the next file and adds up what it finds; the sums are added up at the end.
//!
//! The largest files come first, so that no thread is left alone with one at the end. The order changes nothing in the
//! report: see `flyball_adapt::audit::Survey`.

use super::walk::{Found, Walked, unread};
use flyball_adapt::audit::{Auditor, Bench, Survey, Unread};
use flyball_adapt::source::{self, Broken, Transcript};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How much of a file is read at once.
const BUFFER: usize = 1 << 18;
/// A bar appears when it takes longer than this.
const PATIENCE: Duration = Duration::from_secs(1);
/// The code of a file that is of no known format.
const FOREIGN: &str = "unknown_format";

/// Looks at all files with this many threads.
pub(super) fn survey(walked: &Walked, bench: &Bench, jobs: usize) -> Survey {
    let mut order: Vec<&Found> = walked.files.iter().collect();
    order.sort_by_key(|found| std::cmp::Reverse(found.bytes));
    let next = AtomicUsize::new(0);
    let bar = Bar::new(order.iter().map(|found| found.bytes).sum());
    let work = || {
        let mut mine = Survey::default();
        while let Some(found) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            look(found, bench, &bar, &mut mine);
        }
        mine
    };
    let mut all = Survey::default();
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
    for folder in &walked.closed {
        all.take_broken(&Default::default(), folder.clone(), 0);
    }
    bar.shown.finish_and_clear();
    all
}

/// Looks at one file.
fn look(found: &Found, bench: &Bench, bar: &Bar, survey: &mut Survey) {
    let name = found.path.display().to_string();
    let file = match File::open(&found.path) {
        Ok(file) => file,
        Err(error) => return survey.take_broken(&Default::default(), unread(&found.path, &error), 0),
    };
    let stem = found.path.file_stem().unwrap_or_default().to_string_lossy();
    let mut input = BufReader::with_capacity(BUFFER, Counted { file, bar });
    let mut auditor = Auditor::new(bench, &name);
    let transcript = Transcript { name: &stem, format: None, otherwise: None, input: &mut input };
    let read = source::read(transcript, &mut |item| {
        auditor.take(item);
        true
    });
    let nothing = auditor.is_empty();
    let findings = auditor.finish();
    match read {
        Ok(_) if nothing => survey.take_foreign(name, found.bytes),
        Ok(summary) => survey.take(&findings, &summary, found.bytes),
        Err(broken) if is_foreign(&broken, nothing) => survey.take_foreign(name, found.bytes),
        Err(Broken { line, error }) => {
            let place = if line > 0 { format!("{name}:{line}") } else { name };
            let why = Unread { place, code: error.code.as_str().to_owned(), what: error.what };
            survey.take_broken(&findings, why, found.bytes);
        }
    }
}

/// Whether a file is no transcript at all: of no known format, or not even its first line is one.
fn is_foreign(broken: &Broken, nothing: bool) -> bool {
    let code = broken.error.code.as_str();
    code == FOREIGN
        || nothing && broken.line <= 1 && matches!(code, "broken_line" | "not_utf8" | "missing_field")
}

/// A progress bar that shows itself only when there is something to wait for, and somebody who looks.
struct Bar {
    shown: ProgressBar,
    started: Instant,
    wanted: bool,
    show: Once,
}

impl Bar {
    fn new(total: u64) -> Self {
        let shown = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left");
        let shown = shown.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar { shown, started: Instant::now(), wanted: std::io::stderr().is_terminal(), show: Once::new() }
    }

    fn advance(&self, bytes: u64) {
        if !self.wanted {
            return;
        }
        if self.started.elapsed() > PATIENCE {
            self.show.call_once(|| self.shown.set_draw_target(ProgressDrawTarget::stderr()));
        }
        self.shown.inc(bytes);
    }
}

/// A file whose bytes move the bar.
struct Counted<'a> {
    file: File,
    bar: &'a Bar,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bar.advance(read as u64);
        Ok(read)
    }
}
