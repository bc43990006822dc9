//! One commit for many events: fold them, store them, and answer only what is stored.

use super::cache::Cache;
use super::draft::{Draft, Drafts, Rules};
use super::fold::{REMEMBERED, has_parent, root_of};
use super::queue::Sitting;
use super::{Answer, Recorder, Refusal, lock};
use crate::error::{StoreError, Trouble};
use crate::incoming::Parcel;
use crate::journal::{Appended, Unit};
use crate::lookup::Lookup;
use crate::probe::Point;
use flyball::Decision;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often an event is tried again when its session has moved meanwhile.
const TRIES: u32 = 64;
/// What a try counts for in which the store failed: there is less hope in that.
const FAILURE: u32 = 8;
/// The longest wait between two tries, so that those who want the same session do not come at the same time again.
const LONGEST_WAIT_MS: u64 = 32;

/// How long to wait for more events at most, here and in a line: about as long as a quick disk takes.
pub(crate) const GATHER: Duration = Duration::from_micros(300);

/// A session that stays in memory is snapshotted so many times less often: nobody has to load it.
const WARM: u64 = 3;
/// The most events without a snapshot: whoever takes the session up has to fold them again.
const LONGEST_TAIL: u64 = 96;

/// What is being put together for one append.
#[derive(Default)]
pub(super) struct Work {
    pub(super) drafts: Drafts,
    /// The sessions whose handles were looked at.
    pub(super) reconciled: BTreeSet<String>,
    /// Events that are answered once their session is stored.
    waiting: Vec<Waiting>,
    /// Events of sessions that are on their way to the store.
    later: Vec<usize>,
    /// Their sessions: nothing may overtake them.
    waits: BTreeSet<String>,
    /// Sessions that the store refused. It will be sent again, and nothing may overtake it.
    held: BTreeMap<String, StoreError>,
}

/// What was folded, as the store wants it.
struct Flight {
    names: Vec<String>,
    /// Policies that sessions are pinned to, and that are not in the store yet.
    policies: Vec<(String, String)>,
    units: Result<Vec<Unit>, StoreError>,
}

impl Default for Flight {
    fn default() -> Self {
        Flight { names: Vec::new(), policies: Vec::new(), units: Ok(Vec::new()) }
    }
}

/// What became of a flight: each unit and whether it was stored, or why nothing was.
type Landed = Result<(Vec<Unit>, Vec<Result<Appended, StoreError>>), StoreError>;

/// The answers of a batch.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) list: Vec<Option<Answer>>,
}

impl Answers {
    fn put(&mut self, index: usize, answer: Answer) {
        if let Some(place) = self.list.get_mut(index) {
            *place = Some(answer);
        }
    }

    /// What was never stored is answered with what kept it from being stored.
    fn fill(&mut self, last: &StoreError) {
        for answer in &mut self.list {
            answer.get_or_insert_with(|| Err(last.clone().into()));
        }
    }
}

struct Waiting {
    index: usize,
    session: String,
    decision: Decision,
    /// The number that tells our own event from somebody else's; none if it was answered before.
    nonce: Option<u64>,
}

/// What folding an event gave.
pub(super) enum Folded {
    /// It is stored already.
    Known(Decision),
    /// It was answered before, in this same batch.
    Again(Decision),
    /// It is new.
    New(Decision, u64),
    /// Its session, or one above it, is on its way to the store.
    Later,
}

impl Recorder {
    /// Decides upon everybody who waits and stores it in one transaction, as far as nobody else is quicker.
    ///
    /// In an engine with one writer, events are folded while the commit before is still under way, and whoever comes
    /// until it is over is let in. Then the next leader may begin, while this batch waits for the disk.
    pub(super) fn commit(&self) -> Sitting {
        let mut sitting = Sitting::default();
        let mut work = Work::default();
        let mut flight = Flight::default();
        let gated = self.journal.has_one_writer();
        let began = Instant::now();
        loop {
            self.fold_in(gated, &mut sitting, &mut work, &mut flight);
            if gated && self.expects_more(&sitting, began) {
                std::thread::yield_now();
            } else if !gated || self.gate.enter() {
                break;
            }
        }
        if gated {
            self.fold_in(gated, &mut sitting, &mut work, &mut flight);
        }
        self.turnout.note();
        if lock(&self.queue).hand_over() {
            self.crowded.store(true, Ordering::Relaxed);
        }
        let lasting = self.options.lasting || self.turnout.has_lasted();
        let apart = lasting || self.crowded.load(Ordering::Relaxed);
        let mut last = StoreError::new(Trouble::Busy, "others were quicker each time that this was tried");
        let later = std::mem::take(&mut work.later);
        let mut inside = gated;
        let mut leave = || {
            if std::mem::take(&mut inside) {
                self.gate.leave();
            }
        };
        let landed = self.land(flight, None, apart.then_some(&mut leave));
        leave();
        let mut open = self.answer(landed, work, &mut sitting.answers, &mut last);
        open.extend(later);
        if !open.is_empty() {
            self.again_and_again(open, &mut sitting, &mut last);
        }
        sitting.answers.fill(&last);
        sitting
    }

