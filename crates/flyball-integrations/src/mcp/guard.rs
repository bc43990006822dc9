//! Guards one MCP connection: tool calls are evaluated, their results are recorded, and all other messages are
//! forwarded unchanged.
//!
//! A denied call is answered here. A call that needs approval is held while the client asks its user (elicitation), if
//! the client supports that. Otherwise the response names the approval command, and the next attempt uses the approval.

use super::McpProxyConfig;
use super::large_outputs::{self, READ_TOOL};
use super::message::{McpMessage, McpToolCall, error_result};
use super::results::{ReplaceOptions, edit_result, result_text};
use crate::model_proxy::ProxyError;
use crate::model_proxy::shell_quote;
use flyball::output::OutputLimits;
use flyball::policy::{OnErrorAction, ToolEffect};
use flyball::{Decision, Fingerprint, RulesVersion, SessionPhase, Verdict};
use flyball_store::RecordError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The `approved_by` value for an approval given in a dialog of the MCP client.
const MCP_CLIENT_DIALOG: &str = "mcp-client";
/// Prefix of the ids of requests that the proxy sends to the client.
const OWN_REQUEST_PREFIX: &str = "flyball-";
/// Maximum number of open calls; results of calls beyond it are not recorded.
const MAX_OPEN_CALLS: usize = 10_000;

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum McpForward {
    /// To the server.
    ToServer(String),
    /// To the client.
    ToClient(String),
}

/// A call that is waiting for its result.
#[derive(Debug, Clone)]
struct OpenMcpCall {
    call: String,
    tool: String,
    /// Fingerprint of the tool and its arguments.
    fingerprint: Fingerprint,
    note: Option<String>,
}

/// A call that is awaiting approval.
#[derive(Debug)]
struct HeldMcpCall {
    id: String,
    call: McpToolCall,
    line: String,
}

#[derive(Debug, Default)]
struct McpConnectionState {
    open: BTreeMap<String, OpenMcpCall>,
    held: BTreeMap<String, HeldMcpCall>,
    /// Whether the client supports elicitation.
    can_elicit: bool,
    elicitations: u64,
    /// Ids of pending `tools/list` requests, and of the `initialize` request.
    pending_lists: BTreeSet<String>,
    initializes: Option<String>,
    /// Whether the server announces tool list changes, so that the client listens for them.
    supports_list_changed: bool,
    /// Pending notifications from Flyball to the client.
    notifications: Vec<String>,
}

/// State shared by all connections.
pub(super) struct McpProxyState {
    pub(super) config: McpProxyConfig,
    call_count: AtomicU64,
    /// Calls for which the server has requested more input, with their sessions.
    paused_calls: Mutex<Vec<(String, OpenMcpCall)>>,
    /// Large outputs stored by this proxy.
    pub(super) outputs: large_outputs::ProxyOutputs,
}

impl McpProxyState {
    pub(super) fn new(config: McpProxyConfig) -> Arc<Self> {
        Arc::new(McpProxyState {
            config,
            call_count: AtomicU64::new(0),
            paused_calls: Mutex::default(),
            outputs: large_outputs::ProxyOutputs::default(),
        })
    }

    /// Removes the outputs stored for clients that have disconnected. Outputs that cannot be removed are cleaned up
    /// later.
    pub(super) fn remove_outputs(&self) {
        self.outputs.remove_all(self.config.recorder.outputs());
    }

