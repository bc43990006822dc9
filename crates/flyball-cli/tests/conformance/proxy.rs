//! The model proxy between a client and a model that says what the scenario says. Prompts, answers and tool calls pass
//! through it; what is no part of a conversation with a model is told beside it. The proxy is started again in the middle
//! of every scenario.

use crate::compare::{brief, fault, run};
use crate::operator::{Beside, answers_in_words, environment, is_event, pause, project};
use crate::table::{Path, Scenario, Step, Want, carried_by};
use flyball_model_server::{Behaviour, SaidCall, Script, Server, Usage};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MODEL: &str = "test-model";
/// One dollar for a million tokens, in or out.
const PRICE: &str = "test-model=1,1";
/// Long enough that nothing but a hang reaches it.
const LONG: Duration = Duration::from_secs(120);

/// What passes through a model's interface.
const SPOKEN: [&str; 4] = ["user.message", "assistant.message", "tool.requested", "tool.finished"];

/// Why the model proxy does not carry a scenario.
pub(crate) fn refuses(scenario: &Scenario) -> Option<&'static str> {
    let steps = &scenario.steps;
    let later = || steps.iter().skip(1);
    let asks = |step: &Step| ["tool.requested", "assistant.message"].contains(&step.kind());
    if !steps.iter().any(|step| step.kind() == "tool.requested") {
        return Some("no_calls");
    } else if !SPOKEN.contains(&steps[1].kind()) || steps[1].wait_ms > 0 {
        return Some("begins_with_a_request");
    } else if scenario.is_timed() {
        return Some("own_clock");
    } else if steps[0].event.get("workflow").is_some() {
        return Some("no_graph");
    } else if answers_in_words(scenario) {
        return Some("answers_in_words");
    } else if later().any(|step| step.child || ["session.started", "session.ended"].contains(&step.kind())) {
        return Some("no_session_events");
    } else if later().any(|step| asks(step) && step.want == Want::Again) {
        return Some("own_ids");
    } else if scenario.has_any(&["tool.denied"]) {
        return Some("no_denials");
    } else if later().any(|step| step.kind() == "assistant.message" && step.event["final"] != true) {
        return Some("answers_are_final");
    }
    // After an answer without calls it is the client's turn to speak.
    let mut ended = false;
    for step in later() {
        match step.kind() {
            "user.message" => ended = false,
            "tool.requested" | "assistant.message" if ended => return Some("answers_are_final"),
            "assistant.message" => ended = true,
            _ => {}
        }
    }
    let spoken = |step: &Step| SPOKEN.contains(&step.kind());
    let late = |pair: &[Step]| pair[0].kind() == "tool.finished" && !spoken(&pair[1]);
    let split = |pair: &[Step]| pair[0].kind() == "user.message" && !spoken(&pair[1]);
    // A person's message opens the conversation, or follows on an answer without calls.
    let beside = |pair: &[Step]| pair[0].kind() == "tool.finished" && pair[1].kind() == "user.message";
    let wrong = |pair: &[Step]| late(pair) || split(pair) || beside(pair);
    steps.windows(2).any(wrong).then_some("results_later")
}

/// A proxy that runs.
struct Proxy {
    child: Child,
    url: String,
}

impl Proxy {
    fn start(place: &std::path::Path, upstream: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream", upstream, "--price", PRICE]);
        command.current_dir(place).env_clear().envs(environment(place));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        err.read_line(&mut first).unwrap();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let url = format!("http://{}/v1/messages", address.unwrap_or_else(|| panic!("{first}")));
        // What it says on its way is nobody's concern, but somebody must read it.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Proxy { child, url }
    }

    /// Sends a conversation; gives the decision that the answer names, if it names one, and the answer.
    fn ask(&self, messages: &[Value]) -> (Option<String>, String) {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(LONG));
        let agent: ureq::Agent = config.build().into();
        let body = json!({"model": MODEL, "max_tokens": 100, "messages": messages}).to_string();
        let request = ureq::http::Request::post(&self.url)
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "test")
            .header("x-flyball-session", "s1");
        let mut response = agent.run(request.body(body).unwrap()).unwrap();
        let decision =
            response.headers().get("x-flyball-decision").map(|value| value.to_str().unwrap().to_owned());
        let text = response.body_mut().read_to_string().unwrap();
        (decision, text)
    }

    fn end(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request: what the client adds to the conversation, and what the model answers.
#[derive(Default)]
struct Exchange<'a> {
    /// Steps that the client brings: prompts and results.
    brings: Vec<&'a Step>,
    /// Steps that the model's answer brings.
    answer: Vec<&'a Step>,
    /// The session stands still before the answer, so the model is not asked.
    is_held: bool,
}

