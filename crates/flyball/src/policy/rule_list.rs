//! The `rules:` of a policy: read, compiled and merged by name.

use serde_json::{Map, Value};

use super::canonical::Canonical;
use super::error::{Code, PolicyError};
use super::paths::with;
use super::places::join;
use super::resolve::{Written, rule_error, written_at};
use super::rule_check::{RuleNames, known_fields};
use super::rules::{FUNCTIONS, MAX_MESSAGE_CHARS, MAX_RULES, Rule, RuleError};
use super::tighten::Ignored;
use super::values::{Problem, Word, kind, unknown_help};
use super::{Counters, Mode};
use crate::event::fields_of;
use crate::rules_version::RulesVersion;
use crate::suggest::closest;

const KEYS: [&str; 4] = ["name", "when", "decision", "message"];
/// Characters of a rule's name.
const MAX_NAME_CHARS: usize = 100;

/// A compiled rule and where it was written.
pub(super) struct RuleText {
    pub(super) rule: Rule,
    pub(super) written: Written,
    error_if_too_many: PolicyError,
}

/// Compiles the rules of one layer; what is wrong goes to the layer's problems.
pub(super) fn read_rules(c: &mut Canonical<'_>, rules_version: RulesVersion) -> Vec<RuleText> {
    let mut found: Vec<RuleText> = Vec::new();
    for (path, value) in std::mem::take(&mut c.rules) {
        let mut problems = Vec::new();
        let rule = read_rule(&path, &value, rules_version, &mut problems);
        c.problems.append(&mut problems);
        let Some(rule) = rule else { continue };
        if found.iter().any(|other| other.rule.name() == rule.name()) {
            let what = format!("two rules are called '{}'", rule.name());
            c.problem(Code::Rule, &with(&path, "name"), &what, "give each rule its own name");
            continue;
        }
        let too_many = format!("more than {MAX_RULES} rules");
        found.push(RuleText {
            written: written_at(c, &path),
            error_if_too_many: rule_error(c, path, too_many, "join rules with ||, or remove some"),
            rule,
        });
    }
    found
}

/// A rule of a higher layer replaces the rule of the same name; others come after.
pub(super) fn merge_rules(rules: &mut Vec<RuleText>, own: Vec<RuleText>) -> Result<(), PolicyError> {
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

/// The rules of a layer that may only tighten: new ones are added, because a rule never allows anything by itself. One
/// with the name of a rule that is there would replace it, and is left out.
pub(super) fn new_rules(rules: &[RuleText], own: Vec<RuleText>, ignored: &mut Vec<Ignored>) -> Vec<RuleText> {
    let mut new = Vec::new();
    for rule in own {
        match rules.iter().find(|known| known.rule.name() == rule.rule.name()) {
            None => new.push(rule),
            Some(known) if known.rule == rule.rule => {}
            Some(_) => ignored.push(Ignored {
                path: join(&["rules", rule.rule.name()]),
                written: rule.written,
                value: Value::from(rule.rule.when()),
                why: "it would replace a rule of the same name".to_owned(),
            }),
        }
    }
    new
}

/// Collects what is wrong with one rule.
struct Reader<'p> {
    path: &'p [String],
    problems: &'p mut Vec<Problem>,
}

impl Reader<'_> {
    fn wrong(&mut self, code: Code, key: Option<&str>, what: String, help: String) {
        let path = match key {
            Some(key) => with(self.path, key),
            None => self.path.to_vec(),
        };
        self.problems.push(Problem { code, path, as_written: true, what, help });
    }

    /// A text that must be there; anything else is reported with `what`.
    fn text<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        key: &str,
        what: &str,
        max: usize,
    ) -> Option<&'v str> {
        let text = map.get(key).and_then(Value::as_str).map(str::trim);
        let text = text.filter(|text| !text.is_empty() && text.chars().count() <= max);
        if text.is_none() {
            self.wrong(Code::Rule, None, what.to_owned(), example());
        }
        text
    }

    fn message(&mut self, map: &Map<String, Value>, name: &str) -> String {
        match map.get("message") {
            None => format!("rule '{name}' applies"),
            Some(Value::String(text)) if text.chars().count() <= MAX_MESSAGE_CHARS => text.clone(),
            Some(_) => {
                let what = format!("'message' must be a text of at most {MAX_MESSAGE_CHARS} characters");
                self.wrong(Code::Rule, Some("message"), what, "write a shorter text".to_owned());
                String::new()
            }
        }
    }

    fn decision(&mut self, map: &Map<String, Value>) -> Option<Mode> {
        let Some(value) = map.get("decision") else {
            return Some(Mode::Block);
        };
        let found = decision(value);
        if found.is_none() {
            let what = format!("a rule cannot decide {}", kind(value));
            let help = "write observe, warn, block or halt".to_owned();
            self.wrong(Code::Rule, Some("decision"), what, help);
        }
        found
    }
}