    fn paused_calls(&self) -> MutexGuard<'_, Vec<(String, OpenMcpCall)>> {
        self.paused_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guards one connection between a client and a server; request ids are unique among its open requests.
pub(super) struct McpGuard {
    pub(super) shared: Arc<McpProxyState>,
    pub(super) session: String,
    state: Mutex<McpConnectionState>,
}

impl McpGuard {
    /// Creates the guard for a connection in a session.
    pub(super) fn new(shared: Arc<McpProxyState>, session: String) -> Self {
        McpGuard { shared, session, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, McpConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports an error to the operator.
    pub(super) fn report_error(&self, error: &ProxyError) {
        (self.shared.config.report_error)(error);
    }

    /// Handles a message from the client. A batch is split; its responses are sent individually.
    pub(super) fn handle_client_message(&self, line: &str) -> Vec<McpForward> {
        match line.trim_start().starts_with('[').then(|| crate::json_patch::elements(line)).flatten() {
            Some(all) if all.iter().any(|one| self.is_guarded(one)) => {
                all.into_iter().flat_map(|one| self.handle_one_client_message(one)).collect()
            }
            Some(_) => vec![McpForward::ToServer(line.to_owned())],
            None => self.handle_one_client_message(line),
        }
    }

    /// Whether a message in a batch needs to be evaluated.
    fn is_guarded(&self, text: &str) -> bool {
        McpMessage::parse(text).is_some_and(|message| {
            message.tool_call().is_some()
                || message.response_id().is_some_and(|id| self.state().held.contains_key(id))
        })
    }

    fn handle_one_client_message(&self, line: &str) -> Vec<McpForward> {
        let Some(message) = McpMessage::parse(line) else {
            return vec![McpForward::ToServer(line.to_owned())];
        };
        if let Some(held) = message.response_id().and_then(|id| self.state().held.remove(id)) {
            return self.handle_elicitation_answer(held, message.result.map_or("", |raw| raw.get()));
        }
        if message.response_id().is_some_and(|id| id.trim_matches('"').starts_with(OWN_REQUEST_PREFIX)) {
            // The response to an elicitation that is no longer pending.
            return Vec::new();
        }
        match message.method.as_deref() {
            Some("initialize") => {
                let can =
                    message.params().pointer("/capabilities/elicitation").is_some_and(|can| !can.is_null());
                let mut state = self.state();
                state.can_elicit = can;
                state.initializes = message.id().map(str::to_owned);
            }
            Some("tools/list") => {
                let mut state = self.state();
                if let Some(id) = message.id().filter(|_| state.pending_lists.len() < MAX_OPEN_CALLS) {
                    state.pending_lists.insert(id.to_owned());
                }
            }
            Some("notifications/cancelled") => self.cancel_call(&message.params()),
            _ => {}
        }
        match message.tool_call() {
            Some((id, call)) => self.handle_tool_call(id, call, line),
            None => vec![McpForward::ToServer(line.to_owned())],
        }
    }

    /// Whether the session was put on hold after the call was allowed.
    fn is_held(&self) -> bool {
        let session = self.shared.config.recorder.session(&self.session);
        session.ok().flatten().is_none_or(|(state, _)| state.is_held())
    }

    /// Handles a call of the read tool, which returns part of a large output. It is evaluated like any other call.
    fn read_output(&self, id: &str, call: &McpToolCall) -> Vec<McpForward> {
        let number = self.shared.call_count.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}-{number}", self.shared.config.instance_id);
        let event = json!({"type": "tool.requested", "id": format!("mcp-{name}"), "call": name,
            "tool": call.name, "args": call.arguments});
        match self.submit(event) {
            // Reading an output that the client has a reference to is harmless, so an error does not block it.
            Err(error) => self.report_error(&error),
            Ok(decision) if decision.decision >= Verdict::Block => return vec![self.refused(id, &decision)],
            Ok(_) => {}
        }
        let recorder = &self.shared.config.recorder;
        let (ok, result) = large_outputs::read_output(recorder.outputs(), &self.session, &call.arguments);
        self.record_finished(&name, ok, result_text(Some(&result.to_string()), None).1, false);
        vec![McpForward::ToClient(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))]
    }

