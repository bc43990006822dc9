//! Shared by both protocols: routing of requests, and turning a scripted behavior into a response.

use crate::request::RecordedRequest;
use crate::response_plan::{ResponsePlan, WriteStep};
use crate::script::{Framing, ReplyBehavior, ScriptedCall, ServerScript};
use crate::{anthropic, openai};
use serde_json::Value;

/// The two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelProtocol {
    /// OpenAI chat completions.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
}

/// One event of a stream.
pub(crate) struct StreamEvent {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

/// Why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestRejection {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The invalid parameter, if any.
    pub(crate) param: Option<String>,
}

impl RequestRejection {
    /// An invalid request.
    pub(crate) fn invalid(message: impl Into<String>, param: &str) -> Self {
        RequestRejection { status: 400, message: message.into(), param: Some(param.to_owned()) }
    }
}

impl ModelProtocol {
    /// The protocol of a path.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        if path.ends_with("/chat/completions") {
            Some(ModelProtocol::OpenAi)
        } else if path.ends_with("/v1/messages") {
            Some(ModelProtocol::Anthropic)
        } else {
            None
        }
    }

    /// The API key of a request.
    fn key(self, request: &RecordedRequest) -> Option<&str> {
        match self {
            ModelProtocol::OpenAi => request.header("authorization")?.strip_prefix("Bearer "),
            ModelProtocol::Anthropic => request.header("x-api-key"),
        }
    }

    fn check(self, request: &RecordedRequest) -> Result<(), RequestRejection> {
        match self {
            ModelProtocol::OpenAi => openai::validate(request),
            ModelProtocol::Anthropic => anthropic::validate(request),
        }
    }

    fn events(self, said: &ReplyBehavior, request: &Value, number: usize) -> Vec<StreamEvent> {
        match self {
            ModelProtocol::OpenAi => openai::events(said, request, number),
            ModelProtocol::Anthropic => anthropic::events(said, request, number),
        }
    }

    fn document(self, said: &ReplyBehavior, request: &Value, number: usize) -> Value {
        match self {
            ModelProtocol::OpenAi => openai::document(said, request, number),
            ModelProtocol::Anthropic => anthropic::document(said, request, number),
        }
    }

    fn error(self, status: u16, kind: Option<&str>, message: &str, param: Option<&str>) -> Value {
        match self {
            ModelProtocol::OpenAi => openai::error(status, kind, message, param),
            ModelProtocol::Anthropic => anthropic::error(status, kind, message),
        }
    }

    /// Rejects what the real APIs reject.
    pub(crate) fn validate(
        self,
        script: &ServerScript,
        request: &RecordedRequest,
    ) -> Result<(), RequestRejection> {
        if let Some(wanted) = &script.key {
            let given = self.key(request).unwrap_or_default();
            if given != wanted {
                // The real APIs mask the key. This one does not, so that clients must redact it themselves.
                let message = format!("Incorrect API key provided: {given}");
                return Err(RequestRejection { status: 401, message, param: None });
            }
        }
        for refused in &script.refuse {
            if request.body.get(refused).is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
            {
                let message = format!("Unsupported parameter: '{refused}' is not supported with this model.");
                return Err(RequestRejection::invalid(message, refused));
            }
        }
        self.check(request)
    }

    /// The response to a rejected request.
    pub(crate) fn rejection_plan(self, refusal: &RequestRejection) -> ResponsePlan {
        let body = self.error(refusal.status, None, &refusal.message, refusal.param.as_deref());
        ResponsePlan::full(refusal.status, "application/json", body.to_string())
    }

    /// The response to accepted request `number`.
    pub(crate) fn reply_plan(self, said: &ReplyBehavior, request: &Value, number: usize) -> ResponsePlan {
        if let Some(plan) = &said.exact {
            return plan.clone();
        }
        if said.hang_up {
            let steps = vec![WriteStep::Cut];
            return ResponsePlan {
                before_ms: said.first_byte_ms,
                framing: Framing::Close,
                steps,
                ..ResponsePlan::default()
            };
        }
        let streamed = request.get("stream") == Some(&Value::Bool(true)) && said.stream != Some(false);
        let status = said.status.unwrap_or(200);
        if let Some(body) = &said.body {
            let content_type = if streamed { "text/event-stream" } else { "application/json" };
            return ResponsePlan::for_reply(said, content_type, vec![body.clone().into_bytes()]);
        }
        if status >= 400 {
            let message = said.error.clone().unwrap_or_else(|| format!("scripted failure {status}"));
            let body = self.error(status, said.error_type.as_deref(), &message, None).to_string();
            let said = ReplyBehavior { framing: Framing::Length, ..said.clone() };
            return ResponsePlan::for_reply(&said, "application/json", vec![body.into_bytes()]);
        }
        if !streamed {
            let body = self.document(said, request, number).to_string();
            let said = ReplyBehavior { framing: Framing::Length, ..said.clone() };
            return ResponsePlan::for_reply(&said, "application/json", vec![body.into_bytes()]);
        }
        ResponsePlan::for_reply(
            said,
            "text/event-stream; charset=utf-8",
            self.stream_chunks(said, request, number),
        )
    }

    /// The events of a stream as bytes, with the scripted faults.
    fn stream_chunks(self, said: &ReplyBehavior, request: &Value, number: usize) -> Vec<Vec<u8>> {
        let mut events = self.events(said, request, number);
        if let Some(event) = said.spoil_event.and_then(|at| events.get_mut(at)) {
            let half = event.data.len() / 2;
            event.data = event.data.chars().take(half).collect();
        }
        events.truncate(events.len().saturating_sub(said.drop_last));
        if let Some(error) = &said.error_event {
            events.truncate(error.after);
            let data = self.error(500, Some(&error.kind), &error.message, None).to_string();
            let name = (self == ModelProtocol::Anthropic).then_some("error");
            events.push(StreamEvent { name, data });
        }
        events.iter().map(|event| self.event_bytes(said, event)).collect()
    }

    fn event_bytes(self, said: &ReplyBehavior, event: &StreamEvent) -> Vec<u8> {
        let end = said.newline.as_str();
        let mut text = String::new();
        if said.chatter {
            text.push_str(&format!(": keep-alive{end}{end}"));
            if self == ModelProtocol::Anthropic {
                text.push_str(&format!("event: ping{end}data: {{\"type\": \"ping\"}}{end}{end}"));
            }
        }
        if let Some(name) = event.name {
            text.push_str(&format!("event: {name}{end}"));
        }
        text.push_str(&format!("data: {}{end}{end}", event.data));
        text.into_bytes()
    }
}

impl ScriptedCall {
    /// The arguments as sent.
    pub(crate) fn wire_args(&self) -> String {
        match (&self.raw_args, &self.args) {
            (Some(raw), _) => raw.clone(),
            (None, Value::Null) => "{}".to_owned(),
            (None, args) => args.to_string(),
        }
    }

    /// Its id, or one derived from the numbers of the request and the call.
    pub(crate) fn wire_id(&self, prefix: &str, number: usize, index: usize) -> String {
        self.id.clone().unwrap_or_else(|| format!("{prefix}_{number}_{index}"))
    }
}

/// Splits a text into parts of `chars` characters; a single part if that is 0.
pub(crate) fn split_chars(text: &str, chars: usize) -> Vec<String> {
    if chars == 0 || text.is_empty() {
        return vec![text.to_owned()];
    }
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect()
}

/// The model name to report.
pub(crate) fn model(said: &ReplyBehavior, request: &Value) -> Value {
    match &said.model {
        Some(model) => Value::from(model.as_str()),
        None => request.get("model").cloned().unwrap_or_default(),
    }
}
