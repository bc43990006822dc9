//! A PostgreSQL server for the tests: created in a new folder and removed on drop.
//!
//! `fsync` stays on, because durability is what the tests are about.

use crate::command::print_line;
use crate::tools;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folder of the server's programs on Debian and its derivatives, with a subfolder per version.
const DEBIAN_POSTGRES_DIR: &str = "/usr/lib/postgresql";
/// The package that contains them.
const POSTGRES_PACKAGE: &str = "postgresql";
/// Maximum number of folder names tried.
const MAX_DIR_ATTEMPTS: u32 = 100;

/// A running server.
pub(crate) struct PostgresServer {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    root: bool,
}

impl PostgresServer {
    /// Starts a server that only this machine can reach.
    ///
    /// # Errors
    /// If PostgreSQL is missing and cannot be installed, or does not start; the text says what to do.
    pub(crate) fn start() -> Result<Self, String> {
        let root = tools::is_root();
        let programs = find_programs().map_or_else(|| install_postgres(root), Ok)?;
        let server = PostgresServer { programs, folder: fresh_dir(root)?, port: free_port()?, root };
        if root {
            // The server refuses to run as root; the package creates a user for it.
            let owner = Command::new("chown").arg("postgres").arg(&server.folder).output();
            check_output("chown", owner)?;
        }
        let data = server.data_dir();
        let made = ["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        server.run_program("initdb", &made)?;
        let log = server.folder.join("log").display().to_string();
        let settings = format!(
            "-c listen_addresses=127.0.0.1 -c port={} -c unix_socket_directories={} -c max_connections=200 -c fsync=on",
            server.port,
            server.folder.display()
        );
        server
            .run_program("pg_ctl", &["-D", &data, "-l", &log, "-w", "-o", &settings, "start"])
            .map_err(|what| format!("{what}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
        print_line(&format!("\nPostgreSQL for the tests: {}", server.url()));
        Ok(server)
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data_dir(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    /// Runs one of the server's programs as its user.
    fn run_program(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let path = self.programs.join(program);
        let mut command = if self.root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        check_output(program, command.args(args).current_dir(&self.folder).stdin(Stdio::null()).output())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Errors are reported but not fatal: the tests are over.
        let stopped = self.run_program("pg_ctl", &["-D", &self.data_dir(), "-m", "immediate", "-w", "stop"]);
        let there = self.folder.join("data/postmaster.pid").exists();
        if let (Err(what), true) = (stopped, there) {
            print_line(&format!("cannot stop PostgreSQL: {what}"));
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            print_line(&format!("cannot remove {}: {error}", self.folder.display()));
        }
    }
}

/// The folder with the server's programs: from the path, or the newest version installed.
fn find_programs() -> Option<PathBuf> {
    let complete =
        |folder: &Path| ["initdb", "postgres", "pg_ctl"].iter().all(|program| folder.join(program).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(|folder| complete(folder)) {
        return Some(folder);
    }
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN_POSTGRES_DIR)
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

fn install_postgres(root: bool) -> Result<PathBuf, String> {
    if root {
        tools::install_package(POSTGRES_PACKAGE)?;
    }
    find_programs().ok_or_else(|| {
        format!("PostgreSQL is missing; install it, for example: apt-get install {POSTGRES_PACKAGE}")
    })
}

/// A new folder with a short name, because socket paths are limited in length.
fn fresh_dir(root: bool) -> Result<PathBuf, String> {
    // Root's temporary folder may not be accessible to the server's user.
    let above = if root { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    for number in 0..MAX_DIR_ATTEMPTS {
        let folder = above.join(format!("flyball-pg-{}-{number}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot create {}: {error}", folder.display())),
        }
    }
    Err(format!("too many test folders in {}", above.display()))
}

/// A currently unused port.
fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

fn check_output(program: &str, done: std::io::Result<std::process::Output>) -> Result<(), String> {
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
