//! The `rules:` section of a policy: reading, compiling, and merging by name.

use serde_json::{Map, Value};

use super::canonical_layer::CanonicalLayer;
use super::custom_rules::{FUNCTIONS, MAX_MESSAGE_CHARS, MAX_RULES, PolicyRule, RuleError};
use super::paths::child_path;
use super::policy_error::{PolicyError, PolicyErrorCode};
use super::positions::join_path;
use super::resolve::{ValueSource, rule_error, value_source};
use super::rule_check::{RuleNames, known_fields};
use super::tighten::IgnoredValue;
use super::values::{Keyword, PolicyProblem, describe_value, unknown_help};
use super::{GuardMode, SessionCounters};
use crate::event::fields_of;
use crate::rules_version::RulesVersion;
use crate::suggest::closest;

const RULE_KEYS: [&str; 4] = ["name", "when", "decision", "message"];
/// Maximum length of a rule's name, in characters.
const MAX_NAME_CHARS: usize = 100;

/// A compiled rule and where it was written.
pub(super) struct RuleEntry {
    pub(super) rule: PolicyRule,
    pub(super) written: ValueSource,
    error_if_too_many: PolicyError,
}

/// Compiles the rules of one layer and adds errors to the layer's problems.
pub(super) fn read_rules(c: &mut CanonicalLayer<'_>, rules_version: RulesVersion) -> Vec<RuleEntry> {
    let mut found: Vec<RuleEntry> = Vec::new();
    for (path, value) in std::mem::take(&mut c.rules) {
        let mut problems = Vec::new();
        let rule = read_rule(&path, &value, rules_version, &mut problems);
        c.problems.append(&mut problems);
        let Some(rule) = rule else { continue };
        if found.iter().any(|other| other.rule.name() == rule.name()) {
            let what = format!("two rules are named '{}'", rule.name());
            c.add_problem(
                PolicyErrorCode::Rule,
                &child_path(&path, "name"),
                &what,
                "give each rule a unique name",
            );
            continue;
        }
        let too_many = format!("more than {MAX_RULES} rules");
        found.push(RuleEntry {
            written: value_source(c, &path),
            error_if_too_many: rule_error(c, path, too_many, "combine rules with ||, or remove some"),
            rule,
        });
    }
    found
}

/// Merges rules: a rule of a higher layer replaces the rule of the same name, and new rules are appended.
pub(super) fn merge_rules(rules: &mut Vec<RuleEntry>, own: Vec<RuleEntry>) -> Result<(), PolicyError> {
    for rule in own {
        let full = rules.len() >= MAX_RULES;
        let same = rules.iter_mut().find(|r| r.rule.name() == rule.rule.name());
        match same {
            Some(slot) => *slot = rule,
            None if full => return Err(rule.error_if_too_many),
            None => rules.push(rule),
        }
    }
    Ok(())
}

/// The rules of a tighten-only layer. New rules are added, because a rule never allows anything by itself. A rule with
/// an existing name would replace that rule and is ignored.
pub(super) fn new_rules(
    rules: &[RuleEntry],
    own: Vec<RuleEntry>,
    ignored: &mut Vec<IgnoredValue>,
) -> Vec<RuleEntry> {
    let mut new = Vec::new();
    for rule in own {
        match rules.iter().find(|known| known.rule.name() == rule.rule.name()) {
            None => new.push(rule),
            Some(known) if known.rule == rule.rule => {}
            Some(_) => ignored.push(IgnoredValue {
                path: join_path(&["rules", rule.rule.name()]),
                written: rule.written,
                value: Value::from(rule.rule.when()),
                reason: "it would replace a rule of the same name".to_owned(),
            }),
        }
    }
    new
}

/// Collects the errors of one rule.
struct RuleReader<'p> {
    path: &'p [String],
    problems: &'p mut Vec<PolicyProblem>,
}

impl RuleReader<'_> {
    fn add_problem(&mut self, code: PolicyErrorCode, key: Option<&str>, what: String, help: String) {
        let path = match key {
            Some(key) => child_path(self.path, key),
            None => self.path.to_vec(),
        };
        self.problems.push(PolicyProblem { code, path, as_written: true, message: what, help });
    }

    /// Reads a required string; a missing or invalid one is reported with `what`.
    fn required_text<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        key: &str,
        what: &str,
        max: usize,
    ) -> Option<&'v str> {
        let text = map.get(key).and_then(Value::as_str).map(str::trim);
        let text = text.filter(|text| !text.is_empty() && text.chars().count() <= max);
        if text.is_none() {
            self.add_problem(PolicyErrorCode::Rule, None, what.to_owned(), example());
        }
        text
    }

    fn read_message(&mut self, map: &Map<String, Value>, name: &str) -> String {
        match map.get("message") {
            None => format!("rule '{name}' applies"),
            Some(Value::String(text)) if text.chars().count() <= MAX_MESSAGE_CHARS => text.clone(),
            Some(_) => {
                let what = format!("'message' must be a string of at most {MAX_MESSAGE_CHARS} characters");
                self.add_problem(
                    PolicyErrorCode::Rule,
                    Some("message"),
                    what,
                    "write a shorter message".to_owned(),
                );
                String::new()
            }
        }
    }

    fn read_decision(&mut self, map: &Map<String, Value>) -> Option<GuardMode> {
        let Some(value) = map.get("decision") else {
            return Some(GuardMode::Block);
        };
        let found = parse_decision(value);
        if found.is_none() {
            let what = format!("invalid decision {}", describe_value(value));
            let help = "write observe, warn, block or halt".to_owned();
            self.add_problem(PolicyErrorCode::Rule, Some("decision"), what, help);
        }
        found
    }
}

