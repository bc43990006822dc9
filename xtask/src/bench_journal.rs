//! `cargo xtask bench journal`: what the journal costs, each figure beside the plainest program on the same disk.
//!
//! Machines are noisy, so everything is a ratio of two things measured in turn, and the middle of several rounds counts.

use crate::bench;
use crate::outside::succeeded;
use crate::postgres::Server;
use crate::run::{command, run as run_command, run_with, say, target};
use std::fs;
use std::path::PathBuf;

/// Rounds of the comparison of rates.
const ROUNDS: usize = 5;
/// Seconds of each measurement in a round.
const SECONDS: &str = "4";
/// Clients at once.
const CLIENTS: &str = "64";
/// Cold processes of each kind.
const COLD: &str = "200";
/// Processes that share one file, and for how many seconds.
const SHARED: [&str; 2] = ["8", "60"];
/// Events of the long life.
const EVENTS: &str = "1000000";

struct Bench {
    program: PathBuf,
    flyball: String,
    folder: PathBuf,
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    bench::programs()?;
    let folder = target().join("bench-journal");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let bench = Bench {
        program: target().join("release/flyball-bench-journal"),
        flyball: target().join("release/flyball").display().to_string(),
        folder,
    };
    let mut lines = bench.rates()?;
    lines.extend(bench.server()?);
    lines.extend(bench.life()?);
    lines.extend(bench.processes()?);
    let _ = fs::remove_dir_all(&bench.folder);
    say("");
    lines.iter().for_each(|line| say(line));
    Ok(())
}

impl Bench {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn ask(&self, args: &[&str]) -> Result<String, String> {
        let done = run_with(command(&self.program, args), |_| true)?;
        let text = done.output.clone();
        succeeded(done)?;
        Ok(text)
    }

    /// Durable decisions beside commits of one row, by one writer, in turn: each client a task, and each a thread.
    fn rates(&self) -> Result<Vec<String>, String> {
        let (mut tasks, mut threads) = (Vec::new(), Vec::new());
        let mut last = Vec::new();
        for round in 0..ROUNDS {
            let one = self.ask(&["bare", &self.path(&format!("one-{round}.db")), "1", SECONDS])?;
            let rate = |task: &str, ratios: &mut Vec<u64>| {
                let store = format!("sqlite:{}", self.path(&format!("{task}-{round}.db")));
                let said = self.ask(&[task, &store, CLIENTS, SECONDS])?;
                ratios.push(hundredths(first(&said), first(&one)));
                Ok::<_, String>(said)
            };
            let (by_tasks, by_threads) = (rate("rate", &mut tasks)?, rate("threads", &mut threads)?);
            let grouped = self.ask(&["bare", &self.path(&format!("many-{round}.db")), "100", SECONDS])?;
            last = vec![
                format!("SQLite, each client a task, last round: {}", by_tasks.trim()),
                format!("SQLite, each client a thread, last round: {}", by_threads.trim()),
                format!("SQLite, bare, last round: {}", grouped.trim()),
            ];
        }
        for (what, mut ratios) in [("tasks", tasks), ("threads", threads)] {
            ratios.sort_unstable();
            let ratio = ratios.get(ROUNDS / 2).copied().unwrap_or(0);
            let what = format!("SQLite, durable decisions / one commit an event, {what}");
            last.push(verdict(&what, ratio, ratio >= 600, "at least 6"));
        }
        Ok(last)
    }

