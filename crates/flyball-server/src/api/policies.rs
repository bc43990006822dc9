//! Policies: validation of a policy text, and the effective policy of this server.

use super::extract::{JsonBody, QueryParams, bad_request};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flyball::Preset;
use flyball::policy::{
    LintSeverity, MAX_TEXT_BYTES, PolicyErrors, PolicyFormat, PolicyWarning, ResolvedPolicy, parse, resolve,
};
use flyball_store::RedactingParser;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// A policy to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyCheckBody {
    /// The text of the policy file.
    #[schema(max_length = 262144)]
    text: String,
    /// `yaml`, `toml` or `json`; detected by default.
    format: Option<PolicySyntax>,
}

/// Syntax of a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyFormat)]
pub(crate) enum PolicySyntax {
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// An error or warning about a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PolicyRemark {
    /// Stable code.
    code: String,
    /// `error`, `warning` or `info`.
    severity: String,
    /// Dotted key.
    path: String,
    /// Line, from 1.
    line: Option<u32>,
    /// Column, from 1.
    column: Option<u32>,
    /// The problem.
    what: String,
    /// How to fix it.
    help: String,
}

/// Result of a policy check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PolicyCheckResult {
    /// Whether the policy is valid.
    ok: bool,
    /// The preset that it is based on, if valid.
    preset: Option<String>,
    /// Its digest, if valid.
    policy_digest: Option<String>,
    /// Errors if the policy is invalid, otherwise warnings.
    remarks: Vec<PolicyRemark>,
}

/// Checks a policy text: errors with line and column, contradictions, warnings.
#[utoipa::path(post, path = "/v1/policies/check", tag = "policies",
    request_body(content = PolicyCheckBody, example = json!({"text": "version: 1\npreset: strict\n"})),
    responses((status = 200, description = "The result", body = PolicyCheckResult)))]
pub(crate) async fn check(
    State(app): State<SharedState>,
    JsonBody(PolicyCheckBody { text, format }): JsonBody<PolicyCheckBody>,
) -> Result<Json<PolicyCheckResult>, ApiError> {
    if text.chars().count() > MAX_TEXT_BYTES {
        return Err(bad_request("`text` is too long: a policy can have at most 256 KiB"));
    }
    let format = match format {
        Some(PolicySyntax::Yaml) => PolicyFormat::Yaml,
        Some(PolicySyntax::Toml) => PolicyFormat::Toml,
        Some(PolicySyntax::Json) => PolicyFormat::Json,
        None => PolicyFormat::guess("policy", &text),
    };
    let look = move |_: &AppState| {
        let resolved = parse(&text, format, "policy").and_then(|layer| resolve(&[layer], Preset::Agent));
        let resolved =
            resolved.and_then(|resolved| RedactingParser::validate_policy(&resolved).map(|()| resolved));
        Ok::<_, ApiError>(match resolved {
            Ok(resolved) => PolicyCheckResult {
                ok: true,
                preset: Some(resolved.policy.preset.as_str().to_owned()),
                policy_digest: Some(resolved.policy.digest.to_string()),
                remarks: resolved.warnings.iter().map(warning_remark).collect(),
            },
            Err(errors) => PolicyCheckResult {
                ok: false,
                preset: None,
                policy_digest: None,
                remarks: error_remarks(&errors),
            },
        })
    };
    app.run_blocking(look).await.map(Json)
}

fn error_remarks(errors: &PolicyErrors) -> Vec<PolicyRemark> {
    let remark = |error: &flyball::policy::PolicyError| PolicyRemark {
        code: error.code.as_str().to_owned(),
        severity: "error".to_owned(),
        path: error.path.clone(),
        line: error.line,
        column: error.column,
        what: error.message.clone(),
        help: error.help.clone(),
    };
    errors.iter().map(remark).collect()
}

fn warning_remark(warning: &PolicyWarning) -> PolicyRemark {
    let severity = if warning.severity == LintSeverity::Warning { "warning" } else { "info" };
    PolicyRemark {
        code: warning.code.to_owned(),
        severity: severity.to_owned(),
        path: warning.path.clone(),
        line: warning.position.map(|place| place.line),
        column: warning.position.map(|place| place.column),
        what: warning.message.clone(),
        help: warning.help.clone(),
    }
}

/// Query of the effective policy.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EffectivePolicyQuery {
    /// 1 to include the origin of each value.
    #[param(minimum = 0, maximum = 1)]
    origin: Option<u64>,
}

/// Returns the policy of sessions that bring none, optionally with the origin of each value.
#[utoipa::path(get, path = "/v1/policies/effective", tag = "policies", params(EffectivePolicyQuery),
    responses((status = 200, description = "The effective policy; with `origin=1`, one entry per value", body = Object)))]
pub(crate) async fn effective(
    State(app): State<SharedState>,
    QueryParams(EffectivePolicyQuery { origin }): QueryParams<EffectivePolicyQuery>,
) -> Result<Json<Value>, ApiError> {
    if origin.is_some_and(|origin| origin > 1) {
        return Err(bad_request("`origin` must be 0 or 1"));
    }
    let read = move |app: &AppState| {
        // A session with an empty inline policy gets the server's policy.
        let resolved = app.recorder.policy_source().resolve_inline(&json!({})).map_err(|errors| {
            let message = errors.iter().next().map(|error| error.message.clone()).unwrap_or_default();
            ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "bad_policy",
                message,
                "run `flyball check` on the policy",
            )
        })?;
        let resolved = without_secrets(resolved);
        Ok::<_, ApiError>(if origin == Some(1) {
            resolved.values().into_iter().map(|value| (value.path.clone(), value.as_json())).collect()
        } else {
            resolved.effective
        })
    };
    app.run_blocking(read).await.map(Json)
}

/// Removes delivery targets, redaction patterns and label settings, which may contain secrets.
fn without_secrets(mut resolved: ResolvedPolicy) -> ResolvedPolicy {
    if let Some(journal) = resolved.effective.get_mut("journal").and_then(Value::as_object_mut) {
        journal.remove("deliver");
        journal.remove("patterns");
        journal.remove("labels");
    }
    resolved
}
