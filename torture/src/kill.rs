//! D1: kill -9 at random times. Two processes of four writers share the store; the client sends again, with the same
//! ids, whatever was not acknowledged.

use crate::audit::{Ack, audit};
use crate::child::{Running, start};
use crate::kit::{Ask, Dice, Engine, Fallible, Row, Words, pause};
use crate::writer::LANES;

/// The processes, by name.
const PROCESSES: [&str; 2] = ["a", "b"];
/// Events that each thread still sends after the last crash.
const AFTERWARDS: u64 = 3;

/// A client with several writers: what each is to send next, and what was acknowledged.
pub(crate) struct Client {
    pub(crate) words: Words,
    pub(crate) next: Vec<u64>,
    process: String,
}

impl Client {
    pub(crate) fn new(engine: &Engine, tag: &str, process: &str) -> Self {
        let words = Words::default().with("engine", engine.url()).with("tag", tag).with("process", process);
        Client { words, next: vec![1; LANES], process: process.to_owned() }
    }

    /// The arguments of the next writer.
    pub(crate) fn turn(&self) -> Words {
        let next: Vec<String> = self.next.iter().map(u64::to_string).collect();
        self.words.clone().with("next", next.join(","))
    }

    pub(crate) fn start(&self) -> Fallible<Running> {
        start("writer", &self.turn())
    }

    /// Takes note of what was acknowledged: that is not sent again.
    pub(crate) fn took(&mut self, acks: &[Ack]) {
        for ack in acks {
            let Some((lane, number)) = ack.id.split_once('.') else { continue };
            let lane = lane.strip_prefix(self.process.as_str()).and_then(|lane| lane.parse::<usize>().ok());
            let Some(next) = lane.and_then(|lane| self.next.get_mut(lane)) else { continue };
            *next = (*next).max(number.parse::<u64>().unwrap_or(0) + 1);
        }
    }

    /// A last writer that nobody ends: what was in flight is sent again, and a little more.
    pub(crate) fn finish(&mut self, acks: &mut Vec<Ack>) -> Vec<String> {
        match start("writer", &self.turn().with("limit", AFTERWARDS)).map(Running::wait) {
            Ok(ended) => {
                acks.extend(ended.acks());
                if ended.ok { Vec::new() } else { ended.errors }
            }
            Err(what) => vec![what],
        }
    }
}

/// Runs so many crashes on an engine.
fn cycles(
    engine: &Engine,
    tag: &str,
    crashes: u64,
    seed: u64,
    early: bool,
) -> Fallible<(String, Vec<String>)> {
    let mut dice = Dice::new(seed);
    let mut clients: Vec<Client> = PROCESSES.iter().map(|name| Client::new(engine, tag, name)).collect();
    if early {
        clients.iter_mut().for_each(|client| client.words = client.words.clone().with("early", "yes"));
    }
    let mut acks: Vec<Ack> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    let mut running: Vec<Option<Running>> =
        clients.iter().map(|client| client.start().map(Some)).collect::<Fallible<_>>()?;
    for _ in 0..crashes {
        pause(dice.between(15, 110));
        // Mostly one of the two, sometimes both at once.
        let both = dice.percent(30);
        let one = dice.place(PROCESSES.len());
        for (place, client) in clients.iter_mut().enumerate() {
            if !both && place != one {
                continue;
            }
            let Some(slot) = running.get_mut(place) else { continue };
            // Ended first, then started again from what it had acknowledged.
            let Some(child) = slot.take() else { continue };
            let ended = child.kill();
            client.took(&ended.acks());
            acks.extend(ended.acks());
            wrong.extend(ended.errors);
            *slot = Some(client.start()?);
        }
    }
    for (client, child) in clients.iter_mut().zip(running) {
        let Some(child) = child else { continue };
        let ended = child.kill();
        client.took(&ended.acks());
        acks.extend(ended.acks());
        wrong.extend(client.finish(&mut acks));
    }
    let store = engine.open().map_err(|error| error.to_string())?;
    let found = audit(store.as_ref(), tag, &acks);
    wrong.extend(found.wrong);
    let seen = format!(
        "{crashes} crashes, {} acknowledged, {} stored in {} sessions",
        acks.len(),
        found.events,
        found.sessions
    );
    Ok((seen, wrong))
}

/// The suite.
pub(crate) fn run(ask: &Ask) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for engine in ask.engines("kill")? {
        let (seen, wrong) = cycles(&engine, &ask.tag("k"), ask.pick(200, 25), ask.seed, false)?;
        rows.push(Row::new(engine.name(), seen, wrong));
    }
    for engine in ask.engines("kill-control")? {
        let (seen, wrong) = cycles(&engine, &ask.tag("kc"), 5, ask.seed, true)?;
        rows.push(Row::control(format!("{}, acknowledged before it is sent", engine.name()), seen, wrong));
    }
    Ok(rows)
}
