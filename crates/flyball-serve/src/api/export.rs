//! A session to take away: its events with their decisions as lines of JSON, or as traces. It is read and sent piece by
//! piece, however long it is.

use crate::office::Shared;
use crate::otlp::{Content, Weaver, brackets};
use crate::problem::{Problem, ProblemBody};
use crate::who::Principal;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use flyball_journal::Record;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How many events are read at once.
const PORTION: u64 = 128;

/// In which form.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// An event a line, with its decision beside its own fields: `flyball replay` reads it.
    #[default]
    Jsonl,
    /// One document of spans, as OTLP has it in JSON: `flyball replay --format otlp-json` reads it.
    Otlp,
}

/// What is wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// `jsonl` (the default) or `otlp`.
    #[serde(default)]
    #[param(inline)]
    format: Form,
}

/// A session while it is written out.
struct Export {
    office: Shared,
    session: String,
    form: Form,
    /// The next event, and the last one that there was when we began.
    next: u64,
    last: u64,
    weaver: Weaver,
    /// A span was written already.
    begun: bool,
    over: bool,
    /// How much their key may read at a time.
    reads: Option<Arc<Semaphore>>,
}

/// A session's events with their decisions, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/export", tag = "sessions",
    params(("session" = String, Path, description = "The name of the session"), Wanted),
    responses(
        (status = 200, description = "The session: docs/signals.md",
            content((String = "application/jsonl"), (serde_json::Value = "application/json"))),
        (status = 404, description = "There is no such session", body = ProblemBody),
        (status = 422, description = "The format is not known", body = ProblemBody),
    )
)]
pub(crate) async fn session(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    office.may_see(&principal, &session).await?;
    let Ok(Query(Wanted { format: form })) = wanted else {
        let what = "a session can be had in the formats jsonl and otlp";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(Problem::new(status, "bad_export_format", what, "send format=jsonl or format=otlp"));
    };
    let name = session.clone();
    let loaded = office.look(move |office| office.desk().load(&name)).await?;
    let last = loaded.filter(|loaded| loaded.head.seq > 0).map(|loaded| loaded.head.seq);
    let last = last.ok_or_else(|| Problem::unknown_session(&session))?;
    let weaver = Weaver::new(Content::Along);
    let reads = office.usage.reads(&principal);
    let export = Export { office, session, form, next: 1, last, weaver, begun: false, over: false, reads };
    let kind = match form {
        Form::Jsonl => "application/jsonl",
        Form::Otlp => "application/json",
    };
    let pieces = futures_util::stream::unfold(export, |mut export| async move {
        export.piece().await.map(|piece| (piece, export))
    });
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

impl Export {
    /// The next piece. If the store cannot be read, the answer is cut off: a whole one ends as it should.
    async fn piece(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        loop {
            if self.over {
                return None;
            }
            let (from, to) = (self.next, self.last.min(self.next.saturating_add(PORTION - 1)));
            let first = from == 1;
            let mut text = if first { self.before() } else { String::new() };
            let records = if from > to {
                Vec::new()
            } else {
                let _turn = match &self.reads {
                    Some(reads) => Arc::clone(reads).acquire_owned().await.ok(),
                    None => None,
                };
                let session = self.session.clone();
                let read = self.office.look(move |office| office.desk().records(&session, from, to)).await;
                match read {
                    Ok(records) => records,
                    Err(problem) => {
                        self.over = true;
                        return Some(Err(std::io::Error::other(problem.what)));
                    }
                }
            };
            self.next = to.saturating_add(1);
            records.iter().for_each(|record| self.write(record, &mut text));
            if self.next > self.last {
                self.over = true;
                self.after(&mut text);
            }
            if !text.is_empty() {
                return Some(Ok(Bytes::from(text)));
            }
        }
    }

    fn before(&self) -> String {
        match self.form {
            Form::Jsonl => String::new(),
            Form::Otlp => brackets().0,
        }
    }

    fn write(&mut self, record: &Record, text: &mut String) {
        match self.form {
            Form::Jsonl => {
                if let Some(line) = line(&self.session, record) {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            Form::Otlp => {
                // The session is read from its beginning: there is nothing earlier.
                let spans = self.weaver.take(&self.session, record, &|_, _, _| None);
                self.spans(&spans, text);
            }
        }
    }

    fn after(&mut self, text: &mut String) {
        if matches!(self.form, Form::Otlp) {
            let spans = self.weaver.rest(&self.session);
            self.spans(&spans, text);
            text.push_str(brackets().1);
        }
    }

    fn spans(&mut self, spans: &[Value], text: &mut String) {
        for span in spans {
            if self.begun {
                text.push(',');
            }
            self.begun = true;
            text.push_str(&span.to_string());
        }
    }
}

/// An event as it is stored, with what was left to the envelope, and its decision.
fn line(session: &str, record: &Record) -> Option<String> {
    let raw = |text: String| RawValue::from_string(text).ok();
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&record.text).ok()?;
    fields.entry("session".to_owned()).or_insert(raw(Value::from(session).to_string())?);
    if let Some(at) = record.at {
        fields.entry("at".to_owned()).or_insert(raw(at.to_string())?);
    }
    fields.insert("seq".to_owned(), raw(record.seq.to_string())?);
    fields.insert("decision".to_owned(), raw(record.decision.clone())?);
    let line = serde_json::to_string(&fields).ok()?;
    // Line ends stand only between the tokens of JSON, never inside of a text.
    Some(line.replace(['\n', '\r'], " "))
}
