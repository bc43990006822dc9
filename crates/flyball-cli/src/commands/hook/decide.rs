//! From what a host has told to what it is answered: policy and store of the agent's folder, one submission, a reply.

use super::root::SessionPlace;
use crate::args::AnswerArgs;
use crate::clock;
use crate::commands::hook::project;
use crate::commands::tell;
use crate::fail::{Exit, Failure};
use crate::hook_runs::{self, HookRun};
use crate::{load, person, store};
use flyball::policy::{Effect, OnError};
use flyball::{Code, Decision, Origin, Preset, RulesVersion, Status, Verdict};
use flyball_adapt::hook::{
    Call, Earlier, Garbled, Host, Moment, Outcome, Reply, Say, Tool, decode, is_known_read_only, pair, reply,
};
use flyball_journal::{Address, Door, Incoming, Record, Recorder, RecorderOptions, Refusal};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The most that is read from stdin.
const INPUT_BYTES: u64 = 64 * 1024 * 1024;
/// How far back the request of a call is looked for, in events.
const LOOK_BACK: u64 = 96;
/// How long after a request the same request is taken for the same call, in milliseconds.
const ASKED_TWICE_MS: u64 = 60_000;

/// What is known of the call so far: enough to answer it if the work is not done in time.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) host: Host,
    pub(super) event: String,
    pub(super) moment: Moment,
    /// The tool that is about to run.
    pub(super) tool: Option<Arc<Tool>>,
    /// The effect of the tool, as the policy declares it.
    pub(super) declared: Option<Effect>,
    pub(super) origin: Origin,
    pub(super) on_error: OnError,
    /// The policy sends effects somewhere.
    pub(super) delivers: bool,
}

/// How far the answer is: whoever finds it unanswered gives it.
pub(super) enum Stage {
    /// Nobody has answered yet.
    Working(Known),
    /// It is answered, and the process is to end like this.
    Answered(Exit),
}

impl Known {
    pub(super) fn new(host: Host, event: Option<&str>) -> Self {
        let event = event.unwrap_or_default().to_owned();
        let moment = host.moment(&event);
        let (tool, declared, origin, on_error) = (None, None, Origin::Human, OnError::default());
        Known { host, event, moment, tool, declared, origin, on_error, delivers: false }
    }

    /// Whether the tool is known to be read-only: by the policy, else by the allow-list. The command is parsed only when
    /// the answer is needed.
    pub(super) fn read_only(&self) -> bool {
        match self.declared {
            Some(effect) => matches!(effect, Effect::Read | Effect::Poll),
            None => self.tool.as_ref().is_some_and(|tool| is_known_read_only(self.host, tool)),
        }
    }
}

fn told(failure: &Failure) -> String {
    let first = failure.complaints.first();
    first.map_or_else(String::new, |complaint| {
        let place = if complaint.place.is_empty() { String::new() } else { format!("{}: ", complaint.place) };
        format!("{place}{} ({})", complaint.what, complaint.code)
    })
}

/// Does the work. What is found out on the way is noted in `known`.
pub(super) fn work(
    host: Host,
    args: &AnswerArgs,
    known: &Mutex<Stage>,
) -> Result<(Reply, Option<Recorder>), String> {
    let note = |change: &dyn Fn(&mut Known)| {
        if let Stage::Working(known) = &mut *known.lock().unwrap_or_else(PoisonError::into_inner) {
            change(known);
        }
    };
    let call = input().and_then(|input| {
        decode(host, args.event.as_deref(), &input).map_err(|garbled| {
            note(&|known| known.moment = garbled.moment);
            format!("{} ({})", garbled.what, Garbled::CODE)
        })
    });
    let call = call.map(|mut call| {
        if person::settle_claims(host, &mut call.events) && call.origin == Origin::Human {
            call.origin = Origin::Agent;
        }
        call
    });
    let place = match &call {
        Ok(call) => SessionPlace::of(call),
        Err(_) => SessionPlace::unknown(host),
    };
    if let Ok(call) = &call {
        note(&|known| {
            call.event.clone_into(&mut known.event);
            (known.moment, known.tool, known.origin) = (call.moment, call.tool.clone(), call.origin);
        });
    }
    let source =
        load::source_of_hook(&place.root, &args.policy, Preset::Agent).map_err(|failure| told(&failure));
    if let Ok(source) = &source {
        let policy = source.base();
        let tool = call.as_ref().ok().and_then(|call| call.tool.as_ref());
        let declared = tool.and_then(|tool| policy.effect_of(&tool.name));
        note(&|known| {
            known.on_error = policy.on_error;
            known.declared = declared;
            known.delivers = !policy.journal.deliver.is_empty();
        });
    }
    let (call, source) = (call?, source?);
    if call.moment == Moment::Unknown {
        let notice = format!("Flyball does not know the event {}; nothing was recorded.", call.event);
        let reply = Reply { say: Say::Allow, feedback: String::new(), notice: Some(notice) };
        return Ok((reply, None));
    }
    let address = store_address(args, &place)?;
    let store = shown(args, &address);
    note_run(&call, args, &place.root, &address);
    let desk = address.open().map_err(|error| told(&error.into()))?;
    place.remember(&address);
    let recorder = Recorder::new(desk, source, RecorderOptions::default());
    let untrusted = untrusted_notice(&call, &recorder).map_err(|failure| told(&failure))?;
    let mut reply = decide(call, &recorder, &store).map_err(|failure| told(&failure))?;
    if let Some(untrusted) = untrusted {
        reply.notice =
            Some(reply.notice.map_or_else(|| untrusted.clone(), |notice| format!("{notice} {untrusted}")));
    }
    Ok((reply, Some(recorder)))
}

