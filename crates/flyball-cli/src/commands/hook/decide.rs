//! From hook input to reply: loads policy and store, submits the events once, and builds the reply.

use super::session_root::SessionRoot;
use crate::args::HookRunArgs;
use crate::clock;
use crate::commands::hook::repository_root;
use crate::commands::tell;
use crate::error::{CliError, Exit};
use crate::hook_runs::{self, HookRun};
use crate::{caller_check, policy_loader, store};
use flyball::policy::{OnErrorAction, ToolEffect};
use flyball::{Decision, ErrorCode, MessageOrigin, Preset, RulesVersion, SessionPhase, Verdict};
use flyball_integrations::hook::{
    HookInputError, HookInvocation, HookOutcome, HookPhase, HookReply, HookToolCall, HookVerdict, Host,
    PairedRequest, decide_reply, decode, find_open_request, is_known_read_only,
};
use flyball_store::{
    EventRecord, RecordError, Recorder, RecorderOptions, RedactingParser, StoreAddress, Submission,
};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum input size.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;
/// Number of events searched backward for the request of a call.
const MAX_REQUEST_LOOKBACK: u64 = 96;
/// Time in milliseconds within which a repeated request counts as the same call.
const DUPLICATE_REQUEST_WINDOW_MS: u64 = 60_000;

/// State of an invocation, enough to reply if the deadline passes.
#[derive(Debug, Clone)]
pub(super) struct HookProgress {
    pub(super) host: Host,
    pub(super) event: String,
    pub(super) phase: HookPhase,
    /// The tool about to run.
    pub(super) tool: Option<Arc<HookToolCall>>,
    /// The tool's effect as declared by the policy.
    pub(super) declared: Option<ToolEffect>,
    pub(super) origin: MessageOrigin,
    pub(super) on_error: OnErrorAction,
    /// Whether the policy sends effects anywhere.
    pub(super) has_deliveries: bool,
}

/// State of the reply; the thread that finds it unanswered sends it.
pub(super) enum HookStage {
    /// Not answered yet.
    Working(HookProgress),
    /// Answered; the process exits with this code.
    Answered(Exit),
}

impl HookProgress {
    pub(super) fn new(host: Host, event: Option<&str>) -> Self {
        let event = event.unwrap_or_default().to_owned();
        let phase = host.phase(&event);
        let (tool, declared, origin, on_error) = (None, None, MessageOrigin::Human, OnErrorAction::default());
        HookProgress { host, event, phase, tool, declared, origin, on_error, has_deliveries: false }
    }

    /// Whether the tool is known to be read-only, by the policy or the allow-list. The command is parsed only when
    /// needed.
    pub(super) fn read_only(&self) -> bool {
        match self.declared {
            Some(effect) => matches!(effect, ToolEffect::Read | ToolEffect::Poll),
            None => self.tool.as_ref().is_some_and(|tool| is_known_read_only(self.host, tool)),
        }
    }
}

fn error_text(failure: &CliError) -> String {
    let first = failure.diagnostics.first();
    first.map_or_else(String::new, |diagnostic| {
        let place =
            if diagnostic.location.is_empty() { String::new() } else { format!("{}: ", diagnostic.location) };
        format!("{place}{} ({})", diagnostic.message, diagnostic.code)
    })
}

