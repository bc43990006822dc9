//! Whether the server can do its work: something is written to the store and read back. The finding is good for a
//! second, so that asking costs the store nothing.

use crate::office::Office;
use flyball_journal::{Desk, If, Note};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long the round trip may take.
const LONGEST: Duration = Duration::from_secs(3);
/// How long a finding is good for.
const GOOD: Duration = Duration::from_secs(1);
/// Where the note lies.
const SHELF: &str = "ready";
/// How long the note lies there, in milliseconds.
const NOTE_MS: u64 = 60_000;

/// What was found last: a code if something is wrong.
type Finding = Option<(Instant, Result<(), &'static str>)>;

/// What was found last, by whoever looks at the moment.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    last: Arc<Mutex<Finding>>,
    /// The name of our note: two servers on one store look past each other.
    name: OnceLock<String>,
}

/// Whether the server can do its work; else a code.
///
/// # Errors
/// If it cannot.
pub(crate) async fn check(office: &Office) -> Result<(), &'static str> {
    if *office.signals.closing().borrow() {
        return Err("stopping");
    }
    let looked = tokio::time::timeout(LONGEST, look(office)).await;
    looked.unwrap_or(Err("store_slow"))
}

/// One looks at a time; a look that takes for ever keeps its place, and the others say so.
async fn look(office: &Office) -> Result<(), &'static str> {
    let ready = &office.signals.ready;
    let mut last = Arc::clone(&ready.last).lock_owned().await;
    if let Some((when, found)) = *last
        && when.elapsed() < GOOD
    {
        return found;
    }
    let desk = Arc::clone(office.recorder.journal());
    let name = ready.name.get_or_init(|| random().unwrap_or_else(|| std::process::id().to_string())).clone();
    let look = tokio::task::spawn_blocking(move || {
        let found = round_trip(desk.as_ref(), &name);
        *last = Some((Instant::now(), found));
        found
    });
    look.await.unwrap_or(Err("internal"))
}

/// A word that nobody else has.
fn random() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(blake3::hash(&bytes).to_hex().to_string())
}

fn round_trip(desk: &dyn Desk, name: &str) -> Result<(), &'static str> {
    let wrong = |error: flyball_journal::StoreError| error.trouble.as_str();
    let word = random().ok_or("internal")?;
    let until = desk.now().map_err(wrong)?.saturating_add(NOTE_MS);
    let note = Note { shelf: SHELF.to_owned(), key: name.to_owned(), text: word.clone(), until: Some(until) };
    desk.put(&note, If::Any).map_err(wrong)?;
    match desk.note(SHELF, name).map_err(wrong)? {
        Some(found) if found.text == word => Ok(()),
        _ => Err("store_forgets"),
    }
}
