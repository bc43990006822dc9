//! The modes: what is done with the prepared lines.

use crate::lines::{PREPARED, pair};
use flyball::policy::{Format, parse};
use flyball::{Event, PolicySource, Preset, Session, State, Verdict};
use serde::Deserialize;
use serde_json::Value;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The modes by name.
pub(crate) const NAMES: [&str; 9] =
    ["parse", "parse-value", "hash", "step", "step-again", "step-rule", "near-loop", "loop", "encode"];

/// Everything on, and the loop guards told to report only, so that a loop goes on for as long as it is measured.
const LOOP: &str = "preset: workflow\nguards: {repetition: {mode: observe}, cycle: {mode: observe}, \
                    recurrence: {mode: observe}, stall: {mode: observe}, oscillation: {mode: observe}}\n";

/// Everything on, and one rule of the operator.
const RULE: &str = "preset: workflow\nrules:\n  - {name: no-prod, when: \"event.type == 'tool.requested' && \
                    event.tool == 'deploy' && session.calls > 50\", decision: block, message: too late}\n";

/// The length of the loop in mode `loop`.
const LOOP_PERIOD: usize = 3;
/// In mode `near-loop`: so many new calls, of which the last few are then made once more.
const NEW_CALLS: usize = 12;
const REPEATED: usize = 3;
/// How many commands take turns in mode `step-again`.
const COMMANDS: usize = 40;

/// Runs a mode; returns how many of its decisions were not `allow`.
pub(crate) fn run(mode: &str, pairs: usize, history: usize) -> Result<u64, Box<dyn Error>> {
    let fresh = |number: usize| (number, number);
    match mode {
        "parse" => over_lines(pairs, parse_typed),
        "parse-value" => over_lines(pairs, parse_value),
        "hash" => hash(pairs),
        "step" => steps("preset: workflow\n", pairs, history, fresh),
        // A few commands in turn, each with a new result every time, as when an agent edits and tests: the results of
        // known calls are normalised, those of new calls need not be.
        "step-again" => steps("preset: workflow\n", pairs, history, |number| (number % COMMANDS, number)),
        "step-rule" => steps(RULE, pairs, history, fresh),
        "near-loop" => steps("preset: workflow\n", pairs, history, nearly),
        "loop" => steps(LOOP, pairs, history, |number| (number % LOOP_PERIOD, number % LOOP_PERIOD)),
        "encode" => encode(pairs, history),
        other => Err(format!("no mode '{other}'").into()),
    }
}

/// Always on the way to a loop, never there.
const fn nearly(number: usize) -> (usize, usize) {
    let (block, at) = (number / (NEW_CALLS + REPEATED), number % (NEW_CALLS + REPEATED));
    let content = block * NEW_CALLS + if at < NEW_CALLS { at } else { at - REPEATED };
    (content, content)
}

/// A request as a user of the JSON library would write it down.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are there to be filled")]
struct Requested {
    #[serde(rename = "type")]
    kind: String,
    session: String,
    at: u64,
    node: String,
    round: u64,
    call: String,
    tool: String,
    args: Arguments,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are there to be filled")]
struct Arguments {
    command: String,
    description: String,
    timeout_ms: u64,
}

/// A result likewise.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are there to be filled")]
struct Finished {
    #[serde(rename = "type")]
    kind: String,
    session: String,
    at: u64,
    node: String,
    round: u64,
    call: String,
    ok: bool,
    output: String,
    duration_ms: u64,
}

fn parse_typed([requested, finished]: &[String; 2]) -> Result<(), serde_json::Error> {
    black_box(serde_json::from_str::<Requested>(requested)?);
    black_box(serde_json::from_str::<Finished>(finished)?);
    Ok(())
}

fn parse_value([requested, finished]: &[String; 2]) -> Result<(), serde_json::Error> {
    black_box(serde_json::from_str::<Value>(requested)?);
    black_box(serde_json::from_str::<Value>(finished)?);
    Ok(())
}

/// The loop whose instructions are counted. It keeps its name and its frame, because callgrind collects only while it
/// runs: reading the policy and living through the history cost more than the loop, and not the same in every run.
#[inline(never)]
pub(crate) fn measured(
    pairs: usize,
    work: &mut dyn FnMut(usize) -> Result<u64, Box<dyn Error>>,
) -> Result<u64, Box<dyn Error>> {
    let mut stopped = 0;
    for at in 0..pairs {
        stopped += work(at)?;
    }
    Ok(stopped)
}

fn prepared_lines() -> Vec<[String; 2]> {
    (0..PREPARED).map(|number| pair(number, number, number)).collect()
}

fn over_lines(
    pairs: usize,
    parse: impl Fn(&[String; 2]) -> Result<(), serde_json::Error>,
) -> Result<u64, Box<dyn Error>> {
    let prepared = prepared_lines();
    measured(pairs, &mut |at| {
        let lines = prepared.get(at).ok_or("not prepared")?;
        parse(black_box(lines))?;
        Ok(0)
    })
}

/// The floor of every loop detector: hash what came, compare it with what came last.
fn hash(pairs: usize) -> Result<u64, Box<dyn Error>> {
    let prepared = prepared_lines();
    let mut last = [0; 2];
    measured(pairs, &mut |at| {
        let [requested, finished] = prepared.get(at).ok_or("not prepared")?;
        let now = [xxh3_64(requested.as_bytes()), xxh3_64(finished.as_bytes())];
        let equal = u64::from(black_box(now) == last);
        last = now;
        Ok(equal)
    })
}

fn events(number: usize, (asked, told): (usize, usize)) -> Result<[Event; 2], flyball::Error> {
    let [requested, finished] = pair(number, asked, told);
    Ok([Event::from_json(&requested)?, Event::from_json(&finished)?])
}

fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let layer = parse(policy, Format::Yaml, "bench")?;
    let source = PolicySource::new(vec![layer], Preset::Workflow)?;
    Ok(Session::new(Arc::clone(source.base())))
}

/// A session with a history, and prepared events that go on from there.
fn steps(
    policy: &str,
    pairs: usize,
    history: usize,
    content: impl Fn(usize) -> (usize, usize),
) -> Result<u64, Box<dyn Error>> {
    let before = history / 2;
    let mut session = session(policy)?;
    let mut stopped = 0;
    for number in 0..before {
        for event in events(number, content(number))? {
            stopped += u64::from(session.step(&event)?.decision != Verdict::Allow);
        }
    }
    let prepared = (before..before + PREPARED).map(|number| events(number, content(number)));
    let prepared: Vec<[Event; 2]> = prepared.collect::<Result<_, _>>()?;
    let measured = measured(pairs, &mut |at| {
        let mut stopped = 0;
        for event in prepared.get(at).ok_or("not prepared")? {
            let decision = black_box(session.step(black_box(event))?);
            stopped += u64::from(decision.decision != Verdict::Allow);
        }
        Ok(stopped)
    })?;
    Ok(stopped + measured)
}

/// Through the encoded form and back, once a pair, as a hook does that keeps its state in a file.
fn encode(pairs: usize, history: usize) -> Result<u64, Box<dyn Error>> {
    let mut session = session("preset: workflow\n")?;
    for number in 0..history / 2 {
        for event in events(number, (number, number))? {
            session.step(&event)?;
        }
    }
    measured(pairs, &mut |_| {
        let bytes = black_box(session.state().encode()?);
        black_box(State::decode(&bytes)?);
        Ok(0)
    })
}

#[cfg(test)]
#[path = "modes_tests.rs"]
mod tests;
