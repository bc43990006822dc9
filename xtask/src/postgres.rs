//! A PostgreSQL server for the tests: made in a fresh folder, gone when it is dropped.
//!
//! It keeps the server's own care for the disk (`fsync` stays on), because that is what the tests are about.

use crate::run::say;
use crate::tools;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian and its kin keep the server's programs, one folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The package that brings them.
const PACKAGE: &str = "postgresql";
/// How many folders are tried before we give up.
const FOLDERS: u32 = 100;

/// A running server.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    root: bool,
}

impl Server {
    /// Starts a server that only this machine can reach.
    ///
    /// # Errors
    /// If there is no PostgreSQL here and it cannot be installed, or it does not start; the text says what to do.
    pub(crate) fn start() -> Result<Self, String> {
        let root = tools::is_root();
        let programs = programs().map_or_else(|| install(root), Ok)?;
        let server = Server { programs, folder: folder(root)?, port: free_port()?, root };
        if root {
            // The server refuses to run as root; the package made a user for it.
            let owner = Command::new("chown").arg("postgres").arg(&server.folder).output();
            succeeded("chown", owner)?;
        }
        let data = server.data();
        let made = ["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        server.run("initdb", &made)?;
        let log = server.folder.join("log").display().to_string();
        let settings = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={} -c max_connections=200 -c fsync=on",
            server.port,
            server.folder.display()
        );
        server
            .run("pg_ctl", &["-D", &data, "-l", &log, "-w", "-o", &settings, "start"])
            .map_err(|what| format!("{what}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
        say(&format!("\nPostgreSQL runs for the tests: {}", server.url()));
        Ok(server)
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    /// Runs one of the server's programs, as its user.
    fn run(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let path = self.programs.join(program);
        let mut command = if self.root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        succeeded(program, command.args(args).current_dir(&self.folder).stdin(Stdio::null()).output())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What cannot be stopped or removed is said, but is no reason to fail: the tests are over.
        let stopped = self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
        let there = self.folder.join("data/postmaster.pid").exists();
        if let (Err(what), true) = (stopped, there) {
            say(&format!("PostgreSQL of the tests does not stop: {what}"));
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            say(&format!("{} cannot be removed: {error}", self.folder.display()));
        }
    }
}

/// The folder that holds the server's programs: from the path, or the newest version there is.
fn programs() -> Option<PathBuf> {
    let complete =
        |folder: &Path| ["initdb", "postgres", "pg_ctl"].iter().all(|program| folder.join(program).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(|folder| complete(folder)) {
        return Some(folder);
    }
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, folder)| complete(folder))
        .collect();
    versions.sort();
    versions.pop().map(|(_, folder)| folder)
}

fn install(root: bool) -> Result<PathBuf, String> {
    if root {
        tools::install(PACKAGE)?;
    }
    programs()
        .ok_or_else(|| format!("PostgreSQL is missing; install it, for example: apt-get install {PACKAGE}"))
}

/// A fresh folder, with a short name: the path of a socket may not be long.
fn folder(root: bool) -> Result<PathBuf, String> {
    // What root calls its temporary folder may be closed to the server's user.
    let above = if root { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    for number in 0..FOLDERS {
        let folder = above.join(format!("flyball-pg-{}-{number}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot make {}: {error}", folder.display())),
        }
    }
    Err(format!("{} is full of folders of ours", above.display()))
}

/// A port that nobody listens on at this moment.
fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("there is no free port: {error}"))
}

fn succeeded(program: &str, done: std::io::Result<std::process::Output>) -> Result<(), String> {
    let done = done.map_err(|error| format!("cannot start {program}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(format!("{program} failed: {said}"))
}

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod tests;
