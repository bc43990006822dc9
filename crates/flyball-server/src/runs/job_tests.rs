//! A job has one lease at a time, and a request that arrives meanwhile runs afterwards.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::{InterruptedStep, JobQueue, LEASE_MS, LeasedJob};
use flyball_store::{AdminStore, StoreAddress};
use std::path::Path;
use std::sync::Arc;

fn job_queue() -> (Arc<dyn AdminStore>, JobQueue) {
    let store = StoreAddress::parse("memory:", Path::new(".")).unwrap().open().unwrap();
    (Arc::clone(&store), JobQueue::new(store))
}

fn lease(jobs: &JobQueue, who: &str) -> Option<LeasedJob> {
    jobs.lease(who, |_| Ok(true)).unwrap()
}

#[test]
fn job_is_leased_once_and_removed_when_done() {
    let (_, jobs) = job_queue();
    jobs.enqueue("s", "anna", None).unwrap();
    assert!(jobs.lease("w0", |_| Ok(false)).unwrap().is_none(), "a worker skips a job that it cannot run");
    let mut first = lease(&jobs, "w1").unwrap();
    assert!(lease(&jobs, "w2").is_none());
    assert!(jobs.renew(&mut first).unwrap());
    assert!(jobs.complete(&mut first).unwrap());
    assert!(jobs.find("s").unwrap().is_none());
    assert!(!jobs.renew(&mut first).unwrap(), "a finished job has no lease");
}

#[test]
fn job_enqueued_while_running_runs_again() {
    let (_, jobs) = job_queue();
    jobs.enqueue("s", "anna", Some(InterruptedStep::Rerun)).unwrap();
    let mut first = lease(&jobs, "w1").unwrap();
    jobs.enqueue("s", "ben", None).unwrap();
    jobs.enqueue("s", "ben", None).unwrap();
    assert!(jobs.renew(&mut first).unwrap(), "the lease is still held");
    assert!(jobs.complete(&mut first).unwrap());
    let mut second = lease(&jobs, "w2").unwrap();
    assert_eq!((second.job.epoch, second.job.interrupted), (2, None));
    assert!(jobs.complete(&mut second).unwrap());
    assert!(lease(&jobs, "w3").is_none(), "two requests meanwhile cause one more run");
}

#[test]
fn expired_lease_cannot_be_renewed() {
    let (store, jobs) = job_queue();
    jobs.enqueue("s", "anna", None).unwrap();
    let mut first = lease(&jobs, "w1").unwrap();
    // As if the lease had run out: the note as it is, free since yesterday.
    let mut note = store.kv_get("orders", "s").unwrap().unwrap();
    let free_at = first.job.available_at;
    assert!(free_at >= LEASE_MS);
    note.value = note.value.replace(&free_at.to_string(), "0");
    assert!(store.kv_put(&note, flyball_store::Precondition::Any).unwrap());
    let mut second = lease(&jobs, "w2").unwrap();
    assert!(!jobs.renew(&mut first).unwrap());
    assert!(!jobs.complete(&mut first).unwrap());
    assert!(!jobs.release(&mut first, 0, 0).unwrap());
    assert!(jobs.release(&mut second, 0, 3).unwrap());
    assert_eq!(lease(&jobs, "w3").unwrap().job.crashes, 3);
}