fn read_rule(
    path: &[String],
    value: &Value,
    rules_version: RulesVersion,
    problems: &mut Vec<Problem>,
) -> Option<Rule> {
    let mut reader = Reader { path, problems };
    let Value::Object(map) = value else {
        let what = format!("a rule must be a map of keys, not {}", kind(value));
        reader.wrong(Code::Rule, None, what, example());
        return None;
    };
    for key in map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let what = format!("unknown key '{key}' in a rule");
        let help = unknown_help(key, &KEYS, "key");
        reader.wrong(Code::UnknownKey, Some(key), what, help);
    }
    let name = reader.text(map, "name", "a rule needs a name of at most 100 characters", MAX_NAME_CHARS);
    let when = reader.text(map, "when", "a rule needs a condition", usize::MAX);
    let message = reader.message(map, name.unwrap_or(""));
    let decision = reader.decision(map);
    let (name, when, decision) = (name?, when?, decision?);
    let rule = Rule::new(name, when, decision, &message).and_then(|rule| {
        // A stored policy of version 1 was not checked, and must stay readable.
        if rules_version > RulesVersion::V1 {
            rule.check(RuleNames::Policy)?;
        }
        Ok(rule)
    });
    match rule {
        Ok(rule) => Some(rule),
        Err(error) => {
            let what = format!("rule '{name}': {error}");
            reader.wrong(Code::Rule, Some("when"), what, error.help());
            None
        }
    }
}

fn decision(value: &Value) -> Option<Mode> {
    let word = value.as_str()?.trim();
    Mode::WORDS
        .iter()
        .find(|(name, mode)| *name == word && !matches!(mode, Mode::Off | Mode::Staged))
        .map(|(_, mode)| *mode)
}

fn example() -> String {
    "write {name: no-prod, when: \"event.tool == 'deploy'\", decision: block}".to_owned()
}

impl RuleError {
    /// What to do about it, in one line.
    #[must_use]
    pub fn help(&self) -> String {
        rule_help(self)
    }
}

fn rule_help(error: &RuleError) -> String {
    match error {
        RuleError::UnknownField(field, names) => {
            let own = format!("a field of your own is written event['{field}']");
            let fields = known_fields(*names);
            match closest(field, fields.iter().copied()) {
                Some(near) => format!("did you mean 'event.{near}'? ({own})"),
                None => format!("the fields are {}; {own}", fields.join(", ")),
            }
        }
        RuleError::FieldOfOtherType { field, event_type } => {
            let own = fields_of(event_type).unwrap_or_default().join(", ");
            format!("'{event_type}' has: {own}; a field of your own is written event['{field}']")
        }
        RuleError::UnknownValue { value, known, .. } => closest(value, known.iter().copied()).map_or_else(
            || format!("it is one of {}", known.join(", ")),
            |near| format!("did you mean '{near}'?"),
        ),
        RuleError::Misfit(_) => "compare values of one kind, for example event.tool == 'deploy'".to_owned(),
        RuleError::UnknownName(_) => "use event and session, for example event.tool".to_owned(),
        RuleError::UnknownCounter(name) => closest(name, Counters::NAMES).map_or_else(
            || format!("a counter is one of {}", Counters::NAMES.join(", ")),
            |word| format!("did you mean 'session.{word}'?"),
        ),
        RuleError::UnknownFunction(name) if name == "matches" => {
            "use contains, startsWith or endsWith: there are no regular expressions".to_owned()
        }
        RuleError::UnknownFunction(name) => {
            let all = "use size, contains, startsWith, endsWith, has, exists, all, filter or map";
            let near = closest(name, FUNCTIONS.into_iter().chain(["exists", "all", "filter", "map"]));
            near.map_or_else(|| all.to_owned(), |near| format!("did you mean '{near}'? Otherwise {all}"))
        }
        RuleError::NotBool(_) => "compare the value with something, for example == or >".to_owned(),
        RuleError::TooLong | RuleError::TooLarge | RuleError::Nested => {
            "split the condition into several rules".to_owned()
        }
        RuleError::Literal => "compare single values instead".to_owned(),
        _ => "see the CEL language definition; event and session are the variables".to_owned(),
    }
}
