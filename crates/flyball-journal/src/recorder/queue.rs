//! Those who wait for a commit: in small parties, each of which is let in as a whole and told at once.

use super::batch::Answers;
use super::{Answer, Refusal, lock};
use crate::incoming::Parcel;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A party with so many is full; whoever brings more than that at once may go over it.
const FULL: usize = 8;

/// An event that was served: its answer, and the event for whoever has brought it to put away.
type Served = (Option<Answer>, Parcel);

/// Those who wait for the next commits.
#[derive(Default)]
pub(super) struct Queue {
    parties: VecDeque<(Arc<Party>, Vec<Parcel>)>,
    leading: bool,
}

impl Queue {
    /// Events join the line; gives their party, their places in it, and whether whoever has brought them is to lead.
    pub(super) fn join(
        &mut self,
        events: impl IntoIterator<Item = Parcel>,
    ) -> (Arc<Party>, Range<usize>, bool) {
        let roomy = self.parties.back().is_some_and(|(_, waiting)| waiting.len() < FULL);
        let (party, mut waiting) = if roomy { self.parties.pop_back() } else { None }.unwrap_or_default();
        let first = waiting.len();
        waiting.extend(events);
        let places = first..waiting.len();
        self.parties.push_back((Arc::clone(&party), waiting));
        (party, places, !std::mem::replace(&mut self.leading, true))
    }

    /// Lets parties in as far as there is room, and one in any case if nobody is in; gives the places of their events.
    pub(super) fn let_in(&mut self, sitting: &mut Sitting, most: usize) -> Range<usize> {
        let first = sitting.events.len();
        while let Some((party, events)) = self.parties.pop_front() {
            if !sitting.events.is_empty() && sitting.events.len() + events.len() > most {
                self.parties.push_front((party, events));
                break;
            }
            sitting.parties.push((party, events.len()));
            sitting.events.extend(events);
        }
        sitting.answers.list.resize_with(sitting.events.len(), || None);
        first..sitting.events.len()
    }

    /// Lets one of those who wait lead the next commit; says whether there is one.
    pub(super) fn hand_over(&mut self) -> bool {
        let Some((next, _)) = self.parties.front() else {
            self.leading = false;
            return false;
        };
        next.call();
        true
    }
}

/// Everybody who is served by one commit.
#[derive(Default)]
pub(super) struct Sitting {
    pub(super) events: Vec<Parcel>,
    pub(super) answers: Answers,
    /// Those who wait together, and how many they are, in the order of their events.
    parties: Vec<(Arc<Party>, usize)>,
}

impl Sitting {
    /// Tells everybody; gives how many they were.
    pub(super) fn tell(self) -> usize {
        let count = self.events.len();
        let mut served = self.answers.list.into_iter().zip(self.events).map(Some);
        for (party, size) in self.parties {
            party.tell(served.by_ref().take(size).collect());
        }
        count
    }
}

/// Those who wait together.
#[derive(Default)]
pub(super) struct Party {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Somebody of this party is to lead.
    lead: bool,
    /// It is over.
    served: Option<Vec<Option<Served>>>,
}

/// What somebody who waits gets to hear.
pub(super) enum Heard {
    /// Their answer, and the event.
    Served(Answer, Option<Parcel>),
    /// They are to lead the next commit.
    Lead,
}

impl Party {
    /// One of them is to lead.
    fn call(&self) {
        lock(&self.progress).lead = true;
        self.changed.notify_one();
    }

    fn tell(&self, served: Vec<Option<Served>>) {
        lock(&self.progress).served = Some(served);
        // All at once: it costs one call of the system, and who wakes later finds the processors busy, not asleep.
        self.changed.notify_all();
    }

    /// Waits in one's place.
    pub(super) fn wait(&self, place: usize) -> Heard {
        let mut progress = lock(&self.progress);
        loop {
            if let Some(all) = progress.served.as_mut() {
                let (answer, event) = answered(all.get_mut(place));
                return Heard::Served(answer, event);
            }
            if std::mem::take(&mut progress.lead) {
                return Heard::Lead;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The answer in its place, and the event.
fn answered(place: Option<&mut Option<Served>>) -> (Answer, Option<Parcel>) {
    let served = place.and_then(Option::take);
    let (answer, event) = served.map_or((None, None), |(answer, event)| (answer, Some(event)));
    // None only if whoever led the commit has panicked.
    (answer.unwrap_or_else(|| Err(Refusal::lost())), event)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

    use super::*;
    use crate::error::{StoreError, Trouble};
    use crate::incoming::Incoming;

    fn events(count: usize) -> Vec<Parcel> {
        let line = r#"{"type":"session.started","session":"s"}"#;
        (0..count).map(|_| Parcel::from(Incoming::read(line, Some(0)).unwrap())).collect()
    }

    #[test]
    fn the_first_leads_and_a_full_party_is_followed_by_another() {
        let mut queue = Queue::default();
        let joined: Vec<_> = (0..=FULL).map(|_| queue.join(events(1))).collect();
        let leads: Vec<usize> = (0..=FULL).filter(|at| joined[*at].2).collect();
        assert_eq!(leads, [0]);
        let places: Vec<usize> = joined.iter().map(|(_, places, _)| places.start).collect();
        assert_eq!(places, (0..FULL).chain([0]).collect::<Vec<_>>());
        assert!(Arc::ptr_eq(&joined[0].0, &joined[FULL - 1].0));
        assert!(!Arc::ptr_eq(&joined[0].0, &joined[FULL].0));
    }

    #[test]
    fn parties_are_let_in_whole_as_far_as_there_is_room() {
        let mut queue = Queue::default();
        for count in [FULL, FULL, 3] {
            queue.join(events(count));
        }
        let mut sitting = Sitting::default();
        assert_eq!(queue.let_in(&mut sitting, 2 * FULL), 0..2 * FULL);
        assert_eq!(queue.let_in(&mut sitting, 2 * FULL), 2 * FULL..2 * FULL, "the third has no room");
        assert!(queue.hand_over(), "one of the third leads");
        let mut next = Sitting::default();
        assert_eq!(queue.let_in(&mut next, 2 * FULL), 0..3);
        assert!(!queue.hand_over());
        assert!(queue.join(events(1)).2, "nobody leads any more");
    }

    #[test]
    fn who_brings_more_than_there_is_room_for_is_let_in_alone() {
        let mut queue = Queue::default();
        queue.join(events(100));
        queue.join(events(1));
        let mut sitting = Sitting::default();
        assert_eq!(queue.let_in(&mut sitting, 16), 0..100);
    }

    #[test]
    fn everybody_hears_what_is_in_their_place_once() {
        let mut queue = Queue::default();
        let (party, places, _) = queue.join(events(2));
        let mut sitting = Sitting::default();
        queue.let_in(&mut sitting, 16);
        let error = StoreError::new(Trouble::Busy, "a");
        sitting.answers.list = vec![Some(Err(error.clone().into())), None];
        assert_eq!(sitting.tell(), 2);
        for (place, refusal) in places.zip([Refusal::Store(error), Refusal::lost()]) {
            assert!(matches!(party.wait(place), Heard::Served(Err(heard), Some(_)) if heard == refusal));
        }
    }
}
