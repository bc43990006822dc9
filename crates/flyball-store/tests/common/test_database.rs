//! A new database per test on the test server, and plain SQL access to it.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use flyball_store::PostgresStore;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A new database, dropped at the end.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    name: String,
    server: String,
}

/// A connection for plain SQL.
pub(crate) struct TestSqlClient {
    runtime: Runtime,
    client: Client,
}

impl TestSqlClient {
    pub(crate) fn connect(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        TestSqlClient { runtime, client }
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// The first column of the first row, as text.
    pub(crate) fn query_text(&self, sql: &str) -> Option<String> {
        let messages = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        })
    }

    /// Waits until a query returns `t`.
    pub(crate) fn until(&self, sql: &str) {
        for _ in 0..1000 {
            if self.query_text(sql).as_deref() == Some("t") {
                return;
            }
            self.execute("SELECT pg_sleep(0.01)");
        }
        panic!("timed out waiting for: {sql}");
    }
}

impl TestDatabase {
    /// Creates a database. Returns `None` and prints a note if there is no test server.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("FLYBALL_TEST_POSTGRES") else {
            println!("skipped: FLYBALL_TEST_POSTGRES is not set");
            return None;
        };
        let name = format!("flyball_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        TestSqlClient::connect(&server).execute(&format!("CREATE DATABASE {name}"));
        let (front, _) = server.rsplit_once('/').unwrap();
        Some(TestDatabase { url: format!("{front}/{name}"), name, server })
    }

    pub(crate) fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.url).unwrap()
    }

    pub(crate) fn sql(&self) -> TestSqlClient {
        TestSqlClient::connect(&self.url)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        TestSqlClient::connect(&self.server)
            .execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}
