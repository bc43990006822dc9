//! Many sessions side by side: each with its own state and policy, and children drawing on their parents' budgets.

use crate::decision::Decision;
use crate::error::{Code, Error};
use crate::event::{Event, Kind, Usage, canonical_json};
use crate::fingerprint::Fingerprint;
use crate::governor::step;
use crate::guards::{Ancestor, Family};
use crate::lifecycle;
use crate::limits::TREE_DEPTH;
use crate::policy::{
    Ignored, JournalPolicy, Layer, Origin, Policy, PolicyErrors, Preset, Resolved, Trust, compare,
    forget_without_effect, overlay, resolve_under,
};
use crate::rules_version::RulesVersion;
use crate::state::State;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where sessions get their policy: the layers that hold for all, and what a session brings along.
#[derive(Debug, Clone)]
pub struct PolicySource {
    layers: Vec<Layer>,
    preset: Preset,
    /// The rules version of sessions for which no layer names one.
    rules_version: RulesVersion,
    base: Arc<Policy>,
    /// Values of layers that may only tighten, which were left out.
    ignored: Arc<[Ignored]>,
    /// What is left of each of those layers: only this is kept with a session, so that nothing else can ever apply.
    tightening: Arc<[Value]>,
    /// The names of newer policies that were compared with this one: each is compared once.
    compared: Vec<String>,
}

/// The name of the layer that holds what newer policies say more strictly.
const CHANGES: &str = "policy change";
/// How many names of newer policies are remembered.
const COMPARED: usize = 8;

/// What became of a policy when it was compared with a newer one.
#[derive(Debug, Clone)]
pub struct PolicyChange {
    /// The policy that holds from now on: the old one, and what the newer one says more strictly.
    pub source: PolicySource,
    /// The values that became stricter, as a tree.
    pub tightened: Value,
    /// The paths of values that the newer policy would loosen. They wait for a person.
    pub waiting: Vec<String>,
}

impl PolicySource {
    /// Resolves the layers once, for all sessions that bring nothing of their own.
    ///
    /// # Errors
    /// If a layer cannot be used.
    pub fn new(layers: Vec<Layer>, preset: Preset) -> Result<Self, PolicyErrors> {
        PolicySource::under_rules(layers, preset, RulesVersion::LATEST)
    }

    fn under_rules(
        layers: Vec<Layer>,
        preset: Preset,
        rules_version: RulesVersion,
    ) -> Result<Self, PolicyErrors> {
        let Resolved { policy, ignored, tightening, .. } = resolve_under(&layers, preset, rules_version)?;
        let (base, ignored, tightening) = (Arc::new(policy), ignored.into(), tightening.into());
        Ok(PolicySource { layers, preset, rules_version, base, ignored, tightening, compared: Vec::new() })
    }

    /// A preset with nothing changed.
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

    /// Values of layers that may only tighten, which were left out because they would loosen the policy.
    #[must_use]
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// Whether a newer policy of this name was compared with this one already.
    #[must_use]
    pub fn was_compared_with(&self, name: &str) -> bool {
        self.compared.iter().any(|known| known == name)
    }

    /// This policy with what a newer one says more strictly. What the newer one would loosen is left as it is. `names`
    /// are those of both policies: neither is compared again.
    ///
    /// # Errors
    /// If a layer can no longer be used.
    pub fn tightened_by(&self, newer: &PolicySource, names: [&str; 2]) -> Result<PolicyChange, PolicyErrors> {
        let old = resolve_under(&self.layers, self.preset, self.rules_version)?;
        // A newer version of the rules holds for new sessions only.
        let new = resolve_under(&newer.layers, newer.preset, self.rules_version)?;
        let (tightened, waiting) = compare(&old, &new);
        let mut layers = self.layers.clone();
        if tightened.as_object().is_some_and(|keys| !keys.is_empty()) {
            let mut changes = layers.pop_if(|layer| is_change(layer)).map_or(Value::Null, |layer| layer.tree);
            overlay(&mut changes, tightened.clone());
            layers.push(change_layer(changes));
        }
        let mut source = PolicySource::under_rules(layers, self.preset, self.rules_version)?;
        source.compared = self.compared.iter().map(String::as_str).chain(names).map(str::to_owned).collect();
        source.compared.dedup();
        let old_ones = source.compared.len().saturating_sub(COMPARED);
        source.compared.drain(..old_ones);
        Ok(PolicyChange { source, tightened, waiting })
    }

