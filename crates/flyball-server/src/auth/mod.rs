//! Authentication and authorization: keys and roles, peers on the socket, and allowed host names.
//!
//! An agent reports events and asks for decisions; it can never act for a person. A host relays prompts that people
//! type to an agent, a channel relays their chat messages. An operator is a person who answers, releases and stops.
//! An admin manages keys. `routes.rs` declares the role of each route, and a test checks the whole table.

mod allowed_hosts;
mod browser_login;
mod key_store;
mod peer;
mod session_owners;

pub(crate) use allowed_hosts::AllowedHostNames;
pub(crate) use browser_login::{
    CookieOnly, check_csrf_token, check_proof, cookie_name, login_cookie, signed_path,
};
pub use key_store::{ApiKey, ApiKeyRequest, ApiKeyStore, NewApiKey};
pub(crate) use key_store::{NewLogin, digest, random_token};
pub(crate) use peer::ClientPeer;
pub use peer::UidRoles;
pub use session_owners::prune_owners;
pub(crate) use session_owners::{SessionOwners, SessionScope};

use crate::api_error::{ApiError, AttachedError};
use crate::app_state::SharedState;
use crate::audit_log;
use crate::connections::Connection;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Error codes recorded in the audit log: failures of authentication or authorization, not of input.
const AUDITED_CODES: [&str; 9] = [
    "role_forbidden",
    "not_your_session",
    "store_wide_key_required",
    "foreign_origin",
    "key_unknown",
    "signature_invalid",
    "csrf_token_missing",
    "csrf_token_invalid",
    "proof_required",
];

/// Role of a caller. Each role includes the permissions of the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthRole {
    /// Reports events and asks for decisions; never answers, releases or stops.
    Agent,
    /// A hook or SDK between people and an agent: an agent that may also relay prompts that people typed.
    Host,
    /// A chat between people and agents: a host that may also send what a person wrote (`person.message`).
    Channel,
    /// A person: answers, releases, stops, starts workflows.
    Operator,
    /// Creates and revokes keys.
    Admin,
}

impl AuthRole {
    /// The role's name in JSON and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            AuthRole::Agent => "agent",
            AuthRole::Host => "host",
            AuthRole::Channel => "channel",
            AuthRole::Operator => "operator",
            AuthRole::Admin => "admin",
        }
    }

    /// The role's name with an article.
    pub(crate) const fn with_article(self) -> &'static str {
        match self {
            AuthRole::Agent => "an agent",
            AuthRole::Host => "a host",
            AuthRole::Channel => "a channel",
            AuthRole::Operator => "an operator",
            AuthRole::Admin => "an admin",
        }
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Name of the key, or `uid:1000` on the socket.
    pub(crate) name: String,
    pub(crate) role: AuthRole,
    /// The sessions that the caller may access.
    pub(crate) scope: SessionScope,
    /// How the caller authenticated.
    pub(crate) via: AuthMethod,
    /// Origin of the request, for the audit log.
    pub(crate) from: ClientPeer,
}

/// Authentication method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthMethod {
    /// API key in the `Authorization` header.
    Key,
    /// Login cookie of a browser; forms must include the CSRF token.
    Login {
        /// The CSRF token of the login.
        csrf_token: String,
        /// The page script holds the CSRF token, so the cookie alone grants no access.
        scripted: bool,
        /// The user entered their key recently.
        proven: bool,
    },
    /// User id of the peer on the socket.
    Peer,
}

impl Principal {
    /// Rejects a session that the scope excludes by name. `SessionScope::Own` is always rejected here, because only
    /// the store knows the owner ([`crate::app_state::AppState::can_see`]).
    ///
    /// # Errors
    /// If the key does not cover the session.
    pub(crate) fn check_session(&self, session: &str) -> Result<(), ApiError> {
        let message = match &self.scope {
            SessionScope::All => return Ok(()),
            SessionScope::Prefix(prefix) if session.starts_with(prefix.as_str()) => return Ok(()),
            SessionScope::Prefix(prefix) => {
                format!("this key only covers sessions that start with '{prefix}'")
            }
            SessionScope::Own => return Err(not_your_session()),
        };
        Err(ApiError::new(StatusCode::FORBIDDEN, "not_your_session", message, "use a key for this session"))
    }
}

