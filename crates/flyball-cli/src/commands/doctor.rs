//! `flyball doctor`: checks the setup, one line per check, with help for each failure.

mod hook_checks;
mod hook_run_checks;
mod round_trip;
mod store_files;

pub(crate) use round_trip::run_step;

use crate::args::DoctorArgs;
use crate::caller_check;
use crate::clock;
use crate::color::{TextStyle, style_stdout};
use crate::coverage::StoreCoverageProbe;
use crate::error::{CliError, Exit};
use crate::formatting::{format_duration, plural};
use crate::plan_printer;
use crate::policy_loader;
use crate::store;
use flyball::{Preset, SessionPhase};
use flyball_store::{AdminStore, OutboxState, RedactingParser, SessionFilter, StoreAddress};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::{IsTerminal, Write};

/// Maximum clock difference to the store, and maximum time an event may be in the future.
const MAX_CLOCK_SKEW_MS: u64 = 2_000;
/// Maximum number of sessions checked for times in the future.
const MAX_SESSIONS_CHECKED: usize = 10_000;
/// Oldest SQLite version with a reliable write-ahead log.
const MIN_SQLITE_VERSION: (u64, u64, u64) = (3, 51, 3);

/// Result of one check.
#[derive(Debug, serde::Serialize)]
pub(crate) struct DoctorCheck {
    #[serde(rename = "check")]
    name: &'static str,
    ok: bool,
    #[serde(rename = "what")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "advice")]
    help: Option<String>,
}

