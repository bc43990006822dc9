//! One operator event on a stored session: recorded and decided like any other, then printed with the next command.
//! Sent by a person ([`super::operator_commands`]) or by a program beside an agent ([`super::tell`]).

use crate::args::CommonArgs;
use crate::clock;
use crate::color::{TextStyle, style_stdout};
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use crate::formatting::{single_line, typed};
use crate::plan_printer::{PlanView, next_commands, print_next, print_steps};
use crate::store;
use flyball::policy::Policy;
use flyball::{Decision, Effect, SessionState, Verdict};
use flyball_store::{Recorder, RedactingParser, Submission};
use serde_json::{Value, json};
use std::io::Write;

/// A session and the operator acting on it.
pub(super) struct OperatorEvent<'a> {
    pub(super) session: &'a str,
    common: &'a CommonArgs,
    recorder: Recorder,
    pub(super) by: String,
    pub(super) state: SessionState,
    pub(super) policy: Policy,
    pub(super) plan: Option<PlanView>,
    /// The run continues right afterwards, so no next command is printed.
    pub(super) continues_run: bool,
}

impl<'a> OperatorEvent<'a> {
    /// Opens an existing session for an operator.
    pub(super) fn open(common: &'a CommonArgs, session: &'a str, by: Option<&str>) -> Result<Self, CliError> {
        OperatorEvent::with_recorder(store::recorder(common, session)?, common, session, by)
    }

    /// Opens a session of a store that is already open.
    pub(super) fn with_recorder(
        recorder: Recorder,
        common: &'a CommonArgs,
        session: &'a str,
        by: Option<&str>,
    ) -> Result<Self, CliError> {
        let (state, policy) = store::load_session(&recorder, session)?;
        let plan = PlanView::load(recorder.store().as_ref(), session, &state)?;
        Ok(OperatorEvent {
            session,
            common,
            recorder,
            by: operator_name(by),
            state,
            policy,
            plan,
            continues_run: false,
        })
    }

