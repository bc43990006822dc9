//! D5: bytes of the files are changed, or the files are truncated. Then the whole history is resent with the same
//! ids, and some new events: every answer equals the reference or is an error, never a different decision.

use crate::harness::{
    StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, empty_dir, event, recorder,
};
use flyball_store::{FailpointHook, RecordError, Recorder, Submission};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of sessions.
const SESSIONS: u64 = 4;
/// Events per session: more than a session remembers itself, so the oldest ids are only in the store.
const EVENTS: u64 = 200;
/// Events per submission.
const BATCH: usize = 8;
/// New events per session after the damage.
const NEW_EVENTS: u64 = 4;
/// Size of a database page, and of a log frame with its header.
const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;
/// Size of the log header.
const LOG_HEADER: usize = 32;

/// The files of a store by name.
type StoreFiles = BTreeMap<String, Vec<u8>>;

/// Where the data is before the damage.
#[derive(Debug, Clone, Copy)]
enum StoreLayout {
    /// Everything is in the log.
    Log,
    /// Everything was checkpointed, and the log is empty.
    Database,
    /// Everything was checkpointed, and the log still contains it.
    Both,
    /// Half was checkpointed, and the log has restarted since.
    Mixed,
}

impl StoreLayout {
    const ALL: [StoreLayout; 4] =
        [StoreLayout::Log, StoreLayout::Database, StoreLayout::Both, StoreLayout::Mixed];
}

fn session(number: u64) -> String {
    format!("flip-{number}")
}

fn to_message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs a checkpoint.
fn checkpoint(path: &Path, kind: &str) -> TortureResult<()> {
    let sql = rusqlite::Connection::open(path).map_err(to_message)?;
    let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    sql.set_db_config(no_checkpoint, true).map_err(to_message)?;
    sql.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(())).map_err(to_message)
}

/// Answers by event number.
type Answers = BTreeMap<u64, Result<String, RecordError>>;

/// Submits events of a session. An error ends it.
fn submit(recorder: &Recorder, of: u64, first: u64, last: u64) -> TortureResult<Answers> {
    let mut answers = Answers::new();
    for first in (first..=last).step_by(BATCH) {
        let numbers = first..=last.min(first + BATCH as u64 - 1);
        let events: Vec<Submission> =
            numbers.clone().map(|number| event(&session(of), "c", number)).collect::<TortureResult<_>>()?;
        let mut refused = false;
        for (number, answer) in numbers.zip(recorder.submit_all(events)) {
            refused |= answer.is_err();
            answers.insert(number, answer.map(|decision| decision.to_json()));
        }
        if refused {
            break;
        }
    }
    Ok(answers)
}

/// Submits the same events of every session.
fn submit_all_sessions(recorder: &Recorder, first: u64, last: u64) -> TortureResult<()> {
    (0..SESSIONS).try_for_each(|of| submit(recorder, of, first, last).map(|_| ()))
}

/// The files of a store with a layout.
fn build_store(folder: &Path, shape: StoreLayout) -> TortureResult<StoreFiles> {
    let folder = empty_dir(folder)?;
    let path = folder.join("flyball.db");
    let engine = StoreUnderTest::Sqlite(path.clone());
    let store = engine.open().map_err(to_message)?;
    let recorder = recorder(store, FailpointHook::default());
    let half = if matches!(shape, StoreLayout::Mixed) { EVENTS / 2 } else { EVENTS };
    submit_all_sessions(&recorder, 1, half)?;
    match shape {
        StoreLayout::Log => {}
        StoreLayout::Database => checkpoint(&path, "TRUNCATE")?,
        StoreLayout::Both => checkpoint(&path, "PASSIVE")?,
        StoreLayout::Mixed => {
            checkpoint(&path, "RESTART")?;
            submit_all_sessions(&recorder, half + 1, EVENTS)?;
        }
    }
    // Read them while the store is open, as a copy of a running store would.
    let mut files = StoreFiles::new();
    for name in ["flyball.db", "flyball.db-wal"] {
        let path = folder.join(name);
        if path.exists() {
            files.insert(name.to_owned(), std::fs::read(&path).map_err(to_message)?);
        }
    }
    Ok(files)
}

