//! A database for each test on the server of the tests, and plain SQL beside the store.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

use flyball_journal::Postgres;
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