    /// Records an event with the operator's name.
    pub(super) fn submit(&mut self, mut event: Value) -> Result<Decision, CliError> {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("session".to_owned(), json!(self.session));
            fields.insert("by".to_owned(), json!(self.by));
            fields.retain(|_, value| !value.is_null());
        }
        let event = self.parse(&event)?;
        self.record(event)
    }

    /// Parses an event: redacts secrets and stamps the time.
    pub(super) fn parse(&self, event: &Value) -> Result<Submission, CliError> {
        let wrong = |error: flyball::Error| CliError::from_core("", &error);
        let parser = RedactingParser::new(&self.recorder.policy().journal).map_err(wrong)?;
        parser.read(&event.to_string(), clock::now()).map_err(wrong)
    }

    /// Records an event and reloads the session.
    pub(super) fn record(&mut self, event: Submission) -> Result<Decision, CliError> {
        let decision = self.recorder.submit(event)?;
        DeliveryThread::start(&self.recorder).finish();
        (self.state, self.policy) = store::load_session(&self.recorder, self.session)?;
        Ok(decision)
    }

    /// Queues the run for a server worker if a server started it. Returns whether a worker will continue it.
    pub(super) fn enqueue_resume(&self) -> Result<bool, CliError> {
        Ok(flyball_server::enqueue_resume(self.recorder.store(), self.session, &self.by)?)
    }

    /// Prints the decision and its meaning, and returns the exit code.
    pub(super) fn print_decision(&self, decision: &Decision, means: &[String]) -> Result<Exit, CliError> {
        let mut out = crate::terminal::stdout();
        if self.common.json {
            writeln!(out, "{}", decision.to_json())?;
        } else {
            for text in means {
                writeln!(out, "{text}")?;
            }
            for said in person_messages(decision) {
                writeln!(out, "  “{}”", single_line(said, 600))?;
            }
            for trip in &decision.trips {
                let guard = style_stdout(TextStyle::Dim, &format!("({} / {})", trip.guard, trip.reason));
                writeln!(out, "  {} {guard}", single_line(&trip.message, 400))?;
            }
            if has_effect(decision, "plan.approved")
                && let Some(plan) = &self.plan
            {
                print_steps(&mut out, &plan.steps)?;
            }
            self.print_next_commands(&mut out)?;
        }
        Ok(match decision.decision {
            Verdict::Block | Verdict::Halt => Exit::Stopped,
            _ if flyball::waits_for_person(decision.state) || self.state.is_held() => Exit::Waiting,
            _ => Exit::Success,
        })
    }

    /// Like [`OperatorEvent::open`], for an event after which a run continues.
    pub(super) fn open_for_run(
        common: &'a CommonArgs,
        session: &'a str,
        by: Option<&str>,
    ) -> Result<Self, CliError> {
        let operator_event = OperatorEvent::open(common, session, by)?;
        let walks_on =
            flyball_view::run_status::workflow_file_of(operator_event.recorder.store().as_ref(), session)?
                .is_some();
        Ok(OperatorEvent { continues_run: walks_on, ..operator_event })
    }

    fn print_next_commands(&self, out: &mut impl Write) -> Result<(), CliError> {
        if self.continues_run {
            // The continued run prints its own output.
            return Ok(());
        }
        let store = self.recorder.store().as_ref();
        let plan = PlanView::load(store, self.session, &self.state)?;
        let mut commands = next_commands(store, self.session, &self.state, plan.as_ref())?;
        if self
            .plan
            .as_ref()
            .zip(plan)
            .is_some_and(|(_, plan)| plan.requester.is_some_and(|common| common != self.by))
        {
            // Never suggest answering in another person's name.
            commands = vec![format!("flyball status {}", typed(self.session))];
        }
        print_next(out, &commands, &self.common.store)?;
        Ok(())
    }

    /// Reports that there was nothing to do; nothing is recorded.
    pub(super) fn print_no_change(&self, what: &str) -> Result<Exit, CliError> {
        let mut out = crate::terminal::stdout();
        if self.common.json {
            let state = self.state.status();
            writeln!(
                out,
                "{}",
                json!({"session": self.session, "decision": null, "state": state, "note": what})
            )?;
        } else {
            writeln!(out, "{what}")?;
            self.print_next_commands(&mut out)?;
        }
        Ok(Exit::Success)
    }

    /// If the session is a run, continues it.
    pub(super) fn continue_run(self, exit: Exit) -> Result<Exit, CliError> {
        let OperatorEvent { session, common, recorder, .. } = self;
        drop(recorder);
        Ok(super::run::continue_run(session, &common.store, &common.policy, common.json)?.unwrap_or(exit))
    }

    /// The explanation if a session did not accept an answer because it is halted.
    pub(super) fn halted_text(&self, decision: &Decision) -> Option<Vec<String>> {
        let halted = decision.decision == Verdict::Halt;
        let stop = self.state.operator_stops().next().map(|stop| stop.message.into_owned());
        halted.then(|| match stop {
            Some(stop) => {
                vec![format!("The session is {}; the answer was not accepted.", single_line(&stop, 300))]
            }
            None => {
                vec!["The session is halted, so the answer was not accepted. Release it first.".to_owned()]
            }
        })
    }
}

/// Whether a decision has an effect.
pub(super) fn has_effect(decision: &Decision, effect: &str) -> bool {
    decision.effects.iter().any(|found| found.effect == effect)
}

/// Messages for the person in a decision.
fn person_messages(decision: &Decision) -> impl Iterator<Item = &str> {
    let says = |effect: &&Effect| effect.effect == "say";
    decision.effects.iter().filter(says).filter_map(|effect| effect.fields.get("text")?.as_str())
}

/// The operator's name: as given, else from the environment.
fn operator_name(by: Option<&str>) -> String {
    let known = || {
        let names = ["FLYBALL_USER", "USER", "LOGNAME"];
        names.iter().find_map(|name| std::env::var(name).ok().filter(|common| !common.trim().is_empty()))
    };
    by.map(str::to_owned).or_else(known).unwrap_or_else(|| "unknown".to_owned())
}
