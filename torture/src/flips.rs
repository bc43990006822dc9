//! D5: bytes of the files are changed, or their ends are cut off. The whole history is sent again with the same ids,
//! and some new events: every answer is the reference's, or an error; never another decision.

use crate::kit::{Ask, Dice, Engine, Fallible, Row, event, fresh, recorder};
use flyball_journal::{Incoming, Probe, Recorder, Refusal};
use std::collections::BTreeMap;
use std::path::Path;

/// Sessions, and events in each.
const SESSIONS: u64 = 4;
/// More than a session remembers by itself: the oldest ids are only in the store.
const EVENTS: u64 = 200;
/// Events that are sent together.
const BATCH: usize = 8;
/// Events in each that are new afterwards.
const MORE: u64 = 4;
/// A page of the database, and a frame of the log with its header.
const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;
/// The header of the log.
const LOG_HEADER: usize = 32;

/// The files of a store: name and content.
type Files = BTreeMap<String, Vec<u8>>;

/// How the store is left before it is damaged.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Everything is in the log.
    Log,
    /// Everything was copied into the database, and the log is empty.
    Database,
    /// Everything was copied, and the log still holds it too.
    Both,
    /// Half was copied, and the log has begun anew since.
    Mixed,
}

impl Shape {
    const ALL: [Shape; 4] = [Shape::Log, Shape::Database, Shape::Both, Shape::Mixed];
}

fn session(number: u64) -> String {
    format!("flip-{number}")
}

fn wrong(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Copies the log into the database.
fn checkpoint(path: &Path, kind: &str) -> Fallible<()> {
    let sql = rusqlite::Connection::open(path).map_err(wrong)?;
    let no_checkpoint = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    sql.set_db_config(no_checkpoint, true).map_err(wrong)?;
    sql.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(())).map_err(wrong)
}

/// Answers by event number.
type Answers = BTreeMap<u64, Result<String, Refusal>>;

