//! `flyball doctor`: proves that the set-up works, one line a check, with what to do about what is wrong.

mod hooks;
mod place;
mod runs;
mod trip;

pub(crate) use trip::step;

use crate::args::Doctor;
use crate::clock;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::paint::{Style, paint_out};
use crate::person;
use crate::posts::Lookout;
use crate::store;
use crate::telling;
use crate::words::{plural, span};
use flyball::{Preset, Status};
use flyball_journal::{Address, Desk, Door, ErrandState, Which};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::{IsTerminal, Write};

/// How far the store's clock and ours may be apart, and how far ahead an event may be.
const APART_MS: u64 = 2_000;
/// How many sessions are looked at for times in the future.
const LOOKED_AT: usize = 10_000;
/// The oldest SQLite that may be trusted with a write-ahead log.
const OLDEST: (u64, u64, u64) = (3, 51, 3);

/// One check.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Finding {
    check: &'static str,
    ok: bool,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Finding { check, ok: true, what: what.into(), advice: None }
    }

    fn wrong(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { check, ok: false, what: what.into(), advice: Some(advice.into()) }
    }

    fn failed(check: &'static str, failure: &Failure) -> Self {
        let first = failure.complaints.first();
        let what = first.map_or_else(String::new, |complaint| {
            let place =
                if complaint.place.is_empty() { String::new() } else { format!("{}: ", complaint.place) };
            format!("{} ({place}{})", complaint.what, complaint.code)
        });
        Finding::wrong(check, what, first.map(|complaint| complaint.advice.clone()).unwrap_or_default())
    }
}

/// Runs the command.
pub(crate) fn run(args: &Doctor) -> Result<Exit, Failure> {
    let mut found =
        vec![Finding::ok("flyball", format!("version {}", env!("CARGO_PKG_VERSION"))), policy(args)];
    let address = store::address(&args.who.store);
    if args.accept {
        person::speaks_at_all()?;
        if let Ok(address) = &address {
            address.accept()?;
        }
    }
    match address {
        Ok(address) => {
            if let Some(weakness) = address.transport_weakness() {
                let advice = "remove sslmode from the address; name a private CA with sslrootcert=FILE";
                found.push(Finding::wrong("tls", weakness, advice));
            }
            the_store(&address, &mut found);
        }
        Err(failure) => found.push(Finding::failed("store", &failure)),
    }
    if args.accept {
        person::speaks_at_all()?;
    }
    found.extend(hooks::all(args)?);
    found.extend(posts(args)?);
    let wrong = found.iter().filter(|finding| !finding.ok).count() as u64;
    let mut out = crate::terminal::stdout();
    if args.who.json {
        writeln!(out, "{}", json!({"ok": wrong == 0, "checks": found}))?;
    } else {
        for finding in &found {
            let word =
                if finding.ok { paint_out(Style::Good, "ok   ") } else { paint_out(Style::Bad, "WRONG") };
            writeln!(out, "{word}  {:<11} {}", finding.check, finding.what)?;
            if let Some(advice) = finding.advice.as_deref().filter(|advice| !advice.is_empty()) {
                writeln!(out, "       {:<11} help: {advice}", "")?;
            }
        }
        let next = if wrong == 0 { "flyball status" } else { "flyball doctor" };
        let next = telling::whole(next, &args.who.store);
        match wrong {
            0 => writeln!(out, "All is well. Next: {next}")?,
            1 => writeln!(out, "1 thing is wrong. Next: do what help says, then {next}")?,
            many => writeln!(out, "{many} things are wrong. Next: do what help says, then {next}")?,
        }
    }
    Ok(if wrong == 0 { Exit::Done } else { Exit::Error })
}

/// What stood guard once, and does no longer.
fn posts(args: &Doctor) -> Result<Vec<Finding>, Failure> {
    // What is wrong with the store was told before.
    let desk = store::address(&args.who.store).and_then(|address| store::existing(&address));
    let Ok(desk) = desk else { return Ok(Vec::new()) };
    let lookout = Lookout::glance(desk, vec![std::env::current_dir()?]);
    if args.accept {
        lookout.accept()?;
    }
    let found = lookout.look().into_iter().map(|post| {
        let name = format!("{}: {}", post.kind, post.name);
        match post.fallen {
            None => Finding::ok("post", format!("{name} stands")),
            Some(why) => {
                let advice = "put it back; if it was you, flyball doctor --accept";
                Finding::wrong("post", format!("{name} has fallen: {why}"), advice)
            }
        }
    });
    Ok(found.filter(|finding| !finding.ok).collect())
}

fn policy(args: &Doctor) -> Finding {
    match load::layers(&args.who.policy, Preset::Agent).and_then(|(layers, preset)| {
        let file = layers.iter().rev().find_map(|layer| match &layer.origin {
            flyball::policy::Origin::File { name } => Some(name.clone()),
            _ => None,
        });
        let resolved = flyball::policy::resolve(&layers, preset)?;
        Door::check(&resolved)?;
        Ok((file, resolved.ignored))
    }) {
        Ok((file, ignored)) if !ignored.is_empty() => {
            let keys: Vec<&str> = ignored.iter().map(|ignored| ignored.path.as_str()).take(5).collect();
            let what = format!(
                "{} ignored, because the file is not trusted and may only tighten: {}",
                plural(ignored.len() as u64, "value"),
                crate::words::line(&keys.join(", "), 300)
            );
            let advice = ignored.first().map(flyball::policy::Ignored::help);
            let file = file.map_or_else(String::new, |file| format!("{file}: "));
            Finding { advice, ..Finding::ok("policy", format!("{file}{what}")) }
        }
        Ok((Some(file), _)) => Finding::ok("policy", format!("{file} can be used")),
        Ok((None, _)) => Finding::ok("policy", "no file here or above; the defaults hold"),
        Err(failure) => Finding::failed("policy", &failure),
    }
}

