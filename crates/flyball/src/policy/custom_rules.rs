//! Custom rules: a CEL condition and the verdict when it is true.
//!
//! Rules are compiled and bounded when the policy is loaded, so a mistake is reported at its line and not in the middle
//! of a session. The language has no clock, no randomness and no regular expressions, and allows no nested iteration
//! over lists. A rule therefore gives the same result everywhere, at a cost linear in the size of the event.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, IdedExpr};
use cel::common::types::{CelBool, CelInt, CelString};
use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::{Value, json};

use super::GuardMode;
use super::cel_values::{SortedMap, from_json};
use super::rule_check::{self, RuleNames};

/// Maximum number of rules in one policy.
pub const MAX_RULES: usize = 64;
/// Maximum length of a condition, in characters.
pub const MAX_RULE_CHARS: usize = 1_000;
/// Maximum length of a rule's message, in characters.
pub const MAX_MESSAGE_CHARS: usize = 300;
/// Maximum number of nodes in a condition, after macros such as `exists` are expanded.
const MAX_RULE_NODES: usize = 200;
/// Maximum bracket depth of a condition.
const MAX_RULE_DEPTH: u16 = 32;

/// The session counters that a rule can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Tool calls so far.
    pub calls: u64,
    /// Turns so far.
    pub turns: u64,
    /// Transitions so far.
    pub transitions: u64,
    /// Failed calls so far.
    pub errors: u64,
    /// Number of `warn` verdicts so far.
    pub warnings: u64,
    /// Number of `block` verdicts so far.
    pub blocks: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
    /// Active time, not counting pauses and time spent waiting for a person.
    pub runtime_ms: u64,
    /// Loop iterations so far.
    pub iterations: u64,
    /// User messages so far.
    pub messages: u64,
    /// Visits to the current node.
    pub visits: u64,
    /// The session's state: `running`, `blocked` and so on.
    pub state: String,
    /// The current node.
    pub node: String,
}

impl SessionCounters {
    /// The names allowed after `session.`.
    pub const NAMES: [&'static str; 14] = [
        "calls",
        "turns",
        "transitions",
        "errors",
        "warnings",
        "blocks",
        "tokens",
        "cost_micro_usd",
        "runtime_ms",
        "iterations",
        "messages",
        "visits",
        "state",
        "node",
    ];

    fn to_map(&self) -> SortedMap<'static> {
        let numbers = [
            self.calls,
            self.turns,
            self.transitions,
            self.errors,
            self.warnings,
            self.blocks,
            self.tokens,
            self.cost_micro_usd,
            self.runtime_ms,
            self.iterations,
            self.messages,
            self.visits,
        ];
        let mut entries: BTreeMap<String, Box<dyn Val>> = BTreeMap::new();
        for (name, number) in Self::NAMES.iter().zip(numbers) {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            entries.insert((*name).to_owned(), Box::new(CelInt::from(number)));
        }
        entries.insert("state".into(), Box::new(CelString::from(self.state.clone())));
        entries.insert("node".into(), Box::new(CelString::from(self.node.clone())));
        SortedMap::new(entries)
    }
}

/// One event and the session's counters, prepared for evaluating any number of rules.
pub struct RuleInput(Context<'static, 'static>);

impl RuleInput {
    /// Converts an event once; evaluate each rule with [`PolicyRule::matches`].
    pub fn new(event: &Value, session: &SessionCounters) -> RuleInput {
        let mut context = Context::with_env(Arc::clone(&CEL_ENVIRONMENT));
        context.add_variable_as_val("event", from_json(event));
        context.add_variable_as_val("session", Box::new(session.to_map()));
        RuleInput(context)
    }
}

impl fmt::Debug for RuleInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facts")
    }
}

/// Shared, because building the standard functions takes far longer than evaluating one rule.
pub(super) static CEL_ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled custom rule.
#[derive(Clone)]
pub struct PolicyRule {
    name: String,
    when: String,
    decision: GuardMode,
    message: String,
    program: Arc<Program>,
}

impl PolicyRule {
    /// Compiles a rule and checks its bounds.
    ///
    /// `decision` is one of `Observe`, `Warn`, `Block`, `Halt`.
    ///
    /// # Errors
    ///
    /// Returns a [`RuleError`] if the condition is invalid.
    pub fn new(name: &str, when: &str, decision: GuardMode, message: &str) -> Result<PolicyRule, RuleError> {
        if matches!(decision, GuardMode::Off | GuardMode::Staged) {
            return Err(RuleError::Decision(decision.as_str()));
        }
        let program = compile(when)?;
        let rule = PolicyRule {
            name: name.to_owned(),
            when: when.to_owned(),
            decision,
            message: message.to_owned(),
            program: Arc::new(program),
        };
        rule.dry_run()?;
        Ok(rule)
    }

