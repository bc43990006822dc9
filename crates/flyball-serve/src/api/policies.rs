//! Policies: whether a text is one, and which one holds here.

use super::ask::{Ask, Query, bad_request};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use flyball::Preset;
use flyball::policy::{Format, MAX_TEXT_BYTES, PolicyErrors, Resolved, Severity, Warning, parse, resolve};
use flyball_journal::Door;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// A policy to look at.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBody {
    /// The text of the policy file.
    #[schema(max_length = 262144)]
    text: String,
    /// `yaml`, `toml` or `json`; guessed if nothing is said.
    format: Option<Syntax>,
}

/// How a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyFormat)]
pub(crate) enum Syntax {
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// Something that is wrong with a policy, or looks so.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Remark {
    /// The stable code.
    code: String,
    /// `error`, `warning` or `info`.
    severity: String,
    /// The key, dotted.
    path: String,
    /// The line, from 1.
    line: Option<u32>,
    /// The column, from 1.
    column: Option<u32>,
    /// What is wrong.
    what: String,
    /// What to do about it.
    help: String,
}

/// What was found in a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Checked {
    /// Whether it can be used.
    ok: bool,
    /// The preset that it starts from, if it can be used.
    preset: Option<String>,
    /// Its digest, if it can be used.
    policy_digest: Option<String>,
    /// Errors if it cannot be used, else warnings.
    remarks: Vec<Remark>,
}

/// Looks at the text of a policy: errors with their place, contradictions, warnings.
#[utoipa::path(post, path = "/v1/policies/check", tag = "policies",
    request_body(content = CheckBody, example = json!({"text": "version: 1\npreset: strict\n"})),
    responses((status = 200, description = "What was found", body = Checked)))]
pub(crate) async fn check(
    State(office): State<Shared>,
    Ask(CheckBody { text, format }): Ask<CheckBody>,
) -> Result<Json<Checked>, Problem> {
    if text.chars().count() > MAX_TEXT_BYTES {
        return Err(bad_request("`text` is longer than a policy may be: 256 KiB"));
    }
    let format = match format {
        Some(Syntax::Yaml) => Format::Yaml,
        Some(Syntax::Toml) => Format::Toml,
        Some(Syntax::Json) => Format::Json,
        None => Format::guess("policy", &text),
    };
    let look = move |_: &Office| {
        let resolved = parse(&text, format, "policy").and_then(|layer| resolve(&[layer], Preset::Agent));
        let resolved = resolved.and_then(|resolved| Door::check(&resolved).map(|()| resolved));
        Ok::<_, Problem>(match resolved {
            Ok(resolved) => Checked {
                ok: true,
                preset: Some(resolved.policy.preset.as_str().to_owned()),
                policy_digest: Some(resolved.policy.digest.to_string()),
                remarks: resolved.warnings.iter().map(warned).collect(),
            },
            Err(errors) => Checked { ok: false, preset: None, policy_digest: None, remarks: wrong(&errors) },
        })
    };
    office.look(look).await.map(Json)
}

fn wrong(errors: &PolicyErrors) -> Vec<Remark> {
    let remark = |error: &flyball::policy::PolicyError| Remark {
        code: error.code.as_str().to_owned(),
        severity: "error".to_owned(),
        path: error.path.clone(),
        line: error.line,
        column: error.column,
        what: error.what.clone(),
        help: error.help.clone(),
    };
    errors.iter().map(remark).collect()
}

fn warned(warning: &Warning) -> Remark {
    let severity = if warning.severity == Severity::Warning { "warning" } else { "info" };
    Remark {
        code: warning.code.to_owned(),
        severity: severity.to_owned(),
        path: warning.path.clone(),
        line: warning.place.map(|place| place.line),
        column: warning.place.map(|place| place.column),
        what: warning.what.clone(),
        help: warning.help.clone(),
    }
}

/// Whether origins are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Origins {
    /// 1 to see where each value came from.
    #[param(minimum = 0, maximum = 1)]
    origin: Option<u64>,
}

/// The policy that holds for sessions that bring none, and where each value came from.
#[utoipa::path(get, path = "/v1/policies/effective", tag = "policies", params(Origins),
    responses((status = 200, description = "The policy as it holds; with origins, one entry a value", body = Object)))]
pub(crate) async fn effective(
    State(office): State<Shared>,
    Query(Origins { origin }): Query<Origins>,
) -> Result<Json<Value>, Problem> {
    if origin.is_some_and(|origin| origin > 1) {
        return Err(bad_request("`origin` is 0 or 1"));
    }
    let read = move |office: &Office| {
        // A session that brings an empty policy is under the one that holds for all.
        let resolved = office.recorder.source().with(&json!({})).map_err(|errors| {
            let what = errors.iter().next().map(|error| error.what.clone()).unwrap_or_default();
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "bad_policy",
                what,
                "look at it with `flyball check`",
            )
        })?;
        let resolved = hidden(resolved);
        Ok::<_, Problem>(if origin == Some(1) {
            resolved.values().into_iter().map(|value| (value.path.clone(), value.as_json())).collect()
        } else {
            resolved.effective
        })
    };
    office.look(read).await.map(Json)
}

/// Where effects are delivered to may be secret, and is nobody's business here.
fn hidden(mut resolved: Resolved) -> Resolved {
    if let Some(journal) = resolved.effective.get_mut("journal").and_then(Value::as_object_mut) {
        journal.remove("deliver");
        journal.remove("patterns");
        journal.remove("labels");
    }
    resolved
}
