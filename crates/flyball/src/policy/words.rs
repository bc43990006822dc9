//! The words of a policy that stand for values, and how strict each value is.

use super::guards::{Backoff, GateOrder, Language, Mode, NewRequest, Unverified};
use super::presets::Preset;
use super::values::Word;
use super::{Effect, OnError, OnStall};

impl Word for Mode {
    const WORDS: &'static [(&'static str, Mode)] = &[
        ("off", Mode::Off),
        ("observe", Mode::Observe),
        ("warn", Mode::Warn),
        ("block", Mode::Block),
        ("halt", Mode::Halt),
        ("staged", Mode::Staged),
    ];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            Mode::Off => 0,
            Mode::Observe => 1,
            Mode::Warn => 2,
            Mode::Block => 3,
            // As `block`, and a guard's own ladder may end in a halt.
            Mode::Staged => 4,
            Mode::Halt => 5,
        })
    }
}

impl Word for Preset {
    const WORDS: &'static [(&'static str, Preset)] = &[
        ("workflow", Preset::Workflow),
        ("agent", Preset::Agent),
        ("simple", Preset::Simple),
        ("complex", Preset::Complex),
        ("strict", Preset::Strict),
        ("observe", Preset::Observe),
        ("off", Preset::Off),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for Backoff {
    const WORDS: &'static [(&'static str, Backoff)] =
        &[("exponential", Backoff::Exponential), ("linear", Backoff::Linear), ("fixed", Backoff::Fixed)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for Unverified {
    const WORDS: &'static [(&'static str, Unverified)] =
        &[("warn", Unverified::Warn), ("block", Unverified::Block), ("allow", Unverified::Allow)];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            Unverified::Allow => 0,
            Unverified::Warn => 1,
            Unverified::Block => 2,
        })
    }
}

impl Word for GateOrder {
    const WORDS: &'static [(&'static str, GateOrder)] =
        &[("root_cause", GateOrder::RootCause), ("seed", GateOrder::Seed)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for NewRequest {
    const WORDS: &'static [(&'static str, NewRequest)] =
        &[("drop", NewRequest::Drop), ("keep", NewRequest::Keep)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for Language {
    const WORDS: &'static [(&'static str, Language)] =
        &[("auto", Language::Auto), ("en", Language::En), ("ru", Language::Ru), ("es", Language::Es)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for Effect {
    const WORDS: &'static [(&'static str, Effect)] = &[
        ("read", Effect::Read),
        ("write", Effect::Write),
        ("poll", Effect::Poll),
        ("destructive", Effect::Destructive),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for OnStall {
    const WORDS: &'static [(&'static str, OnStall)] = &[
        ("pause", OnStall::Pause),
        ("switch_to_interactive", OnStall::SwitchToInteractive),
        ("spawn_reviewer", OnStall::SpawnReviewer),
        ("retry_with_new_provider", OnStall::RetryWithNewProvider),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Word for OnError {
    const WORDS: &'static [(&'static str, OnError)] =
        &[("allow", OnError::Allow), ("reads", OnError::Reads), ("block", OnError::Block)];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            OnError::Allow => 0,
            OnError::Reads => 1,
            OnError::Block => 2,
        })
    }
}
