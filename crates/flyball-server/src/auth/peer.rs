//! Peers on the Unix socket. The kernel reports the peer's user id, which cannot be forged.

use super::{AuthMethod, AuthRole, Principal, SessionScope};
use std::fmt;
use std::net::IpAddr;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientPeer {
    /// A network client.
    Tcp {
        /// Address of the client, or of the load balancer in front of it.
        from: Option<IpAddr>,
    },
    /// A process on this machine.
    Socket {
        /// Its user id.
        uid: u32,
    },
}

impl fmt::Display for ClientPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientPeer::Tcp { from: Some(from) } => from.fmt(f),
            ClientPeer::Tcp { from: None } => f.write_str("network"),
            ClientPeer::Socket { uid } => write!(f, "socket, uid {uid}"),
        }
    }
}

/// Roles of users on the socket.
///
/// The server's own user is an agent, because agents may run under it too: acting as an operator requires another
/// user or a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UidRoles {
    /// Users with the agent role.
    pub agents: Vec<u32>,
    /// Users with the operator role.
    pub operators: Vec<u32>,
    /// Users with the admin role.
    pub admins: Vec<u32>,
}

impl UidRoles {
    /// The principal of a peer without a key.
    pub(crate) fn principal(&self, peer: ClientPeer) -> Option<Principal> {
        let ClientPeer::Socket { uid } = peer else { return None };
        let own = rustix::process::geteuid().as_raw() == uid;
        let role = if own {
            AuthRole::Agent
        } else if self.admins.contains(&uid) {
            AuthRole::Admin
        } else if self.operators.contains(&uid) {
            AuthRole::Operator
        } else if self.agents.contains(&uid) {
            AuthRole::Agent
        } else {
            return None;
        };
        let scope = if role < AuthRole::Operator { SessionScope::Own } else { SessionScope::All };
        Some(Principal { name: format!("uid:{uid}"), role, scope, via: AuthMethod::Peer, from: peer })
    }
}
