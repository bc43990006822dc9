//! Finds conditions that are never true or fail on every event, when a rule is loaded: unknown fields, impossible
//! values, operators that do not match their operands.
//!
//! An event may carry custom fields of its sender, which a rule reads with `event['name']`. `event.name` must be a
//! field that Flyball knows, so that typos are found.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cel::common::ast::{CallExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use cel::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel::{Context, Value as CelValue};

use super::cel_values::SortedMap;
use super::custom_rules::{CEL_ENVIRONMENT, RuleError, SessionCounters};
use crate::event::{fields_of, type_names};

/// The static type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueShape {
    /// Anything.
    Any,
    Text,
    Int,
    Double,
    Bool,
    Null,
    List,
    /// A map with arbitrary keys.
    Map,
    /// The event itself.
    Event,
    /// The session's counters.
    Session,
    /// The usage reported by an event.
    Usage,
}

impl ValueShape {
    fn name(self) -> &'static str {
        match self {
            ValueShape::Any => "anything",
            ValueShape::Text => "a string",
            ValueShape::Int | ValueShape::Double => "a number",
            ValueShape::Bool => "a boolean",
            ValueShape::Null => "null",
            ValueShape::List => "a list",
            ValueShape::Map | ValueShape::Event | ValueShape::Session | ValueShape::Usage => "a map",
        }
    }

    fn is_map(self) -> bool {
        matches!(self, ValueShape::Map | ValueShape::Event | ValueShape::Session | ValueShape::Usage)
    }

    fn is_number(self) -> bool {
        matches!(self, ValueShape::Int | ValueShape::Double)
    }

    /// Whether two values of these shapes can ever be equal.
    fn may_equal(self, other: ValueShape) -> bool {
        let loose = |shape| matches!(shape, ValueShape::Any | ValueShape::Null);
        loose(self)
            || loose(other)
            || self == other
            || self.is_map() && other.is_map()
            || self.is_number() && other.is_number()
    }
}

/// The names available in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleNames {
    /// A rule of a policy: `event` is the event, `session` its counters.
    Policy,
    /// A condition of a workflow router: `event` is the last outcome, with the state of the run.
    Route,
}

/// The fields of every event, and those that Flyball adds.
const ENVELOPE_FIELDS: [&str; 16] = [
    "type",
    "session",
    "id",
    "at",
    "node",
    "round",
    "usage",
    "outcome",
    "model",
    "idle",
    "suspended_ms",
    "relayed_by",
    "claimed_at",
    "claimed_by",
    "claimed_idle",
    "claimed_origin",
];
/// The fields available to a router.
const ROUTE_FIELDS: [&str; 7] = ["from", "outcome", "output", "structured", "vars", "visits", "node"];
const USAGE_FIELDS: [&str; 3] = ["tokens_in", "tokens_out", "cost_usd"];

