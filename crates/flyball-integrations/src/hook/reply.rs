//! Derives a host-independent reply from decisions: the verdict, the feedback for the model and the notice for the
//! user.

use super::host::Host;
use super::invocation::{HookInvocation, HookPhase};
use flyball::limits::FEEDBACK_CHARS;
use flyball::policy::OnErrorAction;
use flyball::{Decision, MessageOrigin, SessionPhase, Verdict};

/// The action that the host should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookVerdict {
    /// Continue.
    Allow,
    /// Continue, and show the model a warning.
    Warn,
    /// Ask the user first.
    Ask,
    /// Deny this action.
    Block,
    /// Deny everything until a person releases the session.
    Halt,
}

impl HookVerdict {
    /// All verdicts, least severe first.
    pub const ALL: [HookVerdict; 5] =
        [HookVerdict::Allow, HookVerdict::Warn, HookVerdict::Ask, HookVerdict::Block, HookVerdict::Halt];

    /// The verdict's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HookVerdict::Allow => "allow",
            HookVerdict::Warn => "warn",
            HookVerdict::Ask => "ask",
            HookVerdict::Block => "block",
            HookVerdict::Halt => "halt",
        }
    }
}

/// A reply before it is encoded for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReply {
    /// The verdict.
    pub verdict: HookVerdict,
    /// Feedback for the model, at most 600 characters. Empty if there is none.
    pub feedback: String,
    /// Notice for the user of the host.
    pub notice: Option<String>,
}

impl HookReply {
    fn allow() -> Self {
        HookReply { verdict: HookVerdict::Allow, feedback: String::new(), notice: None }
    }
}

/// The output and exit code of a hook process.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct HookOutput {
    /// Text for stdout.
    pub stdout: String,
    /// Text for stderr.
    pub stderr: String,
    /// The exit code.
    pub exit: u8,
}

/// The result of submitting a hook call's events.
#[derive(Debug, Clone, Copy)]
pub struct HookOutcome<'a> {
    /// The decisions, in order.
    pub decisions: &'a [Decision],
    /// The session's state after the events.
    pub state: SessionPhase,
    /// Whether the policy declares this tool destructive.
    pub destructive: bool,
    /// Whether the session's rules require approval of destructive calls. If not, the host is made to ask each time.
    pub approvals: bool,
    /// The reason why the session awaits a release, if it does.
    pub hold_reason: Option<&'a str>,
    /// A warning for the model that the host could not show before the call.
    pub deferred_warning: Option<&'a str>,
    /// The store flag for printed commands, such as ` --store sqlite:PATH`; empty for the project's default store.
    pub store_flag: &'a str,
}

/// Derives the reply from the decisions on a call's events.
#[must_use]
pub fn decide_reply(call: &HookInvocation, outcome: &HookOutcome<'_>) -> HookReply {
    // Before a call, the last decision is the one on the call itself; earlier ones concern preliminary events.
    let strictest = match call.phase {
        HookPhase::BeforeTool => outcome.decisions.last(),
        _ => outcome.decisions.iter().max_by_key(|decision| decision.decision),
    };
    let verdict = strictest.map_or(Verdict::Allow, |decision| decision.decision);
    let feedback_text =
        strictest.filter(|_| verdict > Verdict::Allow).map(model_feedback).unwrap_or_default();
    let halted = outcome.state == SessionPhase::Halted || verdict == Verdict::Halt;
    match call.phase {
        HookPhase::Notification | HookPhase::Unknown => HookReply::allow(),
        HookPhase::Prompt if halted => halted_prompt_reply(call, outcome, strictest),
        HookPhase::SessionStart if halted => {
            HookReply { verdict: HookVerdict::Warn, ..halt_reply(call, outcome, strictest) }
        }
        _ if halted => halt_reply(call, outcome, strictest),
        HookPhase::Prompt if outcome.hold_reason.is_some() => {
            let hook_verdict =
                if call.origin == MessageOrigin::Human { HookVerdict::Warn } else { HookVerdict::Block };
            HookReply { verdict: hook_verdict, ..block_reply(call, outcome, feedback_text) }
        }
        HookPhase::AfterBatch | HookPhase::SessionStart => HookReply::allow(),
        HookPhase::BeforeTool => before_tool_reply(call, outcome, verdict, feedback_text),
        HookPhase::Permission if outcome.destructive => ask_reply("here", String::new()),
        HookPhase::Permission => HookReply::allow(),
        // Ending a turn is never blocked: the user gets a notice, and the model is not prompted to continue.
        HookPhase::Stop => match feedback_text {
            feedback_text if feedback_text.is_empty() => HookReply::allow(),
            feedback_text => HookReply {
                verdict: HookVerdict::Warn,
                feedback: String::new(),
                notice: Some(format!("Flyball: {feedback_text}")),
            },
        },
        HookPhase::AfterTool | HookPhase::Prompt => match (verdict, outcome.deferred_warning) {
            (Verdict::Allow, None) => HookReply::allow(),
            (Verdict::Allow, Some(earlier)) => {
                HookReply { verdict: HookVerdict::Warn, feedback: truncate_feedback(earlier), notice: None }
            }
            (Verdict::Block, _) if call.phase == HookPhase::AfterTool => {
                HookReply { verdict: HookVerdict::Block, feedback: feedback_text, notice: None }
            }
            _ => HookReply { verdict: HookVerdict::Warn, feedback: feedback_text, notice: None },
        },
    }
}

