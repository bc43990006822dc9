//! What is done with each message: calls are put to the guards, their results are told, everything else goes on as it
//! is.
//!
//! A call that is refused is answered here. A call that needs a person's approval is held while the client asks its
//! person (elicitation), if it can; otherwise the answer says which command a person types, and the next attempt finds
//! the approval.

use super::Setting;
use super::message::{Message, ToolCall, refusal};
use super::outputs::{self, READ_TOOL};
use super::results::{Replacing, edited, said};
use crate::model_proxy::Trouble;
use crate::model_proxy::quoted;
use flyball::output::OutputLimits;
use flyball::policy::{Effect, OnError};
use flyball::{Decision, Fingerprint, RulesVersion, Status, Verdict};
use flyball_journal::Refusal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a person has agreed to a call: a dialog of the MCP client.
const CLIENT: &str = "mcp-client";
/// What our own requests to the client are called.
const OURS: &str = "flyball-";
/// How many calls may be under way at once; of those beyond, the results are not told.
const UNDER_WAY: usize = 10_000;

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// It goes to the server.
    ToServer(String),
    /// It goes to the client.
    ToClient(String),
}

/// A call whose result is waited for.
#[derive(Debug, Clone)]
struct Open {
    call: String,
    tool: String,
    /// The tool and its arguments.
    what: Fingerprint,
    note: Option<String>,
}

/// A call that waits for a person's approval.
#[derive(Debug)]
struct Held {
    id: String,
    call: ToolCall,
    line: String,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<String, Open>,
    held: BTreeMap<String, Held>,
    /// The client can ask a person.
    elicits: bool,
    asked: u64,
    /// Requests for the list of tools, by id, and the one that begins the connection.
    lists: BTreeSet<String>,
    initializes: Option<String>,
    /// The server says when its list of tools changes, so that the client listens to that.
    tells_of_changes: bool,
    /// Notifications of ours for the client.
    notifications: Vec<String>,
}

/// What all connections have in common.
pub(super) struct Shared {
    pub(super) setting: Setting,
    calls: AtomicU64,
    /// Calls of which the server wants to know more before it goes on, with their sessions.
    paused: Mutex<Vec<(String, Open)>>,
    /// Large outputs that were stored here.
    pub(super) outputs: outputs::Written,
}

impl Shared {
    pub(super) fn new(setting: Setting) -> Arc<Self> {
        Arc::new(Shared {
            setting,
            calls: AtomicU64::new(0),
            paused: Mutex::default(),
            outputs: outputs::Written::default(),
        })
    }

    /// Removes what was stored for clients that are gone now. What cannot be removed is swept later.
    pub(super) fn remove_outputs(&self) {
        self.outputs.remove_all(self.setting.recorder.outputs());
    }

