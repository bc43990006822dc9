//! The model proxy between a client and a scripted model. Prompts, answers and tool calls pass through it; all other
//! events are reported with `flyball tell`. The proxy is restarted in the middle of every scenario.

use crate::compare::{answer_error, event_text, run_scenarios};
use crate::operator::{OperatorSession, answers_in_words, environment, is_event_of_step, pause, project_dir};
use crate::scenario_table::{ConformancePath, ExpectedAnswer, Scenario, ScenarioStep, supported_scenarios};
use flyball_model_server::{ModelServer, ReplyBehavior, ScriptedCall, ScriptedUsage, ServerScript};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MODEL: &str = "test-model";
/// One dollar per million tokens, input or output.
const PRICE: &str = "test-model=1,1";
/// Long enough that only a hang reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Events that pass through a model API.
const MODEL_EVENTS: [&str; 4] = ["user.message", "assistant.message", "tool.requested", "tool.finished"];

/// The reason why the model proxy does not support a scenario.
pub(crate) fn unsupported_reason(scenario: &Scenario) -> Option<&'static str> {
    let steps = &scenario.steps;
    let later = || steps.iter().skip(1);
    let asks = |step: &ScenarioStep| ["tool.requested", "assistant.message"].contains(&step.kind());
    if !steps.iter().any(|step| step.kind() == "tool.requested") {
        return Some("no_calls");
    } else if !MODEL_EVENTS.contains(&steps[1].kind()) || steps[1].wait_ms > 0 {
        return Some("begins_with_a_request");
    } else if scenario.is_timed() {
        return Some("own_clock");
    } else if steps[0].event.get("workflow").is_some() {
        return Some("no_graph");
    } else if answers_in_words(scenario) {
        return Some("answers_in_words");
    } else if later().any(|step| step.child || ["session.started", "session.ended"].contains(&step.kind())) {
        return Some("no_session_events");
    } else if later().any(|step| asks(step) && step.expected == ExpectedAnswer::SameAsBefore) {
        return Some("own_ids");
    } else if scenario.has_any(&["tool.denied"]) {
        return Some("no_denials");
    } else if later().any(|step| step.kind() == "assistant.message" && step.event["final"] != true) {
        return Some("answers_are_final");
    }
    // After an answer without calls, the client speaks next.
    let mut ended = false;
    for step in later() {
        match step.kind() {
            "user.message" => ended = false,
            "tool.requested" | "assistant.message" if ended => return Some("answers_are_final"),
            "assistant.message" => ended = true,
            _ => {}
        }
    }
    let spoken = |step: &ScenarioStep| MODEL_EVENTS.contains(&step.kind());
    let late = |pair: &[ScenarioStep]| pair[0].kind() == "tool.finished" && !spoken(&pair[1]);
    let split = |pair: &[ScenarioStep]| pair[0].kind() == "user.message" && !spoken(&pair[1]);
    // A person's message starts the conversation or follows an answer without calls.
    let operator =
        |pair: &[ScenarioStep]| pair[0].kind() == "tool.finished" && pair[1].kind() == "user.message";
    let wrong = |pair: &[ScenarioStep]| late(pair) || split(pair) || operator(pair);
    steps.windows(2).any(wrong).then_some("results_later")
}

/// A running proxy.
struct ModelProxyProcess {
    child: Child,
    url: String,
}

impl ModelProxyProcess {
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
        // Its stderr is ignored but must be drained.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        ModelProxyProcess { child, url }
    }

    /// Sends a conversation; returns the decision in the response, if any, and the answer.
    fn send_conversation(&self, messages: &[Value]) -> (Option<String>, String) {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TEST_TIMEOUT));
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

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ModelProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request: the client's additions to the conversation, and the model's answer.
#[derive(Default)]
struct ModelExchange<'a> {
    /// The client's steps: prompts and results.
    client_steps: Vec<&'a ScenarioStep>,
    /// The steps in the model's answer.
    model_steps: Vec<&'a ScenarioStep>,
    /// Whether the session is held before the answer, so that the model is not called.
    is_held: bool,
}