    /// Everything that decisions depend on, as JSON, to be kept beside the decisions that were made under it. The
    /// `journal` section is left out, and `on_error`: no decision depends on them, and addresses may be secret.
    #[must_use]
    pub fn to_json(&self) -> String {
        let above = |layer: &Layer| u8::from(outranks_sessions(layer));
        let mut tightening = self.tightening.iter();
        let decides = |layer: &Layer| {
            let left = if layer.trust == Trust::TightenOnly { tightening.next() } else { None };
            let mut tree = left.unwrap_or(&layer.tree).clone();
            if let Some(keys) = tree.as_object_mut() {
                keys.remove("journal");
                keys.remove("on_error");
            }
            let mut stored = json!({"above": above(layer), "tree": tree});
            if let (Some(keys), Trust::TightenOnly) = (stored.as_object_mut(), layer.trust) {
                keys.insert(
                    "tightens".to_owned(),
                    json!(if is_change(layer) { "change" } else { "project" }),
                );
            }
            stored
        };
        let layers: Vec<Value> = self.layers.iter().map(decides).collect();
        let mut text = json!({"preset": self.preset.as_str(), "layers": layers});
        // Version 1 is left out, as it was before there were versions: the text of a stored policy never changes.
        if let (Some(keys), true) = (text.as_object_mut(), self.rules_version > RulesVersion::V1) {
            keys.insert("rules_version".to_owned(), self.rules_version.number().into());
        }
        if let (Some(keys), false) = (text.as_object_mut(), self.compared.is_empty()) {
            keys.insert("compared".to_owned(), json!(self.compared));
        }
        text.to_string()
    }

    /// Reads a source back. It decides as the one that was kept; where each value came from is not known any more.
    ///
    /// # Errors
    /// If the text is not one that [`PolicySource::to_json`] made, or a layer can no longer be used.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let bad = || Error::new(Code::BadPolicy, "the stored policy cannot be read", "send the policy again");
        let value: Value = serde_json::from_str(text).map_err(|_| bad())?;
        let preset =
            value.get("preset").and_then(Value::as_str).and_then(Preset::from_word).ok_or_else(bad)?;
        let rules_version = match value.get("rules_version") {
            None => RulesVersion::V1,
            Some(number) => number.as_u64().and_then(RulesVersion::from_number).ok_or_else(bad)?,
        };
        let layers = value.get("layers").and_then(Value::as_array).ok_or_else(bad)?;
        let layers = layers.iter().map(|layer| {
            let above = layer.get("above").and_then(Value::as_u64) == Some(1);
            let origin =
                if above { Origin::CommandLine } else { Origin::File { name: "stored policy".to_owned() } };
            let mut tree = layer.get("tree").cloned().unwrap_or_default();
            // Later versions refuse what has no effect, and know keys that version 1 did not.
            if rules_version == RulesVersion::V1 {
                forget_without_effect(&mut tree);
            }
            match layer.get("tightens").and_then(Value::as_str) {
                None => Layer::from_value(origin, tree),
                Some("change") => change_layer(tree),
                Some(_) => Layer::from_value(origin, tree).tighten_only(),
            }
        });
        let mut source = PolicySource::under_rules(layers.collect(), preset, rules_version)
            .map_err(|errors| bad_policy(&errors))?;
        let compared = value.get("compared").and_then(Value::as_array).into_iter().flatten();
        source.compared = compared.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        Ok(source)
    }

    /// The same source with another `journal` section, which no decision depends on.
    #[must_use]
    pub fn with_journal(mut self, journal: &JournalPolicy) -> Self {
        Arc::make_mut(&mut self.base).journal = journal.clone();
        self
    }

    /// The policy of sessions that bring nothing of their own.
    #[must_use]
    pub fn base(&self) -> &Arc<Policy> {
        &self.base
    }

    /// The policy of a session that brought its own: the name of a preset, or the keys of a policy file.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn with(&self, inline: &Value) -> Result<Resolved, PolicyErrors> {
        let mut layers = self.layers.clone();
        let mut tree = match inline {
            Value::String(preset) => json!({ "preset": preset }),
            other => other.clone(),
        };
        if self.rules_version == RulesVersion::V1 {
            forget_without_effect(&mut tree);
        }
        let above = |layer: &Layer| outranks_sessions(layer) || is_change(layer);
        let at = layers.iter().position(above).unwrap_or(layers.len());
        layers.insert(at, Layer::from_value(Origin::Inline, tree));
        resolve_under(&layers, self.preset, self.rules_version)
    }
}

