//! Who is at the other end of the socket: the system says which user that is, and nobody can lie about it.

use super::{Principal, Role, Scope, Via};
use std::fmt;
use std::net::IpAddr;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Somebody over the network.
    Tcp {
        /// Their address; behind a balancer it is the balancer's.
        from: Option<IpAddr>,
    },
    /// A process of this machine.
    Socket {
        /// Its user.
        uid: u32,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp { from: Some(from) } => from.fmt(f),
            Peer::Tcp { from: None } => f.write_str("network"),
            Peer::Socket { uid } => write!(f, "socket, uid {uid}"),
        }
    }
}

/// Which users have which role on the socket.
///
/// The server's own user is an agent, because the agents may run under it too: who wants to answer in a person's place
/// must be another user, or show a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uids {
    /// Users who report.
    pub agents: Vec<u32>,
    /// Users who answer.
    pub operators: Vec<u32>,
    /// Users who make keys.
    pub admins: Vec<u32>,
}

impl Uids {
    /// Who somebody is without a key.
    pub(crate) fn principal(&self, peer: Peer) -> Option<Principal> {
        let Peer::Socket { uid } = peer else { return None };
        let own = rustix::process::geteuid().as_raw() == uid;
        let role = if own {
            Role::Agent
        } else if self.admins.contains(&uid) {
            Role::Admin
        } else if self.operators.contains(&uid) {
            Role::Operator
        } else if self.agents.contains(&uid) {
            Role::Agent
        } else {
            return None;
        };
        let scope = if role < Role::Operator { Scope::Own } else { Scope::All };
        Some(Principal { name: format!("uid:{uid}"), role, scope, via: Via::Peer, from: peer })
    }
}
