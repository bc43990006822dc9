//! The MCP proxy between a client and a server built with an MCP library. Tool calls pass through it; all other events
//! are reported with `flyball tell`. The proxy and its server are restarted in the middle of every scenario.
//!
//! The server is this test binary, started again to run only `mcp::serve`. The test harness prints to stdout, so the
//! server uses descriptor 3. It answers a call when the scenario reaches the end of that call.

use crate::compare::{event_text, run_scenarios};
use crate::operator::{OperatorSession, answers_in_words, environment, pause, project_dir};
use crate::scenario_table::{ConformancePath, ExpectedAnswer, Scenario, ScenarioStep, supported_scenarios};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Set in the server process: the folder of its calls.
const SERVER_VARIABLE: &str = "FLYBALL_TEST_CONFORMANCE_MCP";
/// Long enough that only a hang reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How often the server checks whether it may answer, and the client whether the server was called.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The reason why the MCP proxy does not support a scenario.
pub(crate) fn unsupported_reason(scenario: &Scenario) -> Option<&'static str> {
    let later = || scenario.steps.iter().skip(1);
    let calls = |step: &ScenarioStep| step.kind() == "tool.requested";
    if !scenario.steps.iter().any(calls) {
        Some("no_calls")
    } else if !scenario.steps.get(1).is_some_and(calls) || scenario.steps[1].wait_ms > 0 {
        Some("begins_with_a_call")
    } else if scenario.is_timed() {
        Some("own_clock")
    } else if scenario.steps[0].event.get("workflow").is_some() {
        Some("no_graph")
    } else if answers_in_words(scenario) {
        Some("answers_in_words")
    } else if later().any(|step| step.child || ["session.started", "session.ended"].contains(&step.kind())) {
        Some("no_session_events")
    } else if later().any(|step| calls(step) && step.event.get("round").is_some()) {
        Some("no_rounds")
    } else if later().any(|step| calls(step) && step.event.get("usage").is_some()) {
        Some("no_usage")
    } else if later().any(|step| calls(step) && step.expected == ExpectedAnswer::SameAsBefore) {
        Some("own_ids")
    } else if scenario.has_any(&["tool.denied"]) {
        Some("no_denials")
    } else {
        None
    }
}

/// A running proxy with its server, and the client's side.
struct McpProxyProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    calls: PathBuf,
}

