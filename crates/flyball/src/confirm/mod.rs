//! Confirmation: a plan awaits approval, and only a clear approval by the right person runs it, once.

mod answer;
mod clauses;
mod lexicon;
mod messages;
mod plan_phase;

pub(crate) use answer::is_reply;
pub use answer::{ConfirmationAnswer, Language, classify_answer, detect_language};
pub use messages::{ConfirmationMessage, MessageCatalog, message_keys};
pub use plan_phase::{PLAN_TRANSITIONS, PlanInput, PlanPhase};

use crate::event::{PlanStep, canonical_json};
use crate::policy::LanguageSetting as Wanted;

/// Digest of a plan that an approval is bound to; any change of the plan changes it.
#[must_use]
pub fn plan_digest(plan: &[PlanStep]) -> String {
    let mut hasher = blake3::Hasher::new();
    for step in plan {
        hasher.update(&(step.tool.len() as u64).to_le_bytes());
        hasher.update(step.tool.as_bytes());
        let args = canonical_json(&step.args);
        hasher.update(&(args.len() as u64).to_le_bytes());
        hasher.update(args.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

/// The language for messages: the policy's choice, else the language of the conversation, else English.
pub(crate) fn language_for(wanted: Wanted, sample: Option<&str>) -> Language {
    match wanted {
        Wanted::En => Language::En,
        Wanted::Ru => Language::Ru,
        Wanted::Es => Language::Es,
        Wanted::Auto => sample.and_then(detect_language).unwrap_or(Language::En),
    }
}
