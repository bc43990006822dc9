//! A person's word: `release`, `approve`, `deny`, `stop`, `send`, `unlabel`.
//!
//! Each becomes an event, is decided and recorded as any other, and is told back in plain words with the next command.

use crate::args::{Release, Reply, Send, Stop, Who};
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::person;
use crate::store;
use crate::telling::{Plan, next, print_next, print_steps};
use crate::words::{line, plural, typed};
use flyball::policy::Policy;
use flyball::{Decision, Effect, State, Status, Verdict};
use flyball_journal::{Door, Recorder};
use serde_json::{Value, json};
use std::io::Write;

/// What is about to be said, and to whom.
struct Word<'a> {
    session: &'a str,
    who: &'a Who,
    recorder: Recorder,
    by: String,
    state: State,
    policy: Policy,
    plan: Option<Plan>,
    /// It is a run, and goes on with what is said at once.
    walks_on: bool,
}

impl<'a> Word<'a> {
    fn open(who: &'a Who, session: &'a str, by: Option<&str>) -> Result<Self, Failure> {
        let recorder = store::recorder(who, session)?;
        let (state, policy) = store::session(&recorder, session)?;
        let plan = Plan::of(recorder.journal().as_ref(), session, &state)?;
        Ok(Word { session, who, recorder, by: speaker(by), state, policy, plan, walks_on: false })
    }

    /// Records an event, and takes the session as it is afterwards.
    fn submit(&mut self, mut event: Value) -> Result<Decision, Failure> {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("session".to_owned(), json!(self.session));
            fields.insert("by".to_owned(), json!(self.by));
            fields.retain(|_, value| !value.is_null());
        }
        let wrong = |error: flyball::Error| Failure::at("", &error);
        let door = Door::new(&self.recorder.policy().journal).map_err(wrong)?;
        let event = door.read(&event.to_string(), clock::now()).map_err(wrong)?;
        let decision = self.recorder.submit(event)?;
        Deliveries::start(&self.recorder).finish();
        (self.state, self.policy) = store::session(&self.recorder, self.session)?;
        Ok(decision)
    }

    /// Prints the decision and what it means, and gives the exit code.
    fn tell(&self, decision: &Decision, means: &[String]) -> Result<Exit, Failure> {
        let mut out = std::io::stdout().lock();
        if self.who.json {
            writeln!(out, "{}", decision.to_json())?;
        } else {
            for text in means {
                writeln!(out, "{text}")?;
            }
            for said in said(decision) {
                writeln!(out, "  “{}”", line(said, 600))?;
            }
            for trip in &decision.trips {
                let guard = paint_out(Style::Dim, &format!("({} / {})", trip.guard, trip.reason));
                writeln!(out, "  {} {guard}", line(&trip.message, 400))?;
            }
            if has(decision, "plan.approved")
                && let Some(plan) = &self.plan
            {
                print_steps(&mut out, &plan.steps)?;
            }
            self.go_on(&mut out)?;
        }
        Ok(match decision.decision {
            Verdict::Block | Verdict::Halt => Exit::Stopped,
            _ if flyball::waits(decision.state) => Exit::Waits,
            _ => Exit::Done,
        })
    }

    /// As [`Word::open`], for a word that a run goes on with.
    fn to_a_run(who: &'a Who, session: &'a str, by: Option<&str>) -> Result<Self, Failure> {
        let word = Word::open(who, session, by)?;
        let walks_on =
            flyball_view::whereabouts::file_of(word.recorder.journal().as_ref(), session)?.is_some();
        Ok(Word { walks_on, ..word })
    }

    fn go_on(&self, out: &mut impl Write) -> Result<(), Failure> {
        if self.walks_on {
            // How it goes on is seen next.
            return Ok(());
        }
        let desk = self.recorder.journal().as_ref();
        let plan = Plan::of(desk, self.session, &self.state)?;
        let mut commands = next(desk, self.session, &self.state, plan.as_ref())?;
        if self
            .plan
            .as_ref()
            .zip(plan)
            .is_some_and(|(_, plan)| plan.requester.is_some_and(|who| who != self.by))
        {
            // Nobody is told to speak in another one's name.
            commands = vec![format!("flyball status {}", typed(self.session))];
        }
        print_next(out, &commands, &self.who.store)?;
        Ok(())
    }

    /// Says that there is nothing to do; nothing is recorded.
    fn nothing(&self, what: &str) -> Result<Exit, Failure> {
        let mut out = std::io::stdout().lock();
        if self.who.json {
            let state = self.state.status();
            writeln!(
                out,
                "{}",
                json!({"session": self.session, "decision": null, "state": state, "note": what})
            )?;
        } else {
            writeln!(out, "{what}")?;
            self.go_on(&mut out)?;
        }
        Ok(Exit::Done)
    }

    /// If the session is a run, it goes on with what was said.
    fn walk_on(self, exit: Exit) -> Result<Exit, Failure> {
        let Word { session, who, recorder, .. } = self;
        drop(recorder);
        Ok(super::run::go_on(session, &who.store, &who.policy, who.json)?.unwrap_or(exit))
    }

    /// What to say when a halted session did not even listen.
    fn halted(&self, decision: &Decision) -> Option<Vec<String>> {
        let halted = decision.decision == Verdict::Halt;
        halted
            .then(|| vec!["The session is halted, so the answer was not taken. Release it first.".to_owned()])
    }
}

fn has(decision: &Decision, effect: &str) -> bool {
    decision.effects.iter().any(|found| found.effect == effect)
}

/// The words for the person that came with a decision.
fn said(decision: &Decision) -> impl Iterator<Item = &str> {
    let says = |effect: &&Effect| effect.effect == "say";
    decision.effects.iter().filter(says).filter_map(|effect| effect.fields.get("text")?.as_str())
}

/// Who speaks: as said, else as the environment knows them.
fn speaker(by: Option<&str>) -> String {
    let known = || {
        let names = ["FLYBALL_USER", "USER", "LOGNAME"];
        names.iter().find_map(|name| std::env::var(name).ok().filter(|who| !who.trim().is_empty()))
    };
    by.map(str::to_owned).or_else(known).unwrap_or_else(|| "unknown".to_owned())
}

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
        Some((other, message)) => format!("It still stands still: {other}: {}", line(message, 200)),
        None if stood => "The session may go on.".to_owned(),
        None => "It was not standing still; this counts when the guard trips next.".to_owned(),
    });
    word.tell(&decision, &means)
}