/// Processes an invocation and records its progress in `known`.
pub(super) fn process_invocation(
    host: Host,
    args: &HookRunArgs,
    known: &Mutex<HookStage>,
) -> Result<(HookReply, Option<Recorder>), String> {
    let note = |change: &dyn Fn(&mut HookProgress)| {
        if let HookStage::Working(known) = &mut *known.lock().unwrap_or_else(PoisonError::into_inner) {
            change(known);
        }
    };
    let call = read_input().and_then(|input| {
        decode(host, args.event.as_deref(), &input).map_err(|garbled| {
            note(&|known| known.phase = garbled.phase);
            format!("{} ({})", garbled.message, HookInputError::CODE)
        })
    });
    let call = call.map(|mut call| {
        if caller_check::apply_agent_claims(host, &mut call.events) && call.origin == MessageOrigin::Human {
            call.origin = MessageOrigin::Agent;
        }
        call
    });
    let place = match &call {
        Ok(call) => SessionRoot::for_invocation(call),
        Err(_) => SessionRoot::for_unreadable_input(host),
    };
    if let Ok(call) = &call {
        note(&|known| {
            call.event.clone_into(&mut known.event);
            (known.phase, known.tool, known.origin) = (call.phase, call.tool.clone(), call.origin);
        });
    }
    let source = policy_loader::source_for_hook(&place.root, &args.policy, Preset::Agent)
        .map_err(|failure| error_text(&failure));
    if let Ok(source) = &source {
        let policy = source.base();
        let tool = call.as_ref().ok().and_then(|call| call.tool.as_ref());
        let declared = tool.and_then(|tool| policy.tool_effect(&tool.name));
        note(&|known| {
            known.on_error = policy.on_error;
            known.declared = declared;
            known.has_deliveries = !policy.journal.deliver.is_empty();
        });
    }
    let (call, source) = (call?, source?);
    if call.phase == HookPhase::Unknown {
        let notice = format!("Flyball does not know the event {}; nothing was recorded.", call.event);
        let reply = HookReply { verdict: HookVerdict::Allow, feedback: String::new(), notice: Some(notice) };
        return Ok((reply, None));
    }
    let address = store_address(args, &place)?;
    let store = store_argument(args, &address);
    record_hook_run(&call, args, &place.root, &address);
    let admin_store = address.open().map_err(|error| error_text(&error.into()))?;
    place.remember(&address);
    let recorder = Recorder::new(admin_store, source, RecorderOptions::default());
    let untrusted = untrusted_notice(&call, &recorder).map_err(|failure| error_text(&failure))?;
    let mut reply = decide(call, &recorder, &store).map_err(|failure| error_text(&failure))?;
    if let Some(untrusted) = untrusted {
        reply.notice =
            Some(reply.notice.map_or_else(|| untrusted.clone(), |notice| format!("{notice} {untrusted}")));
    }
    Ok((reply, Some(recorder)))
}

/// The session's store. It must be persistent, because every hook call is a separate process.
fn store_address(args: &HookRunArgs, place: &SessionRoot) -> Result<StoreAddress, String> {
    let address =
        store::agent_store(args.store.as_deref(), &place.root).map_err(|failure| error_text(&failure))?;
    match place.store(address) {
        StoreAddress::Memory => {
            let what = "a hook cannot use an in-memory store, because each call is a new process";
            Err(format!("{what}; name a persistent store: --store sqlite:PATH (hook_store)"))
        }
        address => Ok(address),
    }
}

/// A notice on a session's first call about ignored values of an untrusted project policy.
fn untrusted_notice(call: &HookInvocation, recorder: &Recorder) -> Result<Option<String>, CliError> {
    let ignored = recorder.policy_source().ignored();
    let Some(first) = ignored.first() else { return Ok(None) };
    if recorder.store().load(&call.session)?.is_some() {
        return Ok(None);
    }
    let more = match ignored.len() {
        1 => String::new(),
        many => format!(" ({} more)", many - 1),
    };
    let text = format!("Flyball: {}: {}{more}. {}", first.written.origin, first.message(), first.help());
    Ok(Some(crate::formatting::single_line(&text, 600)))
}

/// Records the run for `flyball doctor`, except for its own test calls.
fn record_hook_run(call: &HookInvocation, args: &HookRunArgs, root: &Path, address: &StoreAddress) {
    let test = call.session.strip_prefix(call.host.as_str());
    if test.is_some_and(|rest| rest.starts_with(":flyball-test-")) {
        return;
    }
    let own = args.policy.policy.clone().or_else(|| policy_loader::policy_file(root));
    hook_runs::record_run(
        call.host,
        &HookRun {
            host: call.host.as_str().to_owned(),
            project: repository_root(root),
            store: hook_runs::display_address(address),
            policy: own,
        },
    );
}

/// Reads the host's input up to the maximum size.
fn read_input() -> Result<Vec<u8>, String> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input);
    read.map_err(|error| format!("cannot read stdin: {error} ({})", HookInputError::CODE))?;
    if input.len() as u64 > MAX_INPUT_BYTES {
        return Err(format!("stdin has more than {} MiB ({})", MAX_INPUT_BYTES >> 20, HookInputError::CODE));
    }
    Ok(input)
}

