//! Risk of a tool call, and the resulting verdict: run it, ask a person, or refuse it.
//!
//! Unknown risks are treated as dangerous: by default a person is asked. The classes keep an honest agent from causing
//! damage by mistake. They do not stop a hostile program, which can hide in a harmless-looking script.

mod git;
mod programs;
mod shell_risk;

use super::tool_error::ToolError;
use flyball::policy::ToolEffect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Risk class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Only reads.
    Safe,
    /// Changes something in the course of ordinary work.
    Moderate,
    /// Cannot be determined.
    Unknown,
    /// May destroy something irrecoverably.
    Destructive,
}

impl Risk {
    /// Name in a workflow or policy file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Risk::Safe => "safe",
            Risk::Moderate => "moderate",
            Risk::Unknown => "unknown",
            Risk::Destructive => "destructive",
        }
    }

    /// Class by name.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        [Risk::Safe, Risk::Moderate, Risk::Unknown, Risk::Destructive]
            .into_iter()
            .find(|risk| risk.as_str() == word)
    }
}

impl From<ToolEffect> for Risk {
    /// Risk class for the `effect` of a tool in a policy.
    fn from(effect: ToolEffect) -> Self {
        match effect {
            ToolEffect::Read | ToolEffect::Poll => Risk::Safe,
            ToolEffect::Write => Risk::Moderate,
            ToolEffect::Destructive => Risk::Destructive,
        }
    }
}

/// Verdict on a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(rename = "RiskVerdict")]
#[serde(rename_all = "snake_case")]
pub enum RiskVerdict {
    /// It may run.
    Allow,
    /// A person must approve it first.
    Confirm,
    /// It must not run.
    Refuse,
}

impl RiskVerdict {
    /// Name in a workflow or policy file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RiskVerdict::Allow => "allow",
            RiskVerdict::Confirm => "confirm",
            RiskVerdict::Refuse => "refuse",
        }
    }

    /// Verdict by name.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        [RiskVerdict::Allow, RiskVerdict::Confirm, RiskVerdict::Refuse]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
    }
}

/// Rule for one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRule {
    /// Class of every call.
    Class(Risk),
    /// Verdict for every call, independent of its class.
    Verdict(RiskVerdict),
}

/// Verdicts by class, and rules for single tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskPolicy {
    /// Verdict for read-only calls.
    pub safe: RiskVerdict,
    /// Verdict for ordinary work.
    pub moderate: RiskVerdict,
    /// Verdict for irreversible calls.
    pub destructive: RiskVerdict,
    /// Verdict for calls of unknown risk.
    pub unknown: RiskVerdict,
    /// Rules for single tools.
    pub tools: BTreeMap<String, ToolRule>,
}

impl Default for RiskPolicy {
    fn default() -> Self {
        RiskPolicy {
            safe: RiskVerdict::Allow,
            moderate: RiskVerdict::Allow,
            destructive: RiskVerdict::Confirm,
            unknown: RiskVerdict::Confirm,
            tools: BTreeMap::new(),
        }
    }
}

impl RiskPolicy {
    /// Parses the `risk` section of a workflow or policy file: `{safe: allow, moderate: allow, destructive: confirm,
    /// unknown: confirm, tools: {deploy: refuse, lint: safe}}`. Missing classes keep their defaults; a tool has a class
    /// or a verdict.
    ///
    /// # Errors
    /// `bad_risk`, naming the field.
    pub fn from_json(written: &Value) -> Result<Self, ToolError> {
        let mut policy = RiskPolicy::default();
        let Some(map) = written.as_object() else {
            return Err(risk_error("risk", "must be a map", "write risk: {destructive: confirm}"));
        };
        for (key, value) in map {
            if key == "tools" {
                policy.tools = parse_tool_rules(value)?;
                continue;
            }
            let Some(class) = Risk::from_name(key) else {
                let help = "use safe, moderate, destructive, unknown or tools";
                return Err(risk_error(&format!("risk.{key}"), "is not known", help));
            };
            let verdict = value.as_str().and_then(RiskVerdict::from_name);
            let verdict = verdict.ok_or_else(|| {
                risk_error(&format!("risk.{key}"), "is not a verdict", "use allow, confirm or refuse")
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

    /// Verdict for a class.
    #[must_use]
    pub const fn verdict(&self, risk: Risk) -> RiskVerdict {
        match risk {
            Risk::Safe => self.safe,
            Risk::Moderate => self.moderate,
            Risk::Destructive => self.destructive,
            Risk::Unknown => self.unknown,
        }
    }

    /// Assesses the findings of a call. The strictest verdict wins: an unknown part does not make a destructive one
    /// milder, or vice versa.
    pub(super) fn assess(&self, tool: &str, findings: Vec<RiskFinding>) -> Assessment {
        let rule = self.tools.get(tool).copied();
        let findings = match rule {
            Some(ToolRule::Class(risk)) => {
                vec![RiskFinding {
                    risk,
                    why: format!("the policy classifies '{tool}' as {}", risk.as_str()),
                }]
            }
            _ => findings,
        };
        let strictness = |finding: &RiskFinding| (self.verdict(finding.risk), finding.risk);
        // Report the first of the strictest findings.
        let worst = findings.into_iter().rev().max_by_key(strictness);
        let RiskFinding { risk, why } = worst.unwrap_or_else(|| RiskFinding {
            risk: Risk::Unknown,
            why: format!("the risk of '{tool}' is unknown"),
        });
        match rule {
            Some(ToolRule::Verdict(verdict)) => {
                let why = format!("policy: {} for '{tool}'; {why}", verdict.as_str());
                Assessment { risk, verdict, why }
            }
            _ => Assessment { risk, verdict: self.verdict(risk), why },
        }
    }
}

fn parse_tool_rules(written: &Value) -> Result<BTreeMap<String, ToolRule>, ToolError> {
    let help = "write tools: {NAME: safe}, with a class, or allow, confirm or refuse";
    let map = written.as_object().ok_or_else(|| risk_error("risk.tools", "must be a map", help))?;
    let mut rules = BTreeMap::new();
    for (name, value) in map {
        let word = value.as_str().unwrap_or_default();
        let rule = Risk::from_name(word)
            .map(ToolRule::Class)
            .or(RiskVerdict::from_name(word).map(ToolRule::Verdict));
        let rule = rule.ok_or_else(|| {
            risk_error(&format!("risk.tools.{name}"), "is neither a class nor a verdict", help)
        })?;
        rules.insert(name.clone(), rule);
    }
    Ok(rules)
}

fn risk_error(field: &str, problem: &str, help: &str) -> ToolError {
    ToolError::new("bad_risk", format!("the field '{field}' {problem}"), help)
}

/// Risk and verdict of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// Risk class.
    pub risk: Risk,
    /// Verdict.
    pub verdict: RiskVerdict,
    /// Reason in one line, for the person who is asked.
    pub why: String,
}

/// A finding in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RiskFinding {
    pub(super) risk: Risk,
    pub(super) why: String,
}

impl RiskFinding {
    pub(super) fn new(risk: Risk, why: impl Into<String>) -> Self {
        RiskFinding { risk, why: why.into() }
    }
}

/// Findings in a command line. `exists` says whether a path, relative to the command's working directory, is an
/// existing file: overwriting one destroys it, creating a new one does not.
pub(super) fn assess_shell(command: &str, exists: &dyn Fn(&str) -> bool) -> Vec<RiskFinding> {
    shell_risk::assess_command_line(command, exists)
}

#[cfg(test)]
#[path = "risk_tests.rs"]
mod tests;
