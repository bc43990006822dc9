//! File operations of a child, and the files that a power loss at some moment would leave.
//!
//! Everything before the last sync of a file is on disk. Of the later changes some survive, complete or torn at
//! sectors of 512 bytes, in any order. Directory entries are assumed to be durable at once.

use crate::audit::Ack;
use crate::harness::{TortureResult, TortureRng};
use std::collections::BTreeMap;
use std::path::Path;

/// Size of a sector, which a disk writes atomically.
const SECTOR: usize = 512;

/// One file operation.
#[derive(Debug, Clone)]
pub(crate) enum FileOp {
    Write { file: String, at: usize, data: Vec<u8> },
    Truncate { file: String, size: usize },
    Sync { file: String },
    Create { file: String },
    Remove { file: String },
    Rename { from: String, to: String },
    Printed { text: String },
    ProcessStarted,
}

/// All operations in order.
#[derive(Debug, Default)]
pub(crate) struct FileTrace(pub(crate) Vec<FileOp>);

impl FileTrace {
    pub(crate) fn read(path: &Path) -> TortureResult<Self> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut rest = bytes.as_slice();
        let mut steps = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, more) = rest.split_at(end);
            let head = String::from_utf8_lossy(head).into_owned();
            let child_args: Vec<&str> = head.split(' ').collect();
            let [what, file, number, length] = child_args.as_slice() else {
                return Err(format!("trace: {head}"));
            };
            let number: usize = number.parse().map_err(|_| format!("trace: {head}"))?;
            let length: usize = length.parse().map_err(|_| format!("trace: {head}"))?;
            let more = more.get(1..).unwrap_or_default();
            let Some((data, more)) = more.split_at_checked(length) else { break };
            rest = more;
            let file = (*file).to_owned();
            let text = || String::from_utf8_lossy(data).into_owned();
            steps.push(match *what {
                "W" => FileOp::Write { file, at: number, data: data.to_vec() },
                "T" => FileOp::Truncate { file, size: number },
                "S" => FileOp::Sync { file },
                "C" => FileOp::Create { file },
                "U" => FileOp::Remove { file },
                "R" => FileOp::Rename { from: file, to: text() },
                "G" => FileOp::ProcessStarted,
                _ => FileOp::Printed { text: text() },
            });
        }
        Ok(FileTrace(steps))
    }

    /// The acknowledgements before a moment.
    pub(crate) fn acks(&self, moment: usize) -> Vec<Ack> {
        let said = self.0.iter().take(moment).filter_map(|step| match step {
            FileOp::Printed { text } => Some(text.lines().filter_map(Ack::parse)),
            _ => None,
        });
        said.flatten().collect()
    }

    /// Number of syncs, and of commits in the write-ahead log: frames whose header contains the size of the database.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let syncs = self.0.iter().filter(|step| matches!(step, FileOp::Sync { .. })).count();
        let commit = |step: &&FileOp| match step {
            FileOp::Write { file, data, .. } if file.ends_with("-wal") && data.len() == 24 => {
                data.get(4..8).is_some_and(|size| size != [0; 4])
            }
            _ => false,
        };
        (syncs, self.0.iter().filter(commit).count())
    }

    /// Moments right after an acknowledgement, where a loss is worst.
    pub(crate) fn moments_after_acks(&self) -> Vec<usize> {
        let said = self.0.iter().enumerate().filter(|(_, step)| matches!(step, FileOp::Printed { .. }));
        said.map(|(place, _)| place + 1).collect()
    }

    /// Moments right after the first acknowledgement of a process: the data it found may never have been synced.
    pub(crate) fn moments_after_first_acks(&self) -> Vec<usize> {
        let mut moments = Vec::new();
        let mut silent = false;
        for (place, step) in self.0.iter().enumerate() {
            match step {
                FileOp::ProcessStarted => silent = true,
                FileOp::Printed { text } if silent && text.starts_with("A ") => {
                    silent = false;
                    moments.push(place + 1);
                }
                _ => {}
            }
        }
        moments
    }

    /// Writes the files that a power loss before operation `moment` leaves into a directory.
    pub(crate) fn write_remains(
        &self,
        moment: usize,
        rng: &mut TortureRng,
        folder: &Path,
    ) -> TortureResult<()> {
        let mut files: BTreeMap<String, FileContent> = BTreeMap::new();
        for step in self.0.iter().take(moment) {
            match step {
                FileOp::Write { file, .. } | FileOp::Truncate { file, .. } => {
                    files.entry(file.clone()).or_default().unsynced.push(step.clone());
                }
                FileOp::Sync { file } => files.entry(file.clone()).or_default().sync(),
                FileOp::Create { file } => {
                    files.entry(file.clone()).or_default();
                }
                FileOp::Remove { file } => {
                    files.remove(file);
                }
                FileOp::Rename { from, to } => {
                    if let Some(content) = files.remove(from) {
                        files.insert(to.clone(), content);
                    }
                }
                FileOp::Printed { .. } | FileOp::ProcessStarted => {}
            }
        }
        let style = LossMode::random(rng);
        for (name, content) in files {
            let path = folder.join(name);
            let left = content.remains(style, rng);
            std::fs::write(&path, left).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Which unsynced writes survive.
#[derive(Debug, Clone, Copy)]
enum LossMode {
    /// None.
    None,
    /// All.
    All,
    /// Each one at random.
    Random,
    /// Each sector at random.
    Torn,
    /// Only later ones.
    LaterOnly,
}

impl LossMode {
    fn random(rng: &mut TortureRng) -> Self {
        let all = [LossMode::None, LossMode::All, LossMode::Random, LossMode::Torn, LossMode::LaterOnly];
        all.get(rng.index(all.len())).copied().unwrap_or(LossMode::None)
    }
}

/// A file: its content on disk, and the changes in the page cache.
#[derive(Debug, Default)]
struct FileContent {
    disk: Vec<u8>,
    unsynced: Vec<FileOp>,
}

impl FileContent {
    fn sync(&mut self) {
        for step in std::mem::take(&mut self.unsynced) {
            apply(&mut self.disk, &step);
        }
    }

    fn remains(mut self, style: LossMode, rng: &mut TortureRng) -> Vec<u8> {
        let mut steps = std::mem::take(&mut self.unsynced);
        let count = steps.len();
        if matches!(style, LossMode::Random | LossMode::Torn) {
            for place in (1..count).rev() {
                steps.swap(place, rng.index(place + 1));
            }
        }
        for (place, step) in steps.iter().enumerate() {
            let survives = match style {
                LossMode::None => false,
                LossMode::All | LossMode::Torn => true,
                LossMode::Random => rng.percent(50),
                LossMode::LaterOnly => place * 2 >= count,
            };
            match step {
                FileOp::Write { at, data, .. } if matches!(style, LossMode::Torn) => {
                    apply_torn(&mut self.disk, *at, data, rng);
                }
                _ if survives => apply(&mut self.disk, step),
                _ => {}
            }
        }
        self.disk
    }
}

fn write_at(disk: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if disk.len() < end {
        disk.resize(end, 0);
    }
    if let Some(place) = disk.get_mut(at..end) {
        place.copy_from_slice(data);
    }
}

fn apply(disk: &mut Vec<u8>, step: &FileOp) {
    match step {
        FileOp::Write { at, data, .. } => write_at(disk, *at, data),
        FileOp::Truncate { size, .. } => disk.resize(*size, 0),
        _ => {}
    }
}

/// Applies random sectors of a write.
fn apply_torn(disk: &mut Vec<u8>, at: usize, data: &[u8], rng: &mut TortureRng) {
    let mut from = 0;
    while from < data.len() {
        let sector_end = ((at + from) / SECTOR + 1) * SECTOR - at;
        let to = sector_end.min(data.len());
        if rng.percent(60)
            && let Some(part) = data.get(from..to)
        {
            write_at(disk, at + from, part);
        }
        from = to;
    }
}