/// The store of the session. A hook is a process for each call, so it must be one that stays.
fn store_address(args: &AnswerArgs, place: &SessionPlace) -> Result<Address, String> {
    let address = store::of_agent(args.store.as_deref(), &place.root).map_err(|failure| told(&failure))?;
    match place.store(address) {
        Address::Memory => {
            let what = "a hook cannot use a store in memory, because each call would start from nothing";
            Err(format!("{what}; name one that stays: --store sqlite:PATH (hook_store)"))
        }
        address => Ok(address),
    }
}

/// On the first call of a session: which values of the project are ignored, because it may only tighten.
fn untrusted_notice(call: &Call, recorder: &Recorder) -> Result<Option<String>, Failure> {
    let ignored = recorder.source().ignored();
    let Some(first) = ignored.first() else { return Ok(None) };
    if recorder.journal().load(&call.session)?.is_some() {
        return Ok(None);
    }
    let more = match ignored.len() {
        1 => String::new(),
        many => format!(" ({} more)", many - 1),
    };
    let text = format!("Flyball: {}: {}{more}. {}", first.written.origin, first.what(), first.help());
    Ok(Some(crate::words::line(&text, 600)))
}

/// Records that the hook runs, for `flyball doctor`; its own test calls are none.
fn note_run(call: &Call, args: &AnswerArgs, root: &Path, address: &Address) {
    let test = call.session.strip_prefix(call.host.as_str());
    if test.is_some_and(|rest| rest.starts_with(":flyball-test-")) {
        return;
    }
    let own = args.policy.policy.clone().or_else(|| load::policy_file(root));
    hook_runs::record(
        call.host,
        &HookRun {
            host: call.host.as_str().to_owned(),
            project: project(root),
            store: hook_runs::shown(address),
            policy: own,
        },
    );
}

/// What the host wrote, up to a bound.
fn input() -> Result<Vec<u8>, String> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_BYTES + 1).read_to_end(&mut input);
    read.map_err(|error| format!("stdin cannot be read: {error} ({})", Garbled::CODE))?;
    if input.len() as u64 > INPUT_BYTES {
        return Err(format!("more than {} MiB came on stdin ({})", INPUT_BYTES >> 20, Garbled::CODE));
    }
    Ok(input)
}

/// How a person names the store in a command: not at all if it is the project's own.
fn shown(args: &AnswerArgs, address: &Address) -> String {
    let own = args.store.is_none() && std::env::var_os("FLYBALL_STORE").is_none();
    match address {
        Address::Project(path) if own && path.parent().is_some_and(|folder| folder.ends_with(".flyball")) => {
            String::new()
        }
        Address::File(path) | Address::Project(path) => {
            format!(" --store sqlite:{}", crate::words::typed(&path.to_string_lossy()))
        }
        Address::Server(_) | Address::Memory => String::new(),
    }
}

/// Puts the events through the governor, and says what follows.
fn decide(mut call: Call, recorder: &Recorder, store: &str) -> Result<Reply, Failure> {
    let earlier = earlier(&mut call, recorder)?;
    let policy = recorder.policy();
    let destructive =
        call.tool.as_ref().is_some_and(|tool| policy.effect_of(&tool.name) == Some(Effect::Destructive));
    let approvals = destructive && requires_approvals(&call.session, recorder)?;
    if destructive && !approvals && call.moment == Moment::BeforeTool && !call.host.can_ask() {
        let plan = plan(&call);
        let at = call.events.len().saturating_sub(1);
        call.events.splice(at..at, plan);
    }
    let mut decisions = Vec::new();
    if approvals && call.moment == Moment::AfterTool && call.host.can_ask() {
        let approved: Vec<Value> = approved_in_dialog(&mut call, recorder)?.into_iter().collect();
        decisions.extend(submit(&approved, Moment::Fact, recorder)?);
    }
    decisions.extend(submit(&call.events, call.moment, recorder)?);
    let state = match decisions.last() {
        Some(decision) if decision.state != Status::Ended => decision.state,
        _ => status(&call.session, recorder)?,
    };
    let held = if state == Status::Blocked { Some(held(&call, &decisions, recorder)?) } else { None };
    let earlier = match call.moment {
        Moment::BeforeTool => warned_beside(&call, &decisions, recorder)?,
        _ => earlier.and_then(|earlier| earlier.warned).filter(|_| !call.host.hears_before()),
    };
    let (held, earlier) = (held.as_deref(), earlier.as_deref());
    let outcome = Outcome { decisions: &decisions, state, destructive, approvals, held, earlier, store };
    let reply = reply(&call, &outcome);
    if call.events.iter().any(|event| event.get("type").is_some_and(|kind| kind == "session.ended")) {
        // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
        let _ = recorder.journal().checkpoint();
    }
    Ok(reply)
}

