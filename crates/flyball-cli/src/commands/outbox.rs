//! `flyball outbox`: what is to be told to others and was not yet, and a second chance for what was given up.

use crate::args::Outbox;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::store;
use crate::telling::print_next;
use crate::words::{ago, line, plural, table, typed};
use flyball::Preset;
use flyball_journal::{Courier, Desk, Errand, ErrandState, Probe};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;

/// How many errands are shown.
const SHOWN: usize = 200;

/// Runs the command.
pub(crate) fn run(args: &Outbox) -> Result<Exit, Failure> {
    let desk = store::open(&args.store)?;
    if let Some(key) = &args.retry {
        return retry(desk.as_ref(), key, args);
    }
    if args.deliver {
        return deliver(desk, args);
    }
    let both = args.dead == args.waiting;
    let mut errands: Vec<Errand> = Vec::new();
    for (wanted, state) in [(args.dead, ErrandState::Dead), (args.waiting, ErrandState::Waiting)] {
        if wanted || both {
            errands.extend(desk.errands(state, SHOWN)?);
        }
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!(errands))?;
        return Ok(Exit::Done);
    }
    if errands.is_empty() {
        writeln!(out, "Nothing waits in the outbox of {}, and nothing was given up.", desk.address())?;
        print_next(&mut out, &["flyball status".to_owned()], &args.store)?;
        return Ok(Exit::Done);
    }
    let now = desk.now()?;
    let rows: Vec<Vec<String>> = errands.iter().map(|errand| row(errand, now)).collect();
    for text in table(&["KEY", "EFFECT", "SESSION", "STATE", "TRIES", "DUE", "WHAT WENT WRONG"], &rows) {
        writeln!(out, "{text}")?;
    }
    let dead = errands.iter().find(|errand| errand.state == ErrandState::Dead);
    let next = dead.map_or_else(
        || "flyball status".to_owned(),
        |errand| format!("flyball outbox --retry {}", typed(&errand.key)),
    );
    writeln!(out, "{}", plural(errands.len() as u64, "errand"))?;
    print_next(&mut out, &[next], &args.store)?;
    Ok(Exit::Done)
}

/// Performs what is due, once each.
fn deliver(desk: Arc<dyn Desk>, args: &Outbox) -> Result<Exit, Failure> {
    let policy = load::source(&args.policy, Preset::Agent)?;
    let courier = Courier::new(desk, &policy.base().journal, Probe::default());
    let told = courier.deliver(SHOWN)?;
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!(told))?;
    } else {
        writeln!(out, "{} done, {} to be tried again, {} given up", told.done, told.again, told.dead)?;
        print_next(&mut out, &["flyball outbox".to_owned()], &args.store)?;
    }
    Ok(Exit::Done)
}

fn row(errand: &Errand, now: u64) -> Vec<String> {
    let due = if errand.state == ErrandState::Waiting { ago(errand.due, now) } else { String::new() };
    vec![
        line(&errand.key, 80),
        line(&errand.effect, 24),
        line(&errand.session, 40),
        errand.state.as_str().to_owned(),
        errand.attempts.to_string(),
        due,
        line(errand.error.as_deref().unwrap_or_default(), 70),
    ]
}

fn retry(desk: &dyn Desk, key: &str, args: &Outbox) -> Result<Exit, Failure> {
    if !desk.retry(key)? {
        let what = format!("no errand '{}' was given up", line(key, 80));
        return Err(Failure::new("errand_unknown", "", what, "see which were: flyball outbox --dead"));
    }
    let mut out = crate::terminal::stdout();
    if args.json {
        writeln!(out, "{}", json!({"key": key, "state": "waiting"}))?;
    } else {
        writeln!(out, "{} will be tried again.", line(key, 80))?;
        print_next(&mut out, &["flyball outbox --waiting".to_owned()], &args.store)?;
    }
    Ok(Exit::Done)
}
