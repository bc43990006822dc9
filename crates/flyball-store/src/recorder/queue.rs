//! Commit queue: submitters wait in small groups, each of which is dequeued and notified as a whole.

use super::commit::BatchAnswers;
use super::{RecordError, RecordResult, lock};
use crate::submission::BoxedSubmission;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Group size from which on a group is full. A single submission may exceed it.
const GROUP_CAPACITY: usize = 8;

/// A processed event: its answer, and the event itself to return to the submitter.
type ServedEvent = (Option<RecordResult>, BoxedSubmission);

/// Submitters that wait for the next commits.
#[derive(Default)]
pub(super) struct CommitQueue {
    groups: VecDeque<(Arc<Waiters>, Vec<BoxedSubmission>)>,
    has_leader: bool,
}

impl CommitQueue {
    /// Enqueues events; returns their group, their positions in it, and whether the caller must lead.
    pub(super) fn enqueue(
        &mut self,
        events: impl IntoIterator<Item = BoxedSubmission>,
    ) -> (Arc<Waiters>, Range<usize>, bool) {
        let roomy = self.groups.back().is_some_and(|(_, waiting)| waiting.len() < GROUP_CAPACITY);
        let (waiters, mut waiting) = if roomy { self.groups.pop_back() } else { None }.unwrap_or_default();
        let first = waiting.len();
        waiting.extend(events);
        let places = first..waiting.len();
        self.groups.push_back((Arc::clone(&waiters), waiting));
        (waiters, places, !std::mem::replace(&mut self.has_leader, true))
    }

    /// Dequeues groups up to the limit, and at least one if the batch is empty; returns the positions of their
    /// events.
    pub(super) fn dequeue_into(&mut self, batch: &mut CommitBatch, most: usize) -> Range<usize> {
        let first = batch.events.len();
        while let Some((waiters, events)) = self.groups.pop_front() {
            if !batch.events.is_empty() && batch.events.len() + events.len() > most {
                self.groups.push_front((waiters, events));
                break;
            }
            batch.groups.push((waiters, events.len()));
            batch.events.extend(events);
        }
        batch.answers.list.resize_with(batch.events.len(), || None);
        first..batch.events.len()
    }

    /// Wakes a waiter to lead the next commit; returns whether there is one.
    pub(super) fn wake_next_leader(&mut self) -> bool {
        let Some((next, _)) = self.groups.front() else {
            self.has_leader = false;
            return false;
        };
        next.wake_leader();
        true
    }
}

/// All events of one commit.
#[derive(Default)]
pub(super) struct CommitBatch {
    pub(super) events: Vec<BoxedSubmission>,
    pub(super) answers: BatchAnswers,
    /// The groups and their sizes, in the order of their events.
    groups: Vec<(Arc<Waiters>, usize)>,
}

impl CommitBatch {
    /// Delivers all answers; returns their number.
    pub(super) fn deliver(self) -> usize {
        let count = self.events.len();
        let mut served = self.answers.list.into_iter().zip(self.events).map(Some);
        for (waiters, size) in self.groups {
            waiters.deliver(served.by_ref().take(size).collect());
        }
        count
    }
}

/// Submitters that wait together.
#[derive(Default)]
pub(super) struct Waiters {
    progress: Mutex<WaitersState>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitersState {
    /// A member of this group must lead.
    needs_leader: bool,
    /// The answers, once the commit is done.
    served: Option<Vec<Option<ServedEvent>>>,
}

/// Reply to a waiter.
pub(super) enum CommitReply {
    /// Its answer, and the event.
    Served(RecordResult, Option<BoxedSubmission>),
    /// It must lead the next commit.
    BecomeLeader,
}

impl Waiters {
    /// Makes one of the waiters lead.
    fn wake_leader(&self) {
        lock(&self.progress).needs_leader = true;
        self.changed.notify_one();
    }

    fn deliver(&self, served: Vec<Option<ServedEvent>>) {
        lock(&self.progress).served = Some(served);
        // Wakes all at once: one system call, and later wake-ups find the processors still active.
        self.changed.notify_all();
    }

