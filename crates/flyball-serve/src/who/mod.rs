//! Who may what: keys and their roles, peers on the socket, and the names under which the server may be asked.
//!
//! An agent reports what it does and asks whether it may; it can never say yes in a person's place. A host relays what
//! people type to an agent, a channel what they write in a chat. An operator is a person: they answer, release and stop.
//! An admin makes keys. The role of a route stands beside it (`doors.rs`), and
//! the table of all of them is tested.

mod browser;
mod hosts;
mod keys;
mod owners;
mod peer;

pub(crate) use browser::{CookieOnly, check_form, check_proof, cookie_name, login_cookie, signed};
pub(crate) use hosts::Hosts;
pub use keys::{Key, KeyRequest, Keys, NewKey};
pub(crate) use keys::{NewLogin, digest, random};
pub use owners::prune_owners;
pub(crate) use owners::{Owners, Scope};
pub(crate) use peer::Peer;
pub use peer::Uids;

use crate::audit;
use crate::connections::Connection;
use crate::office::Shared;
use crate::problem::{Problem, Told};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The refusals that stand in the audit log: they are about who somebody is, not about what they sent.
const REFUSED: [&str; 9] = [
    "role_forbidden",
    "not_your_session",
    "whole_store",
    "foreign_origin",
    "key_unknown",
    "signature_invalid",
    "csrf_token_missing",
    "form_refused",
    "proof_required",
];

/// What somebody may do. Each may do what the ones before may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reports events and asks for decisions; never answers, releases or stops.
    Agent,
    /// A hook or SDK between people and an agent: an agent that may also relay prompts that people typed.
    Host,
    /// A chat between people and agents: a host that may also send what a person wrote (`person.message`).
    Channel,
    /// A person: answers, releases, stops, starts workflows.
    Operator,
    /// Makes and takes back keys.
    Admin,
}

impl Role {
    /// The word as it is typed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Host => "host",
            Role::Channel => "channel",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The word in a sentence.
    pub(crate) const fn with_article(self) -> &'static str {
        match self {
            Role::Agent => "an agent",
            Role::Host => "a host",
            Role::Channel => "a channel",
            Role::Operator => "an operator",
            Role::Admin => "an admin",
        }
    }
}

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The name of the key, or `uid:1000` on the socket.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The sessions that they may see and write to.
    pub(crate) scope: Scope,
    /// How they were let in.
    pub(crate) via: Via,
    /// From where they ask, for the audit log.
    pub(crate) from: Peer,
}

/// How somebody was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Via {
    /// With a key in the header.
    Key,
    /// With the cookie of a browser; forms must bring this word along.
    Login {
        /// The CSRF token of the login.
        word: String,
        /// The page script keeps the CSRF token, so the cookie alone opens nothing.
        scripted: bool,
        /// The person has entered their key a short while ago.
        proven: bool,
    },
    /// On the socket, by the user that they are.
    Peer,
}

impl Principal {
    /// Refuses a session that is none of theirs, by its name. A key that has only sessions of its own is refused: who
    /// owns a session is in the store ([`crate::office::Office::may_see`]).
    ///
    /// # Errors
    /// If the key is for other sessions.
    pub(crate) fn may_touch(&self, session: &str) -> Result<(), Problem> {
        let what = match &self.scope {
            Scope::All => return Ok(()),
            Scope::Prefix(prefix) if session.starts_with(prefix.as_str()) => return Ok(()),
            Scope::Prefix(prefix) => format!("this key is for sessions that begin with '{prefix}'"),
            Scope::Own => return Err(not_yours()),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, "not_your_session", what, "use a key for this session"))
    }
}