fn read_rule(
    path: &[String],
    value: &Value,
    rules_version: RulesVersion,
    problems: &mut Vec<PolicyProblem>,
) -> Option<PolicyRule> {
    let mut reader = RuleReader { path, problems };
    let Value::Object(map) = value else {
        let what = format!("a rule must be a map of keys, not {}", describe_value(value));
        reader.add_problem(PolicyErrorCode::Rule, None, what, example());
        return None;
    };
    for key in map.keys().filter(|key| !RULE_KEYS.contains(&key.as_str())) {
        let what = format!("unknown key '{key}' in a rule");
        let help = unknown_help(key, &RULE_KEYS, "key");
        reader.add_problem(PolicyErrorCode::UnknownKey, Some(key), what, help);
    }
    let name =
        reader.required_text(map, "name", "a rule requires a name of at most 100 characters", MAX_NAME_CHARS);
    let when = reader.required_text(map, "when", "a rule requires a condition", usize::MAX);
    let message = reader.read_message(map, name.unwrap_or(""));
    let decision = reader.read_decision(map);
    let (name, when, decision) = (name?, when?, decision?);
    let rule = PolicyRule::new(name, when, decision, &message).and_then(|rule| {
        // A stored policy of version 1 was not checked and must stay readable.
        if rules_version > RulesVersion::V1 {
            rule.check(RuleNames::Policy)?;
        }
        Ok(rule)
    });
    match rule {
        Ok(rule) => Some(rule),
        Err(error) => {
            let what = format!("rule '{name}': {error}");
            reader.add_problem(PolicyErrorCode::Rule, Some("when"), what, error.help());
            None
        }
    }
}

fn parse_decision(value: &Value) -> Option<GuardMode> {
    let word = value.as_str()?.trim();
    GuardMode::KEYWORDS
        .iter()
        .find(|(name, mode)| *name == word && !matches!(mode, GuardMode::Off | GuardMode::Staged))
        .map(|(_, mode)| *mode)
}

fn example() -> String {
    "write {name: no-prod, when: \"event.tool == 'deploy'\", decision: block}".to_owned()
}

impl RuleError {
    /// The suggested fix, in one line.
    #[must_use]
    pub fn help(&self) -> String {
        rule_help(self)
    }
}

fn rule_help(error: &RuleError) -> String {
    match error {
        RuleError::UnknownField(field, names) => {
            let own = format!("write event['{field}'] for a custom field");
            let fields = known_fields(*names);
            match closest(field, fields.iter().copied()) {
                Some(near) => format!("did you mean 'event.{near}'? ({own})"),
                None => format!("known fields: {}; {own}", fields.join(", ")),
            }
        }
        RuleError::FieldOfOtherType { field, event_type } => {
            let own = fields_of(event_type).unwrap_or_default().join(", ");
            format!("'{event_type}' has: {own}; write event['{field}'] for a custom field")
        }
        RuleError::UnknownValue { value, known, .. } => closest(value, known.iter().copied()).map_or_else(
            || format!("expected one of {}", known.join(", ")),
            |near| format!("did you mean '{near}'?"),
        ),
        RuleError::TypeMismatch(_) => {
            "compare values of the same type, for example event.tool == 'deploy'".to_owned()
        }
        RuleError::UnknownName(_) => "use event and session, for example event.tool".to_owned(),
        RuleError::UnknownCounter(name) => closest(name, SessionCounters::NAMES).map_or_else(
            || format!("known counters: {}", SessionCounters::NAMES.join(", ")),
            |word| format!("did you mean 'session.{word}'?"),
        ),
        RuleError::UnknownFunction(name) if name == "matches" => {
            "use contains, startsWith or endsWith; regular expressions are not supported".to_owned()
        }
        RuleError::UnknownFunction(name) => {
            let all = "use size, contains, startsWith, endsWith, has, exists, all, filter or map";
            let near = closest(name, FUNCTIONS.into_iter().chain(["exists", "all", "filter", "map"]));
            near.map_or_else(|| all.to_owned(), |near| format!("did you mean '{near}'? Otherwise {all}"))
        }
        RuleError::NotBool(_) => "compare the value, for example with == or >".to_owned(),
        RuleError::TooLong | RuleError::TooLarge | RuleError::Nested => {
            "split the condition into several rules".to_owned()
        }
        RuleError::Literal => "compare individual values instead".to_owned(),
        _ => "see the CEL language definition; event and session are the variables".to_owned(),
    }
}