impl ModelExchange<'_> {
    /// Whether a call in the answer lacks approval, so that the client does not receive the answer.
    fn is_withheld(&self) -> bool {
        self.model_steps.iter().any(|step| match &step.expected {
            ExpectedAnswer::Decision { reasons, .. } => {
                reasons.iter().any(|reason| reason == "approval_required")
            }
            _ => false,
        })
    }
}

/// An action in a scenario.
enum ScenarioAct<'a> {
    Exchange(ModelExchange<'a>),
    Operator(&'a ScenarioStep),
}

fn state_after(step: &ScenarioStep) -> Option<&str> {
    match &step.expected {
        ExpectedAnswer::Decision { state, .. } => Some(state),
        _ => None,
    }
}

/// The scenario as requests, and the actions between them.
fn scenario_acts(scenario: &Scenario) -> Vec<ScenarioAct<'_>> {
    let mut acts: Vec<ScenarioAct<'_>> = Vec::new();
    let mut brings: Vec<&ScenarioStep> = Vec::new();
    let mut state = "running";
    for step in scenario.steps.iter().skip(1) {
        match step.kind() {
            "tool.finished" | "user.message" => brings.push(step),
            "tool.requested" | "assistant.message" => {
                let round = step.event.get("round");
                match acts.last_mut() {
                    // Calls of one answer arrive together.
                    Some(ScenarioAct::Exchange(last))
                        if round.is_some()
                            && brings.is_empty()
                            && last
                                .model_steps
                                .last()
                                .is_some_and(|other| other.event.get("round") == round) =>
                    {
                        last.model_steps.push(step);
                    }
                    _ => {
                        let is_held = ["halted", "blocked"].contains(&state);
                        acts.push(ScenarioAct::Exchange(ModelExchange {
                            client_steps: std::mem::take(&mut brings),
                            model_steps: vec![step],
                            is_held,
                        }));
                    }
                }
            }
            _ => acts.push(ScenarioAct::Operator(step)),
        }
        state = state_after(step).unwrap_or(state);
    }
    if !brings.is_empty() {
        let is_held = ["halted", "blocked"].contains(&state);
        acts.push(ScenarioAct::Exchange(ModelExchange {
            client_steps: brings,
            model_steps: Vec::new(),
            is_held,
        }));
    }
    acts
}

/// The model's behavior in an exchange.
fn model_behavior(exchange: &ModelExchange<'_>) -> ReplyBehavior {
    let mut said = ReplyBehavior {
        usage: ScriptedUsage { input: 0, output: 0, cached: 0, cache_write: 0 },
        ..ReplyBehavior::default()
    };
    if exchange.model_steps.is_empty() {
        said.text = "That is all.".to_owned();
    }
    for step in &exchange.model_steps {
        let event = &step.event;
        if step.kind() == "assistant.message" {
            said.text = event["text"].as_str().unwrap().to_owned();
        } else {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            let (id, name, args) = (Some(text("call")), text("tool"), event["args"].clone());
            said.calls.push(ScriptedCall { id, name, args, raw_args: None });
        }
        said.usage.input += event["usage"]["tokens_in"].as_u64().unwrap_or(0);
        said.usage.output += event["usage"]["tokens_out"].as_u64().unwrap_or(0);
    }
    said
}

/// The client's side of the conversation.
struct ModelClient {
    messages: Vec<Value>,
    /// Calls of the model without a result.
    open_calls: Vec<String>,
}

