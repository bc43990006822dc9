//! D1: SIGKILL at random times. Two processes with four writers each share the store; the client resends everything
//! that was not acknowledged, with the same ids.

use crate::audit::{Ack, audit};
use crate::child::{TortureChild, spawn};
use crate::harness::{
    ChildArgs, StoreUnderTest, TortureOptions, TortureResult, TortureRng, TortureRow, sleep_ms,
};
use crate::writer::WRITER_THREADS;

/// Names of the processes.
const PROCESSES: [&str; 2] = ["a", "b"];
/// Events that each thread sends after the last crash.
const FINAL_EVENTS: u64 = 3;

/// A client with several writers: the next event of each, and the acknowledgements.
pub(crate) struct WriterClient {
    pub(crate) args: ChildArgs,
    pub(crate) next: Vec<u64>,
    process: String,
}

impl WriterClient {
    pub(crate) fn new(engine: &StoreUnderTest, tag: &str, process: &str) -> Self {
        let child_args =
            ChildArgs::default().with("engine", engine.url()).with("tag", tag).with("process", process);
        WriterClient { args: child_args, next: vec![1; WRITER_THREADS], process: process.to_owned() }
    }

    /// Arguments of the next writer.
    pub(crate) fn next_args(&self) -> ChildArgs {
        let next: Vec<String> = self.next.iter().map(u64::to_string).collect();
        self.args.clone().with("next", next.join(","))
    }

    pub(crate) fn start(&self) -> TortureResult<TortureChild> {
        spawn("writer", &self.next_args())
    }

    /// Records acknowledgements, so that these events are not resent.
    pub(crate) fn record_acks(&mut self, acks: &[Ack]) {
        for ack in acks {
            let Some((lane, number)) = ack.id.split_once('.') else { continue };
            let lane = lane.strip_prefix(self.process.as_str()).and_then(|lane| lane.parse::<usize>().ok());
            let Some(next) = lane.and_then(|lane| self.next.get_mut(lane)) else { continue };
            *next = (*next).max(number.parse::<u64>().unwrap_or(0) + 1);
        }
    }

    /// Runs a last writer without a crash: resends events in flight, and a few more.
    pub(crate) fn finish(&mut self, acks: &mut Vec<Ack>) -> Vec<String> {
        match spawn("writer", &self.next_args().with("limit", FINAL_EVENTS)).map(TortureChild::wait) {
            Ok(ended) => {
                acks.extend(ended.acks());
                if ended.ok { Vec::new() } else { ended.errors }
            }
            Err(what) => vec![what],
        }
    }
}

/// Runs crashes on an engine.
fn crash_cycles(
    engine: &StoreUnderTest,
    tag: &str,
    crashes: u64,
    seed: u64,
    early: bool,
) -> TortureResult<(String, Vec<String>)> {
    let mut rng = TortureRng::new(seed);
    let mut clients: Vec<WriterClient> =
        PROCESSES.iter().map(|name| WriterClient::new(engine, tag, name)).collect();
    if early {
        clients.iter_mut().for_each(|client| client.args = client.args.clone().with("early", "yes"));
    }
    let mut acks: Vec<Ack> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    let mut running: Vec<Option<TortureChild>> =
        clients.iter().map(|client| client.start().map(Some)).collect::<TortureResult<_>>()?;
    for _ in 0..crashes {
        sleep_ms(rng.between(15, 110));
        // Mostly one of the two processes, sometimes both at once.
        let both = rng.percent(30);
        let one = rng.index(PROCESSES.len());
        for (place, client) in clients.iter_mut().enumerate() {
            if !both && place != one {
                continue;
            }
            let Some(slot) = running.get_mut(place) else { continue };
            // Kill it first, then restart it after its last acknowledged event.
            let Some(child) = slot.take() else { continue };
            let ended = child.kill();
            client.record_acks(&ended.acks());
            acks.extend(ended.acks());
            wrong.extend(ended.errors);
            *slot = Some(client.start()?);
        }
    }
    for (client, child) in clients.iter_mut().zip(running) {
        let Some(child) = child else { continue };
        let ended = child.kill();
        client.record_acks(&ended.acks());
        acks.extend(ended.acks());
        wrong.extend(client.finish(&mut acks));
    }
    let store = engine.open().map_err(|error| error.to_string())?;
    let found = audit(store.as_ref(), tag, &acks);
    wrong.extend(found.failures);
    let seen = format!(
        "{crashes} crashes, {} acknowledged, {} stored in {} sessions",
        acks.len(),
        found.events,
        found.sessions
    );
    Ok((seen, wrong))
}

/// The suite.
pub(crate) fn run(options: &TortureOptions) -> TortureResult<Vec<TortureRow>> {
    let mut rows = Vec::new();
    for engine in options.engines("kill")? {
        let (seen, wrong) =
            crash_cycles(&engine, &options.tag("k"), options.pick(200, 25), options.seed, false)?;
        rows.push(TortureRow::new(engine.name(), seen, wrong));
    }
    for engine in options.engines("kill-control")? {
        let (seen, wrong) = crash_cycles(&engine, &options.tag("kc"), 5, options.seed, true)?;
        rows.push(TortureRow::control(
            format!("{}, acknowledged before the append", engine.name()),
            seen,
            wrong,
        ));
    }
    Ok(rows)
}
