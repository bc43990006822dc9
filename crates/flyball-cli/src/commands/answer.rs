//! A person's word: `release`, `approve`, `deny`, `stop`, `send`, `unlabel`.
//!
//! Each becomes an event, is decided and recorded as any other, and is told back in plain words with the next command.

use super::word::{Word, has};
use crate::args::{Release, Reply, Send, Stop, StoreArgs};
use crate::fail::{Exit, Failure};
use crate::person;
use crate::telling::whole;
use crate::words::{line, plural, typed};
use flyball::{Decision, Status, Verdict};
use serde_json::{Value, json};

/// `flyball approve`.
pub(crate) fn approve(args: &Reply) -> Result<Exit, Failure> {
    reply(args, "yes")
}

/// `flyball deny`.
pub(crate) fn deny(args: &Reply) -> Result<Exit, Failure> {
    reply(args, "no")
}

fn reply(args: &Reply, value: &str) -> Result<Exit, Failure> {
    if value == "yes" {
        person::speaks(&args.session)?;
    }
    let mut word = Word::to_a_run(&args.who, &args.session, args.by.as_deref())?;
    let revokes = value == "no" && word.state.report(&word.policy).approvals > 0;
    if word.plan.is_none() && !revokes {
        return word.nothing("Nothing waits for an answer in this session; nothing was changed.");
    }
    // The answer is to the plan that is there now: one that takes its place meanwhile is not answered by it.
    let digest = word.plan.as_ref().map(|plan| plan.digest.clone());
    let answer = json!({"type": "confirmation.answered", "value": value, "why": args.why, "digest": digest});
    let decision = word.submit(answer)?;
    let means = word.halted(&decision).unwrap_or_else(|| settled(&word, &decision));
    let exit = word.tell(&decision, &means)?;
    word.walk_on(exit)
}

/// What became of the plan, in words.
fn settled(word: &Word<'_>, decision: &Decision) -> Vec<String> {
    let first = if has(decision, "plan.approved") {
        "Approved: exactly these steps may run now, once.".to_owned()
    } else if has(decision, "plan.rejected") {
        "Denied: nothing of the plan may run.".to_owned()
    } else if has(decision, "plan.expired") {
        "Too late: the time for an answer is over. Nothing was run; the agent must ask again.".to_owned()
    } else if has(decision, "plan.aborted") {
        "Given up: no clear answer came, and that means no. Nothing of the plan may run.".to_owned()
    } else if decision.decision == Verdict::Block {
        let requester = word.plan.as_ref().and_then(|plan| plan.requester.as_deref());
        let Some(requester) = requester.filter(|requester| *requester != word.by) else {
            return vec![
                "Not taken: another plan has taken its place. Look at it before you answer.".to_owned(),
            ];
        };
        return vec![
            format!(
                "Not taken: only {} may answer, and you are {}.",
                line(requester, 60),
                line(&word.by, 60)
            ),
            "Use --by only if you are that person. The plan waits on.".to_owned(),
        ];
    } else if decision.state == Status::AwaitingConfirmation {
        "Not understood, so the plan waits on. A plain yes or no is best.".to_owned()
    } else if let Some(why) = word.plan.as_ref().and_then(|plan| plan.tampered) {
        format!("Nothing was approved: {why}, so it was set aside. The agent must ask again.")
    } else {
        "Nothing waits for an answer any more; nothing was changed.".to_owned()
    };
    vec![first]
}

/// `flyball send`.
pub(crate) fn send(args: &Send) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    if flyball::is_blank(&args.text) {
        let what = "the message is empty, and an empty message answers nothing";
        return Err(Failure::new("empty_answer", "", what, "write what the session should do"));
    }
    let mut word = Word::to_a_run(&args.who, &args.session, args.by.as_deref())?;
    let digest = word.plan.as_ref().map(|plan| plan.digest.clone());
    let decision = word.submit(json!({"type": "person.message", "text": args.text, "digest": digest}))?;
    let means = word.halted(&decision).unwrap_or_else(|| taken_as(&word, &decision));
    let exit = word.tell(&decision, &means)?;
    word.walk_on(exit)
}

/// How a message was read, in words.
fn taken_as(word: &Word<'_>, decision: &Decision) -> Vec<String> {
    let read = decision.effects.iter().find(|effect| effect.effect == "person.message");
    let field = |name: &str| read.and_then(|effect| effect.fields.get(name)?.as_str());
    let first = match (field("as"), field("next")) {
        (Some("plan_answer"), Some("change_plan")) => {
            "Nothing of the plan may run; the session gets your words as the change you want."
        }
        (Some("plan_answer"), _) => return settled(word, decision),
        (Some("new_request"), _) => {
            "Recorded as a new request of yours. The plan that was waiting is dropped; nothing of it was run."
        }
        (Some("question_answer"), _) => "Recorded as your answer to the session's question.",
        (Some("nothing_pending"), _) => "Nothing waits for an answer any more; nothing was changed.",
        _ => "Recorded as a message of yours to the session.",
    };
    vec![first.to_owned()]
}

/// `flyball stop`.
pub(crate) fn stop(args: &Stop) -> Result<Exit, Failure> {
    require_reason(&args.why)?;
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let before = word.state.status();
    let decision = word.submit(json!({"type": "human.stopped", "why": args.why}))?;
    let first = if before == Status::Halted {
        "It was halted before; your stop is recorded beside it."
    } else {
        "Stopped: every request of the session is answered with halt until a person lifts the stop."
    };
    word.tell(&decision, &[first.to_owned()])?;
    // A stop that stands is what was asked for.
    Ok(Exit::Done)
}