/// What the stored session is doing. One that ended while it waited for a release still waits for it.
fn status(session: &str, recorder: &Recorder) -> Result<Status, Failure> {
    let Some(found) = recorder.journal().load(session)? else { return Ok(Status::Running) };
    let glance = &found.head.glance;
    Ok(match glance.status {
        Status::Ended if glance.is_held() => Status::Blocked,
        status => status,
    })
}

/// Why a session waits for a release. The governor has judged the call by itself; that it does not run all the same is
/// recorded as a refusal of ours, so that nobody waits for its end.
fn held(call: &Call, decisions: &[Decision], recorder: &Recorder) -> Result<String, Failure> {
    let ran = decisions.last().is_some_and(|decision| decision.decision < Verdict::Block);
    let asked =
        call.events.last().filter(|_| ran && call.moment == Moment::BeforeTool && !call.is_question());
    if let Some(fields) = asked.and_then(Value::as_object) {
        let mut refused = fields.clone();
        refused.insert("type".to_owned(), json!("tool.denied"));
        refused.insert("by".to_owned(), json!("guard"));
        if let Some(Value::String(id)) = refused.get_mut("id") {
            id.push_str(":held");
        }
        submit(&[Value::Object(refused)], Moment::Fact, recorder)?;
    }
    let head = recorder.journal().load(&call.session)?.map(|found| found.head);
    Ok(head.and_then(|head| head.glance.stopped_by).unwrap_or_default())
}

/// What was told beside the agent just before this call, and is a warning that nobody has told the agent yet.
fn warned_beside(
    call: &Call,
    decisions: &[Decision],
    recorder: &Recorder,
) -> Result<Option<String>, Failure> {
    let Some(before) = decisions.first().and_then(|decision| decision.seq.checked_sub(1)) else {
        return Ok(None);
    };
    let last = recorder.journal().records(&call.session, before, before)?.pop();
    let mark = format!("\"{}\":true", tell::MARK);
    let told = last.filter(|last| last.verdict == Verdict::Warn && last.text.contains(&mark));
    Ok(told.and_then(|told| serde_json::from_str::<Decision>(&told.decision).ok()?.feedback))
}

/// The request that the end of a call belongs to, if the host does not say it.
fn earlier(call: &mut Call, recorder: &Recorder) -> Result<Option<Earlier>, Failure> {
    let Some(start) = call.unpaired.clone() else { return Ok(None) };
    let journal = recorder.journal();
    let Some(loaded) = journal.load(&call.session)? else { return Ok(None) };
    let seq = loaded.head.seq;
    let records = journal.records(&call.session, seq.saturating_sub(LOOK_BACK).max(1), seq)?;
    let last = records.iter().map(|record| (record.text.as_str(), record.decision.as_str()));
    let found = pair(last, &start);
    let fields = call.events.last_mut().and_then(Value::as_object_mut);
    if let (Some(found), Some(fields)) = (&found, fields) {
        fields.insert("call".to_owned(), json!(found.call));
    }
    Ok(found)
}

/// Whether the rules of a session require an approval of destructive calls.
fn requires_approvals(session: &str, recorder: &Recorder) -> Result<bool, Failure> {
    let known = recorder.session(session)?.map(|(state, _)| state.rules_version());
    Ok(known.unwrap_or(recorder.policy().rules_version) > RulesVersion::V1)
}