impl RuleNames {
    /// The fields allowed after `event.`.
    fn fields(self) -> Vec<&'static str> {
        match self {
            RuleNames::Route => ROUTE_FIELDS.to_vec(),
            RuleNames::Policy => {
                let own = type_names().filter_map(fields_of).flatten().copied();
                let mut all: Vec<&str> = ENVELOPE_FIELDS.into_iter().chain(own).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    /// The type of a field.
    fn shape(self, field: &str) -> ValueShape {
        match field {
            "type" | "session" | "id" | "node" | "text" | "origin" | "by" | "digest" | "call" | "tool"
            | "from" | "to" | "edge" | "signal" | "content" | "hash" | "better" | "kind" | "expected"
            | "received" | "operation" | "key" | "request" | "question" | "requester" | "guard" | "mode"
            | "why" | "outcome" | "parent" | "goal" | "model" | "relayed_by" | "claimed_by"
            | "claimed_origin" => ValueShape::Text,
            "output" if self == RuleNames::Route => ValueShape::Text,
            "at" | "duration_ms" | "done" | "total" | "n" | "ttl_ms" | "suspended_ms" => ValueShape::Int,
            "final" | "ok" | "reopen" | "idle" => ValueShape::Bool,
            "failing" | "checks" | "plan" | "targets" | "tightened" | "waiting" => ValueShape::List,
            "labels" | "workflow" | "vars" | "visits" => ValueShape::Map,
            "usage" => ValueShape::Usage,
            _ => ValueShape::Any,
        }
    }

    /// The possible values of a field, if it has a fixed set.
    fn values(self, field: &str) -> Option<Vec<&'static str>> {
        match (self, field) {
            (RuleNames::Policy, "type") => Some(type_names().collect()),
            (RuleNames::Policy, "origin") => Some(vec!["human", "agent", "schedule"]),
            (RuleNames::Policy, "mode") => Some(vec!["grant", "reset", "keep"]),
            (RuleNames::Route, "outcome") => Some(vec!["success", "failure", "partial_success", "unclear"]),
            _ => None,
        }
    }
}

const SESSION_STATES: [&str; 5] = ["running", "awaiting_confirmation", "blocked", "halted", "ended"];

/// Checks a condition that has been compiled.
pub(super) fn check_condition(condition: &IdedExpr, names: RuleNames) -> Result<(), RuleError> {
    let mut checker = ConditionTypeChecker { names, bound_variables: Vec::new(), event_types: None };
    match checker.expression_shape(condition)? {
        ValueShape::Bool | ValueShape::Any => Ok(()),
        other => Err(RuleError::NotBool(other.name().to_owned())),
    }
}

/// The fields allowed after `event.`, for suggestions.
pub(super) fn known_fields(names: RuleNames) -> Vec<&'static str> {
    names.fields()
}

struct ConditionTypeChecker {
    names: RuleNames,
    /// Variables of macros, with their types.
    bound_variables: Vec<(String, ValueShape)>,
    /// The possible event types at this point of the condition, if it restricts them.
    event_types: Option<Vec<String>>,
}

