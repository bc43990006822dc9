//! Custom rules: one CEL condition and the decision it leads to.
//!
//! A rule is compiled and bounded when the policy is loaded, so that a mistake is found at
//! the line it was written in and not in the middle of a session. There is no clock, no
//! randomness and no regular expression in the language offered here, and one walk over a
//! list at most, so a rule answers the same everywhere and costs no more than the event is long.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, IdedExpr};
use cel::common::types::{CelBool, CelInt, CelString};
use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::{Value, json};

use super::Mode;
use super::rule_check::{self, RuleNames};
use super::rule_values::{SortedMap, from_json};

/// Rules in one policy.
pub const MAX_RULES: usize = 64;
/// Characters of one condition.
pub const MAX_RULE_CHARS: usize = 1_000;
/// Characters of a rule's message.
pub const MAX_MESSAGE_CHARS: usize = 300;
/// Parts of one condition, counted after macros such as `exists` are written out.
const MAX_RULE_NODES: usize = 200;
/// Brackets inside brackets in one condition.
const MAX_RULE_DEPTH: u16 = 32;

/// What a rule may know about the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Tool calls so far.
    pub calls: u64,
    /// Turns so far.
    pub turns: u64,
    /// Transitions so far.
    pub transitions: u64,
    /// Failed calls so far.
    pub errors: u64,
    /// Decisions `warn` so far.
    pub warnings: u64,
    /// Decisions `block` so far.
    pub blocks: u64,
    /// Tokens in and out.
    pub tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
    /// Active time.
    pub runtime_ms: u64,
    /// Loop iterations so far.
    pub iterations: u64,
    /// User messages so far.
    pub messages: u64,
    /// Visits of the node that acts.
    pub visits: u64,
    /// The session's state: `running`, `blocked` and so on.
    pub state: String,
    /// The node that acts.
    pub node: String,
}

impl Counters {
    /// The names a rule may write after `session.`.
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

/// One event and the session's counters, made ready for any number of rules.
pub struct Facts(Context<'static, 'static>);

impl Facts {
    /// Reads an event once; then ask each rule with [`Rule::holds`].
    pub fn new(event: &Value, session: &Counters) -> Facts {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_as_val("event", from_json(event));
        context.add_variable_as_val("session", Box::new(session.to_map()));
        Facts(context)
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facts")
    }
}

/// Building the standard functions takes far longer than asking one rule.
pub(super) static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A custom rule, compiled.
#[derive(Clone)]
pub struct Rule {
    name: String,
    when: String,
    decision: Mode,
    message: String,
    program: Arc<Program>,
}

impl Rule {
    /// Compiles a rule and checks its bounds.
    ///
    /// `decision` is one of `Observe`, `Warn`, `Block`, `Halt`.
    ///
    /// # Errors
    ///
    /// [`RuleError`] says what is wrong with the condition.
    pub fn new(name: &str, when: &str, decision: Mode, message: &str) -> Result<Rule, RuleError> {
        if matches!(decision, Mode::Off | Mode::Staged) {
            return Err(RuleError::Decision(decision.as_str()));
        }
        let program = compile(when)?;
        let rule = Rule {
            name: name.to_owned(),
            when: when.to_owned(),
            decision,
            message: message.to_owned(),
            program: Arc::new(program),
        };
        rule.dry_run()?;
        Ok(rule)
    }

    /// Checks that the condition can hold: that it names fields and values that there are, and that its operators fit.
    ///
    /// # Errors
    ///
    /// [`RuleError`] says what can never be.
    pub fn check(&self, names: RuleNames) -> Result<(), RuleError> {
        rule_check::check(self.program.expression(), names)
    }

    /// The rule's name, used as the scope of its trips.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition as written.
    pub fn when(&self) -> &str {
        &self.when
    }

    /// What follows when the condition holds: `Observe`, `Warn`, `Block` or `Halt`.
    pub fn decision(&self) -> Mode {
        self.decision
    }

    /// What the model and the person are told.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the condition holds. A field that the event lacks makes it false.
    ///
    /// # Errors
    ///
    /// [`RuleError::Failed`] if the condition cannot be worked out for this event,
    /// [`RuleError::NotBool`] if it gives something else than true or false.
    pub fn eval(&self, event: &Value, session: &Counters) -> Result<bool, RuleError> {
        self.holds(&Facts::new(event, session))
    }

    /// Like [`Rule::eval`], for many rules on one event.
    ///
    /// # Errors
    ///
    /// As [`Rule::eval`].
    pub fn holds(&self, facts: &Facts) -> Result<bool, RuleError> {
        match CelValue::resolve_val(self.program.expression(), &facts.0) {
            Ok(value) => value
                .downcast_ref::<CelBool>()
                .map(|b| *b.inner())
                .ok_or_else(|| RuleError::NotBool(value.get_type().name().to_owned())),
            Err(ExecutionError::NoSuchKey(_)) => Ok(false),
            Err(error) => Err(RuleError::Failed(failure(&error))),
        }
    }

