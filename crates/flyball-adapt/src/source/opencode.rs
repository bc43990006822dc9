//! Sessions of opencode: what `opencode export` writes, the files of its storage one after another, or the lines of
//! `opencode run --format json`.
//!
//! An answer is a list of parts; one message may hold several answers, each between `step-start` and `step-finish`.

use super::fields::{Count, Flag, Number, Text, moment_number, or_default};
use super::lines::{Reader, each_value};
use super::outbox::{Outbox, Step};
use super::peel::{field, fields, items};
use super::talk::{End, Talk, Used};
use super::{Broken, Cached, Format, Sink, Summary, bounds};
use flyball::{Denier, Kind, Origin};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// How many messages are remembered, to know whose a part is. In a dump of the storage all of them come first.
const MESSAGES: usize = 100_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "sessionID")]
    session: Text<'a>,
    #[serde(borrow, rename = "parentID")]
    parent: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow, rename = "modelID")]
    model: Text<'a>,
    summary: Flag,
    #[serde(deserialize_with = "or_default")]
    time: Times,
    tokens: Option<Tokens>,
    cost: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    created: Number,
    start: Number,
    end: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Count,
    output: Count,
    reasoning: Count,
    #[serde(deserialize_with = "or_default")]
    cache: Cache,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Count,
    write: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, rename = "messageID")]
    message: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    synthetic: Flag,
    #[serde(borrow, rename = "callID")]
    call: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    state: Option<State<'a>>,
    tokens: Option<Tokens>,
    cost: Number,
    #[serde(borrow)]
    reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Text<'a>,
    #[serde(borrow)]
    error: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    time: Times,
}

struct Sessions<'a> {
    name: &'a str,
    talks: BTreeMap<String, Talk>,
    /// Sessions that another session made.
    children: Vec<String>,
    /// Messages, and whether they are the user's. Ids grow with time, so the first is the oldest.
    messages: BTreeMap<String, bool>,
}

/// Reads sessions.
pub(super) fn read(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::Opencode, sink);
    let mut sessions = Sessions {
        name: reader.name,
        talks: BTreeMap::new(),
        children: Vec::new(),
        messages: BTreeMap::new(),
    };
    each_value(&mut reader, &mut out, &mut |out, text, _| sessions.value(out, text))?;
    for talk in sessions.talks.values_mut() {
        talk.closes(&mut out);
    }
    Ok(out.finish())
}

