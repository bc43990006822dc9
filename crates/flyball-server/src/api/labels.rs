//! Label webhooks of an issue tracker: removing a hold's label releases the session.

use super::extract::{bad_request, idempotency_key, read_body};
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::{AuthRole, ClientPeer, Principal};
use crate::labels::{self, LabelOutcome};
use crate::routes::SIGNATURE_HEADER;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use ring::hmac;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Maximum size of a webhook, in bytes.
const MAX_WEBHOOK_BYTES: usize = 1024 * 1024;
/// Headers with a delivery id, used as idempotency keys.
const DELIVERY_HEADERS: [&str; 1] = ["x-github-delivery"];
/// Source under which signed webhooks are recorded.
const WEBHOOK_SOURCE: &str = "label-webhook";

/// Result of a webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LabelWebhookResponse {
    /// `released`, `stopped`, `seen` or `ignored`.
    outcome: String,
    /// Why the webhook was ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The decision on the release or stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    decision: Option<flyball::Decision>,
}

impl LabelWebhookResponse {
    fn ignored(why: &str) -> Self {
        LabelWebhookResponse {
            outcome: "ignored".to_owned(),
            why: Some(why.to_owned()),
            session: None,
            decision: None,
        }
    }
}

/// Reports a label added or removed in an issue tracker.
///
/// Removing a hold's label releases the block it represents, and the run continues. The body is `{"session": …,
/// "label": …, "action": "removed" or "added", "by": …, "at": …, "why": …}`, or GitHub's `labeled` or `unlabeled`
/// payload; `journal.labels.session` in the policy maps it to a session. Send an operator's key, or sign the body
/// with the secret of `journal.labels.secret_env` (`X-Hub-Signature-256`). A signature that is sent is always
/// checked, even with an operator's key.
#[utoipa::path(post, path = "/v1/labels", tag = "people",
    params(("X-Hub-Signature-256" = Option<String>, Header, description = "`sha256=` and the HMAC-SHA256 of the body",
            min_length = 71, max_length = 71, pattern = "^sha256=[0-9a-f]{64}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes retries safe",
            min_length = 1, max_length = 512, pattern = "^[A-Za-z0-9_.:-]+$")),
    request_body(content = Object, example = json!({"session": "issue-7", "label": "flyball-hitl:loop-prevention",
        "action": "removed", "by": "anna"})),
    responses((status = 200, description = "The result", body = LabelWebhookResponse)))]
pub(crate) async fn post_label_webhook(
    State(app): State<SharedState>,
    request: Request,
) -> Result<Json<LabelWebhookResponse>, ApiError> {
    let known = request.extensions();
    let principal = known.get::<Principal>().cloned().filter(|who| who.role >= AuthRole::Operator);
    let peer = known.get::<ClientPeer>().copied().unwrap_or(ClientPeer::Tcp { from: None });
    let headers = request.headers().clone();
    let key = delivery_key(&headers)?;
    let (_, text) = read_body(request, MAX_WEBHOOK_BYTES).await?;
    let settings = app.recorder.policy().journal.labels.clone();
    // An operator's key needs no signature, but a signature that is sent must be valid.
    if principal.is_none() || headers.contains_key(SIGNATURE_HEADER) {
        check_signature(&headers, &settings.secret_env, &text)?;
    }
    let value: Value =
        serde_json::from_str(&text).map_err(|error| bad_request(&format!("invalid body: {error}")))?;
    let Some(change) = labels::parse_payload(&value, &settings).map_err(|message| bad_request(&message))?
    else {
        return Ok(Json(LabelWebhookResponse::ignored(
            "the payload does not report an added or removed label",
        )));
    };
    let principal =
        principal.unwrap_or_else(|| labels::tracker_principal(WEBHOOK_SOURCE, change.by.as_deref(), peer));
    let session = change.session.clone();
    let outcome = labels::apply_label_change(&app, &principal, change, key.as_deref()).await?;
    let name = outcome.as_str().to_owned();
    let (why, decision) = match outcome {
        LabelOutcome::Released(decision) | LabelOutcome::Stopped(decision) => (None, Some(decision)),
        LabelOutcome::Ignored(why) => (Some(why.to_owned()), None),
        LabelOutcome::Recorded => (None, None),
    };
    Ok(Json(LabelWebhookResponse { outcome: name, why, session: Some(session), decision }))
}

/// The idempotency key: the caller's own, or the tracker's delivery id.
fn delivery_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if let Some(key) = idempotency_key(headers)? {
        return Ok(Some(key.to_owned()));
    }
    let named = DELIVERY_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    let plain =
        |name: &&str| name.len() <= 100 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    Ok(named.filter(plain).map(|name| format!("label:{name}")))
}

/// Checks the body's signature against the secret that the policy names.
fn check_signature(headers: &HeaderMap, variable: &str, body: &str) -> Result<(), ApiError> {
    let refused = |message: &str, help: &str| {
        ApiError::new(StatusCode::UNAUTHORIZED, "signature_invalid", message, help)
    };
    let signed = headers.get(SIGNATURE_HEADER).and_then(|value| value.to_str().ok()?.strip_prefix("sha256="));
    let Some(signed) = signed else {
        let message = "label webhooks need an operator's key or a signature";
        let help = "send Authorization: Bearer KEY, or X-Hub-Signature-256 with the secret of journal.labels";
        return Err(refused(message, help));
    };
    let secret = std::env::var(variable).ok().map(|secret| secret.trim().to_owned());
    let Some(secret) = secret.filter(|secret| !variable.is_empty() && !secret.is_empty()) else {
        let message = "this server has no secret for label webhooks";
        let help = "set journal.labels.secret_env in the policy and start the server with that variable";
        return Err(refused(message, help));
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = decode_hex(signed)
        .ok_or_else(|| refused("the signature is not a SHA-256 HMAC", "sign the raw body"))?;
    hmac::verify(&key, body.as_bytes(), &tag).map_err(|_| {
        refused("the signature does not match the body", "sign the raw body with the configured secret")
    })
}

/// Decodes 64 hexadecimal digits.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(pair).collect()
}