    fn paused(&self) -> MutexGuard<'_, Vec<(String, Open)>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stands between a client and a server: one connection, on which ids are not used twice at once.
pub(super) struct Gate {
    pub(super) shared: Arc<Shared>,
    pub(super) session: String,
    state: Mutex<State>,
}

impl Gate {
    /// A connection that belongs to a session.
    pub(super) fn new(shared: Arc<Shared>, session: String) -> Self {
        Gate { shared, session, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says loudly that something went wrong.
    pub(super) fn complain(&self, trouble: &Trouble) {
        (self.shared.setting.complain)(trouble);
    }

    /// A message of the client. Several in one list are taken apart: the answers come one by one anyway.
    pub(super) fn client_says(&self, line: &str) -> Vec<Act> {
        match line.trim_start().starts_with('[').then(|| crate::splice::elements(line)).flatten() {
            Some(all) if all.iter().any(|one| self.concerns(one)) => {
                all.into_iter().flat_map(|one| self.one_of_client(one)).collect()
            }
            Some(_) => vec![Act::ToServer(line.to_owned())],
            None => self.one_of_client(line),
        }
    }

    /// Whether a message of a list is one that is looked at.
    fn concerns(&self, text: &str) -> bool {
        Message::read(text).is_some_and(|message| {
            message.call().is_some() || message.answers().is_some_and(|id| self.state().held.contains_key(id))
        })
    }

    fn one_of_client(&self, line: &str) -> Vec<Act> {
        let Some(message) = Message::read(line) else { return vec![Act::ToServer(line.to_owned())] };
        if let Some(held) = message.answers().and_then(|id| self.state().held.remove(id)) {
            return self.answered(held, message.result.map_or("", |raw| raw.get()));
        }
        if message.answers().is_some_and(|id| id.trim_matches('"').starts_with(OURS)) {
            // An answer to a question that is no longer asked.
            return Vec::new();
        }
        match message.method.as_deref() {
            Some("initialize") => {
                let can =
                    message.params().pointer("/capabilities/elicitation").is_some_and(|can| !can.is_null());
                let mut state = self.state();
                state.elicits = can;
                state.initializes = message.id().map(str::to_owned);
            }
            Some("tools/list") => {
                let mut state = self.state();
                if let Some(id) = message.id().filter(|_| state.lists.len() < UNDER_WAY) {
                    state.lists.insert(id.to_owned());
                }
            }
            Some("notifications/cancelled") => self.cancelled(&message.params()),
            _ => {}
        }
        match message.call() {
            Some((id, call)) => self.called(id, call, line),
            None => vec![Act::ToServer(line.to_owned())],
        }
    }

    /// Whether the session waits for a release since the call was allowed.
    fn is_held(&self) -> bool {
        let session = self.shared.setting.recorder.session(&self.session);
        session.ok().flatten().is_none_or(|(state, _)| state.is_held())
    }

    /// A call of our own tool: a part of a large output. It is put to the guards as any other.
    fn read_output(&self, id: &str, call: &ToolCall) -> Vec<Act> {
        let number = self.shared.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}-{number}", self.shared.setting.start);
        let event = json!({"type": "tool.requested", "id": format!("mcp-{name}"), "call": name,
            "tool": call.name, "args": call.arguments});
        match self.submit(event) {
            // It only reads what the client was given a reference to.
            Err(trouble) => self.complain(&trouble),
            Ok(decision) if decision.decision >= Verdict::Block => return vec![self.refused(id, &decision)],
            Ok(_) => {}
        }
        let recorder = &self.shared.setting.recorder;
        let (ok, result) = outputs::read(recorder.outputs(), &self.session, &call.arguments);
        self.finished(&name, ok, said(Some(&result.to_string()), None).1, false);
        vec![Act::ToClient(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))]
    }

    /// A call that is wanted.
    fn called(&self, id: &str, call: ToolCall, line: &str) -> Vec<Act> {
        if call.name == READ_TOOL && self.shared.outputs.has_any(&self.session) {
            return self.read_output(id, &call);
        }
        if call.goes_on() {
            let what = identity(&call);
            let mut paused = self.shared.paused();
            let at = paused.iter().position(|(session, open)| *session == self.session && open.what == what);
            if let Some(at) = at {
                if self.is_held() {
                    let text = "The session waits until a person releases it. The tool does not go on.";
                    return vec![Act::ToClient(refusal(id, text))];
                }
                let (_, open) = paused.remove(at);
                self.state().open.insert(id.to_owned(), open);
                return vec![Act::ToServer(line.to_owned())];
            }
        }
        if self.is_unprotected(&call.name) {
            let text = "The policy declares this tool destructive, and this session was started under version 1 of the \
                rules, which know no approvals. The tool was not run; start a new session for it.";
            return vec![Act::ToClient(refusal(id, text))];
        }
        self.decide(id, &call, line, None)
    }

    /// Whether a tool is destructive and the rules of the session do not require an approval of it.
    fn is_unprotected(&self, tool: &str) -> bool {
        let recorder = &self.shared.setting.recorder;
        if recorder.policy().effect_of(tool) != Some(Effect::Destructive) {
            return false;
        }
        let known = recorder.session(&self.session).ok().flatten();
        let rules = known.map_or(recorder.policy().rules_version, |(state, _)| state.rules_version());
        rules == RulesVersion::V1
    }

    /// A call that no approval covers: the client's person is asked, or told how to approve it.
    fn unapproved(&self, id: &str, call: &ToolCall, line: &str, decision: &Decision) -> Act {
        if self.state().elicits {
            let question = format!("May the tool '{}' run with {}?", call.name, shown(&call.arguments));
            let held = Held { id: id.to_owned(), call: call.clone(), line: line.to_owned() };
            return Act::ToClient(self.ask(held, &question));
        }
        let why = decision.feedback.as_deref().unwrap_or_default();
        let text = match decision.state {
            Status::AwaitingConfirmation => format!(
                "[flyball] {why} A person approves it with: flyball approve {}{} (or: flyball deny).",
                quoted(&self.session),
                self.shared.setting.store_flag
            ),
            _ => format!("[flyball] {why}"),
        };
        Act::ToClient(refusal(id, &text))
    }

