//! Multiple sessions, each with its own state and policy; children also draw on their parents' budgets.

use crate::decision::Decision;
use crate::error::{Error, ErrorCode};
use crate::event::{Event, EventKind, Usage, canonical_json};
use crate::fingerprint::Fingerprint;
use crate::governor::step;
use crate::guards::{Ancestor, Ancestors};
use crate::lifecycle;
use crate::limits::TREE_DEPTH;
use crate::policy::{
    IgnoredValue, JournalPolicy, LayerTrust, Policy, PolicyErrors, PolicyLayer, Preset, ResolvedPolicy,
    ValueOrigin, compare_policies, merge_trees, remove_ineffective_keys, resolve_under,
};
use crate::rules_version::RulesVersion;
use crate::state::SessionState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Source of session policies: the shared layers, plus the inline policy of a session.
#[derive(Debug, Clone)]
pub struct PolicySource {
    layers: Vec<PolicyLayer>,
    preset: Preset,
    /// Rules version of sessions for which no layer sets one.
    rules_version: RulesVersion,
    base: Arc<Policy>,
    /// Values that were ignored because their layer may only tighten.
    ignored: Arc<[IgnoredValue]>,
    /// The remaining values of each of those layers. Only these are stored with a session, so ignored values can never
    /// apply.
    tightening: Arc<[Value]>,
    /// Names of newer policies already compared with this one, so that each is compared once.
    compared: Vec<String>,
}

/// Name of the layer that holds the stricter values of newer policies.
const POLICY_CHANGE_LAYER: &str = "policy change";
/// Maximum number of remembered policy names.
const MAX_COMPARED: usize = 8;

/// Result of comparing a policy with a newer one.
#[derive(Debug, Clone)]
pub struct PolicyChange {
    /// The effective policy: the old one plus the stricter values of the newer one.
    pub source: PolicySource,
    /// The values that became stricter, as a tree.
    pub tightened: Value,
    /// Paths of the values that the newer policy would loosen. A person must accept them.
    pub waiting: Vec<String>,
}

impl PolicySource {
    /// Resolves the layers once, for all sessions without an inline policy.
    ///
    /// # Errors
    /// If a layer is invalid.
    pub fn new(layers: Vec<PolicyLayer>, preset: Preset) -> Result<Self, PolicyErrors> {
        PolicySource::with_rules_version(layers, preset, RulesVersion::LATEST)
    }

    fn with_rules_version(
        layers: Vec<PolicyLayer>,
        preset: Preset,
        rules_version: RulesVersion,
    ) -> Result<Self, PolicyErrors> {
        let ResolvedPolicy { policy, ignored, tightening, .. } =
            resolve_under(&layers, preset, rules_version)?;
        let (base, ignored, tightening) = (Arc::new(policy), ignored.into(), tightening.into());
        Ok(PolicySource { layers, preset, rules_version, base, ignored, tightening, compared: Vec::new() })
    }

