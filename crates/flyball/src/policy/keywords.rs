//! Policy keywords, and how strict each value is. The keywords of a guard are next to its settings.

use super::guard_mode::GuardMode;
use super::presets::Preset;
use super::settings::keywords;
use super::{OnErrorAction, OnStallAction, ToolEffect};

// `staged` is at least as strict as `block`, because the escalation may end in a halt.
keywords! { GuardMode {
    "off" = Off(0), "observe" = Observe(1), "warn" = Warn(2), "block" = Block(3), "halt" = Halt(5), "staged" = Staged(4),
} }

keywords! { Preset {
    "workflow" = Workflow, "agent" = Agent, "simple" = Simple, "complex" = Complex, "strict" = Strict,
    "observe" = Observe, "off" = Off,
} }

keywords! { ToolEffect { "read" = Read, "write" = Write, "poll" = Poll, "destructive" = Destructive } }

keywords! { OnStallAction {
    "pause" = Pause, "switch_to_interactive" = SwitchToInteractive, "spawn_reviewer" = SpawnReviewer,
    "retry_with_new_provider" = RetryWithNewProvider,
} }

keywords! { OnErrorAction { "allow" = Allow(0), "reads" = Reads(1), "block" = Block(2) } }