impl McpProxyProcess {
    fn start(place: &std::path::Path) -> Self {
        let calls = place.join("calls");
        std::fs::create_dir_all(&calls).unwrap();
        let server = "exec \"$TEST_PROGRAM\" mcp::serve --exact --nocapture 3>&1 >/dev/null";
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["mcp", "--session", "s1", "--", "sh", "-c", server]).current_dir(place).env_clear();
        command
            .envs(environment(place))
            .env(SERVER_VARIABLE, &calls)
            .env("TEST_PROGRAM", std::env::current_exe().unwrap());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut proxy = McpProxyProcess { child, stdin: to, messages: from, calls };
        let client = json!({"name": "conformance", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        proxy.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}));
        proxy.messages.recv_timeout(TEST_TIMEOUT).expect("a response to initialize");
        proxy.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        proxy
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Calls a tool. Returns the answer if there is one immediately; `None` if the server was called.
    fn call(&mut self, id: &str, tool: &str, args: &Value) -> Option<Value> {
        let params = json!({"name": tool, "arguments": args, "_meta": {"call": id}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let (called, began) = (self.calls.join(format!("{id}.called")), Instant::now());
        loop {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if called.exists() => return None,
                Err(RecvTimeoutError::Timeout) => {
                    assert!(began.elapsed() < TEST_TIMEOUT, "{tool} was not answered")
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the proxy has exited"),
            }
        }
    }

    /// Lets the server answer a call.
    fn finish_call(&mut self, id: &str, event: &Value) -> Value {
        let partial = self.calls.join(format!("{id}.partial"));
        std::fs::write(&partial, event.to_string()).unwrap();
        std::fs::rename(partial, self.calls.join(format!("{id}.answer"))).unwrap();
        self.messages.recv_timeout(TEST_TIMEOUT).expect("a response to the call")
    }

    /// Stops the proxy as a client does, by closing its side.
    fn close(mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for McpProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The error in the client's answer to a denied or executed call, if any.
fn answer_error(step: &ScenarioStep, answer: &Value) -> Option<String> {
    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or_default();
    let is_error = answer.pointer("/result/isError") == Some(&json!(true));
    let right = match step.kind() {
        "tool.requested" => {
            let waits = matches!(&step.expected, ExpectedAnswer::Decision { state, .. } if state == "blocked" || state == "halted");
            is_error && text.starts_with("[flyball]") && (!waits || text.contains("flyball release 's1'"))
        }
        _ if step.event["ok"] == false => is_error && step.event["error"] == text,
        _ => !is_error && step.event["output"] == text,
    };
    (!right).then(|| format!("{}: the client received {answer}", event_text(&step.event)))
}

fn run_scenario(scenario: &Scenario) -> Vec<String> {
    let place = project_dir("mcp", scenario);
    let mut proxy = McpProxyProcess::start(&place);
    let mut operator = OperatorSession::new(&place, "s1");
    let (middle, mut restarted, mut open) = (scenario.steps.len() / 2, false, BTreeMap::new());
    let mut found = Vec::new();
    // The first step is `session.started`, which an MCP client does not send.
    for (at, step) in scenario.steps.iter().enumerate().skip(1) {
        pause(step.wait_ms);
        // An open call belongs to the process in which it was started.
        if at >= middle && open.is_empty() && !restarted {
            proxy.close();
            (proxy, restarted) = (McpProxyProcess::start(&place), true);
        }
        let call = step.event["call"].as_str().unwrap_or_default();
        let mut error = None;
        match step.kind() {
            "tool.requested" => {
                let id = format!("{call}-{at}");
                let ExpectedAnswer::Decision { state, .. } = &step.expected else { panic!("{step:?}") };
                let held = step.is_refused() || state == "blocked";
                match proxy.call(&id, step.event["tool"].as_str().unwrap(), &step.event["args"]) {
                    Some(answer) if held => found.extend(answer_error(step, &answer)),
                    None if !held => {
                        open.insert(call.to_owned(), id);
                    }
                    Some(answer) => found.push(format!("{}: denied: {answer}", event_text(&step.event))),
                    None => found.push(format!("{}: the server was called", event_text(&step.event))),
                }
            }
            "tool.finished" => match open.remove(call) {
                Some(id) => {
                    let answer = proxy.finish_call(&id, &step.event);
                    found.extend(answer_error(step, &answer));
                }
                None => continue,
            },
            _ => error = operator.submit(step),
        }
        found.extend(operator.event_errors(step, error.as_ref(), &["tool.denied"]));
    }
    proxy.close();
    found.extend(operator.row_errors(scenario));
    found
}

#[test]
fn mcp() {
    run_scenarios(ConformancePath::Mcp, &supported_scenarios(ConformancePath::Mcp), run_scenario);
}

/// A server that accepts any tool and answers according to the files in its folder.
#[derive(Clone)]
struct ScriptedMcpServer {
    calls: PathBuf,
}

impl ServerHandler for ScriptedMcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Vec::new()))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, ErrorData> {
        let id = context.meta.get("call").and_then(Value::as_str).unwrap_or_default().to_owned();
        std::fs::write(self.calls.join(format!("{id}.called")), "").unwrap();
        let answer = self.calls.join(format!("{id}.answer"));
        let began = Instant::now();
        while !answer.exists() {
            if began.elapsed() > TEST_TIMEOUT {
                return Err(ErrorData::internal_error("no result for this call", None));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let event: Value = serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap();
        let text = |key: &str| ContentBlock::text(event[key].as_str().unwrap_or_default());
        Ok(if event["ok"] == false {
            CallToolResult::error(vec![text("error")])
        } else {
            CallToolResult::success(vec![text("output")])
        }
        .into())
    }
}

/// The server, in a separate process; does nothing as a test.
#[test]
fn serve() {
    let Some(calls) = std::env::var_os(SERVER_VARIABLE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let out = std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        let server = ScriptedMcpServer { calls: PathBuf::from(calls) };
        let server = server.serve((tokio::io::stdin(), tokio::fs::File::from_std(out))).await.unwrap();
        let _ = server.waiting().await;
    });
    runtime.shutdown_background();
}