/// Submits events of a session. An error ends it.
fn submit(recorder: &Recorder, of: u64, first: u64, last: u64) -> Fallible<Answers> {
    let mut answers = Answers::new();
    for first in (first..=last).step_by(BATCH) {
        let numbers = first..=last.min(first + BATCH as u64 - 1);
        let events: Vec<Incoming> =
            numbers.clone().map(|number| event(&session(of), "c", number)).collect::<Fallible<_>>()?;
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
fn submit_all_sessions(recorder: &Recorder, first: u64, last: u64) -> Fallible<()> {
    (0..SESSIONS).try_for_each(|of| submit(recorder, of, first, last).map(|_| ()))
}

/// A store of a shape, as files.
fn build(folder: &Path, shape: Shape) -> Fallible<Files> {
    let folder = fresh(folder)?;
    let path = folder.join("flyball.db");
    let engine = Engine::Sqlite(path.clone());
    let store = engine.open().map_err(wrong)?;
    let recorder = recorder(store, Probe::default());
    let half = if matches!(shape, Shape::Mixed) { EVENTS / 2 } else { EVENTS };
    submit_all_sessions(&recorder, 1, half)?;
    match shape {
        Shape::Log => {}
        Shape::Database => checkpoint(&path, "TRUNCATE")?,
        Shape::Both => checkpoint(&path, "PASSIVE")?,
        Shape::Mixed => {
            checkpoint(&path, "RESTART")?;
            submit_all_sessions(&recorder, half + 1, EVENTS)?;
        }
    }
    // Read while it is open, as a copy of a running store would be.
    let mut files = Files::new();
    for name in ["flyball.db", "flyball.db-wal"] {
        let path = folder.join(name);
        if path.exists() {
            files.insert(name.to_owned(), std::fs::read(&path).map_err(wrong)?);
        }
    }
    Ok(files)
}

/// Damages one file; says where.
fn damage(files: &mut Files, dice: &mut Dice) -> String {
    let names: Vec<String> =
        files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name.clone()).collect();
    let name = names.get(dice.place(names.len())).cloned().unwrap_or_default();
    let Some(bytes) = files.get_mut(&name) else { return name };
    if dice.percent(15) {
        let length = dice.place(bytes.len());
        bytes.truncate(length);
        return format!("{name} cut at {length}");
    }
    let (start, unit) = if name.ends_with("-wal") { (LOG_HEADER, FRAME) } else { (0, PAGE) };
    let pages = bytes.len().saturating_sub(start) / unit;
    let place = match dice.below(4) {
        0 => dice.place(bytes.len()),
        // The header of the file, or of a page.
        1 if dice.percent(30) => dice.place(100),
        1 => start + dice.place(pages) * unit + dice.place(48),
        // Where a page of an index says which entries it has, and where they are.
        2 if start == 0 => pointer(bytes, dice),
        _ => start + dice.place(pages) * unit + (unit - 1 - dice.place(1024)),
    };
    let change = 1 << dice.below(8);
    let Some(byte) = bytes.get_mut(place) else { return format!("{name}: nothing at {place}") };
    *byte ^= if dice.percent(50) { change } else { u8::try_from(dice.between(1, 255)).unwrap_or(1) };
    format!(
        "{name} byte {place} (page {}, byte {} of it)",
        place.saturating_sub(start) / unit + 1,
        place.saturating_sub(start) % unit
    )
}

/// A byte of the list of entries of some page of an index.
fn pointer(bytes: &[u8], dice: &mut Dice) -> usize {
    let index = |page: &usize| matches!(bytes.get(page * PAGE), Some(2 | 10));
    let pages: Vec<usize> = (1..bytes.len() / PAGE).filter(index).collect();
    let page = pages.get(dice.place(pages.len())).copied().unwrap_or(0) * PAGE;
    let number = |at: usize| bytes.get(page + at).copied().map_or(0, usize::from);
    let entries = number(3) * 256 + number(4);
    page + if dice.percent(20) { dice.place(8) } else { 8 + dice.place(2 * entries) }
}

/// What a damage came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Nothing was noticed, and nothing was different.
    Harmless,
    /// An error told of it.
    Detected,
    /// The history was shorter, and went on as it had before.
    Prefix,
    /// Another decision without an error.
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
    fn get(&mut self, of: u64, kept: u64) -> Fallible<&Expected> {
        if !self.by_kept.contains_key(&(of, kept)) {
            let store = std::sync::Arc::new(flyball_journal::Memory::default());
            let recorder = recorder(store, Probe::default());
            submit(&recorder, of, 1, kept)?;
            let mut expected = submit(&recorder, of, 1, EVENTS + MORE)?
                .into_iter()
                .map(|(number, answer)| Ok((number, answer.map_err(|error| format!("{error:?}"))?)))
                .collect::<Fallible<Expected>>()?;
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
    fn outcome(&mut self, files: &Files) -> Fallible<(Fate, String)> {
        let folder = fresh(self.folder)?;
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).map_err(wrong)?;
        }
        let engine = Engine::Sqlite(folder.join("flyball.db"));
        let Ok(store) = engine.open() else { return Ok((Fate::Detected, String::new())) };
        let seen = store.verify(&mut |_| ());
        let mut refused = !seen.is_ok_and(|lines| lines.is_empty());
        let mut kept = Vec::new();
        for of in 0..SESSIONS {
            kept.push(match store.load(&session(of)) {
                Ok(loaded) => loaded.map_or(0, |loaded| loaded.head.seq),
                Err(_) => EVENTS,
            });
        }
        let recorder = recorder(store, Probe::default());
        for (of, kept) in (0..).zip(&kept) {
            let expected = self.references.get(of, *kept)?;
            for (number, answer) in submit(&recorder, of, 1, EVENTS + MORE)? {
                let wanted = expected.get(&number);
                match answer {
                    Err(_) => refused = true,
                    Ok(decision) if wanted == Some(&decision) => {}
                    Ok(decision) => {
                        let wanted = wanted.cloned().unwrap_or_default();
                        return Ok((
                            Fate::Silent,
                            format!("event {number} of {}: {decision} instead of {wanted}", session(of)),
                        ));
                    }
                }
            }
        }
        let outcome = match (refused, kept.iter().any(|kept| *kept < EVENTS)) {
            (true, _) => Fate::Detected,
            (false, true) => Fate::Prefix,
            (false, false) => Fate::Harmless,
        };
        Ok((outcome, String::new()))
    }
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let folder = ask.folder.join("damaged");
    let mut check = DamageCheck { folder: &folder, references: References::default() };
    let mut dice = Dice::new(ask.seed);
    let mut rows = Vec::new();
    for shape in Shape::ALL {
        let files = build(&ask.folder.join("flips"), shape)?;
        let mut counts: BTreeMap<Fate, u64> = BTreeMap::new();
        let mut wrong = Vec::new();
        let (whole, what) = check.outcome(&files)?;
        if whole != Fate::Harmless {
            wrong.push(format!("the undamaged store is {whole:?}: {what}"));
        }
        let flips = ask.pick(200, 60) / Shape::ALL.len() as u64;
        for _ in 0..flips {
            let mut damaged = files.clone();
            let place = damage(&mut damaged, &mut dice);
            let (fate, what) = check.outcome(&damaged)?;
            *counts.entry(fate).or_default() += 1;
            if fate == Fate::Silent {
                wrong.push(format!("{place}: {what}"));
            }
        }
        let of = |fate: Fate| counts.get(&fate).copied().unwrap_or(0);
        let seen = format!(
            "{flips} damages: {} harmless, {} detected, {} prefix, {} silent",
            of(Fate::Harmless),
            of(Fate::Detected),
            of(Fate::Prefix),
            of(Fate::Silent)
        );
        rows.push(Row::new(format!("sqlite, {shape:?}"), seen, wrong));
    }
    rows.push(control(ask, &folder)?);
    Ok(rows)
}

/// An undamaged store, compared with a reference in which one decision is another one.
fn control(ask: &Ask, folder: &Path) -> Fallible<Row> {
    let files = build(&ask.folder.join("flips"), Shape::Database)?;
    let references = References { forged: Some((1, EVENTS / 2)), ..References::default() };
    let (fate, what) = DamageCheck { folder, references }.outcome(&files)?;
    let wrong = if fate == Fate::Silent { vec![what] } else { Vec::new() };
    Ok(Row::control("sqlite, one decision of the reference is forged", format!("{fate:?}"), wrong))
}