impl ConditionTypeChecker {
    fn expression_shape(&mut self, node: &IdedExpr) -> Result<ValueShape, RuleError> {
        Ok(match &node.expr {
            Expr::Unspecified | Expr::Map(_) | Expr::Struct(_) => ValueShape::Any,
            Expr::Literal(literal) => literal_shape(literal),
            Expr::Ident(name) => self.variable_shape(name)?,
            Expr::Select(select) => {
                let around = self.expression_shape(&select.operand)?;
                let shape = self.field_shape(around, &select.field)?;
                if select.test { ValueShape::Bool } else { shape }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.expression_shape(element)?;
                }
                ValueShape::List
            }
            Expr::Call(call) => self.call_shape(call)?,
            Expr::Comprehension(walk) => {
                let range = self.expression_shape(&walk.iter_range)?;
                if !(range == ValueShape::Any || range == ValueShape::List || range.is_map()) {
                    return Err(RuleError::TypeMismatch(format!("cannot iterate over {}", range.name())));
                }
                let before = self.bound_variables.len();
                let element = if range.is_map() { ValueShape::Text } else { ValueShape::Any };
                let result = self.expression_shape(&walk.accu_init)?;
                self.bound_variables.push((walk.iter_var.clone(), element));
                self.bound_variables.extend(walk.iter_var2.clone().map(|name| (name, ValueShape::Any)));
                self.bound_variables.push((walk.accu_var.clone(), result));
                for part in [&walk.loop_cond, &walk.loop_step] {
                    self.expression_shape(part)?;
                }
                let result = self.expression_shape(&walk.result)?;
                self.bound_variables.truncate(before);
                result
            }
        })
    }

    fn variable_shape(&self, name: &str) -> Result<ValueShape, RuleError> {
        if let Some((_, shape)) = self.bound_variables.iter().rev().find(|(known, _)| known == name) {
            return Ok(*shape);
        }
        match (name, self.names) {
            ("event", _) => Ok(ValueShape::Event),
            ("session", RuleNames::Policy) => Ok(ValueShape::Session),
            _ => Err(RuleError::UnknownName(name.to_owned())),
        }
    }

    /// The type of a field of a value.
    fn field_shape(&self, around: ValueShape, field: &str) -> Result<ValueShape, RuleError> {
        let names = self.names;
        match around {
            ValueShape::Any | ValueShape::Map => Ok(ValueShape::Any),
            ValueShape::Event if !names.fields().contains(&field) => {
                Err(RuleError::UnknownField(field.to_owned(), names))
            }
            ValueShape::Event => {
                let lacks = |name: &String| {
                    fields_of(name).is_some_and(|own| !own.contains(&field))
                        && !ENVELOPE_FIELDS.contains(&field)
                };
                match self.event_types.as_deref() {
                    Some([one, ..]) if self.event_types.iter().flatten().all(lacks) => {
                        Err(RuleError::FieldOfOtherType { field: field.to_owned(), event_type: one.clone() })
                    }
                    _ => Ok(names.shape(field)),
                }
            }
            ValueShape::Session if !SessionCounters::NAMES.contains(&field) => {
                Err(RuleError::UnknownCounter(field.to_owned()))
            }
            ValueShape::Session => {
                Ok(if ["state", "node"].contains(&field) { ValueShape::Text } else { ValueShape::Int })
            }
            ValueShape::Usage if !USAGE_FIELDS.contains(&field) => Err(RuleError::TypeMismatch(format!(
                "'usage' has no field '{field}'; its fields are {}",
                USAGE_FIELDS.join(", ")
            ))),
            ValueShape::Usage => Ok(if field == "cost_usd" { ValueShape::Any } else { ValueShape::Int }),
            other => Err(RuleError::TypeMismatch(format!("{} has no field '{field}'", other.name()))),
        }
    }

    fn call_shape(&mut self, call: &CallExpr) -> Result<ValueShape, RuleError> {
        if call.func_name == operators::LOGICAL_AND {
            return self.conjunction_shape(call);
        }
        if let (operators::INDEX, [around, key]) = (call.func_name.as_str(), call.args.as_slice()) {
            return self.index_shape(around, key);
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        let shapes: Vec<ValueShape> =
            parts.map(|part| self.expression_shape(part)).collect::<Result<_, _>>()?;
        match (call.func_name.as_str(), shapes.as_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if !a.may_equal(*b) => {
                return Err(RuleError::TypeMismatch(format!("{} is never equal to {}", a.name(), b.name())));
            }
            (operators::LOGICAL_OR | operators::LOGICAL_NOT, shapes) => return require_bools(shapes),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                require_bools(&[*condition])?;
                return Ok(if yes == no { *yes } else { ValueShape::Any });
            }
            _ => {}
        }
        self.check_known_values(call)?;
        apply_to_samples(call, &shapes)
    }

    /// Checks each part of a conjunction for the event types that another part requires.
    fn conjunction_shape(&mut self, call: &CallExpr) -> Result<ValueShape, RuleError> {
        let mut asked = Vec::new();
        compared_event_types(call, &mut asked);
        let before = self.event_types.clone();
        for types in asked {
            let both =
                |known: &Vec<String>| known.iter().filter(|name| types.contains(name)).cloned().collect();
            let narrowed: Vec<String> = self.event_types.as_ref().map_or_else(|| types.clone(), both);
            if narrowed.is_empty() && !types.is_empty() {
                return Err(RuleError::TypeMismatch("an event cannot have two types".to_owned()));
            }
            self.event_types = Some(narrowed);
        }
        let shapes: Result<Vec<ValueShape>, RuleError> =
            call.args.iter().map(|part| self.expression_shape(part)).collect();
        self.event_types = before;
        require_bools(&shapes?)
    }

    fn index_shape(&mut self, around: &IdedExpr, key: &IdedExpr) -> Result<ValueShape, RuleError> {
        let (around, key_shape) = (self.expression_shape(around)?, self.expression_shape(key)?);
        let literal = match &key.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
            _ => None,
        };
        match around {
            // A custom field of the sender, of unknown type.
            ValueShape::Event => {
                let known = literal.filter(|name| self.names.fields().contains(name));
                known.map_or(Ok(ValueShape::Any), |name| self.field_shape(around, name))
            }
            ValueShape::Session | ValueShape::Usage => {
                literal.map_or(Ok(ValueShape::Any), |name| self.field_shape(around, name))
            }
            ValueShape::List if !matches!(key_shape, ValueShape::Int | ValueShape::Any) => {
                Err(RuleError::TypeMismatch(format!("a list cannot be indexed with {}", key_shape.name())))
            }
            ValueShape::Any | ValueShape::Map | ValueShape::List => Ok(ValueShape::Any),
            other => Err(RuleError::TypeMismatch(format!("{} has no elements", other.name()))),
        }
    }

    /// Finds comparisons with values that a field never has: `event.type == 'tool.request'`.
    fn check_known_values(&self, call: &CallExpr) -> Result<(), RuleError> {
        let [left, right] = call.args.as_slice() else { return Ok(()) };
        let compares = [operators::EQUALS, operators::NOT_EQUALS, operators::IN];
        if !compares.contains(&call.func_name.as_str()) {
            return Ok(());
        }
        for (field, other) in [(left, right), (right, left)] {
            let Some((name, values)) = self.enumerated(field) else { continue };
            let wrong = literal_texts(other).into_iter().find(|text| !values.contains(&text.as_str()));
            if let Some(value) = wrong {
                return Err(RuleError::UnknownValue { field: name, value, known: values });
            }
        }
        Ok(())
    }

    fn enumerated(&self, node: &IdedExpr) -> Option<(String, Vec<&'static str>)> {
        let Expr::Select(select) = &node.expr else { return None };
        let Expr::Ident(root) = &select.operand.expr else { return None };
        if self.bound_variables.iter().any(|(known, _)| known == root) {
            return None;
        }
        let name = format!("{root}.{}", select.field);
        match root.as_str() {
            "event" => Some((name, self.names.values(&select.field)?)),
            "session" if select.field == "state" => Some((name, SESSION_STATES.to_vec())),
            _ => None,
        }
    }
}