    /// Checks that the condition can be true: its fields and values exist, and its operators match their operands.
    ///
    /// # Errors
    ///
    /// Returns a [`RuleError`] for a comparison that can never be true.
    pub fn check(&self, names: RuleNames) -> Result<(), RuleError> {
        rule_check::check_condition(self.program.expression(), names)
    }

    /// The rule's name, used as the scope of its trips.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition as written.
    pub fn when(&self) -> &str {
        &self.when
    }

    /// The verdict when the condition is true: `Observe`, `Warn`, `Block` or `Halt`.
    pub fn decision(&self) -> GuardMode {
        self.decision
    }

    /// The message to the model and the operator.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Evaluates the condition. A field that the event lacks makes it false.
    ///
    /// # Errors
    ///
    /// [`RuleError::Failed`] if the condition cannot be evaluated for this event, [`RuleError::NotBool`] if its result
    /// is not a boolean.
    pub fn eval(&self, event: &Value, session: &SessionCounters) -> Result<bool, RuleError> {
        self.matches(&RuleInput::new(event, session))
    }

    /// Like [`PolicyRule::eval`], for many rules on one event.
    ///
    /// # Errors
    ///
    /// Same as [`PolicyRule::eval`].
    pub fn matches(&self, facts: &RuleInput) -> Result<bool, RuleError> {
        match CelValue::resolve_val(self.program.expression(), &facts.0) {
            Ok(value) => value
                .downcast_ref::<CelBool>()
                .map(|b| *b.inner())
                .ok_or_else(|| RuleError::NotBool(value.get_type().name().to_owned())),
            Err(ExecutionError::NoSuchKey(_)) => Ok(false),
            Err(error) => Err(RuleError::Failed(describe_failure(&error))),
        }
    }

    /// Evaluates the rule on a sample event, to find a rule whose result is never a boolean. Missing fields do not
    /// matter.
    fn dry_run(&self) -> Result<(), RuleError> {
        let event = json!({
            "type": "tool.requested", "session": "default", "tool": "", "call": "", "node": "",
            "args": {}, "text": "", "from": "", "to": "", "at": 0, "round": 0
        });
        match self.matches(&RuleInput::new(&event, &SessionCounters::default())) {
            Err(error @ RuleError::NotBool(_)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl PartialEq for PolicyRule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.when == other.when
            && self.decision == other.decision
            && self.message == other.message
    }
}

impl fmt::Debug for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("when", &self.when)
            .field("decision", &self.decision)
            .field("message", &self.message)
            .finish()
    }
}

/// An invalid rule, or a failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The condition is not valid CEL.
    Syntax(String),
    /// The condition is longer than [`MAX_RULE_CHARS`].
    TooLong,
    /// The condition has too many nodes or is nested too deeply.
    TooLarge,
    /// Iteration over a list inside the iteration over another list.
    Nested,
    /// Map and message literals are not part of the rule language.
    Literal,
    /// A name other than `event`, `session` and the variables of macros.
    UnknownName(String),
    /// An unknown function.
    UnknownFunction(String),
    /// An unknown session counter.
    UnknownCounter(String),
    /// A field that no event has.
    UnknownField(String, RuleNames),
    /// A field that does not exist on the event type in the condition.
    FieldOfOtherType {
        /// The field.
        field: String,
        /// The event type in the condition.
        event_type: String,
    },
    /// A value that a field never has.
    UnknownValue {
        /// The field, such as `event.type`.
        field: String,
        /// The value as written.
        value: String,
        /// The possible values.
        known: Vec<&'static str>,
    },
    /// An operator or function that does not match its operands.
    TypeMismatch(String),
    /// The decision is not one of `observe`, `warn`, `block`, `halt`.
    Decision(&'static str),
    /// The result of the condition is not a boolean.
    NotBool(String),
    /// The condition could not be evaluated for this event.
    Failed(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Syntax(detail) => write!(f, "invalid condition: {detail}"),
            RuleError::TooLong => write!(f, "the condition is longer than {MAX_RULE_CHARS} characters"),
            RuleError::TooLarge => write!(f, "the condition has more than {MAX_RULE_NODES} parts"),
            RuleError::Nested => write!(f, "nested iteration over lists is not allowed"),
            RuleError::Literal => write!(f, "map literals are not allowed in a condition"),
            RuleError::UnknownName(detail) => write!(f, "unknown name '{detail}'"),
            RuleError::UnknownFunction(detail) => write!(f, "unknown function '{detail}'"),
            RuleError::UnknownCounter(detail) => write!(f, "unknown counter 'session.{detail}'"),
            RuleError::UnknownField(field, _) => write!(f, "unknown field 'event.{field}'"),
            RuleError::FieldOfOtherType { field, event_type } => {
                write!(
                    f,
                    "an event of type '{event_type}' has no field '{field}', so the condition is never true"
                )
            }
            RuleError::UnknownValue { field, value, .. } => write!(f, "'{field}' is never '{value}'"),
            RuleError::TypeMismatch(detail) => write!(f, "{detail}"),
            RuleError::Decision(detail) => write!(f, "invalid decision '{detail}'"),
            RuleError::NotBool(detail) => {
                write!(f, "the condition gives {detail}, not true or false")
            }
            RuleError::Failed(detail) => write!(f, "the condition failed: {detail}"),
        }
    }
}

