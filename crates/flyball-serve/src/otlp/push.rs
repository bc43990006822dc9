//! Sends spans to a collector. The store itself is the queue: where the sending stands is a note that all servers of
//! the store share, one of them sends, and after a fall another goes on from there. Nobody ever waits for it.

use super::spans::Begun;
use super::{Collector, Content, Weaver, document};
use crate::office::Shared;
use crate::signals::Signals;
use flyball::{Event, Kind};
use flyball_journal::{Cursor, Desk, If, Note, Record, StoreError, Trouble};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Where the note lies.
const SHELF: &str = "otlp";
/// For how long whoever sends holds the note, in milliseconds of store time.
const HOLD_MS: u64 = 30_000;
/// How many events are sent together.
const PORTION: usize = 256;
/// How often to look for what is new.
const GLANCE: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How far back a beginning is looked for.
const BACK: u64 = 128;

/// Where the sending stands, and who sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    transaction: u64,
    position: u64,
    holder: String,
    until: u64,
}

/// How a step went.
enum Step {
    /// Something was sent; there may be more.
    More,
    /// There is nothing to do.
    Idle,
    /// The collector could not be reached, or has no time.
    Later,
}

/// Whoever sends.
struct Sender {
    desk: Arc<dyn Desk>,
    signals: Arc<Signals>,
    agent: ureq::Agent,
    endpoint: String,
    /// The name of the note.
    key: String,
    holder: String,
    weaver: Weaver,
    content: Content,
    /// What we wrote on the note last.
    own: Option<Standing>,
    /// Spans that are on their way, and the place after them.
    unsent: Option<(Cursor, Vec<Value>)>,
}

