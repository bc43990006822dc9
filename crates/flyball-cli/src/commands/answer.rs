//! A person's word: `release`, `approve`, `deny`, `stop`, `send`, `unlabel`.
//!
//! Each becomes an event, is decided and recorded as any other, and is told back in plain words with the next command.

use super::word::{Word, has};
use crate::args::{Release, Reply, Send, Stop};
use crate::fail::{Exit, Failure};
use crate::person;
use crate::words::{line, plural};
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
    if word.plan.is_none() {
        return word.nothing("Nothing waits for an answer in this session; nothing was changed.");
    }
    let decision = word.submit(json!({"type": "confirmation.answered", "value": value, "why": args.why}))?;
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
        let requester =
            word.plan.as_ref().and_then(|plan| plan.requester.as_deref()).unwrap_or("the requester");
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
    let mut word = Word::to_a_run(&args.who, &args.session, args.by.as_deref())?;
    if word.plan.is_some() {
        let decision = word.submit(json!({"type": "confirmation.answered", "text": args.text}))?;
        let means = word.halted(&decision).unwrap_or_else(|| settled(&word, &decision));
        let exit = word.tell(&decision, &means)?;
        return word.walk_on(exit);
    }
    let decision = word.submit(json!({"type": "user.message", "text": args.text}))?;
    let exit = word.tell(&decision, &["Recorded as a message of yours to the session.".to_owned()])?;
    word.walk_on(exit)
}

/// `flyball stop`.
pub(crate) fn stop(args: &Stop) -> Result<Exit, Failure> {
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let before = word.state.status();
    let decision = word.submit(json!({"type": "human.stopped", "why": args.why}))?;
    let first = if before == Status::Halted {
        "It was halted before; your stop is recorded beside it."
    } else {
        "Stopped: whatever the session asks for is answered with halt until somebody releases it."
    };
    word.tell(&decision, &[first.to_owned()])?;
    // A stop that stands is what was asked for.
    Ok(Exit::Done)
}

/// `flyball release`.
pub(crate) fn release(args: &Release) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let latched = word.state.standing().stopped_by.map(|(guard, _)| guard.to_owned());
    let Some(guard) = args.guard.clone().or(latched) else {
        return word.nothing("Nothing holds this session back; there is nothing to release.");
    };
    let event = json!({"type": "human.released", "guard": guard, "mode": args.mode.as_str(), "n": args.n, "why": args.why});
    let granted = args.n.unwrap_or(word.policy.releases.grant).clamp(1, 1000);
    let lets = match args.mode {
        _ if guard == "human" => "the stop is lifted".to_owned(),
        crate::args::Mode::Grant => format!("{granted} more, then it trips again"),
        crate::args::Mode::Reset => "it counts from the beginning".to_owned(),
        crate::args::Mode::Keep => "nothing it has counted is forgotten".to_owned(),
    };
    released(&mut word, event, &guard, &lets)
}

/// `flyball unlabel`.
pub(crate) fn unlabel(args: &Stop) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    let mut word = Word::open(&args.who, &args.session, args.by.as_deref())?;
    let latched = word.state.standing();
    let (true, Some((guard, _))) = (latched.labelled, latched.stopped_by) else {
        return word.nothing("There is no label to take off in this session; nothing was changed.");
    };
    let guard = guard.to_owned();
    let lets = format!("{} more, then it trips again", word.policy.releases.grant);
    let event = json!({"type": "human.released", "why": args.why, "label": "removed"});
    released(&mut word, event, &guard, &lets)
}

/// Submits a release, and says what it has changed.
fn released(word: &mut Word<'_>, event: Value, guard: &str, lets: &str) -> Result<Exit, Failure> {
    let stood = flyball::waits(word.state.status());
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
    means.push(format!("Released: {guard}, {lets} ({} of {ceiling}).", plural(used, "release")));
    if has(&decision, "label.removed") {
        means.push("The label that called a person is off.".to_owned());
    }
    means.push(match word.state.standing().stopped_by {
        Some((other, message)) => format!("It still stands still: {other}: {}", line(&message, 200)),
        None if stood => "The session may go on.".to_owned(),
        None => "It was not standing still; this counts when the guard trips next.".to_owned(),
    });
    word.tell(&decision, &means)
}
