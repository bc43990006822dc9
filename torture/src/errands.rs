//! Effects through crashes: the courier takes errands, performs and marks them, and the receivers count keys.

use crate::child::start;
use crate::kit::{Dice, Engine, Fallible, Words, pause};
use crate::receiver::Receiver;
use crate::server::Sql;
use flyball::policy::{Layer, Origin};
use flyball::{PolicySource, Preset};
use flyball_journal::{
    Change, Desk, Errand, ErrandState, Head, Incoming, LabelChange, Recorder, RecorderOptions, RowChange,
    Unit,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Errands of one run.
const ERRANDS: u64 = 40;
/// Each approved plan goes to a command and to a webhook.
const PLANS: u64 = ERRANDS / 2;
/// A session in which a plan is approved.
const APPROVAL: [&str; 2] = [
    r#""type":"confirmation.requested","at":1000,"plan":[{"tool":"task_delete","args":{"uid":"t1"}}],"question":"Sure?""#,
    r#""type":"confirmation.answered","at":2000,"text":"yes""#,
];
/// Nothing is held by anybody any more: the time that a courier may keep what it took is over.
const TIME_PASSES: &str = "UPDATE flyball_outbox SET due = 0 WHERE state = 'waiting'";

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

/// A policy that sends approved plans to a command, which adds the key to a file, and to a webhook.
pub(crate) fn deliveries(words: &Words) -> Fallible<PolicySource> {
    let command = format!("printf '%s\\n' \"$FLYBALL_KEY\" >> '{}'", words.get("receiver"));
    let tree = serde_json::json!({"journal": {"deliver": [
        {"effects": ["plan.approved"], "command": ["sh", "-c", command], "attempts": 50},
        {"effects": ["plan.approved"], "webhook": words.get("webhook"), "attempts": 50},
    ]}});
    let layer = Layer::from_value(Origin::File { name: "torture".to_owned() }, tree);
    PolicySource::new(vec![layer], Preset::Agent).map_err(|error| format!("{error:?}"))
}

/// Approves plans, each in a session of its own: the errands are in the same commit as the decision.
fn approve(store: &Arc<dyn Desk>, tag: &str, source: PolicySource) -> Fallible<()> {
    let recorder = Recorder::new(Arc::clone(store), source, RecorderOptions::default());
    for plan in 0..PLANS {
        for body in APPROVAL {
            let line = format!(r#"{{"session":"{tag}-{plan}",{body}}}"#);
            let event = Incoming::read(line, None).map_err(|error| error.what)?;
            recorder.submit(event).map_err(|refusal| format!("{refusal:?}"))?;
        }
    }
    Ok(())
}

/// Crashes the courier at a place so many times, then lets one finish.
pub(crate) fn crash_at(
    engine: &Engine,
    tag: &str,
    folder: &Path,
    (point, crashes): (&str, u64),
    dice: &mut Dice,
) -> Fallible<(String, Vec<String>)> {
    let store = engine.open().map_err(|error| error.to_string())?;
    let (file, webhook) = (folder.join("received"), Receiver::start()?);
    let words = Words::default()
        .with("engine", engine.url())
        .with("receiver", file.display())
        .with("webhook", &webhook.address);
    approve(&store, tag, deliveries(&words)?)?;
    let mut wrong = crash(engine, "courier", &words, (point, crashes), dice)?;
    let by_command = received(&file)?;
    let by_webhook = webhook.keys();
    for (name, keys) in [("command", &by_command), ("webhook", &by_webhook)] {
        let distinct: BTreeSet<&String> = keys.iter().collect();
        if distinct.len() as u64 != PLANS {
            wrong.push(format!("{PLANS} plans, but {} keys came to the {name}", distinct.len()));
        }
    }
    let all = by_command.into_iter().chain(by_webhook).collect();
    Ok(counted(store.as_ref(), tag, crashes, all, wrong))
}

/// The same with a courier that says "done" before it performs: the control.
pub(crate) fn crash_hasty(
    engine: &Engine,
    tag: &str,
    folder: &Path,
    (point, crashes): (&str, u64),
    dice: &mut Dice,
) -> Fallible<(String, Vec<String>)> {
    let store = engine.open().map_err(|error| error.to_string())?;
    let keys = (0..ERRANDS).map(|number| format!("{tag}/{number}/notify/0"));
    store.append(&[errands(tag, keys)]).map_err(|error| error.to_string())?;
    let file = folder.join("received");
    let words = Words::default().with("engine", engine.url()).with("receiver", file.display());
    let wrong = crash(engine, "hasty", &words, (point, crashes), dice)?;
    Ok(counted(store.as_ref(), tag, crashes, received(&file)?, wrong))
}

/// Starts couriers that end themselves, and one that does not.
fn crash(
    engine: &Engine,
    mode: &str,
    words: &Words,
    (point, crashes): (&str, u64),
    dice: &mut Dice,
) -> Fallible<Vec<String>> {
    let mut wrong = Vec::new();
    for _ in 0..crashes {
        let hit = dice.between(1, (ERRANDS / crashes).max(1));
        let ended = start(mode, &words.clone().with("point", point).with("hit", hit))?.wait();
        if ended.ok {
            wrong.push("a courier was not ended".to_owned());
        }
        wrong.extend(ended.errors);
        time_passes(engine)?;
    }
    wrong.extend(start(mode, words)?.wait().errors);
    // A command that outlived its courier may still be writing.
    pause(50);
    Ok(wrong)
}

/// What a courier had taken comes back when its time is over; here it is over at once.
fn time_passes(engine: &Engine) -> Fallible<()> {
    match engine {
        Engine::Sqlite(path) => {
            let sql = rusqlite::Connection::open(path).map_err(|error| error.to_string())?;
            sql.busy_timeout(std::time::Duration::from_secs(5)).map_err(|error| error.to_string())?;
            sql.execute_batch(TIME_PASSES).map_err(|error| error.to_string())
        }
        Engine::Postgres(url) => Sql::connect(url)?.run(TIME_PASSES),
    }
}

fn received(file: &Path) -> Fallible<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Every errand came, and only a crash makes one come twice.
fn counted(
    store: &dyn Desk,
    tag: &str,
    crashes: u64,
    received: Vec<String>,
    mut wrong: Vec<String>,
) -> (String, Vec<String>) {
    let distinct: BTreeSet<&String> = received.iter().collect();
    let repeats = (received.len() - distinct.len()) as u64;
    if distinct.len() as u64 != ERRANDS {
        wrong.push(format!("{ERRANDS} errands, but {} keys were received", distinct.len()));
    }
    if repeats > crashes {
        wrong.push(format!("{repeats} repeats in {crashes} crashes"));
    }
    wrong.extend(left(store, tag));
    (format!("{crashes} crashes, {} keys, {repeats} repeats", distinct.len()), wrong)
}

/// Errands of ours that are not done.
fn left(store: &dyn Desk, tag: &str) -> Option<String> {
    let mut left = 0;
    for state in [ErrandState::Waiting, ErrandState::Dead] {
        match store.errands(state, usize::MAX) {
            Ok(errands) => left += errands.iter().filter(|errand| errand.session.starts_with(tag)).count(),
            Err(error) => return Some(error.to_string()),
        }
    }
    (left > 0).then(|| format!("{left} errands are not done"))
}
