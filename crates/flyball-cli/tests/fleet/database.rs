//! A fresh PostgreSQL database for one test.

use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh database that is dropped at the end of the test.
pub(crate) struct PostgresTestDatabase {
    server: String,
    name: String,
    pub(crate) url: String,
}

impl PostgresTestDatabase {
    /// Creates a database; `None` if the environment does not name a PostgreSQL server.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("FLYBALL_TEST_POSTGRES") else {
            println!("skipped: FLYBALL_TEST_POSTGRES is not set");
            return None;
        };
        let name = format!("flyball_fleet_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        sql(&server, &format!("CREATE DATABASE {name}"));
        let (front, _) = server.rsplit_once('/').unwrap();
        let url = format!("{front}/{name}");
        Some(PostgresTestDatabase { server, name, url })
    }
}

impl Drop for PostgresTestDatabase {
    fn drop(&mut self) {
        sql(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

fn sql(url: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let work = tokio::spawn(connection);
        client.batch_execute(text).await.unwrap();
        drop(client);
        let _ = work.await;
    });
}