    /// Waits for the reply at a position.
    pub(super) fn wait(&self, place: usize) -> CommitReply {
        let mut progress = lock(&self.progress);
        loop {
            if let Some(all) = progress.served.as_mut() {
                let (answer, event) = take_answer(all.get_mut(place));
                return CommitReply::Served(answer, event);
            }
            if std::mem::take(&mut progress.needs_leader) {
                return CommitReply::BecomeLeader;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes the answer at a position, and the event.
fn take_answer(place: Option<&mut Option<ServedEvent>>) -> (RecordResult, Option<BoxedSubmission>) {
    let served = place.and_then(Option::take);
    let (answer, event) = served.map_or((None, None), |(answer, event)| (answer, Some(event)));
    // `None` only if the leader of the commit panicked.
    (answer.unwrap_or_else(|| Err(RecordError::writer_lost())), event)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::error::{StoreError, StoreErrorKind};
    use crate::submission::Submission;

    fn events(count: usize) -> Vec<BoxedSubmission> {
        let line = r#"{"type":"session.started","session":"s"}"#;
        (0..count).map(|_| BoxedSubmission::from(Submission::parse(line, Some(0)).unwrap())).collect()
    }

    #[test]
    fn first_caller_leads_and_a_full_group_is_followed_by_another() {
        let mut queue = CommitQueue::default();
        let joined: Vec<_> = (0..=GROUP_CAPACITY).map(|_| queue.enqueue(events(1))).collect();
        let leads: Vec<usize> = (0..=GROUP_CAPACITY).filter(|at| joined[*at].2).collect();
        assert_eq!(leads, [0]);
        let places: Vec<usize> = joined.iter().map(|(_, places, _)| places.start).collect();
        assert_eq!(places, (0..GROUP_CAPACITY).chain([0]).collect::<Vec<_>>());
        assert!(Arc::ptr_eq(&joined[0].0, &joined[GROUP_CAPACITY - 1].0));
        assert!(!Arc::ptr_eq(&joined[0].0, &joined[GROUP_CAPACITY].0));
    }

    #[test]
    fn groups_are_dequeued_whole_up_to_the_limit() {
        let mut queue = CommitQueue::default();
        for count in [GROUP_CAPACITY, GROUP_CAPACITY, 3] {
            queue.enqueue(events(count));
        }
        let mut batch = CommitBatch::default();
        assert_eq!(queue.dequeue_into(&mut batch, 2 * GROUP_CAPACITY), 0..2 * GROUP_CAPACITY);
        assert_eq!(
            queue.dequeue_into(&mut batch, 2 * GROUP_CAPACITY),
            2 * GROUP_CAPACITY..2 * GROUP_CAPACITY,
            "the third does not fit"
        );
        assert!(queue.wake_next_leader(), "a member of the third leads");
        let mut next = CommitBatch::default();
        assert_eq!(queue.dequeue_into(&mut next, 2 * GROUP_CAPACITY), 0..3);
        assert!(!queue.wake_next_leader());
        assert!(queue.enqueue(events(1)).2, "no leader is left");
    }

    #[test]
    fn oversized_group_is_dequeued_alone() {
        let mut queue = CommitQueue::default();
        queue.enqueue(events(100));
        queue.enqueue(events(1));
        let mut batch = CommitBatch::default();
        assert_eq!(queue.dequeue_into(&mut batch, 16), 0..100);
    }

    #[test]
    fn each_waiter_receives_its_own_answer() {
        let mut queue = CommitQueue::default();
        let (waiters, places, _) = queue.enqueue(events(2));
        let mut batch = CommitBatch::default();
        queue.dequeue_into(&mut batch, 16);
        let error = StoreError::new(StoreErrorKind::Busy, "a");
        batch.answers.list = vec![Some(Err(error.clone().into())), None];
        assert_eq!(batch.deliver(), 2);
        for (place, refusal) in places.zip([RecordError::Store(error), RecordError::writer_lost()]) {
            assert!(
                matches!(waiters.wait(place), CommitReply::Served(Err(heard), Some(_)) if heard == refusal)
            );
        }
    }
}
