//! Policy keywords, and how strict each value is.

use super::guard_policies::{
    BackoffStrategy, GateOrder, GuardMode, LanguageSetting, NewRequestAction, UnverifiedAction,
};
use super::presets::Preset;
use super::values::Keyword;
use super::{OnErrorAction, OnStallAction, ToolEffect};

impl Keyword for GuardMode {
    const KEYWORDS: &'static [(&'static str, GuardMode)] = &[
        ("off", GuardMode::Off),
        ("observe", GuardMode::Observe),
        ("warn", GuardMode::Warn),
        ("block", GuardMode::Block),
        ("halt", GuardMode::Halt),
        ("staged", GuardMode::Staged),
    ];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            GuardMode::Off => 0,
            GuardMode::Observe => 1,
            GuardMode::Warn => 2,
            GuardMode::Block => 3,
            // At least as strict as `block`, because the escalation may end in a halt.
            GuardMode::Staged => 4,
            GuardMode::Halt => 5,
        })
    }
}

impl Keyword for Preset {
    const KEYWORDS: &'static [(&'static str, Preset)] = &[
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

impl Keyword for BackoffStrategy {
    const KEYWORDS: &'static [(&'static str, BackoffStrategy)] = &[
        ("exponential", BackoffStrategy::Exponential),
        ("linear", BackoffStrategy::Linear),
        ("fixed", BackoffStrategy::Fixed),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for UnverifiedAction {
    const KEYWORDS: &'static [(&'static str, UnverifiedAction)] = &[
        ("warn", UnverifiedAction::Warn),
        ("block", UnverifiedAction::Block),
        ("allow", UnverifiedAction::Allow),
    ];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            UnverifiedAction::Allow => 0,
            UnverifiedAction::Warn => 1,
            UnverifiedAction::Block => 2,
        })
    }
}

impl Keyword for GateOrder {
    const KEYWORDS: &'static [(&'static str, GateOrder)] =
        &[("root_cause", GateOrder::RootCause), ("seed", GateOrder::TestsFirst)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for NewRequestAction {
    const KEYWORDS: &'static [(&'static str, NewRequestAction)] =
        &[("drop", NewRequestAction::Drop), ("keep", NewRequestAction::Keep)];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for LanguageSetting {
    const KEYWORDS: &'static [(&'static str, LanguageSetting)] = &[
        ("auto", LanguageSetting::Auto),
        ("en", LanguageSetting::En),
        ("ru", LanguageSetting::Ru),
        ("es", LanguageSetting::Es),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for ToolEffect {
    const KEYWORDS: &'static [(&'static str, ToolEffect)] = &[
        ("read", ToolEffect::Read),
        ("write", ToolEffect::Write),
        ("poll", ToolEffect::Poll),
        ("destructive", ToolEffect::Destructive),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for OnStallAction {
    const KEYWORDS: &'static [(&'static str, OnStallAction)] = &[
        ("pause", OnStallAction::Pause),
        ("switch_to_interactive", OnStallAction::SwitchToInteractive),
        ("spawn_reviewer", OnStallAction::SpawnReviewer),
        ("retry_with_new_provider", OnStallAction::RetryWithNewProvider),
    ];

    fn strictness(self) -> Option<u8> {
        None
    }
}

impl Keyword for OnErrorAction {
    const KEYWORDS: &'static [(&'static str, OnErrorAction)] =
        &[("allow", OnErrorAction::Allow), ("reads", OnErrorAction::Reads), ("block", OnErrorAction::Block)];

    fn strictness(self) -> Option<u8> {
        Some(match self {
            OnErrorAction::Allow => 0,
            OnErrorAction::Reads => 1,
            OnErrorAction::Block => 2,
        })
    }
}