impl ModelClient {
    /// Adds the client's steps. A denied call has already run, because the model's answer had reached the client.
    fn push_client_steps(&mut self, brings: &[&ScenarioStep]) {
        let mut content = Vec::new();
        for step in brings.iter().filter(|step| step.kind() == "tool.finished") {
            let call = step.event["call"].as_str().unwrap().to_owned();
            let failed = step.event["ok"] == false;
            let text = if failed { &step.event["error"] } else { &step.event["output"] };
            content.push(
                json!({"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}),
            );
            self.open_calls.retain(|open| *open != call);
        }
        for call in self.open_calls.drain(..) {
            content.push(json!({"type": "tool_result", "tool_use_id": call, "content": "it ran anyway"}));
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
    fn push_model_answer(&mut self, said: &ReplyBehavior) {
        let mut content = Vec::new();
        if !said.text.is_empty() {
            content.push(json!({"type": "text", "text": said.text}));
        }
        for call in &said.calls {
            content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}));
            self.open_calls.extend(call.id.clone());
        }
        self.messages.push(json!({"role": "assistant", "content": content}));
    }
}

/// The errors in the events that an exchange left in the store. The opening prompt, results of denied calls and the
/// closing answer are allowed in addition.
fn exchange_errors(exchange: &ModelExchange<'_>, mut news: Vec<(Value, Value)>) -> Vec<String> {
    let mut found = Vec::new();
    let answer: &[&ScenarioStep] = if exchange.is_held { &[] } else { &exchange.model_steps };
    for step in exchange.client_steps.iter().chain(answer) {
        let own = |event: &Value| {
            let call = event.get("call");
            // A withheld call has no id yet, because the client never received it.
            is_event_of_step(step, event)
                && step.event.get("call").is_none_or(|own| call.is_none_or(|call| call == own))
        };
        match news.iter().position(|(event, _)| own(event)) {
            Some(at) => found.extend(answer_error(step, &news.remove(at).1, None)),
            None => found.push(format!("{} is not stored", event_text(&step.event))),
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

fn run_scenario(scenario: &Scenario) -> Vec<String> {
    let place = project_dir("proxy", scenario);
    let acts = scenario_acts(scenario);
    let asked = acts.iter().filter_map(|act| match act {
        ScenarioAct::Exchange(exchange) if !exchange.is_held => Some(model_behavior(exchange)),
        _ => None,
    });
    let model = ModelServer::start(ServerScript::new(asked)).unwrap();
    let mut proxy = ModelProxyProcess::start(&place, &model.url());
    let mut operator = OperatorSession::new(&place, "s1");
    let mut client = ModelClient { messages: Vec::new(), open_calls: Vec::new() };
    let mut found = Vec::new();
    for (at, act) in acts.iter().enumerate() {
        if at == acts.len() / 2 && at > 0 {
            proxy.stop();
            proxy = ModelProxyProcess::start(&place, &model.url());
        }
        match act {
            ScenarioAct::Operator(step) => {
                pause(step.wait_ms);
                let error = operator.submit(step);
                found.extend(operator.event_errors(step, error.as_ref(), &[]));
            }
            ScenarioAct::Exchange(exchange) => {
                let wait: u64 =
                    exchange.client_steps.iter().chain(&exchange.model_steps).map(|step| step.wait_ms).sum();
                pause(wait);
                client.push_client_steps(&exchange.client_steps);
                let before = model.requests().len();
                let (decision, text) = proxy.send_conversation(&client.messages);
                let reached = model.requests().len() > before;
                // A withheld answer is replaced by text; the client then repeats its request.
                if exchange.is_withheld() && (text.contains("tool_use") || !text.contains("[flyball]")) {
                    found.push(format!(
                        "the client should receive text instead of a call, but received \
                         {text}"
                    ));
                } else if reached && !exchange.is_withheld() {
                    client.push_model_answer(&model_behavior(exchange));
                }
                let names_release =
                    decision.as_deref() == Some("halt") && text.contains("flyball release 's1'");
                if reached == exchange.is_held || (exchange.is_held && !names_release) {
                    found.push(format!(
                        "the model was called: {reached}; the client received {decision:?}, {text}"
                    ));
                }
                let first = exchange.client_steps.iter().chain(&exchange.model_steps).next().unwrap();
                found.extend(exchange_errors(exchange, operator.new_events(first)));
            }
        }
    }
    proxy.stop();
    found.extend(operator.row_errors(scenario));
    found
}

#[test]
fn proxy() {
    run_scenarios(ConformancePath::Proxy, &supported_scenarios(ConformancePath::Proxy), run_scenario);
}
