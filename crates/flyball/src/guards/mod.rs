//! The guards: each watches events, keeps a small bounded state, and may trip. One guard, one file.
//!
//! An act that has not happened yet (a call, a transition, a turn) is put to every guard with `ask`; nobody counts
//! it until all have let it pass. A fact is told to every guard with `tell`, which may trip as well. An act that was
//! refused comes back through `refused`, so that a guard can count its own vetoes, and nothing else.

mod approval;
mod budget;
mod budget_line;
mod confirmation;
mod cycle;
mod denial;
mod drift;
mod error_streak;
mod gate;
mod monologue;
mod oscillation;
mod question;
mod recurrence;
mod repetition;
mod retry;
mod rules;
mod stall;
mod transitions;
mod trip;
mod validation;
mod visits;
mod workflow;

pub use approval::APPROVED_BY;
pub(crate) use budget::Position;
pub use budget::{Ancestor, Family};
pub use budget_line::granted_amount;
pub(crate) use budget_line::{Tripped, share};
pub(crate) use confirmation::nothing_pending;
pub(crate) use retry::{BREAKER, OPENED};
pub(crate) use trip::{Draft, Trips};
pub(crate) use workflow::{destinations, listed};

use crate::event::Event;
use crate::flow::Flow;
use crate::ledger::Facts;
use crate::observation::Observation;
use crate::policy::{Counters, Guards, Policy};
use crate::rules_version::RulesVersion;
use crate::state::{Sections, read_layout};
use serde::de::DeserializeOwned;

/// What a guard may look at.
pub(crate) struct Cx<'a> {
    pub(crate) policy: &'a Policy,
    /// The guards' limits for the tool, node or edge that the event is about.
    pub(crate) limits: &'a Guards,
    pub(crate) event: &'a Event,
    pub(crate) facts: &'a Facts,
    /// Fingerprints of what the event reports.
    pub(crate) seen: &'a Observation,
    pub(crate) flow: &'a Flow,
    pub(crate) family: &'a Family,
    /// The number of the event in its session, from 1.
    pub(crate) seq: u64,
    /// The session's time: never runs backwards.
    pub(crate) now: u64,
    /// Any event so far had a time; without one nothing expires.
    pub(crate) timed: bool,
    /// How long the session has been at work, waiting for people left out.
    pub(crate) active_ms: u64,
    /// How long ago the session began.
    pub(crate) wall_ms: u64,
    /// The version of the decision rules that the session is under.
    pub(crate) rules: RulesVersion,
    /// What custom rules may look at; worked out only if there are rules.
    pub(crate) counters: Option<&'a Counters>,
}

/// The longest name that feedback repeats.
const LABEL_BYTES: usize = 64;
/// The longest title of a check that feedback repeats, in words and bytes: `docs updated`.
const TITLE_WORDS: usize = 3;
const TITLE_BYTES: usize = 32;
/// Stands for a name that feedback does not repeat.
const WITHHELD: &str = "(name withheld)";

impl Cx<'_> {
    /// The way through the nodes as reports show it.
    pub(crate) fn trail(&self) -> Vec<String> {
        self.flow.trail(self.limits.shown_history(self.rules))
    }

    /// A name as messages and feedback may show it. An agent chooses the names of its tools and nodes, and feedback is
    /// read by a model: a name that is not an identifier could be an instruction. Version 1 of the rules repeats any.
    pub(crate) fn label<'n>(&self, name: &'n str) -> &'n str {
        if self.rules == RulesVersion::V1 || is_identifier(name) { name } else { WITHHELD }
    }

    /// The same for the title of a check, which may have a few words.
    pub(crate) fn title<'n>(&self, name: &'n str) -> &'n str {
        let short = name.len() <= TITLE_BYTES && name.split(' ').count() <= TITLE_WORDS;
        if short && name.split(' ').all(is_identifier) { name } else { self.label(name) }
    }
}

fn is_identifier(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    !name.is_empty() && name.len() <= LABEL_BYTES && name.bytes().all(plain)
}