    /// An unmodified preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Self {
        PolicySource {
            layers: Vec::new(),
            preset,
            rules_version: RulesVersion::LATEST,
            base: Arc::new(Policy::preset(preset)),
            ignored: Arc::new([]),
            tightening: Arc::new([]),
            compared: Vec::new(),
        }
    }

    /// Values that were ignored because their layer may only tighten and they would loosen the policy.
    #[must_use]
    pub fn ignored(&self) -> &[IgnoredValue] {
        &self.ignored
    }

    /// Whether a newer policy of this name was already compared with this one.
    #[must_use]
    pub fn was_compared_with(&self, name: &str) -> bool {
        self.compared.iter().any(|known| known == name)
    }

    /// This policy with the stricter values of a newer one. Values that the newer policy would loosen stay unchanged.
    /// `names` are the names of both policies; neither is compared again.
    ///
    /// # Errors
    /// If a layer is no longer valid.
    pub fn tightened_by(&self, newer: &PolicySource, names: [&str; 2]) -> Result<PolicyChange, PolicyErrors> {
        let old = resolve_under(&self.layers, self.preset, self.rules_version)?;
        // A newer rules version applies only to new sessions.
        let new = resolve_under(&newer.layers, newer.preset, self.rules_version)?;
        let (tightened, waiting) = compare_policies(&old, &new);
        let mut layers = self.layers.clone();
        if tightened.as_object().is_some_and(|keys| !keys.is_empty()) {
            let mut changes =
                layers.pop_if(|layer| is_change_layer(layer)).map_or(Value::Null, |layer| layer.tree);
            merge_trees(&mut changes, tightened.clone());
            layers.push(change_layer(changes));
        }
        let mut source = PolicySource::with_rules_version(layers, self.preset, self.rules_version)?;
        source.compared = self.compared.iter().map(String::as_str).chain(names).map(str::to_owned).collect();
        source.compared.dedup();
        let old_ones = source.compared.len().saturating_sub(MAX_COMPARED);
        source.compared.drain(..old_ones);
        Ok(PolicyChange { source, tightened, waiting })
    }

    /// Everything that decisions depend on, as JSON, to be stored with the decisions. Omits the `journal` section and
    /// `on_error`: no decision depends on them, and addresses may be secret.
    #[must_use]
    pub fn to_json(&self) -> String {
        let above = |layer: &PolicyLayer| u8::from(outranks_sessions(layer));
        let mut tightening = self.tightening.iter();
        let decides = |layer: &PolicyLayer| {
            let left = if layer.trust == LayerTrust::TightenOnly { tightening.next() } else { None };
            let mut tree = left.unwrap_or(&layer.tree).clone();
            if let Some(keys) = tree.as_object_mut() {
                keys.remove("journal");
                keys.remove("on_error");
            }
            let mut stored = json!({"above": above(layer), "tree": tree});
            if let (Some(keys), LayerTrust::TightenOnly) = (stored.as_object_mut(), layer.trust) {
                keys.insert(
                    "tightens".to_owned(),
                    json!(if is_change_layer(layer) { "change" } else { "project" }),
                );
            }
            stored
        };
        let layers: Vec<Value> = self.layers.iter().map(decides).collect();
        let mut text = json!({"preset": self.preset.as_str(), "layers": layers});
        // Version 1 is omitted, as before versions existed: the text of a stored policy must not change.
        if let (Some(keys), true) = (text.as_object_mut(), self.rules_version > RulesVersion::V1) {
            keys.insert("rules_version".to_owned(), self.rules_version.number().into());
        }
        if let (Some(keys), false) = (text.as_object_mut(), self.compared.is_empty()) {
            keys.insert("compared".to_owned(), json!(self.compared));
        }
        text.to_string()
    }

    /// Reads a stored source. It makes the same decisions as the stored one; the origin of each value is lost.
    ///
    /// # Errors
    /// If the text was not written by [`PolicySource::to_json`], or a layer is no longer valid.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let bad =
            || Error::new(ErrorCode::BadPolicy, "the stored policy cannot be read", "send the policy again");
        let value: Value = serde_json::from_str(text).map_err(|_| bad())?;
        let preset =
            value.get("preset").and_then(Value::as_str).and_then(Preset::from_name).ok_or_else(bad)?;
        let rules_version = match value.get("rules_version") {
            None => RulesVersion::V1,
            Some(number) => number.as_u64().and_then(RulesVersion::from_number).ok_or_else(bad)?,
        };
        let layers = value.get("layers").and_then(Value::as_array).ok_or_else(bad)?;
        let layers = layers.iter().map(|layer| {
            let above = layer.get("above").and_then(Value::as_u64) == Some(1);
            let origin = if above {
                ValueOrigin::CommandLine
            } else {
                ValueOrigin::File { name: "stored policy".to_owned() }
            };
            let mut tree = layer.get("tree").cloned().unwrap_or_default();
            // Later versions reject values without effect and know keys that version 1 did not.
            if rules_version == RulesVersion::V1 {
                remove_ineffective_keys(&mut tree);
            }
            match layer.get("tightens").and_then(Value::as_str) {
                None => PolicyLayer::from_value(origin, tree),
                Some("change") => change_layer(tree),
                Some(_) => PolicyLayer::from_value(origin, tree).tighten_only(),
            }
        });
        let mut source = PolicySource::with_rules_version(layers.collect(), preset, rules_version)
            .map_err(|errors| invalid_policy(&errors))?;
        let compared = value.get("compared").and_then(Value::as_array).into_iter().flatten();
        source.compared = compared.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        Ok(source)
    }

    /// Replaces the `journal` section, which no decision depends on.
    #[must_use]
    pub fn with_journal(mut self, journal: &JournalPolicy) -> Self {
        Arc::make_mut(&mut self.base).journal = journal.clone();
        self
    }

    /// The policy of sessions without an inline policy.
    #[must_use]
    pub fn base(&self) -> &Arc<Policy> {
        &self.base
    }

    /// The policy of a session with an inline policy: a preset name, or the keys of a policy file.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn resolve_inline(&self, inline: &Value) -> Result<ResolvedPolicy, PolicyErrors> {
        let mut layers = self.layers.clone();
        let mut tree = match inline {
            Value::String(preset) => json!({ "preset": preset }),
            other => other.clone(),
        };
        if self.rules_version == RulesVersion::V1 {
            remove_ineffective_keys(&mut tree);
        }
        let above = |layer: &PolicyLayer| outranks_sessions(layer) || is_change_layer(layer);
        let at = layers.iter().position(above).unwrap_or(layers.len());
        layers.insert(at, PolicyLayer::from_value(ValueOrigin::Inline, tree));
        resolve_under(&layers, self.preset, self.rules_version)
    }
}