    /// Lets those in who wait, and folds their events. Where one commits after the other, not more than half of
    /// those who are about: while they are written, the others are decided upon.
    fn fold_in(&self, gated: bool, sitting: &mut Sitting, work: &mut Work, flight: &mut Flight) {
        let most = if gated { self.turnout.most() } else { usize::MAX };
        let open = lock(&self.queue).let_in(sitting, most);
        if !open.is_empty() {
            let mut cache = lock(&self.cache);
            self.fold_all(&mut cache, work, &sitting.events, open, &mut sitting.answers);
            self.take_off(&mut cache, work, flight);
            // Here, and not when this batch is over: the next one is being folded then, and answers would wait for it.
            cache.trim(self.options.hot_sessions, &self.flights);
        }
    }

    /// Whether it is worth looking if more come: where many write, those of the commit before are just coming back. A
    /// commit for few costs nearly as much as one for all of them.
    fn expects_more(&self, sitting: &Sitting, since: Instant) -> bool {
        let expected = sitting.events.len() < self.turnout.likely();
        expected && self.crowded.load(Ordering::Relaxed) && since.elapsed() < GATHER
    }

    /// Tries what is left over once more, and again; nobody may write between loading and storing now.
    fn again_and_again(&self, mut open: Vec<usize>, sitting: &mut Sitting, last: &mut StoreError) {
        let mut tries = 1;
        while !open.is_empty() && tries < TRIES {
            let mut cache = lock(&self.cache);
            let turn = match self.journal.turn() {
                Ok(turn) => turn,
                Err(error) => {
                    *last = error;
                    return;
                }
            };
            let mut work = Work::default();
            open.sort_unstable();
            self.fold_all(&mut cache, &mut work, &sitting.events, open, &mut sitting.answers);
            let later = std::mem::take(&mut work.later);
            let idle = work.drafts.is_empty();
            let mut flight = Flight::default();
            self.take_off(&mut cache, &mut work, &mut flight);
            let landed = self.land(flight, Some(&mut cache), None);
            open = self.answer(landed, work, &mut sitting.answers, last);
            drop(turn);
            drop(cache);
            if idle && !later.is_empty() {
                self.flights.wait();
            } else {
                tries += if last.trouble == Trouble::Busy { 1 } else { FAILURE };
            }
            open.extend(later);
            if !open.is_empty() && tries > 1 {
                pause(tries);
            }
        }
    }

    /// Folds events into their sessions, in order.
    fn fold_all(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        events: &[Parcel],
        open: impl IntoIterator<Item = usize>,
        answers: &mut Answers,
    ) {
        for index in open {
            let Some(event) = events.get(index) else { continue };
            let session = event.event.session.clone();
            if let Some(error) = work.held.get(&session) {
                answers.put(index, Err(error.clone().into()));
                continue;
            }
            if work.waits.contains(&session) {
                work.later.push(index);
                continue;
            }
            match self.take(cache, work, event) {
                Ok(Folded::Known(decision)) => {
                    answers.put(index, self.journal.harden().map(|()| decision).map_err(Refusal::Store));
                }
                Ok(Folded::Again(decision)) => {
                    work.waiting.push(Waiting { index, session, decision, nonce: None });
                }
                Ok(Folded::New(decision, nonce)) => {
                    work.waiting.push(Waiting { index, session, decision, nonce: Some(nonce) });
                }
                Ok(Folded::Later) => {
                    work.later.push(index);
                    work.waits.insert(session);
                }
                Err(refusal) => {
                    if let Refusal::Store(error) = &refusal {
                        work.held.insert(session, error.clone());
                    }
                    answers.put(index, Err(refusal));
                }
            }
        }
    }

