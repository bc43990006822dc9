//! What follows from a decision: who is told what, whatever the host. How it is written is the encoders' business.

use super::call::{Call, Moment};
use super::host::Host;
use flyball::limits::FEEDBACK_CHARS;
use flyball::policy::OnError;
use flyball::{Decision, Origin, Status, Verdict};

/// What the host is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Say {
    /// Go on.
    Allow,
    /// Go on, and tell the model.
    Warn,
    /// Ask the user first.
    Ask,
    /// Not this.
    Block,
    /// Nothing more, until a person releases the session.
    Halt,
}

impl Say {
    /// All of them, mildest first.
    pub const ALL: [Say; 5] = [Say::Allow, Say::Warn, Say::Ask, Say::Block, Say::Halt];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Say::Allow => "allow",
            Say::Warn => "warn",
            Say::Ask => "ask",
            Say::Block => "block",
            Say::Halt => "halt",
        }
    }
}

/// What a host is answered, before it is put into the host's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What to do.
    pub say: Say,
    /// For the model: facts, at most 600 characters. Empty if there is nothing to tell.
    pub feedback: String,
    /// For the person at the host.
    pub notice: Option<String>,
}

impl Reply {
    fn allow() -> Self {
        Reply { say: Say::Allow, feedback: String::new(), notice: None }
    }
}

/// What the process of a hook writes, and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Answer {
    /// On stdout.
    pub stdout: String,
    /// On stderr.
    pub stderr: String,
    /// The exit code.
    pub exit: u8,
}

/// What came of a call's events.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// Their decisions, in order.
    pub decisions: &'a [Decision],
    /// The session's state after them.
    pub state: Status,
    /// The policy declares this tool destructive.
    pub destructive: bool,
    /// The session's rules require an approval of destructive calls; without them the host is made to ask each time.
    pub approvals: bool,
    /// Why the session waits for a release, if it does.
    pub held: Option<&'a str>,
    /// What the model was to be told before the call and could not be.
    pub earlier: Option<&'a str>,
    /// How a command names the store, if it is not the project's own: ` --store sqlite:PATH`.
    pub store: &'a str,
}

/// What follows from the decisions upon a call's events.
#[must_use]
pub fn reply(call: &Call, outcome: &Outcome<'_>) -> Reply {
    // Before a call the last decision is the one upon the call itself; what was asked besides only leads up to it.
    let strictest = match call.moment {
        Moment::BeforeTool => outcome.decisions.last(),
        _ => outcome.decisions.iter().max_by_key(|decision| decision.decision),
    };
    let verdict = strictest.map_or(Verdict::Allow, |decision| decision.decision);
    let told = strictest.filter(|_| verdict > Verdict::Allow).map(feedback).unwrap_or_default();
    let halted = outcome.state == Status::Halted || verdict == Verdict::Halt;
    match call.moment {
        Moment::Fact | Moment::Unknown => Reply::allow(),
        Moment::Prompt if halted => woken(call, outcome, strictest),
        Moment::SessionStart if halted => Reply { say: Say::Warn, ..halt(call, outcome, strictest) },
        _ if halted => halt(call, outcome, strictest),
        Moment::Prompt if outcome.held.is_some() => {
            let say = if call.origin == Origin::Human { Say::Warn } else { Say::Block };
            Reply { say, ..refused(call, outcome, told) }
        }
        Moment::AfterBatch | Moment::SessionStart => Reply::allow(),
        Moment::BeforeTool => before(call, outcome, verdict, told),
        Moment::Permission if outcome.destructive => ask("here", String::new()),
        Moment::Permission => Reply::allow(),
        // Whoever ends a turn is never kept from ending it: the person is told, the model is not driven on.
        Moment::Stop => match told {
            told if told.is_empty() => Reply::allow(),
            told => {
                Reply { say: Say::Warn, feedback: String::new(), notice: Some(format!("Flyball: {told}")) }
            }
        },
        Moment::AfterTool | Moment::Prompt => match (verdict, outcome.earlier) {
            (Verdict::Allow, None) => Reply::allow(),
            (Verdict::Allow, Some(earlier)) => {
                Reply { say: Say::Warn, feedback: limited(earlier), notice: None }
            }
            (Verdict::Block, _) if call.moment == Moment::AfterTool => {
                Reply { say: Say::Block, feedback: told, notice: None }
            }
            _ => Reply { say: Say::Warn, feedback: told, notice: None },
        },
    }
}

