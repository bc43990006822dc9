//! What the two protocols share: which one a request speaks, and how a behaviour becomes an answer.

use crate::plan::{Plan, Step};
use crate::request::Request;
use crate::script::{Behaviour, Framing, SaidCall, Script};
use crate::{anthropic, openai};
use serde_json::Value;

/// The two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI chat completions.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
}

/// One event of a stream.
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The parameter that is wrong, if it is one.
    pub(crate) param: Option<String>,
}

impl Refusal {
    /// The request is not valid.
    pub(crate) fn invalid(message: impl Into<String>, param: &str) -> Self {
        Refusal { status: 400, message: message.into(), param: Some(param.to_owned()) }
    }
}

impl Protocol {
    /// The protocol of a path.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        if path.ends_with("/chat/completions") {
            Some(Protocol::OpenAi)
        } else if path.ends_with("/v1/messages") {
            Some(Protocol::Anthropic)
        } else {
            None
        }
    }

    /// The key that a request carries.
    fn key(self, request: &Request) -> Option<&str> {
        match self {
            Protocol::OpenAi => request.header("authorization")?.strip_prefix("Bearer "),
            Protocol::Anthropic => request.header("x-api-key"),
        }
    }

    fn check(self, request: &Request) -> Result<(), Refusal> {
        match self {
            Protocol::OpenAi => openai::check(request),
            Protocol::Anthropic => anthropic::check(request),
        }
    }

    fn events(self, said: &Behaviour, request: &Value, number: usize) -> Vec<Event> {
        match self {
            Protocol::OpenAi => openai::events(said, request, number),
            Protocol::Anthropic => anthropic::events(said, request, number),
        }
    }

    fn whole(self, said: &Behaviour, request: &Value, number: usize) -> Value {
        match self {
            Protocol::OpenAi => openai::whole(said, request, number),
            Protocol::Anthropic => anthropic::whole(said, request, number),
        }
    }

    fn error(self, status: u16, kind: Option<&str>, message: &str, param: Option<&str>) -> Value {
        match self {
            Protocol::OpenAi => openai::error(status, kind, message, param),
            Protocol::Anthropic => anthropic::error(status, kind, message),
        }
    }

    /// Refuses what the real ones refuse.
    pub(crate) fn admit(self, script: &Script, request: &Request) -> Result<(), Refusal> {
        if let Some(wanted) = &script.key {
            let given = self.key(request).unwrap_or_default();
            if given != wanted {
                // The real ones mask it. This one does not, so that clients must take it out themselves.
                let message = format!("Incorrect API key provided: {given}");
                return Err(Refusal { status: 401, message, param: None });
            }
        }
        for refused in &script.refuse {
            if request.body.get(refused).is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
            {
                let message = format!("Unsupported parameter: '{refused}' is not supported with this model.");
                return Err(Refusal::invalid(message, refused));
            }
        }
        self.check(request)
    }

    /// The answer to a request that is refused.
    pub(crate) fn refuse(self, refusal: &Refusal) -> Plan {
        let body = self.error(refusal.status, None, &refusal.message, refusal.param.as_deref());
        Plan::whole(refusal.status, "application/json", body.to_string())
    }

    /// The answer to a request that is let in, the `number`th.
    pub(crate) fn answer(self, said: &Behaviour, request: &Value, number: usize) -> Plan {
        if let Some(plan) = &said.exact {
            return plan.clone();
        }
        if said.hang_up {
            let steps = vec![Step::Cut];
            return Plan { before_ms: said.first_byte_ms, framing: Framing::Close, steps, ..Plan::default() };
        }
        let streamed = request.get("stream") == Some(&Value::Bool(true)) && said.stream != Some(false);
        let status = said.status.unwrap_or(200);
        if let Some(body) = &said.body {
            let content_type = if streamed { "text/event-stream" } else { "application/json" };
            return Plan::shaped(said, content_type, vec![body.clone().into_bytes()]);
        }
        if status >= 400 {
            let message = said.error.clone().unwrap_or_else(|| format!("scripted failure {status}"));
            let body = self.error(status, said.error_type.as_deref(), &message, None).to_string();
            let said = Behaviour { framing: Framing::Length, ..said.clone() };
            return Plan::shaped(&said, "application/json", vec![body.into_bytes()]);
        }
        if !streamed {
            let body = self.whole(said, request, number).to_string();
            let said = Behaviour { framing: Framing::Length, ..said.clone() };
            return Plan::shaped(&said, "application/json", vec![body.into_bytes()]);
        }
        Plan::shaped(said, "text/event-stream; charset=utf-8", self.stream(said, request, number))
    }

    /// The events of a stream as bytes, spoilt as the behaviour wants.
    fn stream(self, said: &Behaviour, request: &Value, number: usize) -> Vec<Vec<u8>> {
        let mut events = self.events(said, request, number);
        if let Some(event) = said.spoil_event.and_then(|at| events.get_mut(at)) {
            let half = event.data.len() / 2;
            event.data = event.data.chars().take(half).collect();
        }
        events.truncate(events.len().saturating_sub(said.drop_last));
        if let Some(error) = &said.error_event {
            events.truncate(error.after);
            let data = self.error(500, Some(&error.kind), &error.message, None).to_string();
            let name = (self == Protocol::Anthropic).then_some("error");
            events.push(Event { name, data });
        }
        events.iter().map(|event| self.written(said, event)).collect()
    }

    fn written(self, said: &Behaviour, event: &Event) -> Vec<u8> {
        let end = said.newline.as_str();
        let mut text = String::new();
        if said.chatter {
            text.push_str(&format!(": keep-alive{end}{end}"));
            if self == Protocol::Anthropic {
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

impl SaidCall {
    /// The arguments as they are sent.
    pub(crate) fn written_args(&self) -> String {
        match (&self.raw_args, &self.args) {
            (Some(raw), _) => raw.clone(),
            (None, Value::Null) => "{}".to_owned(),
            (None, args) => args.to_string(),
        }
    }

    /// Its id, or one made from the numbers of the request and of the call.
    pub(crate) fn written_id(&self, prefix: &str, number: usize, index: usize) -> String {
        self.id.clone().unwrap_or_else(|| format!("{prefix}_{number}_{index}"))
    }
}

/// A text in pieces of so many characters; all of it at once if that is 0.
pub(crate) fn pieces(text: &str, chars: usize) -> Vec<String> {
    if chars == 0 || text.is_empty() {
        return vec![text.to_owned()];
    }
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect()
}

/// The name of the model to report.
pub(crate) fn model(said: &Behaviour, request: &Value) -> Value {
    match &said.model {
        Some(model) => Value::from(model.as_str()),
        None => request.get("model").cloned().unwrap_or_default(),
    }
}