/// The strings in a literal or in a list of literals.
fn literal_texts(node: &IdedExpr) -> Vec<String> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => vec![text.inner().to_owned()],
        Expr::List(list) => list.elements.iter().flat_map(literal_texts).collect(),
        _ => Vec::new(),
    }
}

/// The event types that the parts of a conjunction require, each as a list of alternatives.
fn compared_event_types(call: &CallExpr, asked: &mut Vec<Vec<String>>) {
    let is_type = |node: &IdedExpr| {
        matches!(&node.expr, Expr::Select(select) if select.field == "type" && !select.test
            && matches!(&select.operand.expr, Expr::Ident(root) if root == "event"))
    };
    for part in &call.args {
        let Expr::Call(inner) = &part.expr else { continue };
        match (inner.func_name.as_str(), inner.args.as_slice()) {
            (operators::LOGICAL_AND, _) => compared_event_types(inner, asked),
            (operators::EQUALS, [a, b]) if is_type(a) || is_type(b) => {
                let named = literal_texts(if is_type(a) { b } else { a });
                asked.extend((!named.is_empty()).then_some(named));
            }
            (operators::IN, [a, b]) if is_type(a) => {
                let named = literal_texts(b);
                asked.extend((!named.is_empty()).then_some(named));
            }
            _ => {}
        }
    }
}

