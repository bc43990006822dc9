//! Processes that stand guard: each leaves a note when it begins and takes it back when it ends in order. One that was
//! killed cannot, and that is how it is told.

use super::{MOST, SHELF, note};
use crate::words::line;
use flyball_journal::{Desk, If, Note};
use flyball_serve::Post;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a note of a process is called.
const PREFIX: &str = "process ";

/// What the note says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Begun {
    kind: String,
    what: String,
    /// Where its number means something.
    machine: String,
    pid: u32,
    /// When the system says that it began; a number may be used again.
    began: String,
}

/// How a process is.
#[derive(Debug, PartialEq, Eq)]
enum Pulse {
    Beats,
    /// It was stopped, and would go on if it were let.
    Frozen,
    Gone,
    /// It is on another machine.
    Elsewhere,
}

/// This process, while it stands guard.
pub(crate) struct Guard {
    desk: Arc<dyn Desk>,
    key: String,
}

impl Guard {
    /// Stands guard from now on, until it is dropped. Others of the same kind and purpose that fell here are replaced.
    pub(crate) fn stand(desk: &Arc<dyn Desk>, kind: &str, what: &str) -> Option<Self> {
        let pid = std::process::id();
        let begun = Begun {
            kind: kind.to_owned(),
            what: line(what, 200),
            machine: machine()?,
            pid,
            began: stat(pid)?.1,
        };
        let key = format!("{PREFIX}{kind} {} {pid} {}", begun.machine, begun.began);
        for old in desk.notes(SHELF, PREFIX, MOST).ok()? {
            let same = read(&old).is_some_and(|old| (&old.kind, &old.what) == (&begun.kind, &begun.what));
            if same && pulse(&old) == Pulse::Gone {
                let _ = desk.take(SHELF, &old.key);
            }
        }
        let text = serde_json::to_string(&begun).ok()?;
        desk.put(&note(&key, text), If::Any).ok()?;
        Some(Guard { desk: Arc::clone(desk), key })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If it cannot be taken back, it is shown as fallen: that is on the safe side.
        let _ = self.desk.take(SHELF, &self.key);
    }
}

/// The processes that were noted.
pub(super) fn look(noted: &[Note]) -> Vec<Post> {
    let known = noted.iter().filter_map(|note| Some((read(note)?, pulse(note))));
    known
        .map(|(begun, pulse)| {
            let (kind, name) = (format!("flyball {}", begun.kind), begun.what);
            match pulse {
                Pulse::Beats => Post::standing(kind, name),
                Pulse::Elsewhere => Post::standing(kind, format!("{name} (on another machine)")),
                Pulse::Frozen => Post::fallen(kind, name, "it was stopped, and has not gone on"),
                Pulse::Gone => Post::fallen(kind, name, "it ended without saying so, as if killed"),
            }
        })
        .collect()
}

/// Whether a note is of a process that is at work.
pub(super) fn is_alive(note: &Note) -> bool {
    read(note).is_some() && matches!(pulse(note), Pulse::Beats | Pulse::Elsewhere)
}

fn read(note: &Note) -> Option<Begun> {
    note.key.strip_prefix(PREFIX)?;
    serde_json::from_str(&note.text).ok()
}

fn pulse(note: &Note) -> Pulse {
    let Some(begun) = read(note) else { return Pulse::Elsewhere };
    if machine().as_ref() != Some(&begun.machine) {
        return Pulse::Elsewhere;
    }
    match stat(begun.pid) {
        Some((state, began)) if began == begun.began => match state.as_str() {
            "T" | "t" => Pulse::Frozen,
            "Z" | "X" => Pulse::Gone,
            _ => Pulse::Beats,
        },
        _ => Pulse::Gone,
    }
}

/// Where the number of a process means something: this start of the system, and the space that numbers are given in.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), space.display()))
}

/// The state of a process, and when it began.
fn stat(pid: u32) -> Option<(String, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.to_owned();
    Some((state, words.nth(18)?.to_owned()))
}
