//! Labels that an issue tracker reports: taking off the label that called a person releases the session.

use super::ask::{bad_request, body, idempotency_key};
use crate::doors::SIGNATURE;
use crate::labels::{self, Outcome};
use crate::office::Shared;
use crate::problem::Problem;
use crate::who::{Peer, Principal, Role};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use ring::hmac;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The largest webhook, in bytes.
const WEBHOOK_BYTES: usize = 1024 * 1024;
/// The headers that name a delivery, so that one that is sent again is done once.
const DELIVERY: [&str; 1] = ["x-github-delivery"];
/// The name that signed webhooks are recorded under.
const SOURCE: &str = "label-webhook";

/// What came of a webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Labelled {
    /// `released`, `stopped`, `seen` or `ignored`.
    outcome: String,
    /// Why it was ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The decision on the release or the stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    decision: Option<flyball::Decision>,
}

impl Labelled {
    fn ignored(why: &str) -> Self {
        Labelled { outcome: "ignored".to_owned(), why: Some(why.to_owned()), session: None, decision: None }
    }
}

/// A label that was put on or taken off in an issue tracker.
///
/// Taking off the label that called a person releases the block that it stands for, and a run goes on. The body is
/// `{"session": …, "label": …, "action": "removed" or "added", "by": …, "at": …, "why": …}`, or what GitHub sends for
/// `labeled` and `unlabeled`; `journal.labels.session` of the policy says which session that is. Send an
/// operator's key, or sign the body with the secret of `journal.labels.secret_env` (`X-Hub-Signature-256`). A
/// signature that is sent is always checked, with an operator's key as well.
#[utoipa::path(post, path = "/v1/labels", tag = "people",
    params(("X-Hub-Signature-256" = Option<String>, Header, description = "`sha256=` and the HMAC-SHA256 of the body",
            min_length = 71, max_length = 71, pattern = "^sha256=[0-9a-f]{64}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repetition harmless",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = Object, example = json!({"session": "issue-7", "label": "flyball-hitl:loop-prevention",
        "action": "removed", "by": "anna"})),
    responses((status = 200, description = "What came of it", body = Labelled)))]
pub(crate) async fn report(
    State(office): State<Shared>,
    request: Request,
) -> Result<Json<Labelled>, Problem> {
    let known = request.extensions();
    let principal = known.get::<Principal>().cloned().filter(|who| who.role >= Role::Operator);
    let peer = known.get::<Peer>().copied().unwrap_or(Peer::Tcp { from: None });
    let headers = request.headers().clone();
    let key = delivery(&headers)?;
    let (_, text) = body(request, WEBHOOK_BYTES).await?;
    let settings = office.recorder.policy().journal.labels.clone();
    // An operator's key needs no signature, but one that is sent has to be right.
    if principal.is_none() || headers.contains_key(SIGNATURE) {
        check_signature(&headers, &settings.secret_env, &text)?;
    }
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| bad_request(&format!("the body cannot be used: {error}")))?;
    let Some(change) = labels::read(&value, &settings).map_err(|what| bad_request(&what))? else {
        return Ok(Json(Labelled::ignored("it tells of no label that was put on or taken off")));
    };
    let principal = principal.unwrap_or_else(|| labels::someone(SOURCE, change.by.as_deref(), peer));
    let session = change.session.clone();
    let outcome = labels::apply(&office, &principal, change, key.as_deref()).await?;
    let word = outcome.as_str().to_owned();
    let (why, decision) = match outcome {
        Outcome::Released(decision) | Outcome::Stopped(decision) => (None, Some(decision)),
        Outcome::Ignored(why) => (Some(why.to_owned()), None),
        Outcome::Seen => (None, None),
    };
    Ok(Json(Labelled { outcome: word, why, session: Some(session), decision }))
}

/// What makes a repetition harmless: the caller's own key, or the tracker's name of the delivery.
fn delivery(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    if let Some(key) = idempotency_key(headers)? {
        return Ok(Some(key.to_owned()));
    }
    let named = DELIVERY.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let plain =
        |name: &&str| name.len() <= 100 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    Ok(named.filter(plain).map(|name| format!("label:{name}")))
}

/// Whether the body is signed with the secret that the policy names.
fn check_signature(headers: &HeaderMap, variable: &str, body: &str) -> Result<(), Problem> {
    let refused =
        |what: &str, advice: &str| Problem::new(StatusCode::UNAUTHORIZED, "signature_invalid", what, advice);
    let signed = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()?.strip_prefix("sha256="));
    let Some(signed) = signed else {
        let what = "a label is reported with the key of an operator, or signed";
        let advice =
            "send Authorization: Bearer KEY, or X-Hub-Signature-256 with the secret of journal.labels";
        return Err(refused(what, advice));
    };
    let secret = std::env::var(variable).ok().map(|secret| secret.trim().to_owned());
    let Some(secret) = secret.filter(|secret| !variable.is_empty() && !secret.is_empty()) else {
        let what = "this server has no secret for label webhooks";
        let advice =
            "write journal.labels.secret_env into the policy, and start the server with that variable";
        return Err(refused(what, advice));
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag =
        bytes(signed).ok_or_else(|| refused("the signature is no SHA-256", "sign the body as it is"))?;
    hmac::verify(&key, body.as_bytes(), &tag).map_err(|_| {
        refused("the signature does not fit the body", "sign the body as it is, with the same secret")
    })
}

/// Hexadecimal digits as bytes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(pair).collect()
}
