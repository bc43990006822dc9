//! How dangerous a call of a tool is, and what follows from it: it runs, a person is asked, or it is refused.
//!
//! What is not known is treated as dangerous: by default a person is asked. The classes help an honest agent not to do
//! damage by mistake; they are no wall against a hostile program, which can always do its harm in a script that looks
//! like any other.

mod git;
mod judge;
mod programs;

use super::error::ToolError;
use flyball::policy::Effect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How dangerous something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It only looks.
    Safe,
    /// It changes something, in the usual way of work.
    Moderate,
    /// Nobody can tell from here.
    Unknown,
    /// It may destroy what cannot be brought back.
    Destructive,
}

impl Risk {
    /// The word for it in a workflow or policy file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Risk::Safe => "safe",
            Risk::Moderate => "moderate",
            Risk::Unknown => "unknown",
            Risk::Destructive => "destructive",
        }
    }

    /// The class of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Risk::Safe, Risk::Moderate, Risk::Unknown, Risk::Destructive]
            .into_iter()
            .find(|risk| risk.as_str() == word)
    }
}

impl From<Effect> for Risk {
    /// What a policy's `tools: {NAME: {effect: …}}` says about the danger.
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Read | Effect::Poll => Risk::Safe,
            Effect::Write => Risk::Moderate,
            Effect::Destructive => Risk::Destructive,
        }
    }
}

/// What is to be done with a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(rename = "RiskVerdict")]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person has to say yes first.
    Confirm,
    /// It must not run.
    Refuse,
}

impl Verdict {
    /// The word for it in a workflow or policy file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Confirm => "confirm",
            Verdict::Refuse => "refuse",
        }
    }

    /// The verdict of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Verdict::Allow, Verdict::Confirm, Verdict::Refuse]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
    }
}

/// What the operator has said about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRule {
    /// Every call of it is of this class.
    Class(Risk),
    /// Every call of it gets this verdict, whatever its class.
    Verdict(Verdict),
}

/// Which class leads to which verdict, and the tools that have a rule of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskPolicy {
    /// For what only looks.
    pub safe: Verdict,
    /// For the usual work.
    pub moderate: Verdict,
    /// For what cannot be brought back.
    pub destructive: Verdict,
    /// For what nobody can tell.
    pub unknown: Verdict,
    /// Rules for single tools.
    pub tools: BTreeMap<String, ToolRule>,
}

impl Default for RiskPolicy {
    fn default() -> Self {
        RiskPolicy {
            safe: Verdict::Allow,
            moderate: Verdict::Allow,
            destructive: Verdict::Confirm,
            unknown: Verdict::Confirm,
            tools: BTreeMap::new(),
        }
    }
}

impl RiskPolicy {
    /// Reads what a workflow or policy file has written under `risk`:
    /// `{safe: allow, moderate: allow, destructive: confirm, unknown: confirm, tools: {deploy: refuse, lint: safe}}`.
    /// What is not written keeps its default; a tool gets a class or a verdict.
    ///
    /// # Errors
    /// With code `bad_risk`, naming the field.
    pub fn from_json(written: &Value) -> Result<Self, ToolError> {
        let mut policy = RiskPolicy::default();
        let Some(map) = written.as_object() else {
            return Err(bad("risk", "is not an object", "write risk: {destructive: confirm}"));
        };
        for (key, value) in map {
            if key == "tools" {
                policy.tools = rules(value)?;
                continue;
            }
            let Some(class) = Risk::from_word(key) else {
                let hint = "use safe, moderate, destructive, unknown or tools";
                return Err(bad(&format!("risk.{key}"), "is not known", hint));
            };
            let verdict = value.as_str().and_then(Verdict::from_word);
            let verdict = verdict.ok_or_else(|| {
                bad(&format!("risk.{key}"), "is no verdict", "use allow, confirm or refuse")
            })?;
            match class {
                Risk::Safe => policy.safe = verdict,
                Risk::Moderate => policy.moderate = verdict,
                Risk::Destructive => policy.destructive = verdict,
                Risk::Unknown => policy.unknown = verdict,
            }
        }
        Ok(policy)
    }

    /// What follows from a class.
    #[must_use]
    pub const fn verdict(&self, risk: Risk) -> Verdict {
        match risk {
            Risk::Safe => self.safe,
            Risk::Moderate => self.moderate,
            Risk::Destructive => self.destructive,
            Risk::Unknown => self.unknown,
        }
    }

    /// What follows from what was found in a call of a tool. If several things were found, the strictest verdict
    /// wins: a part that nobody can tell does not make a destructive one milder, nor the other way round.
    pub(super) fn assess(&self, tool: &str, findings: Vec<Finding>) -> Assessment {
        let rule = self.tools.get(tool).copied();
        let findings = match rule {
            Some(ToolRule::Class(risk)) => {
                vec![Finding { risk, why: format!("the policy says that '{tool}' is {}", risk.as_str()) }]
            }
            _ => findings,
        };
        let strictness = |finding: &Finding| (self.verdict(finding.risk), finding.risk);
        // The first of the strictest is the one to tell.
        let worst = findings.into_iter().rev().max_by_key(strictness);
        let Finding { risk, why } = worst.unwrap_or_else(|| Finding {
            risk: Risk::Unknown,
            why: format!("nothing is known about '{tool}'"),
        });
        match rule {
            Some(ToolRule::Verdict(verdict)) => {
                let why = format!("the policy says {} for '{tool}'; {why}", verdict.as_str());
                Assessment { risk, verdict, why }
            }
            _ => Assessment { risk, verdict: self.verdict(risk), why },
        }
    }
}

fn rules(written: &Value) -> Result<BTreeMap<String, ToolRule>, ToolError> {
    let hint = "write tools: {NAME: safe}, with a class or with allow, confirm or refuse";
    let map = written.as_object().ok_or_else(|| bad("risk.tools", "is not an object", hint))?;
    let mut rules = BTreeMap::new();
    for (name, value) in map {
        let word = value.as_str().unwrap_or_default();
        let rule =
            Risk::from_word(word).map(ToolRule::Class).or(Verdict::from_word(word).map(ToolRule::Verdict));
        let rule =
            rule.ok_or_else(|| bad(&format!("risk.tools.{name}"), "is no class and no verdict", hint))?;
        rules.insert(name.clone(), rule);
    }
    Ok(rules)
}

fn bad(field: &str, problem: &str, hint: &str) -> ToolError {
    ToolError::new("bad_risk", format!("the field '{field}' {problem}"), hint)
}

/// How dangerous a call is, and what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// Its class.
    pub risk: Risk,
    /// What is to be done.
    pub verdict: Verdict,
    /// Why, in one line, for the person who is asked.
    pub why: String,
}

/// One thing that was found in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) risk: Risk,
    pub(super) why: String,
}

impl Finding {
    pub(super) fn new(risk: Risk, why: impl Into<String>) -> Self {
        Finding { risk, why: why.into() }
    }
}

/// What is found in a command line. `exists` tells whether a path, seen from where the command starts, is a file:
/// writing over one destroys it, writing a new one does not.
pub(super) fn of_shell(command: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    judge::judge(command, exists)
}

#[cfg(test)]
#[path = "risk_tests.rs"]
mod tests;