    /// Asks the client's person.
    fn ask(&self, held: Held, question: &str) -> String {
        let mut state = self.state();
        state.asked += 1;
        let id = format!("\"{OURS}{}\"", state.asked);
        state.held.insert(id.clone(), held);
        let property = json!({"type": "boolean", "title": "Yes, run it", "default": false});
        let schema = json!({"type": "object", "properties": {"approve": property}, "required": ["approve"]});
        let params = json!({"message": question, "requestedSchema": schema});
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{params}}}")
    }

    /// The person answered. Only a clear yes is one.
    fn answered(&self, held: Held, result: &str) -> Vec<Act> {
        let Held { id, call, line } = held;
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let yes = result.get("action") == Some(&Value::from("accept"))
            && result.pointer("/content/approve") == Some(&Value::Bool(true));
        if yes {
            return self.decide(&id, &call, &line, Some(CLIENT));
        }
        let denied = json!({"type": "tool.denied", "by": "human", "tool": call.name, "args": call.arguments});
        if let Err(trouble) = self.submit(denied) {
            self.complain(&trouble);
        }
        let text = "A person was asked and did not approve the call. The tool was not run.";
        vec![Act::ToClient(refusal(&id, text))]
    }

    /// Puts a call to the guards. `approved_by` names the dialog in which a person has agreed to this very call.
    fn decide(&self, id: &str, call: &ToolCall, line: &str, approved_by: Option<&str>) -> Vec<Act> {
        let number = self.shared.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}-{number}", self.shared.setting.start);
        let mut event = json!({"type": "tool.requested", "id": format!("mcp-{name}"), "call": name,
            "tool": call.name, "args": call.arguments});
        if let Some(dialog) = approved_by {
            event[flyball::APPROVED_BY] = Value::from(dialog);
        }
        match self.submit(event) {
            Err(trouble) => self.undecided(id, line, &trouble, self.passes_undecided(&call.name)),
            Ok(decision) if decision.lacks_approval() => vec![self.unapproved(id, call, line, &decision)],
            Ok(decision) if decision.decision >= Verdict::Block => vec![self.refused(id, &decision)],
            Ok(decision) if decision.state == Status::Blocked => vec![self.held(id, &name)],
            Ok(decision) => {
                let note = (decision.decision == Verdict::Warn).then(|| decision.feedback.clone()).flatten();
                let note = note.map(|text| format!("[flyball] Note of the loop guard: {text}"));
                let mut state = self.state();
                if state.open.len() < UNDER_WAY {
                    let open = Open { call: name, tool: call.name.clone(), what: identity(call), note };
                    state.open.insert(id.to_owned(), open);
                }
                vec![Act::ToServer(line.to_owned())]
            }
        }
    }

    /// Whether a call may run although nothing could be decided. The server chooses the names and hints of its tools, so
    /// only the policy can declare one of them read-only. Without a decision there is no approval either.
    fn passes_undecided(&self, tool: &str) -> bool {
        let setting = &self.shared.setting;
        let declared = setting.recorder.policy().effect_of(tool);
        match setting.on_error {
            OnError::Allow => declared != Some(Effect::Destructive),
            OnError::Reads => matches!(declared, Some(Effect::Read | Effect::Poll)),
            OnError::Block => false,
        }
    }

    /// Nothing could be decided.
    fn undecided(&self, id: &str, line: &str, trouble: &Trouble, passes: bool) -> Vec<Act> {
        self.complain(trouble);
        if passes {
            return vec![Act::ToServer(line.to_owned())];
        }
        let text = format!(
            "The loop guard cannot decide ({}: {}), so the tool was not run.",
            trouble.code, trouble.what
        );
        vec![Act::ToClient(refusal(id, &text))]
    }

    /// The client no longer waits for a call.
    fn cancelled(&self, params: &Value) {
        let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
        let open = {
            let mut state = self.state();
            state.held.retain(|_, held| held.id != id);
            state.open.remove(&id)
        };
        if let Some(open) = open {
            self.finished(&open.call, false, "cancelled".to_owned(), false);
        }
    }

    /// A message of the server.
    pub(super) fn server_says(&self, line: &str) -> String {
        if line.trim_start().starts_with('[')
            && let Some(all) = crate::splice::elements(line)
        {
            let new: Vec<String> = all.iter().map(|one| self.one_of_server(one)).collect();
            return if new == all { line.to_owned() } else { format!("[{}]", new.join(",")) };
        }
        self.one_of_server(line)
    }

    fn one_of_server(&self, line: &str) -> String {
        let Some(message) = Message::read(line) else { return line.to_owned() };
        let Some(id) = message.answers() else { return line.to_owned() };
        if let Some(new) = self.handshake_or_list(id, line, message.result.map(|raw| raw.get())) {
            return new;
        }
        let open = self.state().open.remove(id);
        let Some(open) = open else { return line.to_owned() };
        let result = message.result.map(|raw| raw.get());
        if result.and_then(|result| crate::splice::field(result, "resultType")) == Some("\"input_required\"")
        {
            let mut paused = self.shared.paused();
            if paused.len() < UNDER_WAY {
                paused.push((self.session.clone(), open));
            }
            return line.to_owned();
        }
        let (ok, text) = said(result, message.error.map(|raw| raw.get()));
        let before = self.shared.outputs.count();
        let new = result.and_then(|result| self.edited(line, result, &open));
        let large = self.shared.outputs.count() > before;
        self.finished(&open.call, ok, text, large);
        new.unwrap_or_else(|| line.to_owned())
    }

    /// The answer to a call with its large parts replaced.
    fn edited(&self, line: &str, result: &str, open: &Open) -> Option<String> {
        let recorder = &self.shared.setting.recorder;
        let guards = recorder.policy().guards_for_output(Some(&open.tool), None);
        let limits = OutputLimits::from(&guards.large_response);
        let store = |text: &str| {
            let stored = self.shared.outputs.store(recorder.outputs(), &self.session, text, &limits)?;
            if stored.is_first {
                self.tell_of_tool();
            }
            Some(stored.replaced)
        };
        let replacing = Replacing {
            threshold: limits.threshold.unwrap_or(usize::MAX),
            has_schema: self.shared.outputs.has_schema(&open.tool),
            store: &store,
        };
        edited(line, result, open.note.as_deref(), &replacing)
    }

    /// The answer to `initialize` is remembered. A list of tools gets one more once there is something to read with it.
    fn handshake_or_list(&self, id: &str, line: &str, result: Option<&str>) -> Option<String> {
        let mut state = self.state();
        if state.initializes.as_deref() == Some(id) {
            state.initializes = None;
            let result: Value = serde_json::from_str(result?).ok()?;
            let tells = result.pointer("/capabilities/tools/listChanged") == Some(&Value::Bool(true));
            state.tells_of_changes = tells;
            return Some(line.to_owned());
        }
        if !state.lists.remove(id) {
            return None;
        }
        drop(state);
        let result = result?;
        self.shared.outputs.note_schemas(result);
        let new =
            self.shared.outputs.has_any(&self.session).then(|| outputs::with_tool(line, result)).flatten();
        Some(new.unwrap_or_else(|| line.to_owned()))
    }

    /// There is a tool more from now on.
    fn tell_of_tool(&self) {
        let mut state = self.state();
        if state.tells_of_changes {
            let line = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            state.notifications.push(line.to_string());
        }
    }

    /// What the client is to be told besides, after the message of the server that was just passed on.
    pub(super) fn notifications(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notifications)
    }

    fn finished(&self, call: &str, ok: bool, text: String, large: bool) {
        let key = if ok { "output" } else { "error" };
        let mut event = json!({"type": "tool.finished", "id": format!("mcp-{call}-end"), "call": call, "ok": ok, key: text});
        if large {
            event["large"] = Value::Bool(true);
        }
        if let Err(trouble) = self.submit(event) {
            self.complain(&trouble);
        }
    }

    /// Records an event.
    pub(super) fn submit(&self, mut event: Value) -> Result<Decision, Trouble> {
        event["session"] = Value::from(self.session.as_str());
        let event = self.shared.setting.door.read(&event.to_string(), (self.shared.setting.clock)())?;
        let decision = self.shared.setting.recorder.submit(event).map_err(|refusal| match refusal {
            Refusal::Event(error) => Trouble::from(error),
            Refusal::Store(error) => Trouble::from(error),
        })?;
        if decision.decision > Verdict::Allow || !decision.effects.is_empty() {
            (self.shared.setting.tell)(&decision);
        }
        Ok(decision)
    }
}

/// What a call is known by.
fn identity(call: &ToolCall) -> Fingerprint {
    let args = flyball::canonical_json(&call.arguments);
    Fingerprint::of_text(&call.name).with(Fingerprint::of_text(&args))
}

/// Arguments for a question: short, and on one line.
fn shown(args: &Value) -> String {
    let text = args.to_string();
    let short: String = text.chars().take(300).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
