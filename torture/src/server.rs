//! The PostgreSQL server that is tortured: plain SQL beside the store, databases of our own, and its end by kill -9.

use crate::kit::{Fallible, pause};
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// How often a server that comes up again is asked, and how long between two questions, in milliseconds.
const ASKED: u32 = 1_000;
const BETWEEN_MS: u64 = 10;

/// A statement for all tables of a database but the one that names the schema.
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
pub(crate) struct Sql {
    runtime: Runtime,
    client: Client,
}

impl Sql {
    pub(crate) fn connect(url: &str) -> Fallible<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        });
        let client = client.map_err(|error: tokio_postgres::Error| said(&error))?;
        Ok(Sql { runtime, client })
    }

    /// As [`Sql::connect`], to a server that may still be coming up.
    pub(crate) fn connect_at_last(url: &str) -> Fallible<Self> {
        let mut last = String::new();
        for _ in 0..ASKED {
            match Sql::connect(url) {
                Ok(sql) => return Ok(sql),
                Err(what) => last = what,
            }
            pause(BETWEEN_MS);
        }
        Err(format!("the server does not come back: {last}"))
    }

    pub(crate) fn run(&self, sql: &str) -> Fallible<()> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(|error| said(&error))
    }

    /// The first column of the first row, as text; empty if there is none.
    pub(crate) fn ask(&self, sql: &str) -> Fallible<String> {
        let messages = self.runtime.block_on(self.client.simple_query(sql)).map_err(|error| said(&error))?;
        let first = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(first.unwrap_or_default())
    }

    /// A number; 0 if there is none.
    pub(crate) fn count(&self, sql: &str) -> Fallible<u64> {
        Ok(self.ask(sql)?.parse().unwrap_or(0))
    }
}

fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |refused| refused.message().to_owned())
}

/// A database of our own on the server, gone when it is dropped.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
    server: String,
}

impl Database {
    /// Makes it, empty.
    pub(crate) fn make(server: &str, name: &str) -> Fallible<Self> {
        let (front, _) = server.rsplit_once('/').ok_or("the address of the server names no database")?;
        let sql = Sql::connect(server)?;
        sql.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
        sql.run(&format!("CREATE DATABASE {name}"))?;
        Ok(Database { url: format!("{front}/{name}"), name: name.to_owned(), server: server.to_owned() })
    }

    pub(crate) fn sql(&self) -> Fallible<Sql> {
        Sql::connect_at_last(&self.url)
    }

    /// Takes every row away, for a store that is as good as new.
    pub(crate) fn empty(&self) -> Fallible<()> {
        self.sql()?.run(each_table!("DELETE FROM %I"))
    }

    /// Lets the server say "committed" before it is on the disk, whatever the connection has asked for.
    pub(crate) fn do_not_wait_for_the_disk(&self) -> Fallible<()> {
        let sql = self.sql()?;
        sql.run(
            "CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$",
        )?;
        sql.run(each_table!(
            "CREATE TRIGGER hurry BEFORE INSERT OR UPDATE OR DELETE ON %I \
             FOR EACH STATEMENT EXECUTE FUNCTION hurry()"
        ))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server of the tests goes away as a whole; what is left there for a while hurts nobody.
        let gone = Sql::connect(&self.server)
            .and_then(|sql| sql.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)));
        drop(gone);
    }
}

/// Ends the server's checkpointer with SIGKILL. The server then ends all of its processes at once, without another write,
/// and recovers from its log.
pub(crate) fn kill_checkpointer(sql: &Sql) -> Fallible<()> {
    let data = sql.ask("SHOW data_directory")?;
    let pid = sql.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")?;
    if !is_ours(Path::new(&data), &pid) {
        return Err("the server does not run on this machine, so it cannot be killed".to_owned());
    }
    match Command::new("kill").args(["-9", &pid]).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("the server's process {pid} cannot be killed")),
    }
}

/// Whether the process is a child of the server whose data are in this folder of this machine: nobody else is killed.
fn is_ours(data: &Path, pid: &str) -> bool {
    let first_line = |path: &Path| -> Option<String> {
        std::fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
    };
    let stat = first_line(&Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    // Number, name in brackets, state, parent.
    let Some((name, rest)) = stat.rsplit_once(") ") else { return false };
    let parent = rest.split(' ').nth(1).map(str::to_owned);
    name.ends_with("(postgres") && parent.is_some() && parent == first_line(&data.join("postmaster.pid"))
}
