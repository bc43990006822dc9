//! Live events: one reader of the store for everybody who listens, and each listener at its own pace.
//!
//! What is new is read once and handed to all; a listener that falls behind reads the store itself, from where it
//! stands, so nothing is missed and nothing comes twice. One that reads nothing holds one piece of it and no more.

use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::signals::tally::{self, Tally};
use crate::who::{Principal, Scope};
use axum::body::Bytes;
use axum::http::StatusCode;
use flyball_journal::{Cursor, Desk, Entry, StoreError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::Instant;

/// How often the store is looked at, for what other processes have written.
const GLANCE: Duration = Duration::from_millis(250);
/// The shortest time between two looks: many commits are read together.
const BREATH: Duration = Duration::from_millis(50);
/// How long to wait when the store cannot be read.
const LATER: Duration = Duration::from_secs(1);
/// How many events are read at once.
const PORTION: usize = 256;
/// How many are looked for at once, if they are likely to be in memory.
const SIGHTED: usize = 1_024;
/// How many events a listener that is behind reads at once.
const OWN_PORTION: usize = 32;
/// How many bytes of them it holds at once; the rest is read again when these have gone.
const OWN_BYTES: usize = 128 * 1024;
/// How many pieces of news are kept for listeners; who is further behind reads the store.
const KEPT: usize = 16;
/// How many bytes a piece of news may have; of a larger one only the place is told.
const PIECE_BYTES: usize = 1024 * 1024;
/// How often a listener who hears nothing is told that somebody is there.
const BEAT: Duration = Duration::from_secs(15);
/// How long one may listen before one has to show the key again.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How many may listen.
const LISTENERS: usize = 1_024;

/// One event as listeners get it.
#[derive(Debug)]
struct Line {
    cursor: Cursor,
    session: String,
    text: Bytes,
}

/// What is new after one place and up to another.
#[derive(Debug)]
struct News {
    from: Cursor,
    to: Cursor,
    /// Everything in one piece, and the lines that it is made of; `None` if it is too large to be handed around.
    said: Option<(Bytes, Vec<Line>)>,
}

/// The reader of the store, as everybody sees it.
#[derive(Debug)]
pub(crate) struct Live {
    news: broadcast::Sender<Arc<News>>,
    seats: Arc<Semaphore>,
    /// What was counted over all events.
    pub(crate) tally: Tally,
}

impl Default for Live {
    fn default() -> Self {
        let (news, _) = broadcast::channel(KEPT);
        Live { news, seats: Arc::new(Semaphore::new(LISTENERS)), tally: Tally::default() }
    }
}

impl Live {
    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        LISTENERS.saturating_sub(self.seats.available_permits())
    }

    /// Whether nobody listens.
    fn is_alone(&self) -> bool {
        self.news.receiver_count() == 0
    }

    fn publish(&self, (from, to): (Cursor, Cursor), entries: &[Entry]) {
        if self.is_alone() {
            return;
        }
        let bytes: usize =
            entries.iter().map(|entry| entry.record.text.len() + entry.record.decision.len()).sum();
        let said = (bytes <= PIECE_BYTES).then(|| said(entries));
        // Nobody listens any more: nobody is to be told.
        let _ = self.news.send(Arc::new(News { from, to, said }));
    }
}

/// Reads what is new for as long as the server runs.
pub(crate) async fn follow(office: Shared) {
    let mut stirred = office.intake.watch();
    let mut place = loop {
        match read(&office, |desk| desk.newest()).await {
            Ok(place) => break place,
            Err(error) => office.signals.log.trouble("live", error.trouble.as_str(), &error.what),
        }
        tokio::time::sleep(LATER).await;
    };
    office.live.tally.begin(place);
    tokio::spawn(catch_up(Arc::clone(&office)));
    // Whether the next event is likely to be in memory.
    let mut in_memory = true;
    loop {
        let step = if in_memory && office.live.is_alone() {
            sight(&office, place).await
        } else {
            read_on(&office, place).await
        };
        match step {
            Ok(step) => {
                in_memory = step.to > place || step.all;
                place = step.to;
                if step.all || !in_memory {
                    tokio::time::sleep(BREATH).await;
                }
                if step.all {
                    // If the line is closed we are about to be stopped.
                    let _ = tokio::time::timeout(GLANCE, stirred.changed()).await;
                }
            }
            Err(error) => {
                office.signals.log.trouble("live", error.trouble.as_str(), &error.what);
                tokio::time::sleep(LATER).await;
            }
        }
    }
}

/// How far the reader of the store has come.
struct Step {
    to: Cursor,
    /// That was all there is.
    all: bool,
}

/// Counts what was decided here, which is in memory: up to the first event that is not.
async fn sight(office: &Shared, from: Cursor) -> Result<Step, StoreError> {
    let sighted = read(office, move |desk| desk.sightings(from, SIGHTED)).await?;
    let known = office.intake.recent().take_first(&sighted);
    let Some(last) = known.len().checked_sub(1).and_then(|last| sighted.get(last)) else {
        return Ok(Step { to: from, all: sighted.is_empty() });
    };
    let decided = known.iter().map(|(incoming, decision)| (&incoming.event, decision));
    office.live.tally.next((from, last.cursor), decided);
    Ok(Step { to: last.cursor, all: known.len() < SIGHTED })
}

