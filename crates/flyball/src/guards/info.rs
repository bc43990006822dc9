//! The declaration of a guard: for the policy reader, the schema, the manual and people.

use crate::policy::GuardSetting;
use crate::policy::settings::ScopeKeys;
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The declaration of a guard.
#[derive(Debug)]
pub struct GuardInfo {
    /// The first version of the decision rules that has it. Sessions under older rules never evaluate it.
    pub since: RulesVersion,
    /// Its subject, in one sentence for the schema of policy files.
    pub summary: &'static str,
    /// The behavior that it detects, for the table of guards.
    pub detects: &'static str,
    /// Its reaction in mode `staged`, for the table of guards.
    pub reaction: &'static str,
    /// The reasons of its trips.
    pub reasons: &'static [Reason],
    /// Where a policy may override its settings, besides `guards`: for each [`ScopeKind`].
    scopes: [Option<Scope>; 3],
    /// Parts that may be written as `off`, with the keys that this sets to off.
    pub(crate) parts: &'static [(&'static str, &'static [&'static str])],
}

impl GuardInfo {
    /// A guard that applies to the whole session.
    pub(super) const fn new(since: RulesVersion, summary: &'static str) -> Self {
        let scopes = [None, None, None];
        GuardInfo { since, summary, detects: "", reaction: "", reasons: &[], scopes, parts: &[] }
    }

    /// Its texts in the table of guards: what it detects, and its reaction in mode `staged`.
    pub(super) const fn table(mut self, detects: &'static str, reaction: &'static str) -> Self {
        self.detects = detects;
        self.reaction = reaction;
        self
    }

    /// The reasons of its trips.
    pub(super) const fn reasons(mut self, reasons: &'static [Reason]) -> Self {
        self.reasons = reasons;
        self
    }

    /// One scope may override the settings, or the part of them, given by `T`.
    pub(super) const fn scope<T: ScopeKeys + JsonSchema>(
        mut self,
        kind: ScopeKind,
        summary: &'static str,
    ) -> Self {
        self.scopes[kind as usize] = Some(Scope { summary, keys: T::KEYS, schema: setting_schema::<T> });
        self
    }

    /// Each of these scopes may override all settings.
    pub(super) const fn scopes<T: ScopeKeys + JsonSchema>(mut self, kinds: &[ScopeKind]) -> Self {
        let (mut at, summary) = (0, self.summary);
        while at < kinds.len() {
            self = self.scope::<T>(kinds[at], summary);
            at += 1;
        }
        self
    }

    /// Parts that may be written as `off`, with the keys that this sets to off.
    pub(super) const fn parts(mut self, parts: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.parts = parts;
        self
    }

    /// The settings that an entry under `nodes`, `edges` or `tools` may override.
    pub(super) fn scope_of(&self, kind: ScopeKind) -> Option<&Scope> {
        self.scopes[kind as usize].as_ref()
    }
}

/// The target of an override.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScopeKind {
    /// An entry of `nodes`.
    Node,
    /// An entry of `edges`.
    Edge,
    /// An entry of `tools`.
    Tool,
}

/// The settings of a guard that one scope may override.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// The subject of the guard there.
    pub(super) summary: &'static str,
    /// The keys that may be set; `None` = all.
    pub(super) keys: Option<&'static [&'static str]>,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The schema of a guard's settings: the keys, or only a mode.
pub(crate) fn setting_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<GuardSetting<T>>>()
}