fn change_layer(tree: Value) -> Layer {
    Layer::from_value(Origin::File { name: CHANGES.to_owned() }, tree).tighten_only()
}

fn is_change(layer: &Layer) -> bool {
    layer.trust == Trust::TightenOnly && matches!(&layer.origin, Origin::File { name } if name == CHANGES)
}

/// Environment and command line outrank what a session brings.
fn outranks_sessions(layer: &Layer) -> bool {
    matches!(layer.origin, Origin::Environment { .. } | Origin::CommandLine)
}

/// One session: its policy and its state.
#[derive(Debug, Clone)]
pub struct Session {
    policy: Arc<Policy>,
    state: State,
    /// The source that it is pinned to, where that is not the source of all sessions.
    pinned: Option<Arc<PolicySource>>,
}

impl Session {
    /// A new session under a policy.
    #[must_use]
    pub fn new(policy: Arc<Policy>) -> Self {
        Session { policy, state: State::default(), pinned: None }
    }

    /// Takes a session up again from its stored state.
    ///
    /// # Errors
    /// If the policy that the session brought along can no longer be used.
    pub fn resume(source: &PolicySource, state: State) -> Result<Self, Error> {
        let policy = match state.inline_policy() {
            Some(text) => {
                let value: Value = serde_json::from_str(text).map_err(|error| {
                    Error::new(Code::BadState, error.to_string(), "work it out again from the events")
                })?;
                Arc::new(source.with(&value).map_err(|errors| bad_policy(&errors))?.policy)
            }
            None => Arc::clone(source.base()),
        };
        Ok(Session { policy, state, pinned: None })
    }

    /// Takes a session up again under the policy that it was under.
    #[must_use]
    pub fn under(policy: Arc<Policy>, state: State) -> Self {
        Session { policy, state, pinned: None }
    }

    /// As [`Session::resume`], and stays under this source also when it brings a policy of its own later.
    ///
    /// # Errors
    /// If the policy that the session brought along can no longer be used.
    pub fn pinned_to(source: PolicySource, state: State) -> Result<Self, Error> {
        let session = Session::resume(&source, state)?;
        Ok(Session { pinned: Some(Arc::new(source)), ..session })
    }

    /// The session's state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The session's policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Folds one event into this session alone, with no sessions above it.
    ///
    /// # Errors
    /// As [`step`].
    pub fn step(&mut self, event: &Event) -> Result<Decision, Error> {
        step(&self.policy, &mut self.state, event, &Family::default())
    }
}

fn bad_policy(errors: &PolicyErrors) -> Error {
    let (what, help) =
        errors.iter().next().map_or(("it is empty", ""), |first| (first.what.as_str(), first.help.as_str()));
    let help = if help.is_empty() { "try it with `flyball check`" } else { help };
    Error::new(Code::BadPolicy, format!("the policy inside the event cannot be used: {what}"), help)
}

/// All sessions of one process.
#[derive(Debug, Clone)]
pub struct Sessions {
    source: PolicySource,
    all: BTreeMap<String, Session>,
}

impl Sessions {
    /// No sessions yet.
    #[must_use]
    pub fn new(source: PolicySource) -> Self {
        Sessions { source, all: BTreeMap::new() }
    }