fn change_layer(tree: Value) -> PolicyLayer {
    PolicyLayer::from_value(ValueOrigin::File { name: POLICY_CHANGE_LAYER.to_owned() }, tree).tighten_only()
}

fn is_change_layer(layer: &PolicyLayer) -> bool {
    layer.trust == LayerTrust::TightenOnly
        && matches!(&layer.origin, ValueOrigin::File { name } if name == POLICY_CHANGE_LAYER)
}

/// Whether a layer (environment or command line) overrides inline policies.
fn outranks_sessions(layer: &PolicyLayer) -> bool {
    matches!(layer.origin, ValueOrigin::Environment { .. } | ValueOrigin::CommandLine)
}

/// One session: its policy and its state.
#[derive(Debug, Clone)]
pub struct Session {
    policy: Arc<Policy>,
    state: SessionState,
    /// The source that the session is pinned to, if not the shared one.
    pinned: Option<Arc<PolicySource>>,
}

impl Session {
    /// A new session under a policy.
    #[must_use]
    pub fn new(policy: Arc<Policy>) -> Self {
        Session { policy, state: SessionState::default(), pinned: None }
    }

    /// Resumes a session from its stored state.
    ///
    /// # Errors
    /// If the session's inline policy is no longer valid.
    pub fn resume(source: &PolicySource, state: SessionState) -> Result<Self, Error> {
        let policy = match state.inline_policy() {
            Some(text) => {
                let value: Value = serde_json::from_str(text).map_err(|error| {
                    Error::new(ErrorCode::BadState, error.to_string(), "rebuild it from the events")
                })?;
                Arc::new(source.resolve_inline(&value).map_err(|errors| invalid_policy(&errors))?.policy)
            }
            None => Arc::clone(source.base()),
        };
        Ok(Session { policy, state, pinned: None })
    }

    /// Resumes a session under the policy it had.
    #[must_use]
    pub fn with_state(policy: Arc<Policy>, state: SessionState) -> Self {
        Session { policy, state, pinned: None }
    }

    /// Like [`Session::resume`], but keeps this source even if the session sends an inline policy later.
    ///
    /// # Errors
    /// If the session's inline policy is no longer valid.
    pub fn pinned_to(source: PolicySource, state: SessionState) -> Result<Self, Error> {
        let session = Session::resume(&source, state)?;
        Ok(Session { pinned: Some(Arc::new(source)), ..session })
    }

    /// The session's state.
    #[must_use]
    pub const fn state(&self) -> &SessionState {
        &self.state
    }

    /// The session's policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Applies one event to this session alone, without ancestors.
    ///
    /// # Errors
    /// Same as [`step`].
    pub fn step(&mut self, event: &Event) -> Result<Decision, Error> {
        step(&self.policy, &mut self.state, event, &Ancestors::default())
    }
}

fn invalid_policy(errors: &PolicyErrors) -> Error {
    let (what, help) = errors
        .iter()
        .next()
        .map_or(("it is empty", ""), |first| (first.message.as_str(), first.help.as_str()));
    let help = if help.is_empty() { "check it with `flyball check`" } else { help };
    Error::new(ErrorCode::BadPolicy, format!("the policy inside the event cannot be used: {what}"), help)
}

/// All sessions of one process.
#[derive(Debug, Clone)]
pub struct Sessions {
    source: PolicySource,
    sessions: BTreeMap<String, Session>,
}

impl Sessions {
    /// Creates an empty set of sessions.
    #[must_use]
    pub fn new(source: PolicySource) -> Self {
        Sessions { source, sessions: BTreeMap::new() }
    }