    /// The same on a server, beside the plainest insert of the server's own benchmark.
    fn server(&self) -> Result<Vec<String>, String> {
        let server = match Server::start() {
            Ok(server) => server,
            Err(why) => return Ok(vec![format!("PostgreSQL: skipped: {why}")]),
        };
        let script = self.path("insert.sql");
        let text = "INSERT INTO bare (text) VALUES (repeat('x', 400));\n";
        fs::write(&script, text).map_err(|error| format!("{script}: {error}"))?;
        let url = server.url();
        let table = "CREATE TABLE bare (no BIGSERIAL PRIMARY KEY, text TEXT NOT NULL)";
        run_command(command("psql", &[&url, "-qc", table])).and_then(succeeded)?;
        let mut lines = Vec::new();
        for clients in ["1", CLIENTS] {
            let args = ["-n", "-c", clients, "-j", "2", "-T", SECONDS, "-f", &script, &url];
            let done = run_with(command("pgbench", &args), |line| line.starts_with("tps"))?;
            let tps = done.output.lines().find(|line| line.starts_with("tps")).unwrap_or_default().to_owned();
            let said = self.ask(&["rate", &url, clients, SECONDS])?;
            let ratio = hundredths(first(&said), first(&tps));
            lines.push(format!("PostgreSQL: pgbench, {clients} clients: {tps}"));
            lines.push(format!("PostgreSQL: {}", said.trim()));
            lines.push(format!(
                "PostgreSQL: decisions / pgbench inserts, {clients} clients: {}",
                shown(ratio)
            ));
        }
        Ok(lines)
    }

    fn life(&self) -> Result<Vec<String>, String> {
        let store = format!("sqlite:{}", self.path("life.db"));
        let said = self.ask(&["growth", &store, EVENTS])?;
        let number = |start: &str| {
            let line = said.lines().find(|line| line.starts_with(start)).unwrap_or_default();
            line.rsplit([' ', ':'])
                .find_map(|word| word.trim().replace('.', "").parse::<u64>().ok())
                .unwrap_or(0)
        };
        let opened = said.lines().find(|line| line.starts_with("opening")).unwrap_or_default().to_owned();
        let micros = first(opened.rsplit(':').next().unwrap_or_default());
        let mut lines: Vec<String> = said.lines().map(|line| format!("a long life: {line}")).collect();
        let cost = number("cost late");
        lines.push(verdict("cost of an event, late / early", cost, cost <= 120, "at most 1.2"));
        let memory = number("memory late");
        lines.push(verdict("memory, late / early", memory, memory <= 120, "flat"));
        lines.push(verdict(
            "seconds to open and answer first",
            micros / 10_000,
            micros < 1_000_000,
            "below 1",
        ));
        Ok(lines)
    }

    fn processes(&self) -> Result<Vec<String>, String> {
        let cold = self.ask(&["cold", &self.flyball, &self.path("cold.db"), COLD])?;
        let ratio = after(&cold, "ratio ");
        let [processes, seconds] = SHARED;
        let shared = self.ask(&["share", &self.flyball, &self.path("shared.db"), processes, seconds])?;
        let fair = after(&shared, "least/most ");
        let errors = before(&shared, " errors");
        Ok(vec![
            cold.trim().to_owned(),
            verdict("a cold process / the bare program", ratio, ratio <= 200, "at most 2"),
            shared.trim().to_owned(),
            verdict("least / most served", fair, fair >= 50 && errors == 0, "at least 0.5, no error"),
        ])
    }
}

pub(crate) fn verdict(name: &str, hundredths: u64, good: bool, goal: &str) -> String {
    let mark = if good { "" } else { "  MISSED" };
    format!("  {name}: {} ({goal}){mark}", shown(hundredths))
}

fn shown(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A quotient in hundredths.
fn hundredths(own: u64, other: u64) -> u64 {
    (own * 100).checked_div(other).unwrap_or(0)
}

/// The first number of a text, decimals left out.
fn first(text: &str) -> u64 {
    let digits: String =
        text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The number with two decimals that follows on a word, in hundredths.
pub(crate) fn after(text: &str, word: &str) -> u64 {
    let rest = text.split(word).nth(1).unwrap_or_default();
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.replace('.', "").parse().unwrap_or(0)
}

/// The number that stands before a word.
fn before(text: &str, word: &str) -> u64 {
    let front = text.split(word).next().unwrap_or_default();
    front.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{after, before, first, hundredths};

    #[test]
    fn numbers_are_read_from_what_the_benchmark_says() {
        assert_eq!(first("12513 decisions/s by 64 clients"), 12_513);
        assert_eq!(first("tps = 2463.12 (without)"), 2_463);
        assert_eq!(after("cold 7521 us, ratio 1.59 (median of 200)", "ratio "), 159);
        assert_eq!(before("least/most 0.93, 0 errors, longest", " errors"), 0);
        assert_eq!(hundredths(12_513, 4_230), 295);
    }
}