fn before_tool_reply(
    call: &HookInvocation,
    outcome: &HookOutcome<'_>,
    verdict: Verdict,
    feedback_text: String,
) -> HookReply {
    // After a denial no approval is pending, so the user is not asked again.
    if call.host.can_ask()
        && outcome.hold_reason.is_none()
        && outcome.state == SessionPhase::AwaitingConfirmation
        && outcome.decisions.last().is_some_and(Decision::lacks_approval)
    {
        return ask_reply(&format!("here or with `{}`", approve_command(call, outcome)), String::new());
    }
    if verdict == Verdict::Block || (outcome.hold_reason.is_some() && !call.is_question()) {
        return block_reply(call, outcome, feedback_text);
    }
    let feedback_text = if feedback_text.is_empty() {
        truncate_feedback(outcome.deferred_warning.unwrap_or_default())
    } else {
        feedback_text
    };
    if outcome.destructive && !outcome.approvals && call.host.can_ask() {
        return ask_reply("here", feedback_text);
    }
    let hook_verdict = if feedback_text.is_empty() { HookVerdict::Allow } else { HookVerdict::Warn };
    HookReply { verdict: hook_verdict, feedback: feedback_text, notice: None }
}

fn approve_command(call: &HookInvocation, outcome: &HookOutcome<'_>) -> String {
    format!("flyball approve {}{}", session_argument(&call.session), outcome.store_flag)
}

fn ask_reply(place: &str, feedback_text: String) -> HookReply {
    let mut feedback =
        format!("The policy declares this tool destructive: a person must approve the call, {place}.");
    if !feedback_text.is_empty() {
        feedback = truncate_feedback(&format!("{feedback} {feedback_text}"));
    }
    HookReply { verdict: HookVerdict::Ask, feedback, notice: None }
}

fn block_reply(call: &HookInvocation, outcome: &HookOutcome<'_>, feedback_text: String) -> HookReply {
    let session = session_argument(&call.session);
    let store = outcome.store_flag;
    match outcome.state {
        SessionPhase::AwaitingConfirmation if outcome.destructive => {
            let command = approve_command(call, outcome);
            let feedback =
                with_command(&feedback_text, &format!(" A person can approve it with `{command}`."));
            let notice = Some(format!("Flyball: a call is awaiting your approval: {command}"));
            HookReply { verdict: HookVerdict::Block, feedback, notice }
        }
        SessionPhase::Blocked => {
            let command = format!("flyball release {session} --why TEXT{store}");
            let why =
                outcome.hold_reason.map(|why| format!(" ({})", truncate_feedback(why))).unwrap_or_default();
            let notice =
                Some(format!("Flyball is waiting for a person{why}. To resume the session: {command}"));
            let feedback_text = if feedback_text.is_empty() {
                "The session is on hold until a person releases it. Stop here."
            } else {
                &feedback_text
            };
            let feedback =
                with_command(feedback_text, &format!(" A person can release it with `{command}`."));
            HookReply { verdict: HookVerdict::Block, feedback, notice }
        }
        _ => HookReply { verdict: HookVerdict::Block, feedback: feedback_text, notice: None },
    }
}

/// Denies everything, and tells the model and the user how to release the session.
fn halt_reply(call: &HookInvocation, outcome: &HookOutcome<'_>, strictest: Option<&Decision>) -> HookReply {
    let trip = strictest.and_then(|decision| decision.trips.iter().find(|trip| trip.halt_reason.is_some()));
    // A halt on an ancestor names that session; a budget trip's scope names this session itself.
    let above = trip.filter(|trip| trip.budget.is_none()).and_then(|trip| trip.scope.get("session"));
    let session = session_argument(above.unwrap_or(&call.session));
    // A person's stop is lifted only by a release that names the guard.
    let stop = if trip.is_some_and(|trip| trip.guard == "human") { " --guard human" } else { "" };
    let command = format!("flyball release {session}{stop} --why TEXT{}", outcome.store_flag);
    let why = trip.map(|trip| format!(" ({})", trip.message)).unwrap_or_default();
    let feedback_text = strictest.map(model_feedback).filter(|feedback_text| !feedback_text.is_empty());
    let feedback_text =
        feedback_text.unwrap_or_else(|| "The session is halted until a person releases it.".to_owned());
    let notice =
        format!("Flyball has halted this session{}. To resume it: {command}", truncate_feedback(&why));
    HookReply {
        verdict: HookVerdict::Halt,
        feedback: with_command(&feedback_text, &format!(" A person can release it with `{command}`.")),
        notice: Some(notice),
    }
}

