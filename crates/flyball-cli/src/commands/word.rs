//! One word to a session of the store: it becomes an event, is decided and recorded as any other, and is told back with
//! the command that comes next. A person says it ([`super::answer`]), or whatever works beside an agent ([`super::tell`]).

use crate::args::Who;
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::store;
use crate::telling::{Plan, next, print_next, print_steps};
use crate::words::{line, typed};
use flyball::policy::Policy;
use flyball::{Decision, Effect, State, Verdict};
use flyball_journal::{Door, Incoming, Recorder};
use serde_json::{Value, json};
use std::io::Write;

/// What is about to be said, and to whom.
pub(super) struct Word<'a> {
    pub(super) session: &'a str,
    who: &'a Who,
    recorder: Recorder,
    pub(super) by: String,
    pub(super) state: State,
    pub(super) policy: Policy,
    pub(super) plan: Option<Plan>,
    /// It goes on by itself, so nobody is told what to type next.
    pub(super) walks_on: bool,
}

impl<'a> Word<'a> {
    /// A word of a person to a session that must be there.
    pub(super) fn open(who: &'a Who, session: &'a str, by: Option<&str>) -> Result<Self, Failure> {
        Word::over(store::recorder(who, session)?, who, session, by)
    }

    /// A word to a session of a store that is open already.
    pub(super) fn over(
        recorder: Recorder,
        who: &'a Who,
        session: &'a str,
        by: Option<&str>,
    ) -> Result<Self, Failure> {
        let (state, policy) = store::session(&recorder, session)?;
        let plan = Plan::of(recorder.journal().as_ref(), session, &state)?;
        Ok(Word { session, who, recorder, by: speaker(by), state, policy, plan, walks_on: false })
    }

    /// Records what a person says, with their name.
    pub(super) fn submit(&mut self, mut event: Value) -> Result<Decision, Failure> {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("session".to_owned(), json!(self.session));
            fields.insert("by".to_owned(), json!(self.by));
            fields.retain(|_, value| !value.is_null());
        }
        let event = self.read(&event)?;
        self.record(event)
    }

    /// An event as the door lets it in: without secrets, and with a time.
    pub(super) fn read(&self, event: &Value) -> Result<Incoming, Failure> {
        let wrong = |error: flyball::Error| Failure::at("", &error);
        let door = Door::new(&self.recorder.policy().journal).map_err(wrong)?;
        door.read(&event.to_string(), clock::now()).map_err(wrong)
    }

    /// Records an event, and takes the session as it is afterwards.
    pub(super) fn record(&mut self, event: Incoming) -> Result<Decision, Failure> {
        let decision = self.recorder.submit(event)?;
        Deliveries::start(&self.recorder).finish();
        (self.state, self.policy) = store::session(&self.recorder, self.session)?;
        Ok(decision)
    }

    /// Lets a worker of a server continue the run, if a server has started it. Says whether one will.
    pub(super) fn order_resume(&self) -> Result<bool, Failure> {
        Ok(flyball_serve::order_resume(self.recorder.journal(), self.session, &self.by)?)
    }

    /// Prints the decision and what it means, and gives the exit code.
    pub(super) fn tell(&self, decision: &Decision, means: &[String]) -> Result<Exit, Failure> {
        let mut out = crate::terminal::stdout();
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
            _ if flyball::waits(decision.state) || self.state.is_held() => Exit::Waits,
            _ => Exit::Done,
        })
    }

    /// As [`Word::open`], for a word that a run goes on with.
    pub(super) fn to_a_run(who: &'a Who, session: &'a str, by: Option<&str>) -> Result<Self, Failure> {
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
    pub(super) fn nothing(&self, what: &str) -> Result<Exit, Failure> {
        let mut out = crate::terminal::stdout();
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
    pub(super) fn walk_on(self, exit: Exit) -> Result<Exit, Failure> {
        let Word { session, who, recorder, .. } = self;
        drop(recorder);
        Ok(super::run::go_on(session, &who.store, &who.policy, who.json)?.unwrap_or(exit))
    }

    /// The explanation if a session did not accept an answer because it is halted.
    pub(super) fn halted(&self, decision: &Decision) -> Option<Vec<String>> {
        let halted = decision.decision == Verdict::Halt;
        let stop = self.state.operator_stops().next().map(|stop| stop.message.into_owned());
        halted.then(|| match stop {
            Some(stop) => vec![format!("The session is {}; the answer was not accepted.", line(&stop, 300))],
            None => {
                vec!["The session is halted, so the answer was not accepted. Release it first.".to_owned()]
            }
        })
    }
}

/// Whether a decision has an effect.
pub(super) fn has(decision: &Decision, effect: &str) -> bool {
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