/// Sends spans for as long as the server runs, if a collector is named.
pub(crate) fn push(office: &Shared) {
    let Some(collector) = office.otlp.clone() else { return };
    let sender = Sender::new(office, &collector);
    let (mut stirred, mut closing) = (office.intake.watch(), office.signals.closing());
    tokio::spawn(async move {
        let mut sender = sender;
        let mut wait = GLANCE;
        loop {
            let done = tokio::task::spawn_blocking(move || {
                let step = sender.step();
                (sender, step)
            });
            let Ok((back, step)) = done.await else { return };
            sender = back;
            match step {
                Step::More => wait = GLANCE,
                Step::Idle => {
                    wait = GLANCE;
                    // The collector is in no hurry: what is decided within a moment goes together.
                    tokio::time::sleep(GLANCE / 4).await;
                    tokio::select! {
                        _ = closing.changed() => {}
                        _ = tokio::time::timeout(GLANCE, stirred.changed()) => {}
                    }
                }
                Step::Later => {
                    tokio::select! {
                        _ = closing.changed() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(LONGEST);
                }
            }
            if *closing.borrow() {
                return;
            }
        }
    });
}

impl Sender {
    fn new(office: &Shared, collector: &Collector) -> Self {
        let endpoint = collector.endpoint();
        let content = if collector.content { Content::Along } else { Content::Left };
        let mut bytes = [0_u8; 16];
        // Without randomness the number of the process must do: it is only a name.
        let holder = match getrandom::fill(&mut bytes) {
            Ok(()) => blake3::hash(&bytes).to_hex().to_string(),
            Err(_) => std::process::id().to_string(),
        };
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
        Sender {
            desk: Arc::clone(office.recorder.journal()),
            signals: Arc::clone(&office.signals),
            agent: config.build().into(),
            key: blake3::hash(endpoint.as_bytes()).to_hex().to_string(),
            endpoint,
            holder,
            weaver: Weaver::new(content),
            content,
            own: None,
            unsent: None,
        }
    }

    fn step(&mut self) -> Step {
        match self.try_step() {
            Ok(step) => step,
            Err(error) => {
                self.signals.log.trouble("otlp", error.trouble.as_str(), &error.what);
                Step::Later
            }
        }
    }

    fn try_step(&mut self) -> Result<Step, StoreError> {
        let Some(place) = self.hold()? else { return Ok(Step::Idle) };
        let (to, spans) = match self.unsent.take() {
            Some(unsent) => unsent,
            None => {
                let entries = self.desk.since(place, PORTION)?;
                let Some(last) = entries.last() else { return Ok(Step::Idle) };
                let desk = Arc::clone(&self.desk);
                let earlier =
                    move |session: &str, seq: u64, what: &Begun| earlier(desk.as_ref(), session, seq, what);
                let mut spans = Vec::new();
                for entry in &entries {
                    spans.extend(self.weaver.take(&entry.session, &entry.record, &earlier));
                }
                (last.cursor, spans)
            }
        };
        let count = spans.len() as u64;
        match self.send(&spans) {
            Ok(true) => self.signals.meters.spans_sent.add(count),
            Ok(false) => self.signals.meters.spans_refused.add(count),
            Err(why) => {
                self.signals.meters.spans_again.add(count);
                self.signals.log.trouble("otlp", "collector_unreachable", &why);
                self.unsent = Some((to, spans));
                return Ok(Step::Later);
            }
        }
        self.write(to)?;
        Ok(Step::More)
    }

    /// Whether it is for us to send, and from where on.
    fn hold(&mut self) -> Result<Option<Cursor>, StoreError> {
        let now = self.desk.now()?;
        let Some(note) = self.desk.note(SHELF, &self.key)? else {
            // The first time: from now on.
            let place = self.desk.newest()?;
            self.weaver = Weaver::new(self.content);
            self.unsent = None;
            return Ok(self.put(place, now, If::New)?.then_some(place));
        };
        let known: Standing = serde_json::from_str(&note.text).map_err(|error| {
            StoreError::corrupt(format!("the note of the traces cannot be read: {error}"))
        })?;
        let place = Cursor { transaction: known.transaction, position: known.position };
        if known.holder != self.holder && known.until > now {
            return Ok(None);
        }
        if self.own.as_ref() != Some(&known) {
            // Somebody else has sent meanwhile, or an earlier process of ours.
            self.weaver = Weaver::new(self.content);
            self.unsent = None;
        } else if known.until > now.saturating_add(HOLD_MS / 2) {
            return Ok(Some(place));
        }
        Ok(self.put(place, now, If::Was(&note.text))?.then_some(place))
    }

    fn write(&mut self, place: Cursor) -> Result<(), StoreError> {
        let Some(own) = &self.own else { return Ok(()) };
        let was = text(own)?;
        let now = self.desk.now()?;
        // If it is no longer ours, another has sent the same spans: they have the same ids.
        self.put(place, now, If::Was(&was)).map(|_| ())
    }

    fn put(&mut self, place: Cursor, now: u64, only_if: If<'_>) -> Result<bool, StoreError> {
        let Cursor { transaction, position } = place;
        let until = now.saturating_add(HOLD_MS);
        let standing = Standing { transaction, position, holder: self.holder.clone(), until };
        let note =
            Note { shelf: SHELF.to_owned(), key: self.key.clone(), text: text(&standing)?, until: None };
        let done = self.desk.put(&note, only_if)?;
        self.own = done.then_some(standing);
        Ok(done)
    }

    /// Whether the collector took them; an error if it may later.
    fn send(&self, spans: &[Value]) -> Result<bool, String> {
        if spans.is_empty() {
            return Ok(true);
        }
        let request = self.agent.post(&self.endpoint).header("Content-Type", "application/json");
        let answer = request.send(document(spans).to_string()).map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        match status {
            200..=299 => Ok(true),
            408 | 429 | 500.. => Err(format!("the collector answered {status}")),
            _ => {
                let what = format!("the collector answered {status}; {} spans are left out", spans.len());
                self.signals.log.trouble("otlp", "collector_refused", &what);
                Ok(false)
            }
        }
    }
}

fn text(standing: &Standing) -> Result<String, StoreError> {
    serde_json::to_string(standing).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))
}

/// The beginning of a call or a turn, from the store: for one that began before we did.
pub(super) fn earlier(desk: &dyn Desk, session: &str, seq: u64, what: &Begun) -> Option<Record> {
    let records = desk.records(session, seq.saturating_sub(BACK).max(1), seq.saturating_sub(1)).ok()?;
    records.into_iter().rev().find(|record| {
        let Ok(event) = Event::from_json(&record.text) else { return false };
        match (&event.kind, what) {
            (Kind::ToolRequested { call, .. }, Begun::Call(name)) => {
                !name.is_empty() && call.as_deref() == Some(name.as_str())
            }
            (Kind::TurnStarted {}, Begun::Turn(node)) => event.node.as_deref().unwrap_or_default() == node,
            _ => false,
        }
    })
}