impl std::error::Error for RuleError {}

/// CEL's own messages print whole values, which may be tool output, so only the kind is kept.
fn describe_failure(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::UndeclaredReference(name) => format!("unknown name '{name}'"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(operator, _, _) => format!("overflow in '{operator}'"),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        _ => "the values do not fit the operator".to_owned(),
    }
}

fn compile(when: &str) -> Result<Program, RuleError> {
    if when.chars().count() > MAX_RULE_CHARS {
        return Err(RuleError::TooLong);
    }
    // The parser recurses, and its own limit counts grammar levels. This limit counts the brackets a person writes and
    // keeps the stack small.
    check_brackets(when)?;
    let program = CEL_ENVIRONMENT.compile(when).map_err(|errors| {
        let first = errors.errors.first();
        RuleError::Syntax(first.map_or_else(String::new, |e| {
            let (_, column) = e.pos;
            format!("{} (character {column})", e.msg)
        }))
    })?;
    let mut bounds = ConditionChecker::default();
    bounds.check(program.expression(), 0, &mut Vec::new())?;
    Ok(program)
}

fn check_brackets(when: &str) -> Result<(), RuleError> {
    let mut depth = 0_u16;
    for c in when.chars() {
        match c {
            '(' | '[' | '{' | '?' | '!' | '-' => depth = depth.saturating_add(1),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_RULE_DEPTH {
            return Err(RuleError::TooLarge);
        }
    }
    Ok(())
}

#[derive(Default)]
struct ConditionChecker {
    nodes: usize,
}

impl ConditionChecker {
    fn check(&mut self, node: &IdedExpr, walks: usize, bound: &mut Vec<String>) -> Result<(), RuleError> {
        self.nodes += 1;
        if self.nodes > MAX_RULE_NODES {
            return Err(RuleError::TooLarge);
        }
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => check_name(name, bound),
            Expr::Select(select) => {
                if let Expr::Ident(root) = &select.operand.expr
                    && root == "session"
                    && !bound.contains(root)
                    && !SessionCounters::NAMES.contains(&select.field.as_str())
                {
                    return Err(RuleError::UnknownCounter(select.field.clone()));
                }
                self.check(&select.operand, walks, bound)
            }
            Expr::Call(call) => {
                check_function(&call.func_name)?;
                call.target
                    .iter()
                    .map(AsRef::as_ref)
                    .chain(&call.args)
                    .try_for_each(|part| self.check(part, walks, bound))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|part| self.check(part, walks, bound)),
            Expr::Map(_) | Expr::Struct(_) => Err(RuleError::Literal),
            Expr::Comprehension(walk) => {
                if walks > 0 {
                    return Err(RuleError::Nested);
                }
                self.check(&walk.iter_range, walks, bound)?;
                let before = bound.len();
                bound.push(walk.iter_var.clone());
                bound.extend(walk.iter_var2.clone());
                bound.push(walk.accu_var.clone());
                for part in [&walk.accu_init, &walk.loop_cond, &walk.loop_step, &walk.result] {
                    self.check(part, walks + 1, bound)?;
                }
                bound.truncate(before);
                Ok(())
            }
        }
    }
}

fn check_name(name: &str, bound: &[String]) -> Result<(), RuleError> {
    let known = name == "event" || name == "session" || bound.iter().any(|b| b == name);
    known.then_some(()).ok_or_else(|| RuleError::UnknownName(name.to_owned()))
}

/// The functions of the rule language, in addition to its macros.
pub(super) const FUNCTIONS: [&str; 10] =
    ["size", "contains", "startsWith", "endsWith", "string", "int", "uint", "double", "bool", "has"];

/// Whether the rule language has a function. The parser writes operators with symbols, such as `_&&_` or `@in`.
fn check_function(name: &str) -> Result<(), RuleError> {
    let operator = name.starts_with(['_', '@', '!', '-']);
    (operator || FUNCTIONS.contains(&name))
        .then_some(())
        .ok_or_else(|| RuleError::UnknownFunction(name.to_owned()))
}

#[cfg(test)]
#[path = "custom_rules_tests.rs"]
mod tests;