/// One guard: its state is the implementing type.
pub(crate) trait Guard {
    /// Before an act: may it go on? Looks and changes nothing.
    fn ask(&self, _cx: &Cx<'_>, _trips: &mut Trips) {}
    /// After an act was accepted, or when a fact arrived: count, and perhaps trip.
    fn tell(&mut self, _cx: &Cx<'_>, _trips: &mut Trips) {}
    /// After an act was refused; `mine` if this guard was among those who refused.
    fn refused(&mut self, _cx: &Cx<'_>, _mine: bool) {}
    /// A person spoke: what repeats from here on repeats at their wish.
    fn fresh(&mut self) {}
    /// A person set the counters back to zero.
    fn reset(&mut self) {}

    /// The layout in which this guard's state is stored. Raise it when a field is added, removed or changed, and
    /// teach [`Guard::read`] the layouts before it.
    const LAYOUT: u16 = 1;

    /// Reads a stored state; returns it with the bytes that follow.
    ///
    /// # Errors
    /// If the layout is not known or the bytes do not fit it.
    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])>
    where
        Self: Sized + DeserializeOwned,
    {
        read_layout(layout, Self::LAYOUT, bytes)
    }
}

/// Names, fields and types of all guards in the order in which they are asked.
macro_rules! all_guards {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// The state of every guard.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct Watch {
            $(pub(crate) $name: $type,)*
        }

        impl Watch {
            /// The names of the guards, as policies and trips write them.
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Puts an act to every guard.
            pub(crate) fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
                $(self.$name.ask(cx, trips);)*
            }

            /// Tells every guard what happened.
            pub(crate) fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
                $(self.$name.tell(cx, trips);)*
            }

            /// Tells every guard that an act was refused.
            pub(crate) fn refused(&mut self, cx: &Cx<'_>, trips: &Trips) {
                $(self.$name.refused(cx, trips.refuses(stringify!($name)));)*
            }

            /// A person spoke.
            pub(crate) fn fresh(&mut self) {
                $(self.$name.fresh();)*
            }

            /// Sets one guard's counters back to zero, or all if no name is given.
            pub(crate) fn reset(&mut self, guard: Option<&str>) {
                $(if guard.is_none_or(|name| name == stringify!($name)) { self.$name.reset(); })*
            }

            /// Writes every guard's state as a section of its own.
            pub(crate) fn write(&self, sections: &mut Sections) -> postcard::Result<()> {
                $(sections.write(stringify!($name), <$type as Guard>::LAYOUT, &self.$name)?;)*
                Ok(())
            }

            /// Reads one guard's state and returns the bytes that follow it; `None` if there is no such guard.
            pub(crate) fn read<'b>(
                &mut self,
                guard: &str,
                layout: u16,
                bytes: &'b [u8],
            ) -> Option<postcard::Result<&'b [u8]>> {
                $(if guard == stringify!($name) {
                    let read = <$type as Guard>::read(layout, bytes);
                    return Some(read.map(|(state, rest)| {
                        self.$name = state;
                        rest
                    }));
                })*
                None
            }
        }
    };
}

all_guards! {
    budget: budget::Budget,
    workflow: workflow::DeclaredWorkflow,
    visits: visits::Visits,
    transitions: transitions::Transitions,
    cycle: cycle::Cycle,
    repetition: repetition::Repetition,
    recurrence: recurrence::Recurrence,
    stall: stall::Stall,
    oscillation: oscillation::Oscillation,
    error_streak: error_streak::ErrorStreak,
    validation: validation::Validation,
    retry: retry::Retry,
    gate: gate::Gate,
    confirmation: confirmation::Confirmation,
    question: question::Question,
    denial: denial::Denial,
    monologue: monologue::Monologue,
    rule: rules::Rules,
}

/// The names of all guards, in the order in which they are asked.
pub const GUARDS: &[&str] = Watch::NAMES;

/// Which step of its own ladder a guard is on: after enough vetoes the next one is a halt.
pub(crate) fn ladder(vetoes: u32, most: Option<u64>) -> crate::decision::Severity {
    match most {
        Some(most) if u64::from(vetoes) + 1 >= most => crate::decision::Severity::Halt,
        _ => crate::decision::Severity::Block,
    }
}

#[cfg(test)]
#[path = "guards_tests.rs"]
mod tests;