    /// Handles a requested tool call.
    fn handle_tool_call(&self, id: &str, call: McpToolCall, line: &str) -> Vec<McpForward> {
        if call.name == READ_TOOL && self.shared.outputs.has_any(&self.session) {
            return self.read_output(id, &call);
        }
        if call.is_continuation() {
            let what = call_fingerprint(&call);
            let mut paused = self.shared.paused_calls();
            let at = paused
                .iter()
                .position(|(session, open)| *session == self.session && open.fingerprint == what);
            if let Some(at) = at {
                if self.is_held() {
                    let text = "The session is on hold until a person releases it. The tool was not resumed.";
                    return vec![McpForward::ToClient(error_result(id, text))];
                }
                let (_, open) = paused.remove(at);
                self.state().open.insert(id.to_owned(), open);
                return vec![McpForward::ToServer(line.to_owned())];
            }
        }
        if self.is_unprotected(&call.name) {
            let text = "The policy declares this tool destructive, and this session was started under \
                 version 1 of the rules, which does not support approvals. The tool was not run; start a \
                 new session for it.";
            return vec![McpForward::ToClient(error_result(id, text))];
        }
        self.decide_call(id, &call, line, None)
    }

    /// Whether a tool is destructive but the session's rules do not require approval for it.
    fn is_unprotected(&self, tool: &str) -> bool {
        let recorder = &self.shared.config.recorder;
        if recorder.policy().tool_effect(tool) != Some(ToolEffect::Destructive) {
            return false;
        }
        let known = recorder.session(&self.session).ok().flatten();
        let rules = known.map_or(recorder.policy().rules_version, |(state, _)| state.rules_version());
        rules == RulesVersion::V1
    }

    /// Handles a call without approval: asks the client's user, or returns the approval command.
    fn request_approval(&self, id: &str, call: &McpToolCall, line: &str, decision: &Decision) -> McpForward {
        if self.state().can_elicit {
            let question =
                format!("May the tool '{}' run with {}?", call.name, arguments_preview(&call.arguments));
            let held = HeldMcpCall { id: id.to_owned(), call: call.clone(), line: line.to_owned() };
            return McpForward::ToClient(self.elicit_approval(held, &question));
        }
        let why = decision.feedback.as_deref().unwrap_or_default();
        let text = match decision.state {
            SessionPhase::AwaitingConfirmation => format!(
                "[flyball] {why} A person can approve it with: flyball approve {}{} (or: flyball deny).",
                shell_quote(&self.session),
                self.shared.config.store_flag
            ),
            _ => format!("[flyball] {why}"),
        };
        McpForward::ToClient(error_result(id, &text))
    }