impl DoctorCheck {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        DoctorCheck { name, ok: true, message: message.into(), help: None }
    }

    fn wrong(name: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        DoctorCheck { name, ok: false, message: message.into(), help: Some(help.into()) }
    }

    fn failed(check: &'static str, failure: &CliError) -> Self {
        let first = failure.diagnostics.first();
        let message = first.map_or_else(String::new, |diagnostic| {
            let place = if diagnostic.location.is_empty() {
                String::new()
            } else {
                format!("{}: ", diagnostic.location)
            };
            format!("{} ({place}{})", diagnostic.message, diagnostic.code)
        });
        DoctorCheck::wrong(
            check,
            message,
            first.map(|diagnostic| diagnostic.help.clone()).unwrap_or_default(),
        )
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CliError> {
    let mut found = vec![
        DoctorCheck::ok("flyball", format!("version {}", env!("CARGO_PKG_VERSION"))),
        check_policy(args),
    ];
    let address = store::store_address(&args.common.store);
    if args.accept {
        caller_check::require_no_agent()?;
        if let Ok(address) = &address {
            address.accept_current()?;
        }
    }
    match address {
        Ok(address) => {
            if let Some(weakness) = address.transport_weakness() {
                let help = "remove sslmode from the address; name a private CA with sslrootcert=FILE";
                found.push(DoctorCheck::wrong("tls", weakness, help));
            }
            check_store(&address, &mut found);
        }
        Err(failure) => found.push(DoctorCheck::failed("store", &failure)),
    }
    if args.accept {
        caller_check::require_no_agent()?;
    }
    found.extend(hook_checks::check_hooks(args)?);
    found.extend(check_coverage(args)?);
    let wrong = found.iter().filter(|finding| !finding.ok).count() as u64;
    let mut out = crate::terminal::stdout();
    if args.common.json {
        writeln!(out, "{}", json!({"ok": wrong == 0, "checks": found}))?;
    } else {
        for finding in &found {
            let word = if finding.ok {
                style_stdout(TextStyle::Success, "ok   ")
            } else {
                style_stdout(TextStyle::Error, "FAIL ")
            };
            writeln!(out, "{word}  {:<11} {}", finding.name, finding.message)?;
            if let Some(help) = finding.help.as_deref().filter(|help| !help.is_empty()) {
                writeln!(out, "       {:<11} help: {help}", "")?;
            }
        }
        let next = if wrong == 0 { "flyball status" } else { "flyball doctor" };
        let next = plan_printer::with_store(next, &args.common.store);
        match wrong {
            0 => writeln!(out, "All checks passed. Next: {next}")?,
            1 => writeln!(out, "1 check failed. Next: follow the help above, then run {next}")?,
            many => writeln!(out, "{many} checks failed. Next: follow the help above, then run {next}")?,
        }
    }
    Ok(if wrong == 0 { Exit::Success } else { Exit::Error })
}

/// Hooks, policies and processes that were armed and no longer are.
fn check_coverage(args: &DoctorArgs) -> Result<Vec<DoctorCheck>, CliError> {
    // Problems with the store were reported by an earlier check.
    let store = store::store_address(&args.common.store).and_then(|address| store::open_existing(&address));
    let Ok(store) = store else { return Ok(Vec::new()) };
    let probe = StoreCoverageProbe::read_only(store, vec![std::env::current_dir()?]);
    if args.accept {
        probe.accept()?;
    }
    let found = probe.probe().into_iter().map(|item| {
        let name = format!("{}: {}", item.kind, item.name);
        match item.missing_reason {
            None => DoctorCheck::ok("coverage", format!("{name} is armed")),
            Some(why) => {
                let help = "restore it; if you changed it yourself: flyball doctor --accept";
                DoctorCheck::wrong("coverage", format!("{name} is no longer armed: {why}"), help)
            }
        }
    });
    Ok(found.filter(|finding| !finding.ok).collect())
}

fn check_policy(args: &DoctorArgs) -> DoctorCheck {
    match policy_loader::layers(&args.common.policy, Preset::Agent).and_then(|(layers, preset)| {
        let file = layers.iter().rev().find_map(|layer| match &layer.origin {
            flyball::policy::ValueOrigin::File { name } => Some(name.clone()),
            _ => None,
        });
        let resolved = flyball::policy::resolve(&layers, preset)?;
        RedactingParser::validate_policy(&resolved)?;
        Ok((file, resolved.ignored))
    }) {
        Ok((file, ignored)) if !ignored.is_empty() => {
            let keys: Vec<&str> = ignored.iter().map(|ignored| ignored.path.as_str()).take(5).collect();
            let message = format!(
                "{} ignored because the file is not trusted and may only tighten: {}",
                plural(ignored.len() as u64, "value"),
                crate::formatting::single_line(&keys.join(", "), 300)
            );
            let help = ignored.first().map(flyball::policy::IgnoredValue::help);
            let file = file.map_or_else(String::new, |file| format!("{file}: "));
            DoctorCheck { help, ..DoctorCheck::ok("policy", format!("{file}{message}")) }
        }
        Ok((Some(file), _)) => DoctorCheck::ok("policy", format!("{file} is valid")),
        Ok((None, _)) => DoctorCheck::ok("policy", "no policy file here or above; using the defaults"),
        Err(failure) => DoctorCheck::failed("policy", &failure),
    }
}

/// Runs all checks that need a store.
fn check_store(address: &StoreAddress, found: &mut Vec<DoctorCheck>) {
    let store = match store::open_existing(address) {
        Ok(store) => store,
        Err(failure) => {
            found.push(DoctorCheck::failed("store", &failure));
            // The files on disk may show why it cannot be opened.
            found.extend(store_files::check_files(address).filter(|finding| !finding.ok && address.exists()));
            return;
        }
    };
    let store = store.as_ref();
    found.push(from_result("store", check_identity(store)));
    found.push(from_result("engine", check_engine(store)));
    found.extend(store_files::check_files(address));
    found.push(round_trip::check_round_trip(address));
    found.push(from_result("clock", check_clock(store)));
    found.push(from_result("times", check_future_events(store)));
    found.push(from_result("integrity", check_integrity(store)));
    found.push(from_result("outbox", check_dead_letters(store)));
}

fn from_result(check: &'static str, outcome: Result<DoctorCheck, CliError>) -> DoctorCheck {
    outcome.unwrap_or_else(|failure| DoctorCheck::failed(check, &failure))
}

fn check_engine(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let engine = store.engine_version()?;
    let version = engine.strip_prefix("SQLite ").and_then(|rest| rest.split(',').next());
    let numbers = version.map(|version| {
        let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
        let mut part = || parts.next().unwrap_or(0);
        (part(), part(), part())
    });
    if numbers.is_some_and(|numbers| numbers < MIN_SQLITE_VERSION) {
        return Ok(DoctorCheck::wrong("engine", engine, "Flyball needs SQLite 3.51.3 or newer; rebuild it"));
    }
    Ok(DoctorCheck::ok("engine", engine))
}

/// Identifies the store and checks whether its loss would be detected.
fn check_identity(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let address = store.address();
    let Some(found) = store.identity()? else { return Ok(DoctorCheck::ok("store", address)) };
    let id = found.id.get(..8).unwrap_or(&found.id);
    let mark = match (found.high_water_mark, found.problem) {
        (Some(mark), _) => {
            format!("; removal, or a rollback to fewer than {}, is detected", plural(mark.position, "event"))
        }
        (None, Some(problem)) => {
            format!("; warning: no high-water mark, so its removal is not detected: {problem}")
        }
        (None, None) => String::new(),
    };
    Ok(DoctorCheck::ok("store", format!("{address}, id {id}{mark}")))
}

/// Compares the store's clock with this machine's.
fn check_clock(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let (there, here) = (store.now()?, clock::now().unwrap_or_default());
    let apart = there.abs_diff(here);
    if apart < MAX_CLOCK_SKEW_MS {
        return Ok(DoctorCheck::ok(
            "clock",
            format!("the store's clock and this machine's differ by {apart} ms"),
        ));
    }
    let message = format!("the store's clock and this machine's differ by {}", format_duration(apart));
    Ok(DoctorCheck::wrong("clock", message, "synchronize both clocks with a time server"))
}

/// Looks for events with a time in the future.
fn check_future_events(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let limit = store.now()?.saturating_add(MAX_CLOCK_SKEW_MS);
    let rows = store.list_sessions(SessionFilter::All, MAX_SESSIONS_CHECKED)?;
    let ahead: Vec<_> =
        rows.iter().filter(|row| row.updated > limit && row.summary.status != SessionPhase::Ended).collect();
    let Some(first) = ahead.first() else {
        return Ok(DoctorCheck::ok("times", "no event has a time in the future"));
    };
    let message = format!(
        "{} in the future, for example '{}', {} ahead",
        if ahead.len() == 1 {
            "1 session has events".to_owned()
        } else {
            format!("{} sessions have events", ahead.len())
        },
        crate::formatting::single_line(&first.session, 60),
        format_duration(first.updated.saturating_sub(limit)),
    );
    Ok(DoctorCheck::wrong("times", message, "correct the sender's clock, or omit `at`"))
}

/// Verifies everything stored.
fn check_integrity(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
    let mut read = 0;
    let damaged = store.verify(&mut |events| {
        read = events;
        if let Some(bar) = &bar {
            bar.set_message(format!("{events} events read"));
            bar.tick();
        }
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let Some(first) = damaged.first() else {
        return Ok(DoctorCheck::ok("integrity", "every row matches its checksum and every chain is intact"));
    };
    let message = format!(
        "{}, for example: {}",
        plural(damaged.len() as u64, "integrity error"),
        crate::formatting::single_line(first, 200)
    );
    Ok(DoctorCheck::wrong(
        "integrity",
        message,
        "restore a backup: flyball restore FILE; Flyball makes no decisions from damaged data",
    ))
}

fn check_dead_letters(store: &dyn AdminStore) -> Result<DoctorCheck, CliError> {
    let dead = store.outbox_messages(OutboxState::Dead, 1_000)?.len() as u64;
    if dead == 0 {
        return Ok(DoctorCheck::ok("outbox", "no failed deliveries"));
    }
    let message = format!(
        "{} failed permanently",
        if dead == 1 { "1 delivery has".to_owned() } else { format!("{dead} deliveries have") }
    );
    Ok(DoctorCheck::wrong("outbox", message, "list them with the reason: flyball outbox --dead"))
}