impl Exchange<'_> {
    /// A call of the answer lacks an approval, so the client does not get the answer.
    fn is_withheld(&self) -> bool {
        self.answer.iter().any(|step| match &step.want {
            Want::Decision { reasons, .. } => reasons.iter().any(|reason| reason == "approval_required"),
            _ => false,
        })
    }
}

/// Something that happens in a scenario, in order.
enum Act<'a> {
    Ask(Exchange<'a>),
    Beside(&'a Step),
}

fn state_after(step: &Step) -> Option<&str> {
    match &step.want {
        Want::Decision { state, .. } => Some(state),
        _ => None,
    }
}

/// The scenario as requests, and what happens between them.
fn acts(scenario: &Scenario) -> Vec<Act<'_>> {
    let mut acts: Vec<Act<'_>> = Vec::new();
    let mut brings: Vec<&Step> = Vec::new();
    let mut state = "running";
    for step in scenario.steps.iter().skip(1) {
        match step.kind() {
            "tool.finished" | "user.message" => brings.push(step),
            "tool.requested" | "assistant.message" => {
                let round = step.event.get("round");
                match acts.last_mut() {
                    // Calls of one answer come together.
                    Some(Act::Ask(last))
                        if round.is_some()
                            && brings.is_empty()
                            && last.answer.last().is_some_and(|other| other.event.get("round") == round) =>
                    {
                        last.answer.push(step);
                    }
                    _ => {
                        let is_held = ["halted", "blocked"].contains(&state);
                        acts.push(Act::Ask(Exchange {
                            brings: std::mem::take(&mut brings),
                            answer: vec![step],
                            is_held,
                        }));
                    }
                }
            }
            _ => acts.push(Act::Beside(step)),
        }
        state = state_after(step).unwrap_or(state);
    }
    if !brings.is_empty() {
        let is_held = ["halted", "blocked"].contains(&state);
        acts.push(Act::Ask(Exchange { brings, answer: Vec::new(), is_held }));
    }
    acts
}

/// What the model says in an exchange.
fn behaviour(exchange: &Exchange<'_>) -> Behaviour {
    let mut said =
        Behaviour { usage: Usage { input: 0, output: 0, cached: 0, cache_write: 0 }, ..Behaviour::default() };
    if exchange.answer.is_empty() {
        said.text = "That is all.".to_owned();
    }
    for step in &exchange.answer {
        let event = &step.event;
        if step.kind() == "assistant.message" {
            said.text = event["text"].as_str().unwrap().to_owned();
        } else {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            let (id, name, args) = (Some(text("call")), text("tool"), event["args"].clone());
            said.calls.push(SaidCall { id, name, args, raw_args: None });
        }
        said.usage.input += event["usage"]["tokens_in"].as_u64().unwrap_or(0);
        said.usage.output += event["usage"]["tokens_out"].as_u64().unwrap_or(0);
    }
    said
}

/// The client's side of the conversation.
struct Client {
    messages: Vec<Value>,
    /// Calls of the model that have no result yet.
    open: Vec<String>,
}