    /// Builds the elicitation request for the client's user.
    fn elicit_approval(&self, held: HeldMcpCall, question: &str) -> String {
        let mut state = self.state();
        state.elicitations += 1;
        let id = format!("\"{OWN_REQUEST_PREFIX}{}\"", state.elicitations);
        state.held.insert(id.clone(), held);
        let property = json!({"type": "boolean", "title": "Yes, run it", "default": false});
        let schema = json!({"type": "object", "properties": {"approve": property}, "required": ["approve"]});
        let params = json!({"message": question, "requestedSchema": schema});
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{params}}}")
    }

    /// Handles the user's response. Only an explicit approval counts.
    fn handle_elicitation_answer(&self, held: HeldMcpCall, result: &str) -> Vec<McpForward> {
        let HeldMcpCall { id, call, line } = held;
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let yes = result.get("action") == Some(&Value::from("accept"))
            && result.pointer("/content/approve") == Some(&Value::Bool(true));
        if yes {
            return self.decide_call(&id, &call, &line, Some(MCP_CLIENT_DIALOG));
        }
        let denied = json!({"type": "tool.denied", "by": "human", "tool": call.name, "args": call.arguments});
        if let Err(error) = self.submit(denied) {
            self.report_error(&error);
        }
        let text = "The user was asked and did not approve the call. The tool was not run.";
        vec![McpForward::ToClient(error_result(&id, text))]
    }

    /// Evaluates a call. `approved_by` names the dialog in which a person approved this call.
    fn decide_call(
        &self,
        id: &str,
        call: &McpToolCall,
        line: &str,
        approved_by: Option<&str>,
    ) -> Vec<McpForward> {
        let number = self.shared.call_count.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}-{number}", self.shared.config.instance_id);
        let mut event = json!({"type": "tool.requested", "id": format!("mcp-{name}"), "call": name,
            "tool": call.name, "args": call.arguments});
        if let Some(dialog) = approved_by {
            event[flyball::APPROVED_BY] = Value::from(dialog);
        }
        match self.submit(event) {
            Err(error) => self.handle_undecided(id, line, &error, self.passes_on_error(&call.name)),
            Ok(decision) if decision.lacks_approval() => {
                vec![self.request_approval(id, call, line, &decision)]
            }
            Ok(decision) if decision.decision >= Verdict::Block => vec![self.refused(id, &decision)],
            Ok(decision) if decision.state == SessionPhase::Blocked => vec![self.held(id, &name)],
            Ok(decision) => {
                let note = (decision.decision == Verdict::Warn).then(|| decision.feedback.clone()).flatten();
                let note = note.map(|text| format!("[flyball] Loop guard warning: {text}"));
                let mut state = self.state();
                if state.open.len() < MAX_OPEN_CALLS {
                    let open = OpenMcpCall {
                        call: name,
                        tool: call.name.clone(),
                        fingerprint: call_fingerprint(call),
                        note,
                    };
                    state.open.insert(id.to_owned(), open);
                }
                vec![McpForward::ToServer(line.to_owned())]
            }
        }
    }

    /// Whether a call may run if it could not be evaluated. The server chooses its tools' names and hints, so only the
    /// policy can declare a tool read-only. A call that needs approval never runs without a decision.
    fn passes_on_error(&self, tool: &str) -> bool {
        let config = &self.shared.config;
        let declared = config.recorder.policy().tool_effect(tool);
        match config.on_error {
            OnErrorAction::Allow => declared != Some(ToolEffect::Destructive),
            OnErrorAction::Reads => matches!(declared, Some(ToolEffect::Read | ToolEffect::Poll)),
            OnErrorAction::Block => false,
        }
    }

    /// Handles a call that could not be evaluated.
    fn handle_undecided(&self, id: &str, line: &str, error: &ProxyError, passes: bool) -> Vec<McpForward> {
        self.report_error(error);
        if passes {
            return vec![McpForward::ToServer(line.to_owned())];
        }
        let text = format!(
            "Flyball could not evaluate this call ({}: {}), so the tool was not run.",
            error.code, error.message
        );
        vec![McpForward::ToClient(error_result(id, &text))]
    }

    /// Handles a cancellation by the client.
    fn cancel_call(&self, params: &Value) {
        let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
        let open = {
            let mut state = self.state();
            state.held.retain(|_, held| held.id != id);
            state.open.remove(&id)
        };
        if let Some(open) = open {
            self.record_finished(&open.call, false, "cancelled".to_owned(), false);
        }
    }

    /// Handles a message from the server and returns the message to forward.
    pub(super) fn handle_server_message(&self, line: &str) -> String {
        if line.trim_start().starts_with('[')
            && let Some(all) = crate::json_patch::elements(line)
        {
            let new: Vec<String> = all.iter().map(|one| self.handle_one_server_message(one)).collect();
            return if new == all { line.to_owned() } else { format!("[{}]", new.join(",")) };
        }
        self.handle_one_server_message(line)
    }

    fn handle_one_server_message(&self, line: &str) -> String {
        let Some(message) = McpMessage::parse(line) else { return line.to_owned() };
        let Some(id) = message.response_id() else { return line.to_owned() };
        if let Some(new) = self.on_initialize_or_list(id, line, message.result.map(|raw| raw.get())) {
            return new;
        }
        let open = self.state().open.remove(id);
        let Some(open) = open else { return line.to_owned() };
        let result = message.result.map(|raw| raw.get());
        if result.and_then(|result| crate::json_patch::field(result, "resultType"))
            == Some("\"input_required\"")
        {
            let mut paused = self.shared.paused_calls();
            if paused.len() < MAX_OPEN_CALLS {
                paused.push((self.session.clone(), open));
            }
            return line.to_owned();
        }
        let (ok, text) = result_text(result, message.error.map(|raw| raw.get()));
        let before = self.shared.outputs.count();
        let new = result.and_then(|result| self.replace_large_parts(line, result, &open));
        let large = self.shared.outputs.count() > before;
        self.record_finished(&open.call, ok, text, large);
        new.unwrap_or_else(|| line.to_owned())
    }

    /// Returns a tool response with its large parts replaced, if any.
    fn replace_large_parts(&self, line: &str, result: &str, open: &OpenMcpCall) -> Option<String> {
        let recorder = &self.shared.config.recorder;
        let guards = recorder.policy().guards_for_output(Some(&open.tool), None);
        let limits = OutputLimits::from(&guards.large_response);
        let store = |text: &str| {
            let stored = self.shared.outputs.store(recorder.outputs(), &self.session, text, &limits)?;
            if stored.is_first {
                self.announce_read_tool();
            }
            Some(stored.replaced)
        };
        let replacing = ReplaceOptions {
            threshold: limits.threshold_chars.unwrap_or(usize::MAX),
            has_schema: self.shared.outputs.has_schema(&open.tool),
            store: &store,
        };
        edit_result(line, result, open.note.as_deref(), &replacing)
    }

    /// Handles responses to `initialize` and `tools/list`. The read tool is added to the list once there is an output
    /// to read.
    fn on_initialize_or_list(&self, id: &str, line: &str, result: Option<&str>) -> Option<String> {
        let mut state = self.state();
        if state.initializes.as_deref() == Some(id) {
            state.initializes = None;
            let result: Value = serde_json::from_str(result?).ok()?;
            let tells = result.pointer("/capabilities/tools/listChanged") == Some(&Value::Bool(true));
            state.supports_list_changed = tells;
            return Some(line.to_owned());
        }
        if !state.pending_lists.remove(id) {
            return None;
        }
        drop(state);
        let result = result?;
        self.shared.outputs.record_schemas(result);
        let new = self
            .shared
            .outputs
            .has_any(&self.session)
            .then(|| large_outputs::append_read_tool(line, result))
            .flatten();
        Some(new.unwrap_or_else(|| line.to_owned()))
    }

    /// Notifies the client that the read tool is available.
    fn announce_read_tool(&self) {
        let mut state = self.state();
        if state.supports_list_changed {
            let line = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            state.notifications.push(line.to_string());
        }
    }

    /// Returns the pending notifications, to be sent after the server message that was just forwarded.
    pub(super) fn take_notifications(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notifications)
    }

    fn record_finished(&self, call: &str, ok: bool, text: String, large: bool) {
        let key = if ok { "output" } else { "error" };
        let mut event = json!({"type": "tool.finished", "id": format!("mcp-{call}-end"), "call": call, "ok": ok, key: text});
        if large {
            event["large"] = Value::Bool(true);
        }
        if let Err(error) = self.submit(event) {
            self.report_error(&error);
        }
    }

    /// Submits an event.
    pub(super) fn submit(&self, mut event: Value) -> Result<Decision, ProxyError> {
        event["session"] = Value::from(self.session.as_str());
        let event = self.shared.config.parser.read(&event.to_string(), (self.shared.config.clock)())?;
        let decision = self.shared.config.recorder.submit(event).map_err(|refusal| match refusal {
            RecordError::Event(error) => ProxyError::from(error),
            RecordError::Store(error) => ProxyError::from(error),
        })?;
        if decision.decision > Verdict::Allow || !decision.effects.is_empty() {
            (self.shared.config.on_decision)(&decision);
        }
        Ok(decision)
    }
}

/// Fingerprint of a call.
fn call_fingerprint(call: &McpToolCall) -> Fingerprint {
    let args = flyball::canonical_json(&call.arguments);
    Fingerprint::of_text(&call.name).combine(Fingerprint::of_text(&args))
}

/// The arguments on one line, truncated, for the approval question.
fn arguments_preview(args: &Value) -> String {
    let text = args.to_string();
    let short: String = text.chars().take(300).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