/// The request of a call that has run although it was blocked for lack of an approval: the host has asked its user, who
/// agreed. It is recorded as approved, so that the call and its result count.
fn approved_in_dialog(call: &mut Call, recorder: &Recorder) -> Result<Option<Value>, Failure> {
    let (Some(tool), Some(ended)) = (call.tool.clone(), call.events.last_mut()) else { return Ok(None) };
    let named = ended.get("call").and_then(Value::as_str).map(str::to_owned);
    let is_this = |known: &str| match (&named, &call.unpaired) {
        (Some(named), _) => known == named,
        (None, Some(start)) => known.starts_with(start.as_str()),
        (None, None) => false,
    };
    let journal = recorder.journal();
    let Some(seq) = journal.load(&call.session)?.map(|loaded| loaded.head.seq) else { return Ok(None) };
    let mut records = journal.records(&call.session, seq.saturating_sub(LOOK_BACK).max(1), seq)?;
    let request = loop {
        let Some(record) = records.pop() else { return Ok(None) };
        let event: Value = serde_json::from_str(&record.text).unwrap_or_default();
        let of_this_call = event.get("call").and_then(Value::as_str).is_some_and(is_this);
        if of_this_call && event.get("type").is_some_and(|kind| kind == "tool.requested") {
            break (record, event);
        }
    };
    let decision = serde_json::from_str::<Decision>(&request.0.decision).unwrap_or_default();
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

/// The question that a person is to answer before a destructive call, under version 1 of the rules.
fn plan(call: &Call) -> Option<Value> {
    let (tool, asked) = (call.tool.as_ref()?, call.events.last()?);
    let id = asked.get("id").and_then(Value::as_str).map(|id| format!("{id}:plan"));
    let mut event = json!({
        "type": "confirmation.requested",
        "session": call.session,
        "plan": [{"tool": tool.name, "args": tool.args}],
        "question": format!("May {} call {}?", call.host.shown(), tool.name),
    });
    if let (Some(id), Some(fields)) = (id, event.as_object_mut()) {
        fields.insert("id".to_owned(), json!(id));
    }
    Some(event)
}

/// Records the events, in one commit. A call that is told again with other words is counted as another one; a fact
/// that is told again is known already.
fn submit(told: &[Value], moment: Moment, recorder: &Recorder) -> Result<Vec<Decision>, Failure> {
    if told.is_empty() {
        return Ok(Vec::new());
    }
    let wrong = |error: flyball::Error| Failure::at("", &error);
    let door = Door::new(&recorder.policy().journal).map_err(wrong)?;
    let now = clock::now();
    let read =
        |event: &Value| -> Result<Incoming, Failure> { door.read(&event.to_string(), now).map_err(wrong) };
    let events = told.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut decisions = Vec::new();
    for (event, answer) in told.iter().zip(recorder.submit_all(events)) {
        match answer {
            Ok(decision) => {
                let anew = asked_anew(event, decision.seq, recorder)?;
                decisions.push(match anew {
                    Some(anew) => recorder.submit(read(&anew)?)?,
                    None => decision,
                });
            }
            Err(Refusal::Event(error)) if error.code == Code::EventConflict => {
                let anew = match seq_of(event, recorder)? {
                    Some(known) if moment == Moment::AfterTool => asked_anew(event, known, recorder)?,
                    _ => (moment == Moment::BeforeTool).then(|| otherwise(event)),
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

/// The number that an event's id was stored under.
fn seq_of(event: &Value, recorder: &Recorder) -> Result<Option<u64>, Failure> {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    let (Some(session), Some(id)) = (field("session"), field("id")) else { return Ok(None) };
    Ok(recorder.journal().find(session, id)?.map(|known| known.seq))
}

/// The same event under another id, if its call id was used before for another call: that call has ended since it was
/// asked for, or was asked for long ago. A host that runs two hooks for one call tells the same at about the same time.
fn asked_anew(event: &Value, known: u64, recorder: &Recorder) -> Result<Option<Value>, Failure> {
    let field = |name: &str| event.get(name).and_then(Value::as_str);
    let others: &[&str] = match field("type") {
        Some("tool.requested") => &["tool.finished", "tool.denied"],
        Some("tool.finished") => &["tool.requested"],
        _ => return Ok(None),
    };
    let (Some(session), Some(id), Some(call)) = (field("session"), field("id"), field("call")) else {
        return Ok(None);
    };
    let records = recorder.journal().records(session, known, known.saturating_add(LOOK_BACK))?;
    let of_this_call = |record: &&Record| {
        let other = serde_json::from_str::<Value>(&record.text).unwrap_or_default();
        let is = |name: &str, word: &str| other.get(name).is_some_and(|value| value == word);
        record.seq > known && is("call", call) && others.iter().any(|kind| is("type", kind))
    };
    let since = match records.first().filter(|first| first.seq == known).and_then(|first| first.at) {
        Some(at) if others.len() > 1 => clock::now().unwrap_or(at).saturating_sub(at) / ASKED_TWICE_MS,
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

/// The same event under an id of its own.
fn otherwise(event: &Value) -> Value {
    let mut event = event.clone();
    let mark = flyball::Fingerprint::of_text(&event.to_string());
    if let Some(Value::String(id)) = event.get_mut("id") {
        id.push_str(&format!(":{mark}"));
    }
    event
}