fn before(call: &Call, outcome: &Outcome<'_>, verdict: Verdict, told: String) -> Reply {
    // After a no nothing waits for an answer, and the person is not asked again.
    if call.host.can_ask()
        && outcome.held.is_none()
        && outcome.state == Status::AwaitingConfirmation
        && outcome.decisions.last().is_some_and(Decision::lacks_approval)
    {
        return ask(&format!("here or with `{}`", approve_command(call, outcome)), String::new());
    }
    if verdict == Verdict::Block || (outcome.held.is_some() && !call.is_question()) {
        return refused(call, outcome, told);
    }
    let told = if told.is_empty() { limited(outcome.earlier.unwrap_or_default()) } else { told };
    if outcome.destructive && !outcome.approvals && call.host.can_ask() {
        return ask("here", told);
    }
    let say = if told.is_empty() { Say::Allow } else { Say::Warn };
    Reply { say, feedback: told, notice: None }
}

fn approve_command(call: &Call, outcome: &Outcome<'_>) -> String {
    format!("flyball approve {}{}", typed(&call.session), outcome.store)
}

fn ask(place: &str, told: String) -> Reply {
    let mut feedback =
        format!("The policy declares this tool destructive: a person must approve the call, {place}.");
    if !told.is_empty() {
        feedback = limited(&format!("{feedback} {told}"));
    }
    Reply { say: Say::Ask, feedback, notice: None }
}

fn refused(call: &Call, outcome: &Outcome<'_>, told: String) -> Reply {
    let session = typed(&call.session);
    let store = outcome.store;
    match outcome.state {
        Status::AwaitingConfirmation if outcome.destructive => {
            let command = approve_command(call, outcome);
            let feedback = with_command(&told, &format!(" A person can approve it with `{command}`."));
            let notice = Some(format!("Flyball: a call is awaiting your approval: {command}"));
            Reply { say: Say::Block, feedback, notice }
        }
        Status::Blocked => {
            let command = format!("flyball release {session} --why TEXT{store}");
            let why = outcome.held.map(|why| format!(" ({})", limited(why))).unwrap_or_default();
            let notice =
                Some(format!("Flyball waits for a person{why}. To let the session go on: {command}"));
            let told = if told.is_empty() {
                "The session waits until a person releases it. Stop here."
            } else {
                &told
            };
            let feedback = with_command(told, &format!(" A person can release it with `{command}`."));
            Reply { say: Say::Block, feedback, notice }
        }
        _ => Reply { say: Say::Block, feedback: told, notice: None },
    }
}

/// Everything stops: the model is told so, and the person is told how to release it.
fn halt(call: &Call, outcome: &Outcome<'_>, strictest: Option<&Decision>) -> Reply {
    let trip = strictest.and_then(|decision| decision.trips.iter().find(|trip| trip.halt_reason.is_some()));
    // A halt above this session names that session; a budget of this one has its own name there.
    let above = trip.filter(|trip| trip.budget.is_none()).and_then(|trip| trip.scope.get("session"));
    let session = typed(above.unwrap_or(&call.session));
    // Only a release that names it lifts a person's stop.
    let stop = if trip.is_some_and(|trip| trip.guard == "human") { " --guard human" } else { "" };
    let command = format!("flyball release {session}{stop} --why TEXT{}", outcome.store);
    let why = trip.map(|trip| format!(" ({})", trip.message)).unwrap_or_default();
    let told = strictest.map(feedback).filter(|told| !told.is_empty());
    let told = told.unwrap_or_else(|| "The session is halted until a person releases it.".to_owned());
    let notice = format!("Flyball has halted this session{}. To let it go on: {command}", limited(&why));
    Reply {
        say: Say::Halt,
        feedback: with_command(&told, &format!(" A person can release it with `{command}`.")),
        notice: Some(notice),
    }
}