/// Authenticates a request and passes it on. The route checks the role. Authentication and authorization failures are
/// written to the audit log. Returns the caller's name and the response.
pub(crate) async fn authenticate<F: Future<Output = Response>>(
    app: &SharedState,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> (Option<String>, Response) {
    let (mut head, body) = request.into_parts();
    let peer = head.extensions.get::<ClientPeer>().copied().unwrap_or(ClientPeer::Tcp { from: None });
    // Copy the path: holding the URI would keep the connection's read buffer alive, and the next request would need a
    // new one.
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let (who, response) = match identify(app, peer, &head).await {
        Ok(identity) => {
            let who = match identity {
                RequestIdentity::Known(who) => {
                    if let Some(connection) = head.extensions.get::<Arc<Connection>>() {
                        connection.mark_authenticated();
                    }
                    head.extensions.insert(who.clone());
                    Some(who)
                }
                RequestIdentity::CookieOnly => {
                    head.extensions.insert(CookieOnly);
                    None
                }
                RequestIdentity::Unknown => None,
            };
            let request = Request::from_parts(head, body);
            (who, next(request).await)
        }
        Err(problem) => (None, problem.into_response()),
    };
    if let Some(AttachedError(problem)) = response.extensions().get::<AttachedError>()
        && AUDITED_CODES.contains(&problem.code.as_str())
    {
        let asked = format!("{method} {path}");
        // Boxed like every rare branch, to keep the future of each request small.
        Box::pin(audit_log::record_refusal(app, who.as_ref(), peer, &asked, problem)).await;
    }
    (who.map(|who| who.name), response)
}

/// The identity that a request proves.
enum RequestIdentity {
    Known(Principal),
    /// A valid cookie without the CSRF token; unauthenticated until the page script sends the token.
    CookieOnly,
    Unknown,
}

async fn identify(app: &SharedState, peer: ClientPeer, request: &Parts) -> Result<RequestIdentity, ApiError> {
    app.hosts.check(peer, request)?;
    if let Some(bearer) = request.headers.get(header::AUTHORIZATION) {
        let secret = bearer.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        let Some(secret) = secret else { return Err(unknown_key()) };
        let found = match app.keys.cached_lookup(secret.trim()) {
            None => Box::pin(app.run_blocking(move |app| app.keys.find(secret.trim()))).await?,
            known => known,
        };
        return found
            .map(|key| RequestIdentity::Known(key.into_principal(AuthMethod::Key, peer)))
            .ok_or_else(unknown_key);
    }
    if let Some(cookie) = login_cookie(&request.headers) {
        return Box::pin(browser_login::identify_login(app, peer, request, cookie)).await;
    }
    Ok(app.uid_roles.principal(peer).map_or(RequestIdentity::Unknown, RequestIdentity::Known))
}

/// Error for a session that another key, or none, owns.
pub(crate) fn not_your_session() -> ApiError {
    let message = "this key does not own the session";
    let help = "use one of this key's sessions, or a key created with --sessions or --all-sessions";
    ApiError::new(StatusCode::FORBIDDEN, "not_your_session", message, help)
}

fn unknown_key() -> ApiError {
    let message = "the key is unknown or no longer valid";
    let help = "create one with `flyball token create`and send it as `Authorization: Bearer …`";
    ApiError::new(StatusCode::UNAUTHORIZED, "key_unknown", message, help)
}

/// Error for a request with a forbidden host or origin.
pub(crate) fn foreign_origin(message: &str) -> ApiError {
    let help = "use an allowed host name; add names with --host";
    ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message, help)
}

/// Rejects callers without the required role.
///
/// # Errors
/// If the caller is unknown or has a lower role.
pub(crate) fn require_role(needs: AuthRole, request: &Request) -> Result<(), ApiError> {
    match request.extensions().get::<Principal>() {
        None if request.extensions().get::<CookieOnly>().is_some() => Err(browser_login::missing_token()),
        None => {
            let message = "this request needs a key";
            let help = "create one with `flyball token create`and send it as `Authorization: Bearer …`";
            Err(ApiError::new(StatusCode::UNAUTHORIZED, "key_missing", message, help))
        }
        Some(principal) if principal.role < needs => {
            let message = format!(
                "this needs the {} role; '{}' has the {} role",
                needs.as_str(),
                principal.name,
                principal.role.as_str()
            );
            Err(ApiError::new(StatusCode::FORBIDDEN, "role_forbidden", message, "use a key with that role"))
        }
        Some(_) => Ok(()),
    }
}
