//! Processes that stand guard: each leaves a note when it begins and takes it back when it ends in order. One that was
//! killed cannot, and that is how it is told.

use super::{MOST, SHELF, note};
use crate::words::line;
use flyball_journal::{Desk, If, Note};
use flyball_serve::Post;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// How a note of a process is called.
const PREFIX: &str = "process ";

/// How long a note is good for, in milliseconds of store time. Whoever sees that the process is at work renews it; of one
/// that is gone, or was on a machine that is no more, nothing is left after that.
const GOOD_MS: u64 = 24 * 60 * 60 * 1_000;

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
struct Guard {
    desk: Arc<dyn Desk>,
    key: String,
}

impl Guard {
    /// Stands guard from now on, until it is dropped. Others of the same kind and purpose that fell here are replaced.
    fn stand(desk: &Arc<dyn Desk>, kind: &str, what: &str) -> Option<Self> {
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
        let until = desk.now().ok()?.saturating_add(GOOD_MS);
        desk.put(&Note { until: Some(until), ..note(&key, text) }, If::Any).ok()?;
        Some(Guard { desk: Arc::clone(desk), key })
    }
}

/// Keeps a registration from the moment the process is ready until this is dropped.
#[derive(Clone, Default)]
pub(crate) struct RegistrationSlot(Arc<Mutex<Option<Guard>>>);

impl RegistrationSlot {
    /// The callback that registers the process. Call it once signals are handled: a process that registers earlier and
    /// is stopped at once dies without removing its entry, and is reported as killed.
    pub(crate) fn on_ready(
        &self,
        desk: &Arc<dyn Desk>,
        kind: &'static str,
        purpose: String,
    ) -> Box<dyn FnOnce() + Send> {
        let (slot, desk) = (self.clone(), Arc::clone(desk));
        Box::new(move || {
            *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Guard::stand(&desk, kind, &purpose);
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If it cannot be taken back, it is shown as fallen: that is on the safe side.
        let _ = self.desk.take(SHELF, &self.key);
    }
}

/// The notes of those who are at work here are good for a while longer.
pub(super) fn renew(desk: &dyn Desk, noted: &[Note]) {
    let Ok(now) = desk.now() else { return };
    let old = |note: &&Note| note.until.is_some_and(|until| until < now.saturating_add(GOOD_MS / 2));
    for old in noted.iter().filter(old).filter(|note| read(note).is_some() && pulse(note) == Pulse::Beats) {
        // If it cannot be done now it is done in a second.
        let _ =
            desk.put(&Note { until: Some(now.saturating_add(GOOD_MS)), ..old.clone() }, If::Was(&old.text));
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

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_journal::Memory;

    fn noted(desk: &dyn Desk) -> Vec<Note> {
        desk.notes(SHELF, PREFIX, MOST).unwrap()
    }

    #[test]
    fn a_note_goes_with_its_process_and_is_renewed_while_it_is_at_work() {
        let desk: Arc<dyn Desk> = Arc::new(Memory::default());
        let guard = Guard::stand(&desk, "proxy", "here -> there").unwrap();
        let all = noted(desk.as_ref());
        assert_eq!((all.len(), look(&all)[0].fallen.clone(), is_alive(&all[0])), (1, None, true));
        let old = Note { until: Some(desk.now().unwrap() + 60_000), ..all[0].clone() };
        desk.put(&old, If::Any).unwrap();
        renew(desk.as_ref(), &noted(desk.as_ref()));
        assert!(noted(desk.as_ref())[0].until > old.until);
        drop(guard);
        assert_eq!(noted(desk.as_ref()), Vec::new());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let desk: Arc<dyn Desk> = Arc::new(Memory::default());
        let _guard = Guard::stand(&desk, "proxy", "here -> there").unwrap();
        let mut all = noted(desk.as_ref());
        all[0].text = all[0].text.replace("\"began\":\"", "\"began\":\"9");
        assert!(look(&all)[0].fallen.is_some());
        all[0].text = all[0].text.replace("\"machine\":\"", "\"machine\":\"other");
        assert!(look(&all)[0].name.contains("another machine"));
    }
}