impl Client {
    /// Adds what the client brings. A call that was refused has run by then: the model has said it already.
    fn bring(&mut self, brings: &[&Step]) {
        let mut content = Vec::new();
        for step in brings.iter().filter(|step| step.kind() == "tool.finished") {
            let call = step.event["call"].as_str().unwrap().to_owned();
            let failed = step.event["ok"] == false;
            let text = if failed { &step.event["error"] } else { &step.event["output"] };
            content.push(
                json!({"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}),
            );
            self.open.retain(|open| *open != call);
        }
        for call in self.open.drain(..) {
            content
                .push(json!({"type": "tool_result", "tool_use_id": call, "content": "it ran all the same"}));
        }
        for step in brings.iter().filter(|step| step.kind() == "user.message") {
            content.push(json!({"type": "text", "text": step.event["text"]}));
        }
        if self.messages.is_empty() && content.is_empty() {
            content.push(json!({"type": "text", "text": "begin"}));
        }
        if !content.is_empty() {
            self.messages.push(json!({"role": "user", "content": content}));
        }
    }

    /// Adds the model's answer.
    fn answered(&mut self, said: &Behaviour) {
        let mut content = Vec::new();
        if !said.text.is_empty() {
            content.push(json!({"type": "text", "text": said.text}));
        }
        for call in &said.calls {
            content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}));
            self.open.extend(call.id.clone());
        }
        self.messages.push(json!({"role": "assistant", "content": content}));
    }
}

/// What is wrong with the events that an exchange left in the store. Beside its own there may be the opening prompt, the
/// results of calls that were refused, and the closing answer.
fn exchange_faults(exchange: &Exchange<'_>, mut news: Vec<(Value, Value)>) -> Vec<String> {
    let mut found = Vec::new();
    let answer: &[&Step] = if exchange.is_held { &[] } else { &exchange.answer };
    for step in exchange.brings.iter().chain(answer) {
        let own = |event: &Value| {
            let call = event.get("call");
            // A call that is withheld has no number yet: nobody has received it.
            is_event(step, event)
                && step.event.get("call").is_none_or(|own| call.is_none_or(|call| call == own))
        };
        match news.iter().position(|(event, _)| own(event)) {
            Some(at) => found.extend(fault(step, &news.remove(at).1, None)),
            None => found.push(format!("{} is not stored", brief(&step.event))),
        }
    }
    for (event, _) in news {
        let kind = event["type"].as_str().unwrap_or("?");
        if !["user.message", "tool.finished", "assistant.message"].contains(&kind) {
            found.push(format!("besides: {event}"));
        }
    }
    found
}

fn play(scenario: &Scenario) -> Vec<String> {
    let place = project("proxy", scenario);
    let acts = acts(scenario);
    let asked = acts.iter().filter_map(|act| match act {
        Act::Ask(exchange) if !exchange.is_held => Some(behaviour(exchange)),
        _ => None,
    });
    let model = Server::start(Script::new(asked)).unwrap();
    let mut proxy = Proxy::start(&place, &model.url());
    let mut beside = Beside::new(&place, "s1");
    let mut client = Client { messages: Vec::new(), open: Vec::new() };
    let mut found = Vec::new();
    for (at, act) in acts.iter().enumerate() {
        if at == acts.len() / 2 && at > 0 {
            proxy.end();
            proxy = Proxy::start(&place, &model.url());
        }
        match act {
            Act::Beside(step) => {
                pause(step.wait_ms);
                let error = beside.say(step);
                found.extend(beside.faults(step, error.as_ref(), &[]));
            }
            Act::Ask(exchange) => {
                let wait: u64 = exchange.brings.iter().chain(&exchange.answer).map(|step| step.wait_ms).sum();
                pause(wait);
                client.bring(&exchange.brings);
                let before = model.requests().len();
                let (decision, text) = proxy.ask(&client.messages);
                let reached = model.requests().len() > before;
                // Words come in place of an answer that is withheld; the client asks again with what it had.
                if exchange.is_withheld() && (text.contains("tool_use") || !text.contains("[flyball]")) {
                    found.push(format!("the client was to hear words in place of a call, and hears {text}"));
                } else if reached && !exchange.is_withheld() {
                    client.answered(&behaviour(exchange));
                }
                let told = decision.as_deref() == Some("halt") && text.contains("flyball release 's1'");
                if reached == exchange.is_held || (exchange.is_held && !told) {
                    found.push(format!(
                        "the model was asked: {reached}, the client hears {decision:?}, {text}"
                    ));
                }
                let first = exchange.brings.iter().chain(&exchange.answer).next().unwrap();
                found.extend(exchange_faults(exchange, beside.news(first)));
            }
        }
    }
    proxy.end();
    found.extend(beside.row_faults(scenario));
    found
}

#[test]
fn proxy() {
    run(Path::Proxy, &carried_by(Path::Proxy), play);
}