    /// A session by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Session> {
        self.sessions.get(name)
    }

    /// All sessions by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Session)> {
        self.sessions.iter().map(|(name, session)| (name.as_str(), session))
    }

    /// Inserts a session, for example one that was loaded from a store.
    pub fn insert(&mut self, name: impl Into<String>, session: Session) {
        self.sessions.insert(name.into(), session);
    }

    /// Removes a session, for example to keep only active sessions in memory.
    pub fn remove(&mut self, name: &str) -> Option<Session> {
        self.sessions.remove(name)
    }

    /// Applies an event to the session it names.
    ///
    /// # Errors
    /// Same as [`step`], and if the session's inline policy is invalid. The state is unchanged on error.
    pub fn step(&mut self, event: &Event) -> Result<Decision, Error> {
        if !matches!(event.kind, EventKind::SessionStarted { .. })
            && let Some(session) = self.sessions.get_mut(&event.session)
            && session.state.parent().is_none()
        {
            // Fast path for most events: no inline policy and no ancestors.
            return session.step(event);
        }
        let brought = match &event.kind {
            EventKind::SessionStarted { policy: Some(inline), .. } => {
                let known = self.sessions.get(&event.session).and_then(|session| session.pinned.as_deref());
                let source = known.unwrap_or(&self.source);
                Some(Arc::new(
                    source.resolve_inline(inline).map_err(|errors| invalid_policy(&errors))?.policy,
                ))
            }
            _ => None,
        };
        let brought_text = match &event.kind {
            EventKind::SessionStarted { policy: Some(inline), .. } => Some(canonical_json(inline)),
            _ => None,
        };
        let ancestors = self.ancestors(event);
        let is_new = !self.sessions.contains_key(&event.session);
        let base = self.source.base();
        let session =
            self.sessions.entry(event.session.clone()).or_insert_with(|| Session::new(Arc::clone(base)));
        let policy = brought.unwrap_or_else(|| Arc::clone(&session.policy));
        let before = *session.state.usage();
        match step(&policy, &mut session.state, event, &ancestors) {
            Ok(decision) => {
                if session.state.inline_policy() == brought_text.as_deref() || brought_text.is_none() {
                    session.policy = policy;
                }
                let drawn = usage_since(session.state.usage(), &before);
                self.charge_ancestors(&event.session, &drawn);
                Ok(decision)
            }
            Err(error) => {
                if is_new {
                    self.sessions.remove(&event.session);
                }
                Err(error)
            }
        }
    }

    /// The decision for an event that was already decided: the earlier decision, or a halt if the event asks for
    /// permission and the session was halted or stopped since.
    #[must_use]
    pub fn refresh_cached_decision(&self, event: &Event, known: Decision) -> Decision {
        match self.sessions.get(&event.session) {
            Some(session) => {
                lifecycle::refresh_cached_decision(&session.state, event, &self.ancestors(event), known)
            }
            None => known,
        }
    }

    /// Whether a denied request must be evaluated again because a person approved or released something in its session
    /// since.
    #[must_use]
    pub fn should_reevaluate(&self, event: &Event, known: &Decision) -> bool {
        self.sessions
            .get(&event.session)
            .is_some_and(|session| lifecycle::should_reevaluate(&session.state, event, known))
    }

    /// Sequence number of the earlier denial of an event, if the session remembers it and evaluates the event again.
    #[must_use]
    pub fn previous_refusal(&self, event: &Event) -> Option<u64> {
        let state = &self.sessions.get(&event.session)?.state;
        let id = event.id.as_ref()?;
        let known =
            state.decision_cache.find(Fingerprint::of_text(&id.id), id.body, &event.session).ok()??;
        lifecycle::should_reevaluate(state, event, &known).then_some(known.seq)
    }

    /// Names of a session's ancestors, nearest first. Stops at a cycle of parents.
    fn ancestor_names(&self, name: &str, first: Option<&str>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut next = first.map(str::to_owned).or_else(|| self.parent_of(name));
        while let Some(parent) = next {
            if parent == name || names.contains(&parent) || names.len() == TREE_DEPTH {
                break;
            }
            next = self.parent_of(&parent);
            names.push(parent);
        }
        names
    }

    fn parent_of(&self, name: &str) -> Option<String> {
        self.sessions.get(name)?.state.parent().map(str::to_owned)
    }

    fn ancestors(&self, event: &Event) -> Ancestors {
        let stays = self.sessions.get(&event.session).is_some_and(|session| {
            session.state.rules_version() > RulesVersion::V1 && session.state.parent().is_some()
        });
        let first = match &event.kind {
            EventKind::SessionStarted { parent, .. } if !stays => parent.as_deref(),
            _ => None,
        };
        if first.is_none()
            && self.sessions.get(&event.session).is_none_or(|session| session.state.parent().is_none())
        {
            return Ancestors::default();
        }
        let ancestors = self.ancestor_names(&event.session, first).into_iter().filter_map(|session| {
            let known = self.sessions.get(&session)?;
            let budget = &known.policy.budgets.session;
            Some(Ancestor {
                halted: known.state.is_halted(),
                used: *known.state.usage(),
                tokens: budget.tokens,
                cost_micro_usd: budget.cost_micro_usd,
                session,
            })
        });
        Ancestors { nearest_first: ancestors.collect() }
    }

    fn charge_ancestors(&mut self, name: &str, drawn: &Usage) {
        if *drawn == Usage::default() {
            return;
        }
        for parent in self.ancestor_names(name, None) {
            if let Some(session) = self.sessions.get_mut(&parent) {
                session.state.guards.budget.add_child_usage(drawn);
            }
        }
    }
}

fn usage_since(now: &Usage, before: &Usage) -> Usage {
    Usage {
        tokens_in: now.tokens_in.saturating_sub(before.tokens_in),
        tokens_out: now.tokens_out.saturating_sub(before.tokens_out),
        cost_micro_usd: now.cost_micro_usd.saturating_sub(before.cost_micro_usd),
    }
}