/// Replies to a prompt in a halted session: denies automated prompts and shows a person how to release the session.
fn halted_prompt_reply(
    call: &HookInvocation,
    outcome: &HookOutcome<'_>,
    strictest: Option<&Decision>,
) -> HookReply {
    let reply = halt_reply(call, outcome, strictest);
    HookReply {
        verdict: if call.origin == MessageOrigin::Human { HookVerdict::Warn } else { HookVerdict::Block },
        ..reply
    }
}

/// A failure of Flyball itself.
#[derive(Debug, Clone, Copy)]
pub struct HookFailure<'a> {
    /// The phase the host is in.
    pub phase: HookPhase,
    /// Whether the tool about to run is known to be read-only.
    pub read_only: bool,
    /// The origin of a prompt.
    pub origin: MessageOrigin,
    /// The policy's `on_error` action.
    pub on_error: OnErrorAction,
    /// The error code and message.
    pub message: &'a str,
}

/// Replies to an internal failure: notifies the user and applies the policy's `on_error`.
#[must_use]
pub fn failure_reply(failed: &HookFailure<'_>) -> HookReply {
    let refuses = match failed.on_error {
        OnErrorAction::Allow => false,
        OnErrorAction::Reads => !failed.read_only,
        OnErrorAction::Block => true,
    };
    let what = truncate_feedback(failed.message);
    let notice = |rest: &str| Some(format!("Flyball failed: {what}. {rest} See `flyball doctor`."));
    match failed.phase {
        HookPhase::BeforeTool if refuses => HookReply {
            verdict: HookVerdict::Block,
            feedback: truncate_feedback(&format!(
                "Flyball could not evaluate this call, and the policy denies calls in that case (on_error: \
                 {}). {what}",
                on_error_name(failed.on_error)
            )),
            notice: notice("The call was refused."),
        },
        HookPhase::Prompt
            if failed.on_error == OnErrorAction::Block && failed.origin != MessageOrigin::Human =>
        {
            HookReply {
                verdict: HookVerdict::Block,
                feedback: truncate_feedback(&format!("Flyball could not evaluate this prompt. {what}")),
                notice: notice("The prompt was refused."),
            }
        }
        _ => HookReply {
            verdict: HookVerdict::Allow,
            feedback: String::new(),
            notice: notice("Nothing was stopped."),
        },
    }
}

const fn on_error_name(on_error: OnErrorAction) -> &'static str {
    match on_error {
        OnErrorAction::Allow => "allow",
        OnErrorAction::Reads => "reads",
        OnErrorAction::Block => "block",
    }
}

/// Feedback for the model: the decision's feedback, or its reason if it has none. Trip messages are for people and are
/// not used here, because they may contain names chosen by an agent.
fn model_feedback(decision: &Decision) -> String {
    let own = decision.feedback.clone();
    let verdict = decision.decision.as_str();
    let found =
        || decision.trips.first().map(|trip| format!("Flyball's verdict is {verdict}: {}.", trip.reason));
    truncate_feedback(&own.or_else(found).unwrap_or_else(|| format!("Flyball's verdict is {verdict}.")))
}

/// The session name for a command that a person may copy, or `SESSION` if the name contains characters special to a
/// shell.
fn session_argument(session: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/@+-".contains(&byte);
    let clean = !session.is_empty()
        && session.len() <= 128
        && !session.starts_with('-')
        && session.bytes().all(plain);
    if clean { session } else { "SESSION" }
}

fn truncate_feedback(text: &str) -> String {
    text.chars().take(FEEDBACK_CHARS).collect()
}

/// Appends a command, truncating the text before it so that the command stays whole.
fn with_command(text: &str, command: &str) -> String {
    let room = FEEDBACK_CHARS.saturating_sub(command.chars().count());
    let text: String = text.chars().take(room).collect();
    truncate_feedback(&format!("{text}{command}"))
}

impl HookReply {
    /// The model's feedback, or the notice if there is none.
    pub(super) fn feedback_or_notice(&self) -> String {
        match &self.notice {
            Some(notice) if self.feedback.is_empty() => notice.clone(),
            _ => self.feedback.clone(),
        }
    }

    /// The user's notice, or the feedback if there is none.
    pub(super) fn notice_or_feedback(&self) -> &str {
        self.notice.as_deref().unwrap_or(&self.feedback)
    }
}

impl HookOutput {
    /// A JSON object on stdout.
    pub(super) fn from_json(value: &serde_json::Value) -> Self {
        HookOutput { stdout: format!("{value}\n"), ..HookOutput::default() }
    }

    /// A message on stderr, and nothing on stdout.
    pub(super) fn from_stderr(text: &str) -> Self {
        HookOutput { stderr: format!("{text}\n"), ..HookOutput::default() }
    }

    /// No output.
    pub(super) fn silent() -> Self {
        HookOutput::default()
    }
}

impl Host {
    /// Whether a hook can show feedback to the model before a call. If not, the feedback is sent after the call.
    #[must_use]
    pub const fn shows_feedback_before_tool(self) -> bool {
        matches!(self, Host::ClaudeCode | Host::Codex | Host::Cursor)
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