/// Somebody speaks to a halted session. What a scheduler says is refused; a person is told how to release it.
fn woken(call: &Call, outcome: &Outcome<'_>, strictest: Option<&Decision>) -> Reply {
    let reply = halt(call, outcome, strictest);
    Reply { say: if call.origin == Origin::Human { Say::Warn } else { Say::Block }, ..reply }
}

/// Flyball itself has failed.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// What the host waits for.
    pub moment: Moment,
    /// Whether the tool that is about to run is known to be read-only.
    pub read_only: bool,
    /// Who speaks, on a prompt.
    pub origin: Origin,
    /// What the policy says, if there is one.
    pub on_error: OnError,
    /// The code and what went wrong.
    pub what: &'a str,
}

/// What follows from a failure of our own: the person is told, and the policy says what goes on.
#[must_use]
pub fn failed(failed: &Failed<'_>) -> Reply {
    let refuses = match failed.on_error {
        OnError::Allow => false,
        OnError::Reads => !failed.read_only,
        OnError::Block => true,
    };
    let what = limited(failed.what);
    let notice = |rest: &str| Some(format!("Flyball failed: {what}. {rest} See `flyball doctor`."));
    match failed.moment {
        Moment::BeforeTool if refuses => Reply {
            say: Say::Block,
            feedback: limited(&format!(
                "Flyball could not decide about this call and the policy refuses it then (on_error: {}). {what}",
                word(failed.on_error)
            )),
            notice: notice("The call was refused."),
        },
        Moment::Prompt if failed.on_error == OnError::Block && failed.origin != Origin::Human => Reply {
            say: Say::Block,
            feedback: limited(&format!("Flyball could not decide about this prompt. {what}")),
            notice: notice("The prompt was refused."),
        },
        _ => Reply { say: Say::Allow, feedback: String::new(), notice: notice("Nothing was stopped.") },
    }
}

const fn word(on_error: OnError) -> &'static str {
    match on_error {
        OnError::Allow => "allow",
        OnError::Reads => "reads",
        OnError::Block => "block",
    }
}

/// What the model is told: the templates of the core, or the reason where there is none. A trip's message is for people;
/// it may repeat names that an agent chose.
fn feedback(decision: &Decision) -> String {
    let own = decision.feedback.clone();
    let verdict = decision.decision.as_str();
    let found = || decision.trips.first().map(|trip| format!("Flyball said {verdict}: {}.", trip.reason));
    limited(&own.or_else(found).unwrap_or_else(|| format!("Flyball said {verdict}.")))
}

/// A session's name in a command that a person may copy and a model reads: only if nothing in it means anything else.
fn typed(session: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/@+-".contains(&byte);
    let clean = !session.is_empty()
        && session.len() <= 128
        && !session.starts_with('-')
        && session.bytes().all(plain);
    if clean { session } else { "SESSION" }
}

fn limited(text: &str) -> String {
    text.chars().take(FEEDBACK_CHARS).collect()
}

/// A text with a command at its end that must not be cut off.
fn with_command(text: &str, command: &str) -> String {
    let room = FEEDBACK_CHARS.saturating_sub(command.chars().count());
    let text: String = text.chars().take(room).collect();
    limited(&format!("{text}{command}"))
}

impl Reply {
    /// What the person is told, and the model where the host has no other place for it.
    pub(super) fn both(&self) -> String {
        match &self.notice {
            Some(notice) if self.feedback.is_empty() => notice.clone(),
            _ => self.feedback.clone(),
        }
    }

    /// The words for a person who sees the session stop.
    pub(super) fn why_stopped(&self) -> &str {
        self.notice.as_deref().unwrap_or(&self.feedback)
    }
}

impl Answer {
    /// A JSON object on stdout.
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Answer { stdout: format!("{value}\n"), ..Answer::default() }
    }

    /// Words on stderr, and nothing on stdout.
    pub(super) fn aside(text: &str) -> Self {
        Answer { stderr: format!("{text}\n"), ..Answer::default() }
    }

    /// Nothing at all.
    pub(super) fn silent() -> Self {
        Answer::default()
    }
}

impl Host {
    /// Whether the host lets a hook say something to the model before a call; where not, it is said after it.
    #[must_use]
    pub const fn hears_before(self) -> bool {
        matches!(self, Host::ClaudeCode | Host::Codex | Host::Cursor)
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