/// The `--store` argument for printed commands; empty for the project's own store.
fn store_argument(args: &HookRunArgs, address: &StoreAddress) -> String {
    let own = args.store.is_none() && std::env::var_os("FLYBALL_STORE").is_none();
    match address {
        StoreAddress::Project(path)
            if own && path.parent().is_some_and(|folder| folder.ends_with(".flyball")) =>
        {
            String::new()
        }
        StoreAddress::File(path) | StoreAddress::Project(path) => {
            format!(" --store sqlite:{}", crate::formatting::typed(&path.to_string_lossy()))
        }
        StoreAddress::Postgres(_) | StoreAddress::Memory => String::new(),
    }
}

/// Submits the events and builds the reply.
fn decide(mut call: HookInvocation, recorder: &Recorder, store: &str) -> Result<HookReply, CliError> {
    let earlier = find_request(&mut call, recorder)?;
    let policy = recorder.policy();
    let destructive = call
        .tool
        .as_ref()
        .is_some_and(|tool| policy.tool_effect(&tool.name) == Some(ToolEffect::Destructive));
    let approvals = destructive && requires_approvals(&call.session, recorder)?;
    if destructive && !approvals && call.phase == HookPhase::BeforeTool && !call.host.can_ask() {
        let plan = confirmation_request(&call);
        let at = call.events.len().saturating_sub(1);
        call.events.splice(at..at, plan);
    }
    let mut decisions = Vec::new();
    if approvals && call.phase == HookPhase::AfterTool && call.host.can_ask() {
        let approved: Vec<Value> = approved_in_dialog(&mut call, recorder)?.into_iter().collect();
        decisions.extend(submit_events(&approved, HookPhase::Notification, recorder)?);
    }
    decisions.extend(submit_events(&call.events, call.phase, recorder)?);
    let state = match decisions.last() {
        Some(decision) if decision.state != SessionPhase::Ended => decision.state,
        _ => stored_status(&call.session, recorder)?,
    };
    let held =
        if state == SessionPhase::Blocked { Some(hold_reason(&call, &decisions, recorder)?) } else { None };
    let earlier = match call.phase {
        HookPhase::BeforeTool => pending_warning(&call, &decisions, recorder)?,
        _ => earlier.and_then(|earlier| earlier.warning).filter(|_| !call.host.shows_feedback_before_tool()),
    };
    let (held, earlier) = (held.as_deref(), earlier.as_deref());
    let outcome = HookOutcome {
        decisions: &decisions,
        state,
        destructive,
        approvals,
        hold_reason: held,
        deferred_warning: earlier,
        store_flag: store,
    };
    let reply = decide_reply(&call, &outcome);
    if call.events.iter().any(|event| event.get("type").is_some_and(|kind| kind == "session.ended")) {
        // After a checkpoint a plain file copy is a complete backup. Failure is harmless.
        let _ = recorder.store().checkpoint();
    }
    Ok(reply)
}

/// The status of the stored session. A session that ended while held is still held.
fn stored_status(session: &str, recorder: &Recorder) -> Result<SessionPhase, CliError> {
    let Some(found) = recorder.store().load(session)? else { return Ok(SessionPhase::Running) };
    let summary = &found.head.summary;
    Ok(match summary.status {
        SessionPhase::Ended if summary.is_held() => SessionPhase::Blocked,
        status => status,
    })
}

/// Why a held session does not run this call. The governor judged the call on its own, so the refusal is recorded as
/// `tool.denied`; otherwise the call would stay open.
fn hold_reason(
    call: &HookInvocation,
    decisions: &[Decision],
    recorder: &Recorder,
) -> Result<String, CliError> {
    let ran = decisions.last().is_some_and(|decision| decision.decision < Verdict::Block);
    let asked =
        call.events.last().filter(|_| ran && call.phase == HookPhase::BeforeTool && !call.is_question());
    if let Some(fields) = asked.and_then(Value::as_object) {
        let mut refused = fields.clone();
        refused.insert("type".to_owned(), json!("tool.denied"));
        refused.insert("by".to_owned(), json!("guard"));
        if let Some(Value::String(id)) = refused.get_mut("id") {
            id.push_str(":held");
        }
        submit_events(&[Value::Object(refused)], HookPhase::Notification, recorder)?;
    }
    let head = recorder.store().load(&call.session)?.map(|found| found.head);
    Ok(head.and_then(|head| head.summary.stopped_by).unwrap_or_default())
}