/// Damages one file; returns where.
fn damage(files: &mut StoreFiles, rng: &mut TortureRng) -> String {
    let names: Vec<String> =
        files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name.clone()).collect();
    let name = names.get(rng.index(names.len())).cloned().unwrap_or_default();
    let Some(bytes) = files.get_mut(&name) else { return name };
    if rng.percent(15) {
        let length = rng.index(bytes.len());
        bytes.truncate(length);
        return format!("{name} truncated at {length}");
    }
    let (start, unit) = if name.ends_with("-wal") { (LOG_HEADER, FRAME) } else { (0, PAGE) };
    let pages = bytes.len().saturating_sub(start) / unit;
    let place = match rng.below(4) {
        0 => rng.index(bytes.len()),
        // The header of the file or of a page.
        1 if rng.percent(30) => rng.index(100),
        1 => start + rng.index(pages) * unit + rng.index(48),
        // The cell pointers of an index page.
        2 if start == 0 => index_pointer_offset(bytes, rng),
        _ => start + rng.index(pages) * unit + (unit - 1 - rng.index(1024)),
    };
    let change = 1 << rng.below(8);
    let Some(byte) = bytes.get_mut(place) else { return format!("{name}: nothing at {place}") };
    *byte ^= if rng.percent(50) { change } else { u8::try_from(rng.between(1, 255)).unwrap_or(1) };
    format!(
        "{name} byte {place} (page {}, byte {} of it)",
        place.saturating_sub(start) / unit + 1,
        place.saturating_sub(start) % unit
    )
}

/// Offset of a byte in the cell pointers of an index page.
fn index_pointer_offset(bytes: &[u8], rng: &mut TortureRng) -> usize {
    let index = |page: &usize| matches!(bytes.get(page * PAGE), Some(2 | 10));
    let pages: Vec<usize> = (1..bytes.len() / PAGE).filter(index).collect();
    let page = pages.get(rng.index(pages.len())).copied().unwrap_or(0) * PAGE;
    let number = |at: usize| bytes.get(page + at).copied().map_or(0, usize::from);
    let entries = number(3) * 256 + number(4);
    page + if rng.percent(20) { rng.index(8) } else { 8 + rng.index(2 * entries) }
}

/// Outcome of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DamageOutcome {
    /// Not detected, and without effect.
    Harmless,
    /// Detected with an error.
    Detected,
    /// The history was shorter, and continued as before.
    Prefix,
    /// A different decision without an error.
    Silent,
}

/// Expected answers by event number.
type Expected = BTreeMap<u64, String>;

/// The answers of an undamaged run in memory when a history is sent once more: by session, and by how many of its events
/// were stored before. An event that was refused is judged again after a release, so the answers depend on that number.
#[derive(Default)]
struct References {
    by_kept: BTreeMap<(u64, u64), Expected>,
    /// For the control: the event of a session whose expected answer is changed.
    forged: Option<(u64, u64)>,
}

impl References {
    fn get(&mut self, of: u64, kept: u64) -> TortureResult<&Expected> {
        if !self.by_kept.contains_key(&(of, kept)) {
            let store = std::sync::Arc::new(flyball_store::MemoryStore::default());
            let recorder = recorder(store, FailpointHook::default());
            submit(&recorder, of, 1, kept)?;
            let mut expected = submit(&recorder, of, 1, EVENTS + NEW_EVENTS)?
                .into_iter()
                .map(|(number, answer)| Ok((number, answer.map_err(|error| format!("{error:?}"))?)))
                .collect::<TortureResult<Expected>>()?;
            if let Some((_, number)) = self.forged.filter(|(session, _)| *session == of)
                && let Some(decision) = expected.get_mut(&number)
            {
                *decision = decision.replacen("\"seq\":", "\"seq\":1", 1);
            }
            self.by_kept.insert((of, kept), expected);
        }
        self.by_kept.get(&(of, kept)).ok_or_else(|| "no reference".to_owned())
    }
}