/// Reads what is new, counts it, and hands it to those who listen.
async fn read_on(office: &Shared, from: Cursor) -> Result<Step, StoreError> {
    let entries = read(office, move |desk| desk.since(from, PORTION)).await?;
    let all = entries.len() < PORTION;
    let Some(to) = entries.last().map(|last| last.cursor) else { return Ok(Step { to: from, all }) };
    let known = |entry: &Entry| {
        let recent = office.intake.recent().take(&entry.session, entry.record.seq);
        recent.map(|(incoming, decision)| (incoming.event, decision)).or_else(|| tally::read(entry))
    };
    let known: Vec<_> = entries.iter().filter_map(known).collect();
    office.live.tally.next((from, to), known.iter().map(|(event, decision)| (event, decision)));
    office.live.publish((from, to), &entries);
    Ok(Step { to, all })
}

/// Counts what was stored before the server was started, until it meets the reader of what is new.
async fn catch_up(office: Shared) {
    while let Some(place) = office.live.tally.behind() {
        match read(&office, move |desk| desk.since(place, PORTION)).await {
            Ok(entries) => office.live.tally.earlier(&entries),
            Err(error) => {
                office.signals.log.trouble("metrics", error.trouble.as_str(), &error.what);
                tokio::time::sleep(LATER).await;
            }
        }
    }
}

/// Reads the store beside everybody else; there is one of these at a time for each purpose.
async fn read<T: Send + 'static>(
    office: &Office,
    work: impl FnOnce(&dyn Desk) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let desk = Arc::clone(office.recorder.journal());
    let done = tokio::task::spawn_blocking(move || work(desk.as_ref())).await;
    done.unwrap_or_else(|_| {
        Err(StoreError::new(flyball_journal::Trouble::Io, "reading the store has failed"))
    })
}

/// An event with its decision, as JSON.
pub(crate) fn told(session: &str, record: &flyball_journal::Record) -> String {
    let at = record.at.map_or(Value::Null, Value::from);
    let whole = format!(
        "{{\"session\":{},\"seq\":{},\"at\":{at},\"event\":{},\"decision\":{}}}",
        Value::from(session),
        record.seq,
        record.text,
        record.decision
    );
    // Line ends stand only between the tokens of JSON, never inside of a text.
    if whole.contains(['\n', '\r']) { whole.replace(['\n', '\r'], " ") } else { whole }
}

fn line(entry: &Entry) -> String {
    let data = told(&entry.session, &entry.record);
    format!("id: {}\nevent: decision\ndata: {data}\n\n", written(entry.cursor))
}

/// Events as listeners get them: the lines are parts of the whole and cost nothing of their own.
fn said(entries: &[Entry]) -> (Bytes, Vec<Line>) {
    let texts: Vec<String> = entries.iter().map(line).collect();
    let whole = Bytes::from(texts.concat());
    let mut rest = whole.clone();
    let lines = entries.iter().zip(&texts).map(|(entry, text)| {
        let text = rest.split_to(text.len());
        Line { cursor: entry.cursor, session: entry.session.clone(), text }
    });
    let lines = lines.collect();
    (whole, lines)
}

fn written(cursor: Cursor) -> String {
    format!("{}-{}", cursor.transaction, cursor.position)
}

/// Reads a place as it was written.
///
/// # Errors
/// If it is none.
pub(crate) fn cursor(text: &str) -> Result<Cursor, Problem> {
    let parts = text.trim().split_once('-');
    let parts =
        parts.and_then(|(transaction, position)| Some((transaction.parse().ok()?, position.parse().ok()?)));
    let Some((transaction, position)) = parts else {
        let what = "this is no place in the order of events";
        let advice = "send the id of the last event that came, or 0-0 for all";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_cursor", what, advice));
    };
    // No store counts further than this.
    let most = u64::from(u32::MAX) << 31;
    Ok(Cursor { transaction, position: most.min(position) })
}

/// Which events somebody wants, and may have.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// Only this session.
    pub(crate) session: Option<String>,
    /// Only sessions that they may see.
    pub(crate) who: Principal,
}

impl Filter {
    fn takes_all(&self) -> bool {
        self.session.is_none() && self.who.scope == Scope::All
    }

    /// Whether an event of a session is wanted, asking the store whose it is if need be.
    fn takes(&self, office: &Office, session: &str) -> Result<bool, Problem> {
        Ok(self.session.as_ref().is_none_or(|own| own == session) && office.sees(&self.who, session)?)
    }

    /// The same without the store; `None` if only the store knows.
    fn takes_now(&self, office: &Office, session: &str) -> Option<bool> {
        if self.session.as_ref().is_some_and(|own| own != session) {
            return Some(false);
        }
        match &self.who.scope {
            Scope::All => Some(true),
            Scope::Prefix(prefix) => Some(session.starts_with(prefix.as_str())),
            Scope::Own => office.owners.cached(session, &self.who.name),
        }
    }
}

