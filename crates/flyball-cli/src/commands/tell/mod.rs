//! `flyball tell`: what works beside or inside a coding agent reports what its hook does not see, into the same session.
//!
//! The event takes the way of every other: decided under the session's own policy, stored, answered. What it trips stops
//! the agent at its next call. A person's word is not told: there are commands for it that know who speaks.

mod fields;
mod whose;

use super::word::Word;
use crate::args::{PolicyArgs, StoreArgs, Tell, Who};
use crate::fail::{Exit, Failure};
use crate::story::Tally;
use crate::words::line;
use crate::{clock, person, store};
use flyball::{Decision, Event, Kind, Verdict};
use flyball_journal::{Address, Claims};
use serde_json::{Value, json};

/// The field by which a told event is known from one of the hook.
pub(crate) const MARK: &str = "told";

/// Runs the command.
pub(crate) fn run(args: &Tell) -> Result<Exit, Failure> {
    let mut event = fields::event(&args.kind, &args.fields)?;
    let address = store::of_agent(args.store.store.as_deref(), &std::env::current_dir()?)?;
    let desk = store::existing(&address)?;
    let named = args.session.clone().or_else(|| event.remove("session")?.as_str().map(str::to_owned));
    let session = whose::session(desk.as_ref(), named)?;
    event.insert("session".to_owned(), json!(session));
    event.insert(MARK.to_owned(), json!(true));

    let recorder = store::under(desk, &PolicyArgs::default(), &session)?;
    let who = Who { store: shown(args, &address), policy: PolicyArgs::default(), json: args.json };
    let mut word = Word::over(recorder, &who, &session, None)?;
    let event = word.read(&Value::Object(event))?;
    may_be_told(&event.event, word.plan.is_some())?;
    let event = if person::is_below_an_agent() {
        let settled = event.settled(&Claims::of_agent().with_time(), clock::now());
        settled.map_err(|error| Failure::at("", &error))?
    } else {
        event
    };
    let kind = event.event.kind.name();
    let decision = word.record(event)?;

    word.walks_on = decision.decision < Verdict::Block && !flyball::waits(decision.state);
    word.tell(&decision, &means(kind, &decision))?;
    let mut tally = Tally::default();
    tally.glance(&decision);
    Ok(tally.exit())
}

/// A person's word has commands of its own, and where a session begins and ends is for its hook to say.
fn may_be_told(event: &Event, waits: bool) -> Result<(), Failure> {
    let instead = match event.kind {
        Kind::HumanReleased { .. } => "a person releases with `flyball release SESSION --why TEXT`",
        Kind::HumanStopped { .. } => "a person stops with `flyball stop SESSION --why TEXT`",
        Kind::ConfirmationAnswered { .. } => "a person answers with `flyball approve`, `deny` or `send`",
        Kind::PolicyChanged { .. } => {
            "a person accepts a policy with `flyball policy accept SESSION --why TEXT`"
        }
        Kind::UserMessage { .. } | Kind::PersonMessage { .. } => {
            "a person speaks with `flyball send SESSION TEXT`"
        }
        Kind::SessionStarted { .. } | Kind::SessionEnded { .. } => {
            "the hook tells it; for a session without one: `flyball observe --store`"
        }
        // A question that waits for a person is not an agent's to replace.
        Kind::ConfirmationRequested { .. } if waits => return person::speaks(&event.session),
        _ if event.extra.contains_key(flyball::APPROVED_BY) => {
            "a person approves with `flyball approve SESSION`"
        }
        _ if event.extra.contains_key("idle") => "leave the field `idle` out: time counts as it passes",
        _ if event.extra.contains_key("suspended_ms") => {
            "leave the field `suspended_ms` out: Flyball stamps it"
        }
        _ => return Ok(()),
    };
    let what = format!("`{}` is not taken from `flyball tell` like this", event.kind.name());
    Err(Failure::new("tell_refused", "", what, instead))
}

/// What was told and what came of it, and the words for the model.
fn means(kind: &str, decision: &Decision) -> Vec<String> {
    let first = match decision.decision {
        Verdict::Allow | Verdict::Warn => {
            format!("Told: {kind}, event {} of {}.", decision.seq, line(&decision.session, 200))
        }
        Verdict::Block => format!("Refused: {kind}. Do not go on with it."),
        Verdict::Halt => format!("Halted at {kind}: the session stands still until a person releases it."),
    };
    let words = decision.feedback.as_deref().map(|words| line(words, 600));
    let blocked = decision.effects.iter().find(|effect| effect.effect == "completion.blocked");
    let blocked = blocked.and_then(|effect| effect.fields.get("text")?.as_str());
    let output = decision.output.as_ref().map(|output| output.text.as_str());
    let texts = [blocked, output].into_iter().flatten().map(|text| flyball::visible(text).into_owned());
    std::iter::once(first).chain(words).chain(texts).collect()
}

/// How a command names the store: as it was named here; one in the user's state folder must be named.
fn shown(args: &Tell, address: &Address) -> StoreArgs {
    let named = args.store.store.clone();
    let store = named.or_else(|| match address {
        Address::Project(path) if !path.parent().is_some_and(|folder| folder.ends_with(".flyball")) => {
            Some(format!("sqlite:{}", path.display()))
        }
        _ => None,
    });
    StoreArgs { store }
}
