//! Orders: a note for each session that is to go on, taken by one worker for a while.
//!
//! The note is changed only on the condition that it is as it was read, so of all who try exactly one succeeds. What is
//! said while a worker is at it is not lost: the order is marked, and carried out once more.

use flyball_journal::{Desk, If, Note, StoreError, Trouble};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Where orders are kept.
const SHELF: &str = "orders";
/// How long an order is a worker's own without a word from it, in milliseconds of store time.
pub(super) const LEASE_MS: u64 = 6_000;
/// How many orders are looked at in one read.
const PAGE: usize = 100;
/// How often something that others change is tried before we say so.
const TRIES: usize = 50;

/// What to do with a step that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CutOff {
    /// Run it again, although nobody knows how far it came.
    Rerun,
    /// Take it as failed, and go on.
    Skip,
}

/// An order that a session goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The session.
    pub(crate) session: String,
    /// Who wants it.
    pub(crate) by: String,
    /// Since when, in milliseconds of store time.
    pub(crate) placed: u64,
    /// What to do with a step that was cut off; else a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut_off: Option<CutOff>,
    /// The worker that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// Grows with every worker that takes it.
    pub(crate) epoch: u64,
    /// From when on it may be taken, in milliseconds of store time.
    pub(crate) free_at: u64,
    /// Something was said since it was taken.
    #[serde(default)]
    pub(crate) again: bool,
    /// How often its process ended by a signal.
    #[serde(default)]
    pub(crate) crashes: u32,
}

/// An order that is ours, as it stands in the store.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) order: Order,
    text: String,
}

/// The orders of a store.
pub(crate) struct Orders {
    desk: Arc<dyn Desk>,
}

impl Orders {
    pub(super) fn new(desk: Arc<dyn Desk>) -> Self {
        Orders { desk }
    }

    /// Puts an order, or marks the one that is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn place(&self, session: &str, by: &str, cut_off: Option<CutOff>) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let now = self.desk.now()?;
            let there = self.desk.note(SHELF, session)?;
            let mut order = match &there {
                Some(note) => read(note)?,
                None => Order {
                    session: session.to_owned(),
                    by: by.to_owned(),
                    placed: now,
                    cut_off,
                    holder: None,
                    epoch: 0,
                    free_at: 0,
                    again: false,
                    crashes: 0,
                },
            };
            let only_if = match &there {
                None => If::New,
                Some(note) => {
                    (order.cut_off, order.crashes) = (cut_off.or(order.cut_off), 0);
                    if order.holder.is_some() {
                        order.again = true;
                    } else {
                        order.free_at = 0;
                    }
                    If::Was(&note.text)
                }
            };
            if self.desk.put(&note(&order, None)?, only_if)? {
                return Ok(());
            }
        }
        Err(busy())
    }

    /// The order for a session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, session: &str) -> Result<Option<Order>, StoreError> {
        self.desk.note(SHELF, session)?.as_ref().map(read).transpose()
    }

    /// Takes an order that is free and that we can carry out.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(super) fn claim(
        &self,
        holder: &str,
        can: impl Fn(&Order) -> Result<bool, StoreError>,
    ) -> Result<Option<Claimed>, StoreError> {
        let mut after = String::new();
        loop {
            let page = self.desk.notes(SHELF, &after, PAGE)?;
            let Some(last) = page.last() else { return Ok(None) };
            after.clone_from(&last.key);
            let now = self.desk.now()?;
            for found in &page {
                let mut order = read(found)?;
                if order.free_at > now || !can(&order)? {
                    continue;
                }
                order.holder = Some(holder.to_owned());
                order.epoch += 1;
                order.free_at = now.saturating_add(LEASE_MS);
                order.again = false;
                let new = note(&order, None)?;
                if self.desk.put(&new, If::Was(&found.text))? {
                    return Ok(Some(Claimed { order, text: new.text }));
                }
            }
        }
    }

    /// Says that we still have it. `false` if it was taken by another.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn renew(&self, claimed: &mut Claimed) -> Result<bool, StoreError> {
        let free_at = self.desk.now()?.saturating_add(LEASE_MS);
        self.change(claimed, |order| {
            order.free_at = free_at;
            None
        })
    }

    /// Puts it back for anybody, to be taken after a while.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn put_back(
        &self,
        claimed: &mut Claimed,
        wait_ms: u64,
        crashes: u32,
    ) -> Result<bool, StoreError> {
        let free_at = self.desk.now()?.saturating_add(wait_ms);
        self.change(claimed, |order| {
            (order.holder, order.free_at, order.again, order.crashes) = (None, free_at, false, crashes);
            None
        })
    }

    /// It is carried out. If something was said meanwhile it is not, and may be taken again at once.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn finish(&self, claimed: &mut Claimed) -> Result<bool, StoreError> {
        self.change(claimed, |order| {
            // What a person said about a step that was cut off was about that step.
            (order.holder, order.free_at, order.cut_off) = (None, 0, None);
            // A note that was void from the beginning: taken away, but only if nobody has changed it.
            if std::mem::take(&mut order.again) { None } else { Some(0) }
        })
    }

    /// Changes an order that is ours, whatever others have marked on it meanwhile.
    fn change(
        &self,
        claimed: &mut Claimed,
        change: impl Fn(&mut Order) -> Option<u64>,
    ) -> Result<bool, StoreError> {
        for _ in 0..TRIES {
            let mut order = claimed.order.clone();
            let until = change(&mut order);
            let new = note(&order, until)?;
            if self.desk.put(&new, If::Was(&claimed.text))? {
                *claimed = Claimed { order, text: new.text };
                return Ok(true);
            }
            let Some(there) = self.desk.note(SHELF, &claimed.order.session)? else { return Ok(false) };
            let now = read(&there)?;
            if (now.epoch, &now.holder) != (claimed.order.epoch, &claimed.order.holder) {
                return Ok(false);
            }
            *claimed = Claimed { order: now, text: there.text };
        }
        Err(busy())
    }
}

fn busy() -> StoreError {
    StoreError::new(Trouble::Busy, "too many change this order at the same time")
}

fn note(order: &Order, until: Option<u64>) -> Result<Note, StoreError> {
    let text =
        serde_json::to_string(order).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))?;
    Ok(Note { shelf: SHELF.to_owned(), key: order.session.clone(), text, until })
}

fn read(note: &Note) -> Result<Order, StoreError> {
    let damaged = |error| StoreError::corrupt(format!("an order cannot be read: {error}"));
    serde_json::from_str(&note.text).map_err(damaged)
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