/// Finds out who asks, and whether they may ask here at all. Whether they may do what they ask for, the route says.
/// Whoever is refused for who they are stands in the audit log. Gives the name of whoever asked, and the answer.
pub(crate) async fn let_in<F: Future<Output = Response>>(
    office: &Shared,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> (Option<String>, Response) {
    let (mut head, body) = request.into_parts();
    let peer = head.extensions.get::<Peer>().copied().unwrap_or(Peer::Tcp { from: None });
    // A copy of the path, and not the address itself: that would hold on to what was read from the connection, and the
    // next request could not be read into the same place.
    let (method, place) = (head.method.clone(), head.uri.path().to_owned());
    let (who, response) = match identify(office, peer, &head).await {
        Ok(identity) => {
            let who = match identity {
                Identity::Known(who) => {
                    if let Some(connection) = head.extensions.get::<Arc<Connection>>() {
                        connection.authenticate();
                    }
                    head.extensions.insert(who.clone());
                    Some(who)
                }
                Identity::CookieOnly => {
                    head.extensions.insert(CookieOnly);
                    None
                }
                Identity::Unknown => None,
            };
            let request = Request::from_parts(head, body);
            (who, next(request).await)
        }
        Err(problem) => (None, problem.into_response()),
    };
    if let Some(Told(problem)) = response.extensions().get::<Told>()
        && REFUSED.contains(&problem.code.as_str())
    {
        let asked = format!("{method} {place}");
        // In a box, as everything that seldom happens: what every request carries along stays small.
        Box::pin(audit::refused(office, who.as_ref(), peer, &asked, problem)).await;
    }
    (who.map(|who| who.name), response)
}

/// Who a request is from, as far as it proves it.
enum Identity {
    Known(Principal),
    /// A valid cookie without the CSRF token: nobody, until the page script brings the rest.
    CookieOnly,
    Unknown,
}

async fn identify(office: &Shared, peer: Peer, request: &Parts) -> Result<Identity, Problem> {
    office.hosts.check(peer, request)?;
    if let Some(bearer) = request.headers.get(header::AUTHORIZATION) {
        let secret = bearer.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        let Some(secret) = secret else { return Err(unknown_key()) };
        let found = match office.keys.believes(secret.trim()) {
            None => Box::pin(office.look(move |office| office.keys.find(secret.trim()))).await?,
            known => known,
        };
        return found.map(|key| Identity::Known(key.into_principal(Via::Key, peer))).ok_or_else(unknown_key);
    }
    if let Some(cookie) = login_cookie(&request.headers) {
        return Box::pin(browser::identify(office, peer, request, cookie)).await;
    }
    Ok(office.uids.principal(peer).map_or(Identity::Unknown, Identity::Known))
}

/// A session of another key, or of none.
pub(crate) fn not_yours() -> Problem {
    let what = "the session was not made with this key";
    let advice = "use a session of your own, or a key that is made with --sessions or --all-sessions";
    Problem::new(StatusCode::FORBIDDEN, "not_your_session", what, advice)
}

fn unknown_key() -> Problem {
    let what = "the key is not known, or is no longer valid";
    let advice = "make one with `flyball token create`, and send it as `Authorization: Bearer …`";
    Problem::new(StatusCode::UNAUTHORIZED, "key_unknown", what, advice)
}

/// Somebody who may not ask from where they are.
pub(crate) fn foreign(what: &str) -> Problem {
    let advice = "ask the server by its own name; allow another one with --host";
    Problem::new(StatusCode::FORBIDDEN, "foreign_origin", what, advice)
}

/// Refuses whoever has too small a role.
///
/// # Errors
/// If they are not known, or may not.
pub(crate) fn allow(needs: Role, request: &Request) -> Result<(), Problem> {
    match request.extensions().get::<Principal>() {
        None if request.extensions().get::<CookieOnly>().is_some() => Err(browser::missing_token()),
        None => {
            let what = "this needs a key";
            let advice = "make one with `flyball token create`, and send it as `Authorization: Bearer …`";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "key_missing", what, advice))
        }
        Some(principal) if principal.role < needs => {
            let what = format!(
                "this needs the role {}, and '{}' is {}",
                needs.as_str(),
                principal.name,
                principal.role.as_str()
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "role_forbidden", what, "ask somebody who may"))
        }
        Some(_) => Ok(()),
    }
}
