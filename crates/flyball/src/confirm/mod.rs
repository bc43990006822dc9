//! Confirmation: a plan waits for a person's yes, and only a clear yes by the right person runs it, once.

mod answer;
mod clauses;
mod machine;
mod texts;
mod words;

pub(crate) use answer::is_reply;
pub use answer::{Answer, Language, language_of, understand};
pub use machine::{Input, Phase, TABLE};
pub use texts::{Text, Texts, known_keys};

use crate::event::{PlanStep, canonical_json};
use crate::policy::Language as Wanted;

/// The digest that an approval is bound to: any change of the plan gives another.
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

/// The language to speak: what the policy says, else what the conversation is in, else English.
pub(crate) fn language_for(wanted: Wanted, heard: Option<&str>) -> Language {
    match wanted {
        Wanted::En => Language::En,
        Wanted::Ru => Language::Ru,
        Wanted::Es => Language::Es,
        Wanted::Auto => heard.and_then(language_of).unwrap_or(Language::En),
    }
}