impl Sessions<'_> {
    fn value(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let keys = |key: &str| fields(text).any(|field| field.key == key);
        if keys("messages") || keys("parts") {
            return self.export(out, text);
        }
        if let Some(part) = field(text, "part") {
            return self.part(out, part, field(text, "sessionID"), true);
        }
        if keys("messageID") {
            return self.part(out, text, field(text, "sessionID"), false);
        }
        let Ok(info) = serde_json::from_str::<Info<'_>>(text) else { return Step::Bad };
        if info.role.is_empty() { self.session(out, &info) } else { self.message(out, &info, true) }
    }

    /// A whole session, or one message with its parts.
    fn export(&mut self, out: &mut Outbox<'_>, text: &str) -> Step {
        let info = field(text, "info").unwrap_or("{}");
        let Ok(info) = serde_json::from_str::<Info<'_>>(info) else { return Step::Bad };
        if info.role.is_empty() {
            self.session(out, &info);
            let messages = fields(text).find(|field| field.key == "messages");
            for message in items(messages.map_or("", |field| field.value)) {
                out.next_entry();
                let step = self.export(out, message);
                out.count_entry(step);
            }
            return Step::Took;
        }
        let parts = fields(text).find(|field| field.key == "parts").map_or("", |field| field.value);
        let stepped = items(parts).any(|part| field(part, "type") == Some("\"step-finish\""));
        self.message(out, &info, stepped);
        let session = (!info.session.is_empty()).then(|| Value::from(&*info.session).to_string());
        for part in items(parts) {
            self.part(out, part, session.as_deref(), false);
        }
        Step::Took
    }

    fn session(&mut self, out: &mut Outbox<'_>, info: &Info<'_>) -> Step {
        if info.id.is_empty() || self.talks.contains_key(&*info.id) {
            return Step::Nothing;
        }
        let mut talk = Talk::new(&info.id);
        talk.at = moment_number(info.time.created.0);
        let Some(parent) = info.parent.some() else {
            self.talks.insert(info.id.to_string(), talk);
            return Step::Nothing;
        };
        talk.starts(out, Some(parent));
        self.children.push(info.id.to_string());
        self.talks.insert(info.id.to_string(), talk);
        Step::Took
    }

    /// A message begins. Its usage is taken from its steps, if they tell it.
    fn message(&mut self, out: &mut Outbox<'_>, info: &Info<'_>, stepped: bool) -> Step {
        let user = &*info.role == "user";
        if self.messages.len() == MESSAGES {
            self.messages.pop_first();
        }
        self.messages.insert(info.id.to_string(), user);
        let talk = self.talk(&info.session);
        talk.at = moment_number(info.time.created.0).or(talk.at);
        if user {
            return Step::Nothing;
        }
        talk.by(&info.model);
        talk.new_answer();
        if info.summary.0 {
            talk.notes(out, Kind::Compaction {});
        }
        if let Some(tokens) = info.tokens.as_ref().filter(|_| !stepped) {
            talk.uses(tokens.used(info.cost.0));
        }
        Step::Took
    }

    fn part(&mut self, out: &mut Outbox<'_>, text: &str, session: Option<&str>, live: bool) -> Step {
        let Ok(part) = serde_json::from_str::<Part<'_>>(text) else { return Step::Bad };
        let user = self.messages.get(&*part.message).is_some_and(|user| *user) && !live;
        let session = session.and_then(|raw| serde_json::from_str::<Text<'_>>(raw).ok()).unwrap_or_default();
        let child = self.children.iter().any(|name| *name == *session);
        let talk = self.talk(&session);
        match &*part.kind {
            "text" if user => {
                if part.synthetic.0 || part.text.trim().is_empty() {
                    return Step::Nothing;
                }
                talk.hears(out, part.text.0, if child { Origin::Agent } else { Origin::Human });
            }
            "text" => talk.says(out, part.text.0, false),
            "tool" => return tool(talk, out, part),
            "step-start" => talk.new_answer(),
            "step-finish" => {
                if let Some(tokens) = &part.tokens {
                    talk.used(out, tokens.used(part.cost.0));
                }
                if &*part.reason == "stop" {
                    out.end_turn(talk.session());
                }
                talk.new_answer();
            }
            "compaction" => talk.notes(out, Kind::Compaction {}),
            "retry" => talk.notes(out, Kind::ApiRetry {}),
            _ => return Step::Nothing,
        }
        Step::Took
    }

    fn talk(&mut self, session: &str) -> &mut Talk {
        let name = match session {
            "" => self.talks.keys().next().cloned().unwrap_or_else(|| self.name.to_owned()),
            session => session.to_owned(),
        };
        self.talks.entry(name).or_insert_with_key(|name| Talk::new(name))
    }
}

impl Tokens {
    fn used(&self, cost: f64) -> Used {
        let (read, written) = (self.cache.read.0, self.cache.write.0);
        Used {
            tokens_in: self.input.0.saturating_add(read).saturating_add(written),
            tokens_out: self.output.0.saturating_add(self.reasoning.0),
            cost_micro_usd: bounds::micro_dollars(cost),
            cached: Cached { read, written },
        }
    }
}

fn tool(talk: &mut Talk, out: &mut Outbox<'_>, part: Part<'_>) -> Step {
    let Some(state) = part.state else { return Step::Nothing };
    let ended = match &*state.status {
        "completed" => Some(End::Ok(state.output.0)),
        "error" => Some(match refusal(&state.error) {
            Some(by) => End::Denied(by),
            None => End::Failed(state.error.0),
        }),
        _ => None,
    };
    talk.at = moment_number(state.time.start.0).or(talk.at);
    let args = state.input.map_or(Value::Null, |input| bounds::args(input.get()));
    talk.calls(out, &part.call, &part.tool, args);
    if let Some(end) = ended {
        let started = talk.at;
        talk.at = moment_number(state.time.end.0).or(talk.at);
        let took = talk.at.zip(started).map(|(end, start)| end.saturating_sub(start));
        talk.ended_in(out, &part.call, end, took);
        // Calls of one step are one answer, however they end.
        talk.same_answer();
    }
    Step::Took
}

fn refusal(text: &str) -> Option<Denier> {
    if text.starts_with("The user rejected permission") {
        return Some(Denier::Human);
    }
    text.starts_with("The user has specified a rule which prevents").then_some(Denier::Policy)
}
