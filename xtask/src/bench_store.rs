//! `cargo xtask bench store`: measures the store against minimal programs on the same disk.
//!
//! Machines are noisy, so every figure is a ratio of two alternating measurements, and the median of several rounds
//! counts.

use crate::bench;
use crate::command::{command, print_line, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use crate::postgres::PostgresServer;
use std::fs;
use std::path::PathBuf;

/// Rounds of the rate comparison.
const ROUNDS: usize = 5;
/// Seconds per measurement.
const SECONDS: &str = "4";
/// Concurrent clients.
const CLIENTS: &str = "64";
/// Cold processes of each kind.
const COLD_PROCESSES: &str = "200";
/// Number of processes sharing one file, and the duration in seconds.
const SHARED_WRITERS: [&str; 2] = ["8", "60"];
/// Events in the long run.
const LONG_RUN_EVENTS: &str = "1000000";

struct StoreBench {
    program: PathBuf,
    flyball: String,
    folder: PathBuf,
}

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    bench::build_programs()?;
    let folder = target_dir().join("bench-journal");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let bench = StoreBench {
        program: target_dir().join("release/flyball-bench-store"),
        flyball: target_dir().join("release/flyball").display().to_string(),
        folder,
    };
    let mut lines = bench.compare_rates()?;
    lines.extend(bench.compare_postgres()?);
    lines.extend(bench.measure_long_run()?);
    lines.extend(bench.measure_shared_file()?);
    let _ = fs::remove_dir_all(&bench.folder);
    print_line("");
    lines.iter().for_each(|line| print_line(line));
    Ok(())
}

impl StoreBench {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn run_bench(&self, args: &[&str]) -> Result<String, String> {
        let done = run_with(command(&self.program, args), |_| true)?;
        let text = done.output.clone();
        into_result(done)?;
        Ok(text)
    }

    /// Durable decisions compared with single-row commits by one writer, with one task or one thread per client.
    fn compare_rates(&self) -> Result<Vec<String>, String> {
        let (mut tasks, mut threads) = (Vec::new(), Vec::new());
        let mut last = Vec::new();
        for round in 0..ROUNDS {
            let one = self.run_bench(&["bare", &self.path(&format!("one-{round}.db")), "1", SECONDS])?;
            let rate = |task: &str, ratios: &mut Vec<u64>| {
                let store = format!("sqlite:{}", self.path(&format!("{task}-{round}.db")));
                let said = self.run_bench(&[task, &store, CLIENTS, SECONDS])?;
                ratios.push(ratio_hundredths(first_number(&said), first_number(&one)));
                Ok::<_, String>(said)
            };
            let (by_tasks, by_threads) = (rate("rate", &mut tasks)?, rate("threads", &mut threads)?);
            let grouped =
                self.run_bench(&["bare", &self.path(&format!("many-{round}.db")), "100", SECONDS])?;
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
            last.push(report_line(&what, ratio, ratio >= 600, "at least 6"));
        }
        Ok(last)
    }

    /// The same on PostgreSQL, compared with plain inserts by pgbench.
    fn compare_postgres(&self) -> Result<Vec<String>, String> {
        let server = match PostgresServer::start() {
            Ok(server) => server,
            Err(why) => return Ok(vec![format!("PostgreSQL: skipped: {why}")]),
        };
        let script = self.path("insert.sql");
        let text = "INSERT INTO bare (text) VALUES (repeat('x', 400));\n";
        fs::write(&script, text).map_err(|error| format!("{script}: {error}"))?;
        let url = server.url();
        let table = "CREATE TABLE bare (no BIGSERIAL PRIMARY KEY, text TEXT NOT NULL)";
        run_command(command("psql", &[&url, "-qc", table])).and_then(into_result)?;
        let mut lines = Vec::new();
        for clients in ["1", CLIENTS] {
            let args = ["-n", "-c", clients, "-j", "2", "-T", SECONDS, "-f", &script, &url];
            let done = run_with(command("pgbench", &args), |line| line.starts_with("tps"))?;
            let tps = done.output.lines().find(|line| line.starts_with("tps")).unwrap_or_default().to_owned();
            let said = self.run_bench(&["rate", &url, clients, SECONDS])?;
            let ratio = ratio_hundredths(first_number(&said), first_number(&tps));
            lines.push(format!("PostgreSQL: pgbench, {clients} clients: {tps}"));
            lines.push(format!("PostgreSQL: {}", said.trim()));
            lines.push(format!(
                "PostgreSQL: decisions / pgbench inserts, {clients} clients: {}",
                format_hundredths(ratio)
            ));
        }
        Ok(lines)
    }