    /// What was folded sets out for the store. The cache has the new heads already; if they do not arrive, it forgets
    /// them.
    fn take_off(&self, cache: &mut Cache, work: &mut Work, flight: &mut Flight) {
        let drafts = std::mem::take(&mut work.drafts).into_list();
        flight.names.extend(drafts.iter().map(|draft| draft.session().to_owned()));
        flight.policies.extend(drafts.iter().filter_map(|draft| cache.pinned_text(draft.session())));
        match (self.units(cache, drafts), &mut flight.units) {
            (Ok(units), Ok(all)) => {
                units.iter().flat_map(|unit| &unit.changes).for_each(|change| cache.moved(&change.head));
                all.extend(units);
            }
            (Err(error), all @ Ok(_)) => *all = Err(error),
            (_, Err(_)) => {}
        }
    }

    /// Stores what was folded. If others may come, `leave` lets the next of them write while this waits for the disk.
    fn land(&self, flight: Flight, cache: Option<&mut Cache>, leave: Option<&mut dyn FnMut()>) -> Landed {
        let Flight { names, policies, units } = flight;
        if names.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let stored = units.and_then(|units| {
            self.keep_policy()?;
            for (digest, text) in &policies {
                self.journal.keep_policy(digest, text)?;
            }
            self.options.probe.pass(Point::BeforeAppend);
            let outcomes = self.append(&units, leave)?;
            self.options.probe.pass(Point::AfterCommit);
            Ok((units, outcomes))
        });
        let mut own = None;
        let wrong = match &stored {
            Ok((_, outcomes)) if outcomes.iter().all(|outcome| *outcome == Ok(Appended::Done)) => Vec::new(),
            Ok((units, outcomes)) => left_behind(&names, units, outcomes),
            Err(_) => names.clone(),
        };
        if !wrong.is_empty() {
            // What is in memory was folded further than what is stored.
            let cache = match cache {
                Some(cache) => cache,
                None => own.insert(lock(&self.cache)),
            };
            wrong.iter().for_each(|name| cache.forget(name));
        }
        self.flights.end(&names);
        stored
    }

    /// Answers what was stored; returns the events that must be tried again. What kept the store from storing is left
    /// in `last`.
    fn answer(&self, landed: Landed, work: Work, answers: &mut Answers, last: &mut StoreError) -> Vec<usize> {
        match landed {
            Ok((units, outcomes)) => self.settle(units, outcomes, work.waiting, answers),
            Err(error) => {
                last.clone_from(&error);
                self.lost(&error, work.waiting, answers)
            }
        }
    }

