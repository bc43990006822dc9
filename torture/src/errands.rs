//! Effects through crashes: errands are taken, performed and marked, and the receiver counts keys.

use crate::child::start;
use crate::kit::{Dice, Engine, Fallible, Words, pause};
use flyball_journal::{Change, Desk, Errand, ErrandState, Head, LabelChange, RowChange, Unit};
use std::collections::BTreeSet;
use std::path::Path;

/// Errands of one run.
const ERRANDS: u64 = 40;

/// A change that only leaves errands behind.
pub(crate) fn errands(session: &str, keys: impl Iterator<Item = String>) -> Unit {
    let head = Head { session: session.to_owned(), rev: 1, ..Head::default() };
    let errand = |key: String| Errand {
        key,
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: "0".to_owned(),
        payload: "{}".to_owned(),
        state: ErrandState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    };
    let change = Change {
        seldom: true,
        new: true,
        head,
        epoch: 0,
        records: Vec::new(),
        snapshot: None,
        row: RowChange::Keep,
        label: LabelChange::Keep,
        errands: keys.map(errand).collect(),
    };
    Unit { changes: vec![change] }
}

/// Crashes a courier at a place so many times, then lets one finish.
pub(crate) fn crash_at(
    engine: &Engine,
    tag: &str,
    folder: &Path,
    (point, crashes): (&str, u64),
    dice: &mut Dice,
    early: bool,
) -> Fallible<(String, Vec<String>)> {
    let store = engine.open().map_err(|error| error.to_string())?;
    let keys = (0..ERRANDS).map(|number| format!("{tag}/{number}/notify/0"));
    store.append(&[errands(tag, keys)]).map_err(|error| error.to_string())?;
    let receiver = folder.join("received");
    let words =
        Words::default().with("engine", engine.url()).with("tag", tag).with("receiver", receiver.display());
    let words = if early { words.with("early", "yes") } else { words };
    let mut wrong = Vec::new();
    for _ in 0..crashes {
        let hit = dice.between(1, (ERRANDS / crashes).max(1));
        let ended = start("courier", &words.clone().with("point", point).with("hit", hit))?.wait();
        if ended.ok {
            wrong.push("a courier was not ended".to_owned());
        }
        wrong.extend(ended.errors);
        // What it had taken comes back when its time is over.
        pause(70);
    }
    let ended = start("courier", &words)?.wait();
    wrong.extend(ended.errors);
    let text = std::fs::read_to_string(&receiver).map_err(|error| error.to_string())?;
    let received: Vec<&str> = text.lines().collect();
    let distinct: BTreeSet<&str> = received.iter().copied().collect();
    let repeats = (received.len() - distinct.len()) as u64;
    if distinct.len() as u64 != ERRANDS {
        wrong.push(format!("{ERRANDS} errands, but {} keys were received", distinct.len()));
    }
    if repeats > crashes {
        wrong.push(format!("{repeats} repeats in {crashes} crashes"));
    }
    wrong.extend(left(store.as_ref(), tag));
    Ok((format!("{crashes} crashes, {} keys, {repeats} repeats", distinct.len()), wrong))
}

/// Errands of ours that are not done.
fn left(store: &dyn Desk, tag: &str) -> Option<String> {
    match store.errands(ErrandState::Waiting, usize::MAX) {
        Ok(waiting) => {
            let waiting = waiting.iter().filter(|errand| errand.session == tag).count();
            (waiting > 0).then(|| format!("{waiting} errands still wait"))
        }
        Err(error) => Some(error.to_string()),
    }
}
