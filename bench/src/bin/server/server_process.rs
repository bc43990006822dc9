//! A server process and its memory usage.

use crate::BenchResult;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server that is stopped on drop.
pub(crate) struct BenchServer {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) key: String,
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BenchServer {
    /// Starts `flyball serve` on a store, with an agent key.
    pub(crate) fn flyball(flyball: &str, store: &str, args: &[&str]) -> BenchResult<Self> {
        let made = Command::new(flyball)
            .args(["token", "create", "bench", "--role", "agent", "--json", "--store", store])
            .output()?;
        let key: serde_json::Value = serde_json::from_slice(&made.stdout)?;
        let key = key["secret"].as_str().ok_or("no key")?.to_owned();
        let mut command = Command::new(flyball);
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-socket", "--store", store]).args(args);
        BenchServer::start(command, key)
    }

    /// Starts the baseline server.
    pub(crate) fn hello() -> BenchResult<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("hello");
        BenchServer::start(command, String::new())
    }

    fn start(mut command: Command, key: String) -> BenchResult<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let err = child.stderr.take().ok_or("no stderr")?;
        let mut lines = BufReader::new(err).lines();
        let mut server = BenchServer { child, address: String::new(), key };
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, rest)) = line.split_once("http://") {
                let end = rest.find([',', ' ']).unwrap_or(rest.len());
                rest.get(..end).unwrap_or_default().clone_into(&mut server.address);
                break;
            }
        }
        // Drain its output, so that it never blocks.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        if server.address.is_empty() { Err("the server did not start".into()) } else { Ok(server) }
    }

    /// Resident memory of the process.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}