/// A warning recorded by `flyball tell` since the last call that the agent has not seen yet.
fn pending_warning(
    call: &HookInvocation,
    decisions: &[Decision],
    recorder: &Recorder,
) -> Result<Option<String>, CliError> {
    let Some(before) = decisions.first().and_then(|decision| decision.seq.checked_sub(1)) else {
        return Ok(None);
    };
    let last = recorder.store().records(&call.session, before, before)?.pop();
    let mark = format!("\"{}\":true", tell::TELL_MARKER);
    let warning = last.filter(|last| last.verdict == Verdict::Warn && last.text.contains(&mark));
    Ok(warning.and_then(|warning| serde_json::from_str::<Decision>(&warning.decision_json).ok()?.feedback))
}

/// The request that a finished call belongs to, if the host does not name it.
fn find_request(call: &mut HookInvocation, recorder: &Recorder) -> Result<Option<PairedRequest>, CliError> {
    let Some(start) = call.unpaired_call_prefix.clone() else { return Ok(None) };
    let journal = recorder.store();
    let Some(loaded) = journal.load(&call.session)? else { return Ok(None) };
    let seq = loaded.head.seq;
    let records = journal.records(&call.session, seq.saturating_sub(MAX_REQUEST_LOOKBACK).max(1), seq)?;
    let last = records.iter().map(|record| (record.text.as_str(), record.decision_json.as_str()));
    let found = find_open_request(last, &start);
    let fields = call.events.last_mut().and_then(Value::as_object_mut);
    if let (Some(found), Some(fields)) = (&found, fields) {
        fields.insert("call".to_owned(), json!(found.call_id));
    }
    Ok(found)
}

/// Whether the session's rules require approval of destructive calls.
fn requires_approvals(session: &str, recorder: &Recorder) -> Result<bool, CliError> {
    let known = recorder.session(session)?.map(|(state, _)| state.rules_version());
    Ok(known.unwrap_or(recorder.policy().rules_version) > RulesVersion::V1)
}

/// The request of a call that ran although it was blocked for lack of approval: the host asked its user, who agreed. It
/// is recorded as approved, so that the call and its result count.
fn approved_in_dialog(call: &mut HookInvocation, recorder: &Recorder) -> Result<Option<Value>, CliError> {
    let (Some(tool), Some(ended)) = (call.tool.clone(), call.events.last_mut()) else { return Ok(None) };
    let named = ended.get("call").and_then(Value::as_str).map(str::to_owned);
    let is_this = |known: &str| match (&named, &call.unpaired_call_prefix) {
        (Some(named), _) => known == named,
        (None, Some(start)) => known.starts_with(start.as_str()),
        (None, None) => false,
    };
    let journal = recorder.store();
    let Some(seq) = journal.load(&call.session)?.map(|loaded| loaded.head.seq) else { return Ok(None) };
    let mut records = journal.records(&call.session, seq.saturating_sub(MAX_REQUEST_LOOKBACK).max(1), seq)?;
    let request = loop {
        let Some(record) = records.pop() else { return Ok(None) };
        let event: Value = serde_json::from_str(&record.text).unwrap_or_default();
        let of_this_call = event.get("call").and_then(Value::as_str).is_some_and(is_this);
        if of_this_call && event.get("type").is_some_and(|kind| kind == "tool.requested") {
            break (record, event);
        }
    };
    let decision = serde_json::from_str::<Decision>(&request.0.decision_json).unwrap_or_default();
    if !decision.trips.iter().any(|trip| trip.reason == "approval_required") {
        return Ok(None);
    }
    let id = request.1.get("id").and_then(Value::as_str).map(|id| format!("{id}:dialog"));
    let call_id = request.1.get("call").cloned().unwrap_or_default();
    ended["call"] = call_id.clone();
    let mut event = json!({"type": "tool.requested", "session": call.session, "call": call_id, "tool": tool.name,
        "args": tool.args, flyball::APPROVED_BY: call.host.as_str()});
    if let Some(id) = id {
        event["id"] = json!(id);
    }
    Ok(Some(event))
}