    fn measure_long_run(&self) -> Result<Vec<String>, String> {
        let store = format!("sqlite:{}", self.path("life.db"));
        let said = self.run_bench(&["growth", &store, LONG_RUN_EVENTS])?;
        let number = |start: &str| {
            let line = said.lines().find(|line| line.starts_with(start)).unwrap_or_default();
            line.rsplit([' ', ':'])
                .find_map(|word| word.trim().replace('.', "").parse::<u64>().ok())
                .unwrap_or(0)
        };
        let opened = said.lines().find(|line| line.starts_with("opening")).unwrap_or_default().to_owned();
        let micros = first_number(opened.rsplit(':').next().unwrap_or_default());
        let mut lines: Vec<String> = said.lines().map(|line| format!("long run: {line}")).collect();
        let cost = number("cost late");
        lines.push(report_line("cost of an event, late / early", cost, cost <= 120, "at most 1.2"));
        let memory = number("memory late");
        lines.push(report_line("memory, late / early", memory, memory <= 120, "flat"));
        lines.push(report_line(
            "seconds to open and answer first",
            micros / 10_000,
            micros < 1_000_000,
            "below 1",
        ));
        Ok(lines)
    }

    fn measure_shared_file(&self) -> Result<Vec<String>, String> {
        let cold = self.run_bench(&["cold", &self.flyball, &self.path("cold.db"), COLD_PROCESSES])?;
        let ratio = number_after(&cold, "ratio ");
        let [processes, seconds] = SHARED_WRITERS;
        let shared =
            self.run_bench(&["share", &self.flyball, &self.path("shared.db"), processes, seconds])?;
        let fair = number_after(&shared, "least/most ");
        let errors = number_before(&shared, " errors");
        Ok(vec![
            cold.trim().to_owned(),
            report_line("a cold process / the bare program", ratio, ratio <= 200, "at most 2"),
            shared.trim().to_owned(),
            report_line("least / most served", fair, fair >= 50 && errors == 0, "at least 0.5, no error"),
        ])
    }
}

pub(crate) fn report_line(name: &str, hundredths: u64, good: bool, goal: &str) -> String {
    let mark = if good { "" } else { "  MISSED" };
    format!("  {name}: {} ({goal}){mark}", format_hundredths(hundredths))
}

fn format_hundredths(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A ratio in hundredths.
fn ratio_hundredths(own: u64, other: u64) -> u64 {
    (own * 100).checked_div(other).unwrap_or(0)
}

/// The first number in a text, without decimals.
fn first_number(text: &str) -> u64 {
    let digits: String =
        text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The number with two decimals after a word, in hundredths.
pub(crate) fn number_after(text: &str, word: &str) -> u64 {
    let rest = text.split(word).nth(1).unwrap_or_default();
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.replace('.', "").parse().unwrap_or(0)
}

/// The number before a word.
fn number_before(text: &str, word: &str) -> u64 {
    let front = text.split(word).next().unwrap_or_default();
    front.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{first_number, number_after, number_before, ratio_hundredths};

    #[test]
    fn numbers_are_parsed_from_benchmark_output() {
        assert_eq!(first_number("12513 decisions/s by 64 clients"), 12_513);
        assert_eq!(first_number("tps = 2463.12 (without)"), 2_463);
        assert_eq!(number_after("cold 7521 us, ratio 1.59 (median of 200)", "ratio "), 159);
        assert_eq!(number_before("least/most 0.93, 0 errors, longest", " errors"), 0);
        assert_eq!(ratio_hundredths(12_513, 4_230), 295);
    }
}
