//! The modes: the work on the prepared lines.

use crate::event_lines::{PREPARED_PAIRS, call_pair};
use flyball::policy::{PolicyFormat, parse};
use flyball::{Event, PolicySource, Preset, Session, SessionState, Verdict};
use serde::Deserialize;
use serde_json::Value;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The modes by name.
pub(crate) const NAMES: [&str; 9] =
    ["parse", "parse-value", "hash", "step", "step-again", "step-rule", "near-loop", "loop", "encode"];

/// All guards on, with the loop guards in observe mode, so that a loop lasts as long as it is measured.
const LOOP_POLICY: &str = "preset: workflow\nguards: {repetition: {mode: observe}, cycle: {mode: observe}, \
                    recurrence: {mode: observe}, stall: {mode: observe}, oscillation: {mode: observe}}\n";

/// All guards on, and one custom rule.
const RULE_POLICY: &str = "preset: workflow\nrules:\n  - {name: no-prod, when: \"event.type == 'tool.requested' && \
                    event.tool == 'deploy' && session.calls > 50\", decision: block, message: too late}\n";

/// Length of the loop in mode `loop`.
const LOOP_PERIOD: usize = 3;
/// In mode `near-loop`: number of new calls, the last few of which are then repeated once.
const NEAR_LOOP_NEW_CALLS: usize = 12;
const NEAR_LOOP_REPEATED_CALLS: usize = 3;
/// Number of commands that alternate in mode `step-again`.
const REPEATED_COMMANDS: usize = 40;

/// Runs a mode; returns the number of decisions other than `allow`.
pub(crate) fn run(mode: &str, pairs: usize, history: usize) -> Result<u64, Box<dyn Error>> {
    let fresh = |number: usize| (number, number);
    match mode {
        "parse" => over_lines(pairs, parse_typed),
        "parse-value" => over_lines(pairs, parse_value),
        "hash" => hash(pairs),
        "step" => steps("preset: workflow\n", pairs, history, fresh),
        // A few alternating commands, each with a new result every time, as when an agent edits and tests: results of
        // known calls are normalized, those of new calls need not be.
        "step-again" => {
            steps("preset: workflow\n", pairs, history, |number| (number % REPEATED_COMMANDS, number))
        }
        "step-rule" => steps(RULE_POLICY, pairs, history, fresh),
        "near-loop" => steps("preset: workflow\n", pairs, history, near_loop_content),
        "loop" => steps(LOOP_POLICY, pairs, history, |number| (number % LOOP_PERIOD, number % LOOP_PERIOD)),
        "encode" => encode(pairs, history),
        other => Err(format!("no mode '{other}'").into()),
    }
}

/// Almost a loop, but never one.
const fn near_loop_content(number: usize) -> (usize, usize) {
    let (block, at) = (
        number / (NEAR_LOOP_NEW_CALLS + NEAR_LOOP_REPEATED_CALLS),
        number % (NEAR_LOOP_NEW_CALLS + NEAR_LOOP_REPEATED_CALLS),
    );
    let content = block * NEAR_LOOP_NEW_CALLS
        + if at < NEAR_LOOP_NEW_CALLS { at } else { at - NEAR_LOOP_REPEATED_CALLS };
    (content, content)
}

/// A typed request for a JSON library.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are only deserialized")]
struct TypedRequest {
    #[serde(rename = "type")]
    kind: String,
    session: String,
    at: u64,
    node: String,
    round: u64,
    call: String,
    tool: String,
    args: TypedArguments,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are only deserialized")]
struct TypedArguments {
    command: String,
    description: String,
    timeout_ms: u64,
}

/// A typed result.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the fields are only deserialized")]
struct TypedResult {
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
    black_box(serde_json::from_str::<TypedRequest>(requested)?);
    black_box(serde_json::from_str::<TypedResult>(finished)?);
    Ok(())
}

fn parse_value([requested, finished]: &[String; 2]) -> Result<(), serde_json::Error> {
    black_box(serde_json::from_str::<Value>(requested)?);
    black_box(serde_json::from_str::<Value>(finished)?);
    Ok(())
}

/// The loop whose instructions are counted. It keeps its name and its stack frame, because callgrind collects only
/// while it runs: parsing the policy and replaying the history cost more than the loop, and vary between runs.
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
    (0..PREPARED_PAIRS).map(|number| call_pair(number, number, number)).collect()
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

/// Lower bound for any loop detector: hash each event and compare it with the previous one.
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
    let [requested, finished] = call_pair(number, asked, told);
    Ok([Event::from_json(&requested)?, Event::from_json(&finished)?])
}

fn session(policy: &str) -> Result<Session, Box<dyn Error>> {
    let layer = parse(policy, PolicyFormat::Yaml, "bench")?;
    let source = PolicySource::new(vec![layer], Preset::Workflow)?;
    Ok(Session::new(Arc::clone(source.base())))
}

/// A session with a history, and prepared events that continue it.
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
    let prepared = (before..before + PREPARED_PAIRS).map(|number| events(number, content(number)));
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

/// Encodes and decodes the state once per pair, like a hook that keeps its state in a file.
fn encode(pairs: usize, history: usize) -> Result<u64, Box<dyn Error>> {
    let mut session = session("preset: workflow\n")?;
    for number in 0..history / 2 {
        for event in events(number, (number, number))? {
            session.step(&event)?;
        }
    }
    measured(pairs, &mut |_| {
        let bytes = black_box(session.state().encode()?);
        black_box(SessionState::decode(&bytes)?);
        Ok(0)
    })
}

#[cfg(test)]
#[path = "modes_tests.rs"]
mod tests;
