//! A database for each test, plain SQL beside the store, and sessions to put into it.

use flyball::{Status, Verdict};
use flyball_journal::{Change, Head, LabelChange, PendingRow, Postgres, Record, RowChange, Unit};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A fresh database, taken away at the end.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
    server: String,
}

/// A connection for plain SQL.
pub(crate) struct Sql {
    runtime: Runtime,
    client: Client,
}

impl Sql {
    pub(crate) fn connect(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Sql { runtime, client }
    }

    pub(crate) fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// The first column of the first row, as text.
    pub(crate) fn ask(&self, sql: &str) -> Option<String> {
        let messages = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        })
    }

    /// Waits until a question is answered with `t`.
    pub(crate) fn until(&self, sql: &str) {
        for _ in 0..1000 {
            if self.ask(sql).as_deref() == Some("t") {
                return;
            }
            self.run("SELECT pg_sleep(0.01)");
        }
        panic!("it never came true: {sql}");
    }
}

impl Database {
    /// `None`, with a word about it, if there is no server to test against.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("FLYBALL_TEST_POSTGRES") else {
            println!("skipped: FLYBALL_TEST_POSTGRES names no server");
            return None;
        };
        let name = format!("flyball_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Sql::connect(&server).run(&format!("CREATE DATABASE {name}"));
        let (front, _) = server.rsplit_once('/').unwrap();
        Some(Database { url: format!("{front}/{name}"), name, server })
    }

    pub(crate) fn open(&self) -> Postgres {
        Postgres::open(&self.url).unwrap()
    }

    pub(crate) fn sql(&self) -> Sql {
        Sql::connect(&self.url)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        Sql::connect(&self.server).run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// A head from which a session starts.
pub(crate) fn start(session: &str) -> Head {
    Head { session: session.to_owned(), policy: "p1".to_owned(), ..Head::default() }
}

/// A step of `events` events after `head`, which is moved to where the step leads.
pub(crate) fn step(head: &mut Head, events: u64) -> Change {
    let new = head.rev == 0;
    let epoch = head.epoch;
    head.rev += 1;
    let mut records = Vec::new();
    for _ in 0..events {
        head.seq += 1;
        let mut record = Record {
            seq: head.seq,
            at: Some(1_000 * head.seq),
            nonce: u64::MAX - head.seq,
            epoch,
            id: Some(format!("id-{}", head.seq)),
            body: u64::MAX / head.seq,
            text: format!("{{\"n\":{}}}", head.seq),
            whole: true,
            decision: "{\"verdict\":\"allow\"}".to_owned(),
            verdict: Verdict::Allow,
            status: Status::Running,
            chain: [0; 16],
        };
        record.chain = record.chained(&head.chain);
        head.chain = record.chain;
        head.updated = 1_000 * head.seq;
        records.push(record);
    }
    Change {
        new,
        head: head.clone(),
        epoch,
        records,
        snapshot: None,
        row: RowChange::Keep,
        label: LabelChange::Keep,
        errands: Vec::new(),
    }
}

/// A step that also stores the state after it.
pub(crate) fn step_with_state(head: &mut Head, events: u64, state: &[u8]) -> Change {
    head.snapshot = head.seq + events;
    let mut change = step(head, events);
    change.snapshot = Some(state.to_vec());
    change
}

pub(crate) fn one(change: Change) -> Unit {
    Unit { changes: vec![change] }
}

/// A plan that waits.
pub(crate) fn plan(session: &str) -> PendingRow {
    PendingRow {
        session_id: session.to_owned(),
        pending_plan: "[{\"tool\":\"wipe\",\"args\":{}}]".to_owned(),
        confirmation_question: "Wipe it?".to_owned(),
        requester: Some("ann".to_owned()),
        digest: "d1".to_owned(),
        status: "awaiting".to_owned(),
        created_at: "2025-10-11 12:40:00".to_owned(),
        expires_at: Some("2025-10-11 12:50:00".to_owned()),
        updated_at: "2025-10-11 12:40:00".to_owned(),
    }
}
