//! The MCP proxy between a client and a server made with the protocol's own library. Tool calls pass through it; what is no
//! tool call is told beside it. The proxy and its server are started again in the middle of every scenario.
//!
//! The server is this test program itself, started again to run `mcp::serve` alone. The test harness prints on stdout, so
//! the server speaks through descriptor 3. It answers a call when the scenario comes to its end.

use crate::compare::{brief, run};
use crate::operator::{Beside, answers_in_words, environment, pause, project};
use crate::table::{Path, Scenario, Step, Want, carried_by};
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

/// Set in the process that is to be the server: the folder of its calls.
const SERVE: &str = "FLYBALL_TEST_CONFORMANCE_MCP";
/// Long enough that nothing but a hang reaches it.
const LONG: Duration = Duration::from_secs(120);
/// How often the server looks whether it may answer, and the client whether the server was called.
const POLL: Duration = Duration::from_millis(2);

/// Why the MCP proxy does not carry a scenario.
pub(crate) fn refuses(scenario: &Scenario) -> Option<&'static str> {
    let later = || scenario.steps.iter().skip(1);
    let calls = |step: &Step| step.kind() == "tool.requested";
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
    } else if later().any(|step| calls(step) && step.want == Want::Again) {
        Some("own_ids")
    } else if scenario.has_any(&["tool.denied"]) {
        Some("no_denials")
    } else {
        None
    }
}

/// A proxy with a server behind it, and the client's end.
struct Proxy {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    calls: PathBuf,
}

impl Proxy {
    fn start(place: &std::path::Path) -> Self {
        let calls = place.join("calls");
        std::fs::create_dir_all(&calls).unwrap();
        let server = "exec \"$TEST_PROGRAM\" mcp::serve --exact --nocapture 3>&1 >/dev/null";
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["mcp", "--session", "s1", "--", "sh", "-c", server]).current_dir(place).env_clear();
        command
            .envs(environment(place))
            .env(SERVE, &calls)
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
        let mut proxy = Proxy { child, to, from, calls };
        let client = json!({"name": "conformance", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        proxy.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}));
        proxy.from.recv_timeout(LONG).expect("an answer to initialize");
        proxy.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        proxy
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Calls a tool. Gives the answer if it comes at once, nothing if the server was called.
    fn call(&mut self, id: &str, tool: &str, args: &Value) -> Option<Value> {
        let params = json!({"name": tool, "arguments": args, "_meta": {"call": id}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let (called, began) = (self.calls.join(format!("{id}.called")), Instant::now());
        loop {
            match self.from.recv_timeout(POLL) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if called.exists() => return None,
                Err(RecvTimeoutError::Timeout) => assert!(began.elapsed() < LONG, "{tool} is not answered"),
                Err(RecvTimeoutError::Disconnected) => panic!("the proxy has ended"),
            }
        }
    }

    /// Lets the server answer a call.
    fn finish(&mut self, id: &str, event: &Value) -> Value {
        let partial = self.calls.join(format!("{id}.partial"));
        std::fs::write(&partial, event.to_string()).unwrap();
        std::fs::rename(partial, self.calls.join(format!("{id}.answer"))).unwrap();
        self.from.recv_timeout(LONG).expect("an answer to the call")
    }

    /// Ends the proxy as a client does: it closes its side.
    fn end(mut self) {
        drop(self.to.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is wrong with the answer that the client got to a call that is refused, or that ran.
fn answer_fault(step: &Step, answer: &Value) -> Option<String> {
    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or_default();
    let is_error = answer.pointer("/result/isError") == Some(&json!(true));
    let right = match step.kind() {
        "tool.requested" => {
            let waits =
                matches!(&step.want, Want::Decision { state, .. } if state == "blocked" || state == "halted");
            is_error && text.starts_with("[flyball]") && (!waits || text.contains("flyball release 's1'"))
        }
        _ if step.event["ok"] == false => is_error && step.event["error"] == text,
        _ => !is_error && step.event["output"] == text,
    };
    (!right).then(|| format!("{}: the client hears {answer}", brief(&step.event)))
}

fn play(scenario: &Scenario) -> Vec<String> {
    let place = project("mcp", scenario);
    let mut proxy = Proxy::start(&place);
    let mut beside = Beside::new(&place, "s1");
    let (middle, mut restarted, mut open) = (scenario.steps.len() / 2, false, BTreeMap::new());
    let mut found = Vec::new();
    // The first step is `session.started`, which a client of this protocol does not say.
    for (at, step) in scenario.steps.iter().enumerate().skip(1) {
        pause(step.wait_ms);
        // A call that is under way belongs to the process that it was made in.
        if at >= middle && open.is_empty() && !restarted {
            proxy.end();
            (proxy, restarted) = (Proxy::start(&place), true);
        }
        let call = step.event["call"].as_str().unwrap_or_default();
        let mut error = None;
        match step.kind() {
            "tool.requested" => {
                let id = format!("{call}-{at}");
                let Want::Decision { state, .. } = &step.want else { panic!("{step:?}") };
                let held = step.is_refused() || state == "blocked";
                match proxy.call(&id, step.event["tool"].as_str().unwrap(), &step.event["args"]) {
                    Some(answer) if held => found.extend(answer_fault(step, &answer)),
                    None if !held => {
                        open.insert(call.to_owned(), id);
                    }
                    Some(answer) => found.push(format!("{}: refused: {answer}", brief(&step.event))),
                    None => found.push(format!("{}: the server was called", brief(&step.event))),
                }
            }
            "tool.finished" => match open.remove(call) {
                Some(id) => {
                    let answer = proxy.finish(&id, &step.event);
                    found.extend(answer_fault(step, &answer));
                }
                None => continue,
            },
            _ => error = beside.say(step),
        }
        found.extend(beside.faults(step, error.as_ref(), &["tool.denied"]));
    }
    proxy.end();
    found.extend(beside.row_faults(scenario));
    found
}

#[test]
fn mcp() {
    run(Path::Mcp, &carried_by(Path::Mcp), play);
}

/// A server that has any tool, and answers as the files in its folder say.
#[derive(Clone)]
struct Server {
    calls: PathBuf,
}

impl ServerHandler for Server {
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
            if began.elapsed() > LONG {
                return Err(ErrorData::internal_error("nobody ends this call", None));
            }
            tokio::time::sleep(POLL).await;
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

/// The server, in a process of its own; as a test it does nothing.
#[test]
fn serve() {
    let Some(calls) = std::env::var_os(SERVE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let out = std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        let server = Server { calls: PathBuf::from(calls) };
        let server = server.serve((tokio::io::stdin(), tokio::fs::File::from_std(out))).await.unwrap();
        let _ = server.waiting().await;
    });
    runtime.shutdown_background();
}