    /// One session by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Session> {
        self.all.get(name)
    }

    /// All sessions by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Session)> {
        self.all.iter().map(|(name, session)| (name.as_str(), session))
    }

    /// Puts a session back, for example one that was stored.
    pub fn insert(&mut self, name: impl Into<String>, session: Session) {
        self.all.insert(name.into(), session);
    }

    /// Takes a session out, for example to keep only the ones at work in memory.
    pub fn remove(&mut self, name: &str) -> Option<Session> {
        self.all.remove(name)
    }

    /// Folds an event into the session that it names.
    ///
    /// # Errors
    /// As [`step`], and if the session brings a policy that cannot be used. Nothing was counted then.
    pub fn step(&mut self, event: &Event) -> Result<Decision, Error> {
        if !matches!(event.kind, Kind::SessionStarted { .. })
            && let Some(session) = self.all.get_mut(&event.session)
            && session.state.parent().is_none()
        {
            // Most events: nothing is brought along, and nobody is above the session.
            return session.step(event);
        }
        let brought = match &event.kind {
            Kind::SessionStarted { policy: Some(inline), .. } => {
                let known = self.all.get(&event.session).and_then(|session| session.pinned.as_deref());
                let source = known.unwrap_or(&self.source);
                Some(Arc::new(source.with(inline).map_err(|errors| bad_policy(&errors))?.policy))
            }
            _ => None,
        };
        let brought_text = match &event.kind {
            Kind::SessionStarted { policy: Some(inline), .. } => Some(canonical_json(inline)),
            _ => None,
        };
        let family = self.family(event);
        let fresh = !self.all.contains_key(&event.session);
        let base = self.source.base();
        let session = self.all.entry(event.session.clone()).or_insert_with(|| Session::new(Arc::clone(base)));
        let policy = brought.unwrap_or_else(|| Arc::clone(&session.policy));
        let before = *session.state.used();
        match step(&policy, &mut session.state, event, &family) {
            Ok(decision) => {
                if session.state.inline_policy() == brought_text.as_deref() || brought_text.is_none() {
                    session.policy = policy;
                }
                let drawn = difference(session.state.used(), &before);
                self.draw(&event.session, &drawn);
                Ok(decision)
            }
            Err(error) => {
                if fresh {
                    self.all.remove(&event.session);
                }
                Err(error)
            }
        }
    }

    /// The answer to an event that was answered before: what was decided then, or a halt if the session has been
    /// halted or stopped since and the event asks for permission.
    #[must_use]
    pub fn current_answer(&self, event: &Event, known: Decision) -> Decision {
        match self.all.get(&event.session) {
            Some(session) => lifecycle::current_answer(&session.state, event, &self.family(event), known),
            None => known,
        }
    }

    /// Whether an event that was refused before is judged anew now: it asks for an act, and a person has approved or
    /// released something in its session since.
    #[must_use]
    pub fn is_judged_anew(&self, event: &Event, known: &Decision) -> bool {
        self.all
            .get(&event.session)
            .is_some_and(|session| lifecycle::is_judged_anew(&session.state, event, known))
    }

    /// The number of the refusal that an event got before, if the session remembers it and judges the event anew.
    #[must_use]
    pub fn refused_before(&self, event: &Event) -> Option<u64> {
        let state = &self.all.get(&event.session)?.state;
        let id = event.id.as_ref()?;
        let known = state.answers.find(Fingerprint::of_text(&id.id), id.body, &event.session).ok()??;
        lifecycle::is_judged_anew(state, event, &known).then_some(known.seq)
    }

    /// The names of the sessions above one, the nearest first; a ring of parents ends where it closes.
    fn above(&self, name: &str, first: Option<&str>) -> Vec<String> {
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
        self.all.get(name)?.state.parent().map(str::to_owned)
    }

    fn family(&self, event: &Event) -> Family {
        let stays = self.all.get(&event.session).is_some_and(|session| {
            session.state.rules_version() > RulesVersion::V1 && session.state.parent().is_some()
        });
        let first = match &event.kind {
            Kind::SessionStarted { parent, .. } if !stays => parent.as_deref(),
            _ => None,
        };
        if first.is_none()
            && self.all.get(&event.session).is_none_or(|session| session.state.parent().is_none())
        {
            return Family::default();
        }
        let ancestors = self.above(&event.session, first).into_iter().filter_map(|session| {
            let known = self.all.get(&session)?;
            let budget = &known.policy.budgets.session;
            Some(Ancestor {
                halted: known.state.is_halted(),
                used: *known.state.used(),
                tokens: budget.tokens,
                cost_micro_usd: budget.cost_micro_usd,
                session,
            })
        });
        Family { ancestors: ancestors.collect() }
    }

    fn draw(&mut self, name: &str, drawn: &Usage) {
        if *drawn == Usage::default() {
            return;
        }
        for parent in self.above(name, None) {
            if let Some(session) = self.all.get_mut(&parent) {
                session.state.watch.budget.draw(drawn);
            }
        }
    }
}

fn difference(now: &Usage, before: &Usage) -> Usage {
    Usage {
        tokens_in: now.tokens_in.saturating_sub(before.tokens_in),
        tokens_out: now.tokens_out.saturating_sub(before.tokens_out),
        cost_micro_usd: now.cost_micro_usd.saturating_sub(before.cost_micro_usd),
    }
}
