//! One worker has an order at a time, and what is said meanwhile is carried out afterwards.

#![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

use super::{Claimed, CutOff, LEASE_MS, Orders};
use flyball_journal::{Address, Desk};
use std::path::Path;
use std::sync::Arc;

fn orders() -> (Arc<dyn Desk>, Orders) {
    let desk = Address::read("memory:", Path::new(".")).unwrap().open().unwrap();
    (Arc::clone(&desk), Orders::new(desk))
}

fn claim(orders: &Orders, who: &str) -> Option<Claimed> {
    orders.claim(who, |_| Ok(true)).unwrap()
}

#[test]
fn an_order_is_taken_by_one_and_gone_when_it_is_done() {
    let (_, orders) = orders();
    orders.place("s", "anna", None).unwrap();
    assert!(orders.claim("w0", |_| Ok(false)).unwrap().is_none(), "one who cannot do it leaves it");
    let mut first = claim(&orders, "w1").unwrap();
    assert!(claim(&orders, "w2").is_none());
    assert!(orders.renew(&mut first).unwrap());
    assert!(orders.finish(&mut first).unwrap());
    assert!(orders.find("s").unwrap().is_none());
    assert!(!orders.renew(&mut first).unwrap(), "what is done is nobody's");
}

#[test]
fn what_is_said_while_a_worker_is_at_it_is_carried_out_once_more() {
    let (_, orders) = orders();
    orders.place("s", "anna", Some(CutOff::Rerun)).unwrap();
    let mut first = claim(&orders, "w1").unwrap();
    orders.place("s", "ben", None).unwrap();
    orders.place("s", "ben", None).unwrap();
    assert!(orders.renew(&mut first).unwrap(), "it is still ours");
    assert!(orders.finish(&mut first).unwrap());
    let mut second = claim(&orders, "w2").unwrap();
    assert_eq!((second.order.epoch, second.order.cut_off), (2, None));
    assert!(orders.finish(&mut second).unwrap());
    assert!(claim(&orders, "w3").is_none(), "two words at once are one more time");
}

#[test]
fn an_order_that_was_taken_over_is_no_longer_ours() {
    let (desk, orders) = orders();
    orders.place("s", "anna", None).unwrap();
    let mut first = claim(&orders, "w1").unwrap();
    // As if the lease had run out: the note as it is, free since yesterday.
    let mut note = desk.note("orders", "s").unwrap().unwrap();
    let free_at = first.order.free_at;
    assert!(free_at >= LEASE_MS);
    note.text = note.text.replace(&free_at.to_string(), "0");
    assert!(desk.put(&note, flyball_journal::If::Any).unwrap());
    let mut second = claim(&orders, "w2").unwrap();
    assert!(!orders.renew(&mut first).unwrap());
    assert!(!orders.finish(&mut first).unwrap());
    assert!(!orders.put_back(&mut first, 0, 0).unwrap());
    assert!(orders.put_back(&mut second, 0, 3).unwrap());
    assert_eq!(claim(&orders, "w3").unwrap().order.crashes, 3);
}
