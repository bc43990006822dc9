//! Session export: events with their decisions as JSON Lines, or as OTLP spans. The response is read and sent in
//! chunks, so memory use does not grow with the session.

use crate::api_error::{ApiError, ApiErrorBody};
use crate::app_state::SharedState;
use crate::auth::Principal;
use crate::otlp::{ContentCapture, SpanBuilder, document_brackets};
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball_store::EventRecord;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Number of events read at once.
const PAGE_EVENTS: u64 = 128;

/// Export format.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportFormat {
    /// One event per line with its decision as an additional field; input for `flyball replay`.
    #[default]
    Jsonl,
    /// One OTLP JSON document of spans; input for `flyball replay --format otlp-json`.
    Otlp,
}

/// Query of an export.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `jsonl` (the default) or `otlp`.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

/// State of an export in progress.
struct SessionExport {
    app: SharedState,
    session: String,
    format: ExportFormat,
    /// The next event, and the last one when the export started.
    next: u64,
    last: u64,
    spans: SpanBuilder,
    /// Whether a span was written, so that the next one needs a comma.
    any_written: bool,
    done: bool,
    /// Limits concurrent reads per key.
    reads: Option<Arc<Semaphore>>,
}

/// Exports a session's events with their decisions, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/export", tag = "sessions",
    params(("session" = String, Path, description = "Session name"), ExportQuery),
    responses(
        (status = 200, description = "The session: docs/signals.md",
            content((String = "application/jsonl"), (serde_json::Value = "application/json"))),
        (status = 404, description = "The session does not exist", body = ApiErrorBody),
        (status = 422, description = "Unknown format", body = ApiErrorBody),
    )
)]
pub(crate) async fn session(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    wanted: Result<Query<ExportQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ApiError> {
    app.require_visible(&principal, &session).await?;
    let Ok(Query(ExportQuery { format: form })) = wanted else {
        let message = "unknown export format";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(ApiError::new(status, "bad_export_format", message, "use format=jsonl or format=otlp"));
    };
    let name = session.clone();
    let loaded = app.run_blocking(move |app| app.store().load(&name)).await?;
    let last = loaded.filter(|loaded| loaded.head.seq > 0).map(|loaded| loaded.head.seq);
    let last = last.ok_or_else(|| ApiError::unknown_session(&session))?;
    let spans = SpanBuilder::new(ContentCapture::Include);
    let reads = app.key_limiter.reads(&principal);
    let export = SessionExport {
        app,
        session,
        format: form,
        next: 1,
        last,
        spans,
        any_written: false,
        done: false,
        reads,
    };
    let kind = match form {
        ExportFormat::Jsonl => "application/jsonl",
        ExportFormat::Otlp => "application/json",
    };
    let chunks = futures_util::stream::unfold(export, |mut export| async move {
        export.next_chunk().await.map(|chunk| (chunk, export))
    });
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

impl SessionExport {
    /// The next chunk. A store error aborts the response, so a complete response is always a complete export.
    async fn next_chunk(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        loop {
            if self.done {
                return None;
            }
            let (from, to) = (self.next, self.last.min(self.next.saturating_add(PAGE_EVENTS - 1)));
            let first = from == 1;
            let mut text = if first { self.opening() } else { String::new() };
            let records = if from > to {
                Vec::new()
            } else {
                let _permit = match &self.reads {
                    Some(reads) => Arc::clone(reads).acquire_owned().await.ok(),
                    None => None,
                };
                let session = self.session.clone();
                let read = self.app.run_blocking(move |app| app.store().records(&session, from, to)).await;
                match read {
                    Ok(records) => records,
                    Err(problem) => {
                        self.done = true;
                        return Some(Err(std::io::Error::other(problem.message)));
                    }
                }
            };
            self.next = to.saturating_add(1);
            records.iter().for_each(|record| self.write_record(record, &mut text));
            if self.next > self.last {
                self.done = true;
                self.write_closing(&mut text);
            }
            if !text.is_empty() {
                return Some(Ok(Bytes::from(text)));
            }
        }
    }

    fn opening(&self) -> String {
        match self.format {
            ExportFormat::Jsonl => String::new(),
            ExportFormat::Otlp => document_brackets().0,
        }
    }

    fn write_record(&mut self, record: &EventRecord, text: &mut String) {
        match self.format {
            ExportFormat::Jsonl => {
                if let Some(line) = event_line(&self.session, record) {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            ExportFormat::Otlp => {
                // The session is read from its first event, so there are no earlier spans to look up.
                let spans = self.spans.push_event(&self.session, record, &|_, _, _| None);
                self.write_spans(&spans, text);
            }
        }
    }

    fn write_closing(&mut self, text: &mut String) {
        if matches!(self.format, ExportFormat::Otlp) {
            let spans = self.spans.flush_session(&self.session);
            self.write_spans(&spans, text);
            text.push_str(document_brackets().1);
        }
    }

    fn write_spans(&mut self, spans: &[Value], text: &mut String) {
        for span in spans {
            if self.any_written {
                text.push(',');
            }
            self.any_written = true;
            text.push_str(&span.to_string());
        }
    }
}

/// A stored event as one JSON line, with its envelope fields and its decision.
fn event_line(session: &str, record: &EventRecord) -> Option<String> {
    let raw = |text: String| RawValue::from_string(text).ok();
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&record.text).ok()?;
    fields.entry("session".to_owned()).or_insert(raw(Value::from(session).to_string())?);
    if let Some(at) = record.at {
        fields.entry("at".to_owned()).or_insert(raw(at.to_string())?);
    }
    fields.insert("seq".to_owned(), raw(record.seq.to_string())?);
    fields.insert("decision".to_owned(), raw(record.decision_json.clone())?);
    let line = serde_json::to_string(&fields).ok()?;
    // Raw line breaks occur only between JSON tokens, never inside strings.
    Some(line.replace(['\n', '\r'], " "))
}