/// Somebody who listens.
pub(crate) struct Listener {
    office: Shared,
    filter: Filter,
    /// Everything up to here was handed over.
    place: Cursor,
    news: broadcast::Receiver<Arc<News>>,
    closing: watch::Receiver<bool>,
    /// There is more in the store than was handed over.
    behind: bool,
    until: Instant,
    /// When something must be said again, be it only that somebody is there.
    beat: Instant,
    ready: std::collections::VecDeque<Bytes>,
    /// How much their key may read at a time.
    reads: Option<Arc<Semaphore>>,
    _seat: OwnedSemaphorePermit,
}

impl Listener {
    /// Begins after a place, or now.
    ///
    /// # Errors
    /// If too many listen, or the store cannot be read.
    pub(crate) async fn new(
        office: Shared,
        filter: Filter,
        after: Option<Cursor>,
        reads: Option<Arc<Semaphore>>,
    ) -> Result<Self, Problem> {
        let Ok(seat) = Arc::clone(&office.live.seats).try_acquire_owned() else {
            let what = format!("{LISTENERS} listen already");
            let advice = "wait as long as Retry-After says, or listen at another server of the store";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_listeners", what, advice));
        };
        // First the ear, then the place: what comes between the two is noticed.
        let news = office.live.news.subscribe();
        let place = match after {
            Some(place) => place,
            None => office.look(|office| office.desk().newest()).await?,
        };
        let closing = office.signals.closing();
        let hello = format!("retry: 1000\nid: {}\n: from here on\n\n", written(place));
        Ok(Listener {
            office,
            filter,
            place,
            news,
            closing,
            behind: true,
            until: Instant::now() + LONGEST,
            beat: Instant::now() + BEAT,
            ready: [Bytes::from(hello)].into(),
            reads,
            _seat: seat,
        })
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if *self.closing.borrow() || Instant::now() >= self.until {
                return None;
            }
            if let Some(piece) = self.ready.pop_front() {
                self.beat = Instant::now() + BEAT;
                return Some(piece);
            }
            if Instant::now() >= self.beat {
                // The place goes along: whoever comes back need not have everything looked through again.
                self.ready.push_back(Bytes::from(format!("id: {}\n: still here\n\n", written(self.place))));
                continue;
            }
            if self.behind {
                self.read_on().await;
                continue;
            }
            tokio::select! {
                _ = self.closing.changed() => {}
                news = self.news.recv() => match news {
                    Ok(news) => self.hear(&news),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(self.until.min(self.beat)) => {}
            }
        }
    }

    async fn read_on(&mut self) {
        // A listener that is far behind reads much: all listeners of a key take turns.
        let _turn = match &self.reads {
            Some(reads) => Arc::clone(reads).acquire_owned().await.ok(),
            None => None,
        };
        let (place, filter) = (self.place, self.filter.clone());
        let read = move |office: &Office| {
            let entries = office.desk().since(place, OWN_PORTION)?;
            let wanted = entries.iter().map(|entry| filter.takes(office, &entry.session));
            let wanted = wanted.collect::<Result<Vec<bool>, Problem>>()?;
            Ok::<_, Problem>((entries, wanted))
        };
        match self.office.look(read).await {
            Ok((entries, wanted)) => {
                let mut held = 0;
                // One at least, whatever its size.
                let fits = |entry: &&Entry| {
                    let fits = held < OWN_BYTES;
                    held += entry.record.text.len() + entry.record.decision.len();
                    fits
                };
                let some: Vec<&Entry> = entries.iter().take_while(fits).collect();
                self.behind = entries.len() == OWN_PORTION || some.len() < entries.len();
                self.place = some.last().map_or(place, |last| last.cursor);
                let wanted = some.into_iter().zip(wanted).filter(|(_, wanted)| *wanted);
                let text: String = wanted.map(|(entry, _)| line(entry)).collect();
                if !text.is_empty() {
                    self.ready.push_back(Bytes::from(text));
                }
            }
            // Too much to do, or no store: it is still there later, and so are we.
            Err(_) => {
                tokio::select! {
                    _ = self.closing.changed() => {}
                    () = tokio::time::sleep(LATER) => {}
                }
            }
        }
    }

    fn hear(&mut self, news: &News) {
        if news.to <= self.place {
            return;
        }
        let Some((whole, lines)) = news.said.as_ref().filter(|_| news.from <= self.place) else {
            self.behind = true;
            return;
        };
        if news.from == self.place && self.filter.takes_all() {
            self.ready.push_back(whole.clone());
        } else {
            let place = self.place;
            let mut wanted = Vec::new();
            for line in lines.iter().filter(|line| line.cursor > place) {
                match self.filter.takes_now(&self.office, &line.session) {
                    Some(true) => wanted.push(line.text.clone()),
                    Some(false) => {}
                    // Whose session it is, only the store knows: what is new is read from there.
                    None => {
                        self.behind = true;
                        return;
                    }
                }
            }
            self.ready.extend(wanted);
        }
        self.place = news.to;
    }
}
