//! Limits on unauthenticated connections.
//!
//! An unauthenticated connection is cheap to open and costs a file descriptor, so their number is limited in total
//! and per address. At the limit, the oldest connection of the address with the most is closed: a client that sends
//! its request immediately is served even while hundreds of slow ones connect. Invariant: an authenticated connection
//! is never closed to make room.

use crate::telemetry::AtomicCounter;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long an unauthenticated connection may stay open without a response.
const UNAUTHENTICATED_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits on open unauthenticated connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In total.
    pub unauthenticated: usize,
    /// Per address; the socket counts as one.
    pub unauthenticated_per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits { unauthenticated: 1_024, unauthenticated_per_address: 512 }
    }
}

/// Source of a connection; `None` is the socket.
type ConnectionSource = Option<IpAddr>;

/// Unauthenticated connections by age.
#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    all: BTreeMap<u64, (ConnectionSource, Arc<Notify>)>,
    by_source: BTreeMap<ConnectionSource, BTreeSet<u64>>,
}

impl OpenConnections {
    fn remove(&mut self, id: u64) -> Option<Arc<Notify>> {
        let (source, closed) = self.all.remove(&id)?;
        if let Some(ids) = self.by_source.get_mut(&source) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_source.remove(&source);
            }
        }
        Some(closed)
    }

    /// Closes the oldest connection of an address.
    fn close_oldest(&mut self, source: ConnectionSource) {
        let oldest = self.by_source.get(&source).and_then(|ids| ids.first().copied());
        if let Some(closed) = oldest.and_then(|id| self.remove(id)) {
            closed.notify_one();
        }
    }

    fn busiest(&self) -> Option<ConnectionSource> {
        self.by_source.iter().max_by_key(|(_, ids)| ids.len()).map(|(source, _)| *source)
    }
}

/// All unauthenticated connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
    /// Connections closed to make room.
    pub(crate) displaced: AtomicCounter,
    /// Connections closed because they got no response for too long.
    pub(crate) timed_out: AtomicCounter,
}

impl Connections {
    /// Creates the registry with these limits.
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Connections { limits, ..Connections::default() }
    }

    /// Number of unauthenticated connections.
    pub(crate) fn unauthenticated(&self) -> usize {
        self.lock().all.len()
    }

    /// The limits.
    pub(crate) fn limits(&self) -> ConnectionLimits {
        self.limits
    }

    /// Registers a connection and closes older ones over the limit.
    pub(crate) fn add(self: &Arc<Self>, source: ConnectionSource) -> Arc<Connection> {
        let closed = Arc::new(Notify::new());
        let mut open = self.lock();
        let same = open.by_source.get(&source).map_or(0, BTreeSet::len);
        if same >= self.limits.unauthenticated_per_address.max(1) {
            open.close_oldest(source);
            self.displaced.add(1);
        }
        if open.all.len() >= self.limits.unauthenticated.max(1)
            && let Some(busiest) = open.busiest()
        {
            open.close_oldest(busiest);
            self.displaced.add(1);
        }
        let id = open.next;
        open.next += 1;
        open.all.insert(id, (source, Arc::clone(&closed)));
        open.by_source.entry(source).or_default().insert(id);
        drop(open);
        Arc::new(Connection {
            connections: Arc::clone(self),
            id,
            closed,
            authenticated: AtomicBool::new(false),
            answered: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    closed: Arc<Notify>,
    authenticated: AtomicBool,
    answered: AtomicU64,
}

impl Connection {
    /// Whether a request on this connection has authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// Marks the connection as authenticated. It no longer counts toward the limits.
    pub(crate) fn mark_authenticated(&self) {
        if !self.authenticated.swap(true, Ordering::Relaxed) {
            self.connections.lock().remove(self.id);
        }
    }

    /// Counts a response.
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Resolves when the connection must be closed.
    pub(crate) async fn must_close(&self) {
        let mut seen = 0;
        loop {
            tokio::select! {
                () = self.closed.notified() => return,
                () = tokio::time::sleep(UNAUTHENTICATED_TIMEOUT) => {}
            }
            if self.is_authenticated() {
                return std::future::pending().await;
            }
            let answered = self.answered.load(Ordering::Relaxed);
            if answered == seen {
                self.connections.timed_out.add(1);
                return;
            }
            seen = answered;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_authenticated() {
            self.connections.lock().remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn from(last: u8) -> ConnectionSource {
        Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
    }

    fn is_closed(connection: &Connection) -> bool {
        !connection.connections.lock().all.contains_key(&connection.id) && !connection.is_authenticated()
    }

    #[test]
    fn oldest_connection_of_the_busiest_address_is_closed() {
        let limits = ConnectionLimits { unauthenticated: 5, unauthenticated_per_address: 3 };
        let connections = Arc::new(Connections::new(limits));
        let one: Vec<_> = (0..3).map(|_| connections.add(from(1))).collect();
        one[0].mark_authenticated();
        let more = connections.add(from(1));
        assert!(one.iter().all(|each| !is_closed(each)), "an authenticated connection does not count");
        let again = connections.add(from(1));
        let closed: Vec<bool> = one.iter().chain([&more, &again]).map(|each| is_closed(each)).collect();
        assert_eq!(closed, [false, true, false, false, false], "the oldest of its address");
        let others: Vec<_> = (2..4).map(|last| connections.add(from(last))).collect();
        assert_eq!(connections.unauthenticated(), 5);
        let last = connections.add(from(9));
        assert!(is_closed(&one[2]), "the oldest of the busiest address");
        assert!(others.iter().chain([&last]).all(|each| !is_closed(each)));
        assert_eq!(connections.displaced.get(), 2);
        drop((one, more, again, others, last));
        assert_eq!(connections.unauthenticated(), 0);
    }
}
