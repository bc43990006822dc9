//! The PostgreSQL server under test: plain SQL access, scratch databases, and crashes by SIGKILL.

use crate::harness::{TortureResult, sleep_ms};
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Maximum attempts to connect to a server that is starting, and the delay between them in milliseconds.
const MAX_CONNECT_ATTEMPTS: u32 = 1_000;
const CONNECT_RETRY_MS: u64 = 10;

/// A statement for all tables of a database except the one with the schema version.
macro_rules! each_table {
    ($what:literal) => {
        concat!(
            "DO $$ DECLARE t name; BEGIN FOR t IN SELECT tablename FROM pg_tables \
             WHERE schemaname = 'public' AND tablename <> 'flyball_meta' LOOP EXECUTE format('",
            $what,
            "', t); END LOOP; END $$"
        )
    };
}

/// A connection for plain SQL.
pub(crate) struct SqlClient {
    runtime: Runtime,
    client: Client,
}

impl SqlClient {
    pub(crate) fn connect(url: &str) -> TortureResult<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        });
        let client = client.map_err(|error: tokio_postgres::Error| error_message(&error))?;
        Ok(SqlClient { runtime, client })
    }

    /// Like [`SqlClient::connect`], for a server that may still be starting.
    pub(crate) fn connect_with_retry(url: &str) -> TortureResult<Self> {
        let mut last = String::new();
        for _ in 0..MAX_CONNECT_ATTEMPTS {
            match SqlClient::connect(url) {
                Ok(sql) => return Ok(sql),
                Err(what) => last = what,
            }
            sleep_ms(CONNECT_RETRY_MS);
        }
        Err(format!("the server did not restart: {last}"))
    }

    pub(crate) fn execute(&self, sql: &str) -> TortureResult<()> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(|error| error_message(&error))
    }

    /// The first column of the first row as text; empty if there is none.
    pub(crate) fn query_text(&self, sql: &str) -> TortureResult<String> {
        let messages =
            self.runtime.block_on(self.client.simple_query(sql)).map_err(|error| error_message(&error))?;
        let first = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(first.unwrap_or_default())
    }

    /// A number; 0 if there is none.
    pub(crate) fn query_count(&self, sql: &str) -> TortureResult<u64> {
        Ok(self.query_text(sql)?.parse().unwrap_or(0))
    }
}

fn error_message(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |refused| refused.message().to_owned())
}

/// A scratch database on the server, dropped with this value.
pub(crate) struct ScratchDatabase {
    pub(crate) url: String,
    name: String,
    server: String,
}

impl ScratchDatabase {
    /// Creates an empty database.
    pub(crate) fn create(server: &str, name: &str) -> TortureResult<Self> {
        let (front, _) = server.rsplit_once('/').ok_or("the server address has no database")?;
        let sql = SqlClient::connect(server)?;
        sql.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
        sql.execute(&format!("CREATE DATABASE {name}"))?;
        Ok(ScratchDatabase {
            url: format!("{front}/{name}"),
            name: name.to_owned(),
            server: server.to_owned(),
        })
    }

    pub(crate) fn sql(&self) -> TortureResult<SqlClient> {
        SqlClient::connect_with_retry(&self.url)
    }

    /// Deletes all rows, to reset the store.
    pub(crate) fn truncate(&self) -> TortureResult<()> {
        self.sql()?.execute(each_table!("DELETE FROM %I"))
    }

    /// Makes the server acknowledge commits before they are on disk, regardless of the connection's setting.
    pub(crate) fn disable_synchronous_commit(&self) -> TortureResult<()> {
        let sql = self.sql()?;
        sql.execute(
            "CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$",
        )?;
        sql.execute(each_table!(
            "CREATE TRIGGER hurry BEFORE INSERT OR UPDATE OR DELETE ON %I \
             FOR EACH STATEMENT EXECUTE FUNCTION hurry()"
        ))
    }
}

impl Drop for ScratchDatabase {
    fn drop(&mut self) {
        // The test server is removed as a whole later, so a leftover does no harm.
        let gone = SqlClient::connect(&self.server)
            .and_then(|sql| sql.execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)));
        drop(gone);
    }
}

/// Kills the server's checkpointer with SIGKILL. The server then terminates all its processes at once, without
/// further writes, and recovers from its log.
pub(crate) fn kill_checkpointer(sql: &SqlClient) -> TortureResult<()> {
    let data = sql.query_text("SHOW data_directory")?;
    let pid = sql.query_text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")?;
    if !is_ours(Path::new(&data), &pid) {
        return Err("the server does not run on this machine, so it cannot be killed".to_owned());
    }
    match Command::new("kill").args(["-9", &pid]).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("cannot kill the server process {pid}")),
    }
}

/// Whether the process is a child of the server with this data directory on this machine. No other process is killed.
fn is_ours(data: &Path, pid: &str) -> bool {
    let first_line = |path: &Path| -> Option<String> {
        std::fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
    };
    let stat = first_line(&Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    // Pid, name in parentheses, state, parent.
    let Some((name, rest)) = stat.rsplit_once(") ") else { return false };
    let parent = rest.split(' ').nth(1).map(str::to_owned);
    name.ends_with("(postgres") && parent.is_some() && parent == first_line(&data.join("postmaster.pid"))
}