/// The confirmation request for a destructive call, under rules version 1.
fn confirmation_request(call: &HookInvocation) -> Option<Value> {
    let (tool, asked) = (call.tool.as_ref()?, call.events.last()?);
    let id = asked.get("id").and_then(Value::as_str).map(|id| format!("{id}:plan"));
    let mut event = json!({
        "type": "confirmation.requested",
        "session": call.session,
        "plan": [{"tool": tool.name, "args": tool.args}],
        "question": format!("May {} call {}?", call.host.display_name(), tool.name),
    });
    if let (Some(id), Some(fields)) = (id, event.as_object_mut()) {
        fields.insert("id".to_owned(), json!(id));
    }
    Some(event)
}

/// Records the events in one commit. A repeated call with different arguments counts as another call; a repeated fact
/// is ignored.
fn submit_events(
    submitted: &[Value],
    phase: HookPhase,
    recorder: &Recorder,
) -> Result<Vec<Decision>, CliError> {
    if submitted.is_empty() {
        return Ok(Vec::new());
    }
    let wrong = |error: flyball::Error| CliError::from_core("", &error);
    let parser = RedactingParser::new(&recorder.policy().journal).map_err(wrong)?;
    let now = clock::now();
    let read = |event: &Value| -> Result<Submission, CliError> {
        parser.read(&event.to_string(), now).map_err(wrong)
    };
    let events = submitted.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut decisions = Vec::new();
    for (event, answer) in submitted.iter().zip(recorder.submit_all(events)) {
        match answer {
            Ok(decision) => {
                let anew = with_new_id_if_reused(event, decision.seq, recorder)?;
                decisions.push(match anew {
                    Some(anew) => recorder.submit(read(&anew)?)?,
                    None => decision,
                });
            }
            Err(RecordError::Event(error)) if error.code == ErrorCode::EventConflict => {
                let anew = match stored_seq(event, recorder)? {
                    Some(known) if phase == HookPhase::AfterTool => {
                        with_new_id_if_reused(event, known, recorder)?
                    }
                    _ => (phase == HookPhase::BeforeTool).then(|| with_new_id(event)),
                };
                if let Some(anew) = anew {
                    decisions.push(recorder.submit(read(&anew)?)?);
                }
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(decisions)
}

/// The sequence number under which an event's id was stored.
fn stored_seq(event: &Value, recorder: &Recorder) -> Result<Option<u64>, CliError> {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    let (Some(session), Some(id)) = (field("session"), field("id")) else { return Ok(None) };
    Ok(recorder.store().find_by_id(session, id)?.map(|known| known.seq))
}

/// The event under a new id if its call id was reused for another call: the earlier call has ended, or was requested
/// long ago. A host that runs two hooks for one call sends the same event twice at about the same time.
fn with_new_id_if_reused(event: &Value, known: u64, recorder: &Recorder) -> Result<Option<Value>, CliError> {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    let others: &[&str] = match field("type") {
        Some("tool.requested") => &["tool.finished", "tool.denied"],
        Some("tool.finished") => &["tool.requested"],
        _ => return Ok(None),
    };
    let (Some(session), Some(id), Some(call)) = (field("session"), field("id"), field("call")) else {
        return Ok(None);
    };
    let records = recorder.store().records(session, known, known.saturating_add(MAX_REQUEST_LOOKBACK))?;
    let of_this_call = |record: &&EventRecord| {
        let other = serde_json::from_str::<Value>(&record.text).unwrap_or_default();
        let is = |name: &str, word: &str| other.get(name).is_some_and(|value| value == word);
        record.seq > known && is("call", call) && others.iter().any(|kind| is("type", kind))
    };
    let since = match records.first().filter(|first| first.seq == known).and_then(|first| first.at) {
        Some(at) if others.len() > 1 => {
            clock::now().unwrap_or(at).saturating_sub(at) / DUPLICATE_REQUEST_WINDOW_MS
        }
        _ => 0,
    };
    let anew = match records.iter().rev().find(of_this_call) {
        Some(record) => format!("{id}:after:{}", record.seq),
        None if since > 0 => format!("{id}:later:{since}"),
        None => return Ok(None),
    };
    let mut event = event.clone();
    if let Some(fields) = event.as_object_mut() {
        fields.insert("id".to_owned(), json!(anew));
    }
    Ok(Some(event))
}

/// The event under a new unique id.
fn with_new_id(event: &Value) -> Value {
    let mut event = event.clone();
    let mark = flyball::Fingerprint::of_text(&event.to_string());
    if let Some(Value::String(id)) = event.get_mut("id") {
        id.push_str(&format!(":{mark}"));
    }
    event
}