    /// Runs the rule on a made-up event. Fields that it lacks decide nothing, but a rule
    /// whose result can never be true or false, or that names an unknown function, shows here.
    fn dry_run(&self) -> Result<(), RuleError> {
        let event = json!({
            "type": "tool.requested", "session": "default", "tool": "", "call": "", "node": "",
            "args": {}, "text": "", "from": "", "to": "", "at": 0, "round": 0
        });
        match self.holds(&Facts::new(&event, &Counters::default())) {
            Err(error @ RuleError::NotBool(_)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.when == other.when
            && self.decision == other.decision
            && self.message == other.message
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("when", &self.when)
            .field("decision", &self.decision)
            .field("message", &self.message)
            .finish()
    }
}

/// What is wrong with a rule, or why it gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The condition is not CEL.
    Syntax(String),
    /// The condition is longer than [`MAX_RULE_CHARS`].
    TooLong,
    /// The condition has more parts than the bound.
    TooLarge,
    /// A list is walked inside the walk over another list.
    Nested,
    /// Map and message literals are not part of the rule language.
    Literal,
    /// A name that is neither `event` nor `session` nor bound by a macro.
    UnknownName(String),
    /// A function that the rule language does not have.
    UnknownFunction(String),
    /// A counter that the session does not have.
    UnknownCounter(String),
    /// A field that no event has.
    UnknownField(String, RuleNames),
    /// A field that events of the type that the condition asks for do not have.
    FieldOfOtherType {
        /// The field.
        field: String,
        /// The type that the condition asks for.
        event_type: String,
    },
    /// A value that a field never takes.
    UnknownValue {
        /// The field, such as `event.type`.
        field: String,
        /// The value that was written.
        value: String,
        /// The values that there are.
        known: Vec<&'static str>,
    },
    /// An operator or function that does not fit what it is given.
    Misfit(String),
    /// The decision is not one of `observe`, `warn`, `block`, `halt`.
    Decision(&'static str),
    /// The condition gives something else than true or false.
    NotBool(String),
    /// The condition could not be worked out for this event.
    Failed(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Syntax(detail) => write!(f, "the condition cannot be read: {detail}"),
            RuleError::TooLong => write!(f, "the condition is longer than {MAX_RULE_CHARS} characters"),
            RuleError::TooLarge => write!(f, "the condition has more than {MAX_RULE_NODES} parts"),
            RuleError::Nested => write!(f, "one walk over a list inside another is not allowed"),
            RuleError::Literal => write!(f, "map literals are not allowed in a condition"),
            RuleError::UnknownName(detail) => write!(f, "unknown name '{detail}'"),
            RuleError::UnknownFunction(detail) => write!(f, "unknown function '{detail}'"),
            RuleError::UnknownCounter(detail) => write!(f, "unknown counter 'session.{detail}'"),
            RuleError::UnknownField(field, _) => write!(f, "unknown field 'event.{field}'"),
            RuleError::FieldOfOtherType { field, event_type } => {
                write!(
                    f,
                    "an event of type '{event_type}' has no field '{field}', so the condition never holds"
                )
            }
            RuleError::UnknownValue { field, value, .. } => write!(f, "'{field}' is never '{value}'"),
            RuleError::Misfit(detail) => write!(f, "{detail}"),
            RuleError::Decision(detail) => write!(f, "a rule cannot decide '{detail}'"),
            RuleError::NotBool(detail) => {
                write!(f, "the condition gives {detail}, not true or false")
            }
            RuleError::Failed(detail) => write!(f, "the condition failed: {detail}"),
        }
    }
}

impl std::error::Error for RuleError {}

/// CEL's own texts print whole values, which may be a tool's output; keep the kind only.
fn failure(error: &ExecutionError) -> String {
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
    // The parser recurses; its own limit is on grammar levels, this one is on what a
    // person can nest, and keeps the stack small.
    check_brackets(when)?;
    let program = ENVIRONMENT.compile(when).map_err(|errors| {
        let first = errors.errors.first();
        RuleError::Syntax(first.map_or_else(String::new, |e| {
            let (_, column) = e.pos;
            format!("{} (character {column})", e.msg)
        }))
    })?;
    let mut bounds = Bounds::default();
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
struct Bounds {
    nodes: usize,
}

impl Bounds {
    fn check(&mut self, node: &IdedExpr, walks: usize, bound: &mut Vec<String>) -> Result<(), RuleError> {
        self.nodes += 1;
        if self.nodes > MAX_RULE_NODES {
            return Err(RuleError::TooLarge);
        }
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => known_name(name, bound),
            Expr::Select(select) => {
                if let Expr::Ident(root) = &select.operand.expr
                    && root == "session"
                    && !bound.contains(root)
                    && !Counters::NAMES.contains(&select.field.as_str())
                {
                    return Err(RuleError::UnknownCounter(select.field.clone()));
                }
                self.check(&select.operand, walks, bound)
            }
            Expr::Call(call) => {
                known_function(&call.func_name)?;
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

fn known_name(name: &str, bound: &[String]) -> Result<(), RuleError> {
    let known = name == "event" || name == "session" || bound.iter().any(|b| b == name);
    known.then_some(()).ok_or_else(|| RuleError::UnknownName(name.to_owned()))
}

/// The functions of the rule language, beside its macros.
pub(super) const FUNCTIONS: [&str; 10] =
    ["size", "contains", "startsWith", "endsWith", "string", "int", "uint", "double", "bool", "has"];

/// Whether the rule language has a function: operators are written by the parser with signs,
/// such as `_&&_` or `@in`.
fn known_function(name: &str) -> Result<(), RuleError> {
    let operator = name.starts_with(['_', '@', '!', '-']);
    (operator || FUNCTIONS.contains(&name))
        .then_some(())
        .ok_or_else(|| RuleError::UnknownFunction(name.to_owned()))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
