//! What a child did to its files, and what a power loss at some moment would have left of them.
//!
//! Everything before the last sync of a file is on the disk. Of the changes after it some survive, whole or torn at
//! sectors of 512 bytes, in any order. Directory entries are taken as written at once.

use crate::audit::Ack;
use crate::kit::{Dice, Fallible};
use std::collections::BTreeMap;
use std::path::Path;

/// A sector: what a disk writes whole or not at all.
const SECTOR: usize = 512;

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Write { file: String, at: usize, data: Vec<u8> },
    Cut { file: String, size: usize },
    Sync { file: String },
    Make { file: String },
    Remove { file: String },
    Rename { from: String, to: String },
    Said { text: String },
    Started,
}

/// All operations in order.
#[derive(Debug, Default)]
pub(crate) struct Trace(pub(crate) Vec<Step>);

impl Trace {
    pub(crate) fn read(path: &Path) -> Fallible<Self> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut rest = bytes.as_slice();
        let mut steps = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, more) = rest.split_at(end);
            let head = String::from_utf8_lossy(head).into_owned();
            let words: Vec<&str> = head.split(' ').collect();
            let [what, file, number, length] = words.as_slice() else { return Err(format!("trace: {head}")) };
            let number: usize = number.parse().map_err(|_| format!("trace: {head}"))?;
            let length: usize = length.parse().map_err(|_| format!("trace: {head}"))?;
            let more = more.get(1..).unwrap_or_default();
            let Some((data, more)) = more.split_at_checked(length) else { break };
            rest = more;
            let file = (*file).to_owned();
            let text = || String::from_utf8_lossy(data).into_owned();
            steps.push(match *what {
                "W" => Step::Write { file, at: number, data: data.to_vec() },
                "T" => Step::Cut { file, size: number },
                "S" => Step::Sync { file },
                "C" => Step::Make { file },
                "U" => Step::Remove { file },
                "R" => Step::Rename { from: file, to: text() },
                "G" => Step::Started,
                _ => Step::Said { text: text() },
            });
        }
        Ok(Trace(steps))
    }

    /// What was acknowledged before a moment.
    pub(crate) fn acks(&self, moment: usize) -> Vec<Ack> {
        let said = self.0.iter().take(moment).filter_map(|step| match step {
            Step::Said { text } => Some(text.lines().filter_map(Ack::read)),
            _ => None,
        });
        said.flatten().collect()
    }

    /// Syncs, and commits of the write-ahead log: frames whose header names the size of the database.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let syncs = self.0.iter().filter(|step| matches!(step, Step::Sync { .. })).count();
        let commit = |step: &&Step| match step {
            Step::Write { file, data, .. } if file.ends_with("-wal") && data.len() == 24 => {
                data.get(4..8).is_some_and(|size| size != [0; 4])
            }
            _ => false,
        };
        (syncs, self.0.iter().filter(commit).count())
    }

    /// Moments right after an acknowledgement, where a loss hurts most.
    pub(crate) fn tender(&self) -> Vec<usize> {
        let said = self.0.iter().enumerate().filter(|(_, step)| matches!(step, Step::Said { .. }));
        said.map(|(place, _)| place + 1).collect()
    }

    /// Moments right after the first acknowledgement of a process: what it found there may never have been synced.
    pub(crate) fn first_words(&self) -> Vec<usize> {
        let mut moments = Vec::new();
        let mut silent = false;
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Started => silent = true,
                Step::Said { text } if silent && text.starts_with("A ") => {
                    silent = false;
                    moments.push(place + 1);
                }
                _ => {}
            }
        }
        moments
    }

    /// Puts what a power loss before operation `moment` leaves into a folder.
    pub(crate) fn crash(&self, moment: usize, dice: &mut Dice, folder: &Path) -> Fallible<()> {
        let mut files: BTreeMap<String, Content> = BTreeMap::new();
        for step in self.0.iter().take(moment) {
            match step {
                Step::Write { file, .. } | Step::Cut { file, .. } => {
                    files.entry(file.clone()).or_default().unsynced.push(step.clone());
                }
                Step::Sync { file } => files.entry(file.clone()).or_default().sync(),
                Step::Make { file } => {
                    files.entry(file.clone()).or_default();
                }
                Step::Remove { file } => {
                    files.remove(file);
                }
                Step::Rename { from, to } => {
                    if let Some(content) = files.remove(from) {
                        files.insert(to.clone(), content);
                    }
                }
                Step::Said { .. } | Step::Started => {}
            }
        }
        let style = Style::throw(dice);
        for (name, content) in files {
            let path = folder.join(name);
            let left = content.left(style, dice);
            std::fs::write(&path, left).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// What becomes of writes that were not synced.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// All vanish.
    None,
    /// All survive.
    All,
    /// Each survives or not.
    Some,
    /// Each sector survives or not.
    Torn,
    /// Only later ones survive.
    Late,
}

impl Style {
    fn throw(dice: &mut Dice) -> Self {
        let all = [Style::None, Style::All, Style::Some, Style::Torn, Style::Late];
        all.get(dice.place(all.len())).copied().unwrap_or(Style::None)
    }
}

/// A file: what is on the disk, and what the system has only in memory.
#[derive(Debug, Default)]
struct Content {
    disk: Vec<u8>,
    unsynced: Vec<Step>,
}

impl Content {
    fn sync(&mut self) {
        for step in std::mem::take(&mut self.unsynced) {
            apply(&mut self.disk, &step);
        }
    }

    fn left(mut self, style: Style, dice: &mut Dice) -> Vec<u8> {
        let mut steps = std::mem::take(&mut self.unsynced);
        let count = steps.len();
        if matches!(style, Style::Some | Style::Torn) {
            for place in (1..count).rev() {
                steps.swap(place, dice.place(place + 1));
            }
        }
        for (place, step) in steps.iter().enumerate() {
            let survives = match style {
                Style::None => false,
                Style::All | Style::Torn => true,
                Style::Some => dice.percent(50),
                Style::Late => place * 2 >= count,
            };
            match step {
                Step::Write { at, data, .. } if matches!(style, Style::Torn) => {
                    torn(&mut self.disk, *at, data, dice);
                }
                _ if survives => apply(&mut self.disk, step),
                _ => {}
            }
        }
        self.disk
    }
}

fn put(disk: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if disk.len() < end {
        disk.resize(end, 0);
    }
    if let Some(place) = disk.get_mut(at..end) {
        place.copy_from_slice(data);
    }
}

fn apply(disk: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { at, data, .. } => put(disk, *at, data),
        Step::Cut { size, .. } => disk.resize(*size, 0),
        _ => {}
    }
}

/// Some sectors of a write survive.
fn torn(disk: &mut Vec<u8>, at: usize, data: &[u8], dice: &mut Dice) {
    let mut from = 0;
    while from < data.len() {
        let sector_end = ((at + from) / SECTOR + 1) * SECTOR - at;
        let to = sector_end.min(data.len());
        if dice.percent(60)
            && let Some(part) = data.get(from..to)
        {
            put(disk, at + from, part);
        }
        from = to;
    }
}