fn require_bools(shapes: &[ValueShape]) -> Result<ValueShape, RuleError> {
    match shapes.iter().find(|shape| !matches!(shape, ValueShape::Bool | ValueShape::Any)) {
        Some(other) => Err(RuleError::TypeMismatch(format!("expected a boolean, found {}", other.name()))),
        None => Ok(ValueShape::Bool),
    }
}

fn literal_shape(literal: &LiteralValue) -> ValueShape {
    match literal {
        LiteralValue::Boolean(_) => ValueShape::Bool,
        LiteralValue::Double(_) => ValueShape::Double,
        LiteralValue::Int(_) => ValueShape::Int,
        LiteralValue::Null => ValueShape::Null,
        LiteralValue::String(_) => ValueShape::Text,
        LiteralValue::Bytes(_) | LiteralValue::UInt(_) => ValueShape::Any,
    }
}

/// Evaluates a call with one sample value of each type. If the language does not support these types, it fails.
fn apply_to_samples(call: &CallExpr, shapes: &[ValueShape]) -> Result<ValueShape, RuleError> {
    let result = match call.func_name.as_str() {
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::IN
        | operators::NOT_STRICTLY_FALSE
        | "contains"
        | "startsWith"
        | "endsWith"
        | "bool" => ValueShape::Bool,
        "size" | "int" => ValueShape::Int,
        "string" => ValueShape::Text,
        "double" => ValueShape::Double,
        _ => ValueShape::Any,
    };
    let samples: Option<Vec<IdedExpr>> = shapes.iter().map(|shape| sample_value(*shape)).collect();
    let Some(mut samples) = samples else { return Ok(result) };
    let target = call.target.is_some().then(|| Box::new(samples.remove(0)));
    let tried = CallExpr { func_name: call.func_name.clone(), target, args: samples };
    let node = IdedExpr { id: 0, expr: Expr::Call(tried) };
    match CelValue::resolve_val(&node, &SAMPLES.0) {
        Ok(value) if value.get_type().name() == "bool" => Ok(ValueShape::Bool),
        Ok(value) if value.get_type().name() == "string" => Ok(ValueShape::Text),
        Ok(value) if value.get_type().name() == "int" => Ok(ValueShape::Int),
        Ok(_) => Ok(result),
        Err(_) => {
            let words: Vec<&str> = shapes.iter().map(|shape| shape.name()).collect();
            let what = call.func_name.trim_matches(['_', '@']);
            Err(RuleError::TypeMismatch(format!("'{what}' cannot be applied to {}", words.join(" and "))))
        }
    }
}

/// A sample value of a type, unless the result depends on the value: converting a string depends on its text.
fn sample_value(shape: ValueShape) -> Option<IdedExpr> {
    let literal = |literal| Expr::Literal(literal);
    let expr = match shape {
        ValueShape::Any => return None,
        ValueShape::Text => literal(LiteralValue::String(CelString::from("1".to_owned()))),
        ValueShape::Int => literal(LiteralValue::Int(CelInt::from(1))),
        ValueShape::Double => literal(LiteralValue::Double(CelDouble::from(1.5))),
        ValueShape::Bool => literal(LiteralValue::Boolean(CelBool::from(true))),
        ValueShape::Null => literal(LiteralValue::Null),
        ValueShape::List => Expr::List(ListExpr::new(Vec::new())),
        ValueShape::Map | ValueShape::Event | ValueShape::Session | ValueShape::Usage => {
            Expr::Ident("map".to_owned())
        }
    };
    Some(IdedExpr { id: 0, expr })
}

/// The context in which samples are evaluated.
struct SampleContext(Context<'static, 'static>);

static SAMPLES: LazyLock<SampleContext> = LazyLock::new(|| {
    let mut context = Context::with_env(std::sync::Arc::clone(&CEL_ENVIRONMENT));
    context.add_variable_as_val("map", Box::new(SortedMap::new(BTreeMap::new())));
    SampleContext(context)
});