struct DamageCheck<'a> {
    folder: &'a Path,
    references: References,
}

impl DamageCheck<'_> {
    fn outcome(&mut self, files: &StoreFiles) -> TortureResult<(DamageOutcome, String)> {
        let folder = empty_dir(self.folder)?;
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).map_err(to_message)?;
        }
        let engine = StoreUnderTest::Sqlite(folder.join("flyball.db"));
        let Ok(store) = engine.open() else { return Ok((DamageOutcome::Detected, String::new())) };
        let seen = store.verify(&mut |_| ());
        let mut refused = !seen.is_ok_and(|lines| lines.is_empty());
        let mut kept = Vec::new();
        for of in 0..SESSIONS {
            kept.push(match store.load(&session(of)) {
                Ok(loaded) => loaded.map_or(0, |loaded| loaded.head.seq),
                Err(_) => EVENTS,
            });
        }
        let recorder = recorder(store, FailpointHook::default());
        for (of, kept) in (0..).zip(&kept) {
            let expected = self.references.get(of, *kept)?;
            for (number, answer) in submit(&recorder, of, 1, EVENTS + NEW_EVENTS)? {
                let wanted = expected.get(&number);
                match answer {
                    Err(_) => refused = true,
                    Ok(decision) if wanted == Some(&decision) => {}
                    Ok(decision) => {
                        let wanted = wanted.cloned().unwrap_or_default();
                        return Ok((
                            DamageOutcome::Silent,
                            format!("event {number} of {}: {decision} instead of {wanted}", session(of)),
                        ));
                    }
                }
            }
        }
        let outcome = match (refused, kept.iter().any(|kept| *kept < EVENTS)) {
            (true, _) => DamageOutcome::Detected,
            (false, true) => DamageOutcome::Prefix,
            (false, false) => DamageOutcome::Harmless,
        };
        Ok((outcome, String::new()))
    }
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let folder = options.folder.join("damaged");
    let mut check = DamageCheck { folder: &folder, references: References::default() };
    let mut rng = TortureRng::new(options.seed);
    let mut rows = Vec::new();
    for shape in StoreLayout::ALL {
        let files = build_store(&options.folder.join("flips"), shape)?;
        let mut counts: BTreeMap<DamageOutcome, u64> = BTreeMap::new();
        let mut wrong = Vec::new();
        let (whole, what) = check.outcome(&files)?;
        if whole != DamageOutcome::Harmless {
            wrong.push(format!("the undamaged store is {whole:?}: {what}"));
        }
        let flips = options.pick(200, 60) / StoreLayout::ALL.len() as u64;
        for _ in 0..flips {
            let mut damaged = files.clone();
            let place = damage(&mut damaged, &mut rng);
            let (fate, what) = check.outcome(&damaged)?;
            *counts.entry(fate).or_default() += 1;
            if fate == DamageOutcome::Silent {
                wrong.push(format!("{place}: {what}"));
            }
        }
        let of = |fate: DamageOutcome| counts.get(&fate).copied().unwrap_or(0);
        let seen = format!(
            "{flips} damages: {} harmless, {} detected, {} prefix, {} silent",
            of(DamageOutcome::Harmless),
            of(DamageOutcome::Detected),
            of(DamageOutcome::Prefix),
            of(DamageOutcome::Silent)
        );
        rows.push(TortureRow::new(format!("sqlite, {shape:?}"), seen, wrong));
    }
    rows.push(control_row(options, &folder)?);
    Ok(rows)
}

/// Control: an undamaged store against a reference with one changed decision.
fn control_row(options: &TortureOptions, folder: &Path) -> TortureResult<TortureRow> {
    let files = build_store(&options.folder.join("flips"), StoreLayout::Database)?;
    let references = References { forged: Some((1, EVENTS / 2)), ..References::default() };
    let (fate, what) = DamageCheck { folder, references }.outcome(&files)?;
    let wrong = if fate == DamageOutcome::Silent { vec![what] } else { Vec::new() };
    Ok(TortureRow::control("sqlite, one decision of the reference is forged", format!("{fate:?}"), wrong))
}