/// Everything that needs a store.
fn the_store(address: &Address, found: &mut Vec<Finding>) {
    let desk = match store::existing(address) {
        Ok(desk) => desk,
        Err(failure) => {
            found.push(Finding::failed("store", &failure));
            // Why it cannot be opened may be seen on the disk.
            found.extend(place::check(address).filter(|finding| !finding.ok && address.exists()));
            return;
        }
    };
    let desk = desk.as_ref();
    found.push(told("store", identity(desk)));
    found.push(told("engine", engine(desk)));
    found.extend(place::check(address));
    found.push(trip::round(address));
    found.push(told("clock", time(desk)));
    found.push(told("times", future(desk)));
    found.push(told("integrity", whole(desk)));
    found.push(told("outbox", dead(desk)));
}

fn told(check: &'static str, outcome: Result<Finding, Failure>) -> Finding {
    outcome.unwrap_or_else(|failure| Finding::failed(check, &failure))
}

fn engine(desk: &dyn Desk) -> Result<Finding, Failure> {
    let engine = desk.engine()?;
    let version = engine.strip_prefix("SQLite ").and_then(|rest| rest.split(',').next());
    let numbers = version.map(|version| {
        let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
        let mut part = || parts.next().unwrap_or(0);
        (part(), part(), part())
    });
    if numbers.is_some_and(|numbers| numbers < OLDEST) {
        return Ok(Finding::wrong("engine", engine, "SQLite 3.51.3 or newer is needed: build Flyball again"));
    }
    Ok(Finding::ok("engine", engine))
}

/// Which store it is, and whether its loss would be noticed.
fn identity(desk: &dyn Desk) -> Result<Finding, Failure> {
    let address = desk.address();
    let Some(found) = desk.identity()? else { return Ok(Finding::ok("store", address)) };
    let id = found.id.get(..8).unwrap_or(&found.id);
    let mark = match (found.mark, found.problem) {
        (Some(mark), _) => {
            format!(
                "; removing it, or going back to less than {}, is noticed",
                plural(mark.position, "event")
            )
        }
        (None, Some(problem)) => {
            format!("; warning: no high-water mark, so its removal is not noticed: {problem}")
        }
        (None, None) => String::new(),
    };
    Ok(Finding::ok("store", format!("{address}, id {id}{mark}")))
}

/// Whether the store and this machine agree what time it is.
fn time(desk: &dyn Desk) -> Result<Finding, Failure> {
    let (there, here) = (desk.now()?, clock::now().unwrap_or_default());
    let apart = there.abs_diff(here);
    if apart < APART_MS {
        return Ok(Finding::ok("clock", format!("the store's clock and this one are {apart} ms apart")));
    }
    let what = format!("the store's clock and this one are {} apart", span(apart));
    Ok(Finding::wrong("clock", what, "set both clocks by a time server"))
}

/// Whether events claim to be of a time that has not come yet.
fn future(desk: &dyn Desk) -> Result<Finding, Failure> {
    let limit = desk.now()?.saturating_add(APART_MS);
    let heads = desk.heads(Which::All, LOOKED_AT)?;
    let ahead: Vec<_> =
        heads.iter().filter(|head| head.updated > limit && head.glance.status != Status::Ended).collect();
    let Some(first) = ahead.first() else {
        return Ok(Finding::ok("times", "no event is of a time that has not come yet"));
    };
    let what = format!(
        "{} of a time that has not come yet, such as '{}', {} ahead",
        if ahead.len() == 1 {
            "1 session has events".to_owned()
        } else {
            format!("{} sessions have events", ahead.len())
        },
        crate::words::line(&first.session, 60),
        span(first.updated.saturating_sub(limit)),
    );
    Ok(Finding::wrong("times", what, "correct the clock of whoever sends `at`, or leave `at` out"))
}

/// Reads everything that is stored.
fn whole(desk: &dyn Desk) -> Result<Finding, Failure> {
    let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
    let mut read = 0;
    let damaged = desk.verify(&mut |events| {
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
        return Ok(Finding::ok("integrity", "every row matches its checksum, and every chain is whole"));
    };
    let what =
        format!("{}, such as: {}", plural(damaged.len() as u64, "damage"), crate::words::line(first, 200));
    Ok(Finding::wrong(
        "integrity",
        what,
        "bring the store back from a copy; what is damaged is never decided upon",
    ))
}

fn dead(desk: &dyn Desk) -> Result<Finding, Failure> {
    let dead = desk.errands(ErrandState::Dead, 1_000)?.len() as u64;
    if dead == 0 {
        return Ok(Finding::ok("outbox", "nothing was given up"));
    }
    let what = format!(
        "{} given up",
        if dead == 1 { "1 errand was".to_owned() } else { format!("{dead} errands were") }
    );
    Ok(Finding::wrong("outbox", what, "see why: flyball outbox --dead"))
}