/// `flyball release`.
pub(crate) fn release(args: &Release) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    require_reason(&args.why)?;
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let hold = word.state.guard_hold().map(|hold| hold.guard.to_owned());
    let guard = match (args.guard.clone().or(hold), stop_message(&word)) {
        (Some(guard), _) if guard == "human" => return lift_stop(&mut word, &args.why),
        (Some(guard), _) => guard,
        (None, Some(stop)) => return Err(stopped_by_person(&args.session, &stop, &args.who.store)),
        (None, None) => {
            return word.nothing("Nothing holds this session back; there is nothing to release.");
        }
    };
    let event = json!({"type": "human.released", "guard": guard, "mode": args.mode.as_str(), "n": args.n, "why": args.why});
    let granted = args.n.unwrap_or(word.policy.releases.grant).clamp(1, 1000);
    let lets = match args.mode {
        crate::args::Mode::Grant => format!("{granted} more, then it trips again"),
        crate::args::Mode::Reset => "it counts from the beginning".to_owned(),
        crate::args::Mode::Keep => "nothing it has counted is forgotten".to_owned(),
    };
    released(&mut word, event, &guard, &lets)
}

/// The first stop by a person that still holds, in words.
fn stop_message(word: &Word<'_>) -> Option<String> {
    word.state.operator_stops().next().map(|stop| line(&stop.message, 300))
}

/// A release without a guard never lifts a person's stop.
fn stopped_by_person(session: &str, stop: &str, store: &StoreArgs) -> Failure {
    let what = format!(
        "session '{}' is {stop}; releasing a guard does not lift a person's stop",
        line(session, 200)
    );
    let command = whole(&format!("flyball release {} --guard human --why \"…\"", typed(session)), store);
    Failure::new("stopped_by_person", "", what, format!("to lift the stop: {command}"))
}

/// An act that lets a session continue, or stops it, is recorded with a reason.
fn require_reason(why: &str) -> Result<(), Failure> {
    if !flyball::is_blank(why) {
        return Ok(());
    }
    let advice = "say why with --why TEXT, for whoever reads the record later";
    Err(Failure::new("reason_missing", "", "the reason is empty", advice))
}

/// `flyball release --guard human`: lifts the stops by people, and says whose they were.
fn lift_stop(word: &mut Word<'_>, why: &str) -> Result<Exit, Failure> {
    let stops: Vec<String> = word.state.operator_stops().map(|stop| line(&stop.message, 300)).collect();
    if stops.is_empty() {
        return word.nothing("No person has stopped this session; nothing was changed.");
    }
    let decision = word.submit(json!({"type": "human.released", "guard": "human", "why": why}))?;
    if let Some(stop) = stop_message(word) {
        return word.tell(&decision, &[format!("Not lifted: the session is still {stop}.")]);
    }
    let mut means: Vec<String> =
        stops.iter().map(|stop| format!("Lifted: the session was {stop}.")).collect();
    means.push(continues(word));
    word.tell(&decision, &means)
}

/// Whether the session may continue after a release, and if not, why.
fn continues(word: &Word<'_>) -> String {
    match (word.state.guard_hold(), word.state.status()) {
        (Some(hold), _) => format!("It is still held by {}: {}", hold.guard, line(hold.message, 200)),
        (None, Status::Ended) => "The session has ended; it may continue when it is resumed.".to_owned(),
        (None, _) => "The session may continue.".to_owned(),
    }
}

/// `flyball unlabel`.
pub(crate) fn unlabel(args: &Stop) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    require_reason(&args.why)?;
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let Some(guard) = word.state.label_hold().map(|hold| hold.guard.to_owned()) else {
        return word.nothing("There is no label to take off in this session; nothing was changed.");
    };
    let lets = format!("{} more, then it trips again", word.policy.releases.grant);
    let event = json!({"type": "human.released", "guard": guard, "why": args.why, "label": "removed"});
    released(&mut word, event, &guard, &lets)
}

/// Submits a release, and says what it has changed.
fn released(word: &mut Word<'_>, event: Value, guard: &str, lets: &str) -> Result<Exit, Failure> {
    let stood = word.state.is_held();
    let decision = word.submit(event)?;
    let mut means = Vec::new();
    if decision.decision >= Verdict::Block {
        means.push(format!(
            "Not released: {guard} stays as it is. Only the policy file can raise the ceiling."
        ));
        return word.tell(&decision, &means);
    }
    let used = word.state.report(&word.policy).releases.get(guard).copied().unwrap_or_default();
    let ceiling = word.policy.releases.ceiling;
    // A budget is raised in its own unit, and the decision says by how much.
    let raised = decision.effects.iter().filter(|effect| effect.effect == "budget.raised");
    let raised: Vec<&str> = raised.filter_map(|effect| effect.fields.get("text")?.as_str()).collect();
    let lets = if raised.is_empty() { lets.to_owned() } else { line(&raised.join("; "), 600) };
    means.push(format!("Released: {guard}, {lets} ({} of {ceiling}).", plural(used, "release")));
    if has(&decision, "label.removed") {
        means.push("The label that called a person is off.".to_owned());
    }
    means.push(match (stop_message(word), word.state.guard_hold()) {
        (Some(stop), _) => {
            format!("The session is still {stop}. Releasing a guard does not lift a person's stop.")
        }
        (None, Some(hold)) => format!("It is still held by {}: {}", hold.guard, line(hold.message, 200)),
        (None, None) if stood && word.order_resume()? => {
            "The session may go on; a worker of the server continues it.".to_owned()
        }
        (None, None) if stood => "The session may go on.".to_owned(),
        (None, None) => "It was not standing still; this counts when the guard trips next.".to_owned(),
    });
    word.tell(&decision, &means)
}
