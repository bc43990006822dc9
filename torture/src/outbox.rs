//! Deliveries through crashes: the dispatcher claims, delivers and marks messages, and the receivers count keys.

use crate::child::spawn;
use crate::harness::{ChildArgs, StoreUnderTest, TortureResult, TortureRng, sleep_ms};
use crate::postgres_server::SqlClient;
use crate::webhook_receiver::WebhookKeyReceiver;
use flyball::policy::{PolicyLayer, ValueOrigin};
use flyball::{PolicySource, Preset};
use flyball_store::{
    AdminStore, AppendUnit, ConfirmationChange, LabelChange, OutboxMessage, OutboxState, Recorder,
    RecorderOptions, SessionChange, SessionRow, Submission,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Outbox messages of one run.
const OUTBOX_MESSAGES: u64 = 40;
/// Each approved plan goes to a command and a webhook.
const PLANS: u64 = OUTBOX_MESSAGES / 2;
/// A session in which a plan is approved.
const APPROVAL: [&str; 2] = [
    r#""type":"confirmation.requested","at":1000,"plan":[{"tool":"task_delete","args":{"uid":"t1"}}],"question":"Sure?""#,
    r#""type":"confirmation.answered","at":2000,"text":"yes""#,
];
/// Expires all claims, as if the claim time of a dispatcher had passed.
const EXPIRE_CLAIMS: &str = "UPDATE flyball_outbox SET due = 0 WHERE state = 'waiting'";

/// A change that only adds outbox messages.
pub(crate) fn outbox_unit(session: &str, keys: impl Iterator<Item = String>) -> AppendUnit {
    let head = SessionRow { session: session.to_owned(), rev: 1, ..SessionRow::default() };
    let message = |key: String| OutboxMessage {
        key,
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: "0".to_owned(),
        payload: "{}".to_owned(),
        state: OutboxState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    };
    let change = SessionChange {
        metadata_changed: true,
        new: true,
        head,
        epoch: 0,
        records: Vec::new(),
        snapshot: None,
        row: ConfirmationChange::Keep,
        label: LabelChange::Keep,
        outbox_messages: keys.map(message).collect(),
    };
    AppendUnit { changes: vec![change] }
}

/// A policy that delivers approved plans to a command, which appends the key to a file, and to a webhook.
pub(crate) fn delivery_policy(child_args: &ChildArgs) -> TortureResult<PolicySource> {
    let command = format!("printf '%s\\n' \"$FLYBALL_KEY\" >> '{}'", child_args.get("receiver"));
    let tree = serde_json::json!({"journal": {"deliver": [
        {"effects": ["plan.approved"], "command": ["sh", "-c", command], "attempts": 50},
        {"effects": ["plan.approved"], "webhook": child_args.get("webhook"), "attempts": 50},
    ]}});
    let layer = PolicyLayer::from_value(ValueOrigin::File { name: "torture".to_owned() }, tree);
    PolicySource::new(vec![layer], Preset::Agent).map_err(|error| format!("{error:?}"))
}

/// Approves plans, each in a separate session: the outbox messages are in the same commit as the decision.
fn approve_plans(store: &Arc<dyn AdminStore>, tag: &str, source: PolicySource) -> TortureResult<()> {
    let recorder = Recorder::new(Arc::clone(store), source, RecorderOptions::default());
    for plan in 0..PLANS {
        for body in APPROVAL {
            let line = format!(r#"{{"session":"{tag}-{plan}",{body}}}"#);
            let event = Submission::parse(line, None).map_err(|error| error.message)?;
            recorder.submit(event).map_err(|refusal| format!("{refusal:?}"))?;
        }
    }
    Ok(())
}

/// Crashes the dispatcher at a failpoint repeatedly, then lets one finish.
pub(crate) fn crash_dispatcher_at(
    engine: &StoreUnderTest,
    tag: &str,
    folder: &Path,
    (point, crashes): (&str, u64),
    rng: &mut TortureRng,
) -> TortureResult<(String, Vec<String>)> {
    let store = engine.open().map_err(|error| error.to_string())?;
    let (file, webhook) = (folder.join("received"), WebhookKeyReceiver::start()?);
    let child_args = ChildArgs::default()
        .with("engine", engine.url())
        .with("receiver", file.display())
        .with("webhook", &webhook.address);
    approve_plans(&store, tag, delivery_policy(&child_args)?)?;
    let mut wrong = crash_and_finish(engine, "dispatcher", &child_args, (point, crashes), rng)?;
    let by_command = received_keys(&file)?;
    let by_webhook = webhook.keys();
    for (name, keys) in [("command", &by_command), ("webhook", &by_webhook)] {
        let distinct: BTreeSet<&String> = keys.iter().collect();
        if distinct.len() as u64 != PLANS {
            wrong.push(format!("{PLANS} plans, but the {name} received {} keys", distinct.len()));
        }
    }
    let all = by_command.into_iter().chain(by_webhook).collect();
    Ok(check_received(store.as_ref(), tag, crashes, all, wrong))
}

/// Control: the same with a dispatcher that marks messages before it delivers them.
pub(crate) fn crash_premature_dispatcher(
    engine: &StoreUnderTest,
    tag: &str,
    folder: &Path,
    (point, crashes): (&str, u64),
    rng: &mut TortureRng,
) -> TortureResult<(String, Vec<String>)> {
    let store = engine.open().map_err(|error| error.to_string())?;
    let keys = (0..OUTBOX_MESSAGES).map(|number| format!("{tag}/{number}/notify/0"));
    store.append(&[outbox_unit(tag, keys)]).map_err(|error| error.to_string())?;
    let file = folder.join("received");
    let child_args = ChildArgs::default().with("engine", engine.url()).with("receiver", file.display());
    let wrong = crash_and_finish(engine, "premature", &child_args, (point, crashes), rng)?;
    Ok(check_received(store.as_ref(), tag, crashes, received_keys(&file)?, wrong))
}

/// Starts dispatchers that crash, and one that does not.
fn crash_and_finish(
    engine: &StoreUnderTest,
    mode: &str,
    child_args: &ChildArgs,
    (point, crashes): (&str, u64),
    rng: &mut TortureRng,
) -> TortureResult<Vec<String>> {
    let mut wrong = Vec::new();
    for _ in 0..crashes {
        let hit = rng.between(1, (OUTBOX_MESSAGES / crashes).max(1));
        let ended = spawn(mode, &child_args.clone().with("point", point).with("hit", hit))?.wait();
        if ended.ok {
            wrong.push("a dispatcher was not killed".to_owned());
        }
        wrong.extend(ended.errors);
        expire_claims(engine)?;
    }
    wrong.extend(spawn(mode, child_args)?.wait().errors);
    // A command that outlived its dispatcher may still be writing.
    sleep_ms(50);
    Ok(wrong)
}

/// Expires claims, which a crashed dispatcher leaves behind.
fn expire_claims(engine: &StoreUnderTest) -> TortureResult<()> {
    match engine {
        StoreUnderTest::Sqlite(path) => {
            let sql = rusqlite::Connection::open(path).map_err(|error| error.to_string())?;
            sql.busy_timeout(std::time::Duration::from_secs(5)).map_err(|error| error.to_string())?;
            sql.execute_batch(EXPIRE_CLAIMS).map_err(|error| error.to_string())
        }
        StoreUnderTest::Postgres(url) => SqlClient::connect(url)?.execute(EXPIRE_CLAIMS),
    }
}

fn received_keys(file: &Path) -> TortureResult<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Checks that every message arrived, and that only crashes cause duplicates.
fn check_received(
    store: &dyn AdminStore,
    tag: &str,
    crashes: u64,
    received: Vec<String>,
    mut wrong: Vec<String>,
) -> (String, Vec<String>) {
    let distinct: BTreeSet<&String> = received.iter().collect();
    let repeats = (received.len() - distinct.len()) as u64;
    if distinct.len() as u64 != OUTBOX_MESSAGES {
        wrong.push(format!("{OUTBOX_MESSAGES} messages, but {} keys were received", distinct.len()));
    }
    if repeats > crashes {
        wrong.push(format!("{repeats} repeats in {crashes} crashes"));
    }
    wrong.extend(undelivered(store, tag));
    (format!("{crashes} crashes, {} keys, {repeats} repeats", distinct.len()), wrong)
}

/// Our undelivered messages.
fn undelivered(store: &dyn AdminStore, tag: &str) -> Option<String> {
    let mut left = 0;
    for state in [OutboxState::Waiting, OutboxState::Dead] {
        match store.outbox_messages(state, usize::MAX) {
            Ok(messages) => {
                left += messages.iter().filter(|message| message.session.starts_with(tag)).count()
            }
            Err(error) => return Some(error.to_string()),
        }
    }
    (left > 0).then(|| format!("{left} messages are not delivered"))
}