    /// Stores units together. If one of them meets damage they are stored one by one, so that a damaged session keeps
    /// nobody else back.
    fn append(
        &self,
        units: &[Unit],
        leave: Option<&mut dyn FnMut()>,
    ) -> Result<Vec<Result<Appended, StoreError>>, StoreError> {
        let together = match leave {
            Some(leave) => self.journal.append_in_line(units, leave),
            None => self.journal.append(units),
        };
        match together {
            Ok(outcomes) => Ok(outcomes.into_iter().map(Ok).collect()),
            Err(error) if error.trouble == Trouble::Corrupt && !error.is_unknown() && units.len() > 1 => {
                let one = |unit: &Unit| {
                    let outcome = self.journal.append(std::slice::from_ref(unit))?;
                    Ok(outcome.first().copied().unwrap_or(Appended::Stale))
                };
                Ok(units.iter().map(one).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// The policy is kept before the first event that is decided under it.
    fn keep_policy(&self) -> Result<(), StoreError> {
        if !self.policy_kept.load(Ordering::Relaxed) {
            self.journal.keep_policy(&self.digest, &self.source.to_json())?;
            self.policy_kept.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The drafts as units: sessions of one family are stored together or not at all.
    fn units(&self, cache: &Cache, drafts: Vec<Draft>) -> Result<Vec<Unit>, StoreError> {
        let cold = self.options.snapshot_every;
        let warm = cold.saturating_mul(WARM).min(LONGEST_TAIL).max(cold);
        let mut units: Vec<Unit> = Vec::with_capacity(drafts.len());
        let mut families: Lookup<usize> = Lookup::default();
        let alone = drafts.iter().all(|draft| !has_parent(cache, draft.session()));
        for draft in drafts {
            let name = draft.session();
            let Some(session) = cache.sessions.get(name) else {
                return Err(StoreError::corrupt(format!("session '{name}' has no state")));
            };
            let root = if alone { String::new() } else { root_of(cache, name) };
            let every = match (cache.is_warm(name), cache.follows(name)) {
                (false, _) => cold,
                (true, true) => warm,
                // Its older ids are only in the store: new ones are told from them quickly as long as the session
                // itself knows all that no snapshot covers.
                (true, false) => warm.min(REMEMBERED),
            };
            let digest = cache.pinned_digest(name).unwrap_or(&self.digest);
            let rules = Rules { every, digest };
            let change = draft.finish(session.state(), session.policy(), &rules)?;
            match families.get(&root).and_then(|place| units.get_mut(*place)) {
                Some(unit) => unit.changes.push(change),
                None => {
                    if !alone {
                        families.insert(root, units.len());
                    }
                    units.push(Unit { changes: vec![change] });
                }
            }
        }
        Ok(units)
    }

    /// Answers what is stored; returns what must be tried again.
    fn settle(
        &self,
        units: Vec<Unit>,
        outcomes: Vec<Result<Appended, StoreError>>,
        waiting: Vec<Waiting>,
        answers: &mut Answers,
    ) -> Vec<usize> {
        if outcomes.iter().all(|outcome| *outcome == Ok(Appended::Done)) {
            waiting.into_iter().for_each(|entry| answers.put(entry.index, Ok(entry.decision)));
            return Vec::new();
        }
        let mut fate: BTreeMap<String, Result<Appended, StoreError>> = BTreeMap::new();
        for (unit, outcome) in units.into_iter().zip(outcomes) {
            fate.extend(unit.changes.into_iter().map(|change| (change.head.session, outcome.clone())));
        }
        let mut again = Vec::new();
        for entry in waiting {
            match fate.get(&entry.session) {
                Some(Ok(Appended::Done)) => answers.put(entry.index, Ok(entry.decision)),
                Some(Err(error)) => again.extend(self.lost(error, vec![entry], answers)),
                Some(Ok(Appended::Fenced)) if lock(&self.leases).contains_key(&entry.session) => {
                    let what = format!("session '{}' was taken over by another worker", entry.session);
                    answers.put(entry.index, Err(StoreError::new(Trouble::LeaseLost, what).into()));
                }
                _ => again.push(entry.index),
            }
        }
        again
    }

    /// Nothing was stored, or nobody knows: those who can be found again are answered.
    fn lost(&self, error: &StoreError, waiting: Vec<Waiting>, answers: &mut Answers) -> Vec<usize> {
        let mut again = Vec::new();
        // As in an attempt: nothing may overtake an event that was refused.
        let mut held: BTreeSet<String> = BTreeSet::new();
        for entry in waiting {
            if !error.is_unknown() {
                answers.put(entry.index, Err(error.clone().into()));
                continue;
            }
            let seq = entry.decision.seq;
            let read = self.journal.records(&entry.session, seq, seq);
            match read.and_then(|found| self.journal.harden().map(|()| found)) {
                Ok(found) if found.iter().any(|record| Some(record.nonce) == entry.nonce) => {
                    answers.put(entry.index, Ok(entry.decision));
                }
                Ok(_) if !held.contains(&entry.session) => again.push(entry.index),
                _ => {
                    answers.put(entry.index, Err(error.clone().unsure().into()));
                    held.insert(entry.session);
                }
            }
        }
        again
    }
}

/// The sessions of units that were not stored.
fn left_behind(names: &[String], units: &[Unit], outcomes: &[Result<Appended, StoreError>]) -> Vec<String> {
    let arrived = units.iter().zip(outcomes).filter(|(_, outcome)| **outcome == Ok(Appended::Done));
    let arrived: BTreeSet<&str> =
        arrived.flat_map(|(unit, _)| &unit.changes).map(|change| change.head.session.as_str()).collect();
    names.iter().filter(|name| !arrived.contains(name.as_str())).cloned().collect()
}

/// Waits a while that nobody else waits, longer with each try.
fn pause(tries: u32) {
    let most = (1_u64 << tries.min(10)).min(LONGEST_WAIT_MS) * 1_000;
    let micros = RandomState::new().hash_one(tries) % most;
    std::thread::park_timeout(Duration::from_micros(micros));
}
