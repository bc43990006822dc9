//! Finds conditions that can never hold, or that fail on every event, when a rule is loaded: fields that no event has,
//! values that a field never takes, operators that do not fit what they are given.
//!
//! An event may carry fields of its sender's own. A rule reaches those with `event['name']`; `event.name` is one of the
//! fields that Flyball knows, so that a slip of the pen is found.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cel::common::ast::{CallExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use cel::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel::{Context, Value as CelValue};

use super::rule_values::SortedMap;
use super::rules::{Counters, ENVIRONMENT, RuleError};
use crate::event::{fields_of, type_names};

/// What is known of a value before there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Anything.
    Any,
    Text,
    Int,
    Double,
    Bool,
    Null,
    List,
    /// A map with any keys.
    Map,
    /// The event itself.
    Event,
    /// The session's counters.
    Session,
    /// What an event used up.
    Usage,
}

impl Shape {
    fn word(self) -> &'static str {
        match self {
            Shape::Any => "anything",
            Shape::Text => "a text",
            Shape::Int | Shape::Double => "a number",
            Shape::Bool => "true or false",
            Shape::Null => "null",
            Shape::List => "a list",
            Shape::Map | Shape::Event | Shape::Session | Shape::Usage => "a map",
        }
    }

    fn is_map(self) -> bool {
        matches!(self, Shape::Map | Shape::Event | Shape::Session | Shape::Usage)
    }

    fn is_number(self) -> bool {
        matches!(self, Shape::Int | Shape::Double)
    }

    /// Whether two values of these shapes can ever be equal.
    fn may_equal(self, other: Shape) -> bool {
        let loose = |shape| matches!(shape, Shape::Any | Shape::Null);
        loose(self)
            || loose(other)
            || self == other
            || self.is_map() && other.is_map()
            || self.is_number() && other.is_number()
    }
}

/// The names that a condition may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleNames {
    /// A rule of a policy: `event` is an event, `session` are its counters.
    Policy,
    /// A condition of a router in a workflow: `event` is the last outcome, with what the run knows.
    Route,
}

/// Fields of every event, and those that Flyball itself adds to one.
const ENVELOPE: [&str; 16] = [
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
/// What a router may look at.
const ROUTE: [&str; 7] = ["from", "outcome", "output", "structured", "vars", "visits", "node"];
const USAGE: [&str; 3] = ["tokens_in", "tokens_out", "cost_usd"];

impl RuleNames {
    /// The fields that may stand after `event.`.
    fn fields(self) -> Vec<&'static str> {
        match self {
            RuleNames::Route => ROUTE.to_vec(),
            RuleNames::Policy => {
                let own = type_names().filter_map(fields_of).flatten().copied();
                let mut all: Vec<&str> = ENVELOPE.into_iter().chain(own).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    /// What a field holds.
    fn shape(self, field: &str) -> Shape {
        match field {
            "type" | "session" | "id" | "node" | "text" | "origin" | "by" | "digest" | "call" | "tool"
            | "from" | "to" | "edge" | "signal" | "content" | "hash" | "better" | "kind" | "expected"
            | "received" | "operation" | "key" | "request" | "question" | "requester" | "guard" | "mode"
            | "why" | "outcome" | "parent" | "goal" | "model" | "relayed_by" | "claimed_by"
            | "claimed_origin" => Shape::Text,
            "output" if self == RuleNames::Route => Shape::Text,
            "at" | "duration_ms" | "done" | "total" | "n" | "ttl_ms" | "suspended_ms" => Shape::Int,
            "final" | "ok" | "reopen" | "idle" => Shape::Bool,
            "failing" | "checks" | "plan" | "targets" | "tightened" | "waiting" => Shape::List,
            "labels" | "workflow" | "vars" | "visits" => Shape::Map,
            "usage" => Shape::Usage,
            _ => Shape::Any,
        }
    }

    /// The values that a field can have, if they are few.
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

const STATES: [&str; 5] = ["running", "awaiting_confirmation", "blocked", "halted", "ended"];

/// Checks a condition that compiles.
pub(super) fn check(condition: &IdedExpr, names: RuleNames) -> Result<(), RuleError> {
    let mut checker = Checker { names, bound: Vec::new(), types: None };
    match checker.shape(condition)? {
        Shape::Bool | Shape::Any => Ok(()),
        other => Err(RuleError::NotBool(other.word().to_owned())),
    }
}

/// The fields that a condition may write after `event.`, for suggestions.
pub(super) fn known_fields(names: RuleNames) -> Vec<&'static str> {
    names.fields()
}

struct Checker {
    names: RuleNames,
    /// Variables of macros, with what they hold.
    bound: Vec<(String, Shape)>,
    /// The types that the event can have where the condition is looked at, if it says so.
    types: Option<Vec<String>>,
}

impl Checker {
    fn shape(&mut self, node: &IdedExpr) -> Result<Shape, RuleError> {
        Ok(match &node.expr {
            Expr::Unspecified | Expr::Map(_) | Expr::Struct(_) => Shape::Any,
            Expr::Literal(literal) => literal_shape(literal),
            Expr::Ident(name) => self.variable(name)?,
            Expr::Select(select) => {
                let around = self.shape(&select.operand)?;
                let shape = self.field(around, &select.field)?;
                if select.test { Shape::Bool } else { shape }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.shape(element)?;
                }
                Shape::List
            }
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(walk) => {
                let range = self.shape(&walk.iter_range)?;
                if !(range == Shape::Any || range == Shape::List || range.is_map()) {
                    return Err(RuleError::Misfit(format!("{} cannot be walked over", range.word())));
                }
                let before = self.bound.len();
                let element = if range.is_map() { Shape::Text } else { Shape::Any };
                let result = self.shape(&walk.accu_init)?;
                self.bound.push((walk.iter_var.clone(), element));
                self.bound.extend(walk.iter_var2.clone().map(|name| (name, Shape::Any)));
                self.bound.push((walk.accu_var.clone(), result));
                for part in [&walk.loop_cond, &walk.loop_step] {
                    self.shape(part)?;
                }
                let result = self.shape(&walk.result)?;
                self.bound.truncate(before);
                result
            }
        })
    }

    fn variable(&self, name: &str) -> Result<Shape, RuleError> {
        if let Some((_, shape)) = self.bound.iter().rev().find(|(known, _)| known == name) {
            return Ok(*shape);
        }
        match (name, self.names) {
            ("event", _) => Ok(Shape::Event),
            ("session", RuleNames::Policy) => Ok(Shape::Session),
            _ => Err(RuleError::UnknownName(name.to_owned())),
        }
    }

    /// What a field of something holds.
    fn field(&self, around: Shape, field: &str) -> Result<Shape, RuleError> {
        let names = self.names;
        match around {
            Shape::Any | Shape::Map => Ok(Shape::Any),
            Shape::Event if !names.fields().contains(&field) => {
                Err(RuleError::UnknownField(field.to_owned(), names))
            }
            Shape::Event => {
                let lacks = |name: &String| {
                    fields_of(name).is_some_and(|own| !own.contains(&field)) && !ENVELOPE.contains(&field)
                };
                match self.types.as_deref() {
                    Some([one, ..]) if self.types.iter().flatten().all(lacks) => {
                        Err(RuleError::FieldOfOtherType { field: field.to_owned(), event_type: one.clone() })
                    }
                    _ => Ok(names.shape(field)),
                }
            }
            Shape::Session if !Counters::NAMES.contains(&field) => {
                Err(RuleError::UnknownCounter(field.to_owned()))
            }
            Shape::Session => Ok(if ["state", "node"].contains(&field) { Shape::Text } else { Shape::Int }),
            Shape::Usage if !USAGE.contains(&field) => {
                Err(RuleError::Misfit(format!("'usage' has no field '{field}': it has {}", USAGE.join(", "))))
            }
            Shape::Usage => Ok(if field == "cost_usd" { Shape::Any } else { Shape::Int }),
            other => Err(RuleError::Misfit(format!("{} has no field '{field}'", other.word()))),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Shape, RuleError> {
        if call.func_name == operators::LOGICAL_AND {
            return self.conjunction(call);
        }
        if let (operators::INDEX, [around, key]) = (call.func_name.as_str(), call.args.as_slice()) {
            return self.index(around, key);
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        let shapes: Vec<Shape> = parts.map(|part| self.shape(part)).collect::<Result<_, _>>()?;
        match (call.func_name.as_str(), shapes.as_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) if !a.may_equal(*b) => {
                return Err(RuleError::Misfit(format!("{} is never equal to {}", a.word(), b.word())));
            }
            (operators::LOGICAL_OR | operators::LOGICAL_NOT, shapes) => return all_bool(shapes),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                all_bool(&[*condition])?;
                return Ok(if yes == no { *yes } else { Shape::Any });
            }
            _ => {}
        }
        self.known_values(call)?;
        applied(call, &shapes)
    }

    /// Every part of a conjunction is looked at for events of the types that another part asks for.
    fn conjunction(&mut self, call: &CallExpr) -> Result<Shape, RuleError> {
        let mut asked = Vec::new();
        asked_types(call, &mut asked);
        let before = self.types.clone();
        for types in asked {
            let both =
                |known: &Vec<String>| known.iter().filter(|name| types.contains(name)).cloned().collect();
            let narrowed: Vec<String> = self.types.as_ref().map_or_else(|| types.clone(), both);
            if narrowed.is_empty() && !types.is_empty() {
                return Err(RuleError::Misfit("an event never has two types".to_owned()));
            }
            self.types = Some(narrowed);
        }
        let shapes: Result<Vec<Shape>, RuleError> = call.args.iter().map(|part| self.shape(part)).collect();
        self.types = before;
        all_bool(&shapes?)
    }

    fn index(&mut self, around: &IdedExpr, key: &IdedExpr) -> Result<Shape, RuleError> {
        let (around, key_shape) = (self.shape(around)?, self.shape(key)?);
        let literal = match &key.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
            _ => None,
        };
        match around {
            // A field of the sender's own: what it holds, nobody knows.
            Shape::Event => {
                let known = literal.filter(|name| self.names.fields().contains(name));
                known.map_or(Ok(Shape::Any), |name| self.field(around, name))
            }
            Shape::Session | Shape::Usage => literal.map_or(Ok(Shape::Any), |name| self.field(around, name)),
            Shape::List if !matches!(key_shape, Shape::Int | Shape::Any) => {
                Err(RuleError::Misfit(format!("a list is not indexed with {}", key_shape.word())))
            }
            Shape::Any | Shape::Map | Shape::List => Ok(Shape::Any),
            other => Err(RuleError::Misfit(format!("{} has no elements", other.word()))),
        }
    }

    /// Values that a field never takes: `event.type == 'tool.request'`.
    fn known_values(&self, call: &CallExpr) -> Result<(), RuleError> {
        let [left, right] = call.args.as_slice() else { return Ok(()) };
        let compares = [operators::EQUALS, operators::NOT_EQUALS, operators::IN];
        if !compares.contains(&call.func_name.as_str()) {
            return Ok(());
        }
        for (field, other) in [(left, right), (right, left)] {
            let Some((name, values)) = self.enumerated(field) else { continue };
            let wrong = literals(other).into_iter().find(|text| !values.contains(&text.as_str()));
            if let Some(value) = wrong {
                return Err(RuleError::UnknownValue { field: name, value, known: values });
            }
        }
        Ok(())
    }

    fn enumerated(&self, node: &IdedExpr) -> Option<(String, Vec<&'static str>)> {
        let Expr::Select(select) = &node.expr else { return None };
        let Expr::Ident(root) = &select.operand.expr else { return None };
        if self.bound.iter().any(|(known, _)| known == root) {
            return None;
        }
        let name = format!("{root}.{}", select.field);
        match root.as_str() {
            "event" => Some((name, self.names.values(&select.field)?)),
            "session" if select.field == "state" => Some((name, STATES.to_vec())),
            _ => None,
        }
    }
}

/// The texts that a literal, or a list of literals, holds.
fn literals(node: &IdedExpr) -> Vec<String> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => vec![text.inner().to_owned()],
        Expr::List(list) => list.elements.iter().flat_map(literals).collect(),
        _ => Vec::new(),
    }
}

/// The types that the parts of a conjunction ask for, each as a list of alternatives.
fn asked_types(call: &CallExpr, asked: &mut Vec<Vec<String>>) {
    let is_type = |node: &IdedExpr| {
        matches!(&node.expr, Expr::Select(select) if select.field == "type" && !select.test
            && matches!(&select.operand.expr, Expr::Ident(root) if root == "event"))
    };
    for part in &call.args {
        let Expr::Call(inner) = &part.expr else { continue };
        match (inner.func_name.as_str(), inner.args.as_slice()) {
            (operators::LOGICAL_AND, _) => asked_types(inner, asked),
            (operators::EQUALS, [a, b]) if is_type(a) || is_type(b) => {
                let named = literals(if is_type(a) { b } else { a });
                asked.extend((!named.is_empty()).then_some(named));
            }
            (operators::IN, [a, b]) if is_type(a) => {
                let named = literals(b);
                asked.extend((!named.is_empty()).then_some(named));
            }
            _ => {}
        }
    }
}

fn all_bool(shapes: &[Shape]) -> Result<Shape, RuleError> {
    match shapes.iter().find(|shape| !matches!(shape, Shape::Bool | Shape::Any)) {
        Some(other) => {
            Err(RuleError::Misfit(format!("{} stands where true or false is wanted", other.word())))
        }
        None => Ok(Shape::Bool),
    }
}

fn literal_shape(literal: &LiteralValue) -> Shape {
    match literal {
        LiteralValue::Boolean(_) => Shape::Bool,
        LiteralValue::Double(_) => Shape::Double,
        LiteralValue::Int(_) => Shape::Int,
        LiteralValue::Null => Shape::Null,
        LiteralValue::String(_) => Shape::Text,
        LiteralValue::Bytes(_) | LiteralValue::UInt(_) => Shape::Any,
    }
}

/// A call tried with one value of each shape: if the language has nothing for these shapes, it never will.
fn applied(call: &CallExpr, shapes: &[Shape]) -> Result<Shape, RuleError> {
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
        | "bool" => Shape::Bool,
        "size" | "int" => Shape::Int,
        "string" => Shape::Text,
        "double" => Shape::Double,
        _ => Shape::Any,
    };
    let samples: Option<Vec<IdedExpr>> = shapes.iter().map(|shape| sample(*shape)).collect();
    let Some(mut samples) = samples else { return Ok(result) };
    let target = call.target.is_some().then(|| Box::new(samples.remove(0)));
    let tried = CallExpr { func_name: call.func_name.clone(), target, args: samples };
    let node = IdedExpr { id: 0, expr: Expr::Call(tried) };
    match CelValue::resolve_val(&node, &SAMPLES.0) {
        Ok(value) if value.get_type().name() == "bool" => Ok(Shape::Bool),
        Ok(value) if value.get_type().name() == "string" => Ok(Shape::Text),
        Ok(value) if value.get_type().name() == "int" => Ok(Shape::Int),
        Ok(_) => Ok(result),
        Err(_) => {
            let words: Vec<&str> = shapes.iter().map(|shape| shape.word()).collect();
            let what = call.func_name.trim_matches(['_', '@']);
            Err(RuleError::Misfit(format!("'{what}' does not fit {}", words.join(" and "))))
        }
    }
}

/// A value of a shape, if one stands for all of them: converting a text depends on the text.
fn sample(shape: Shape) -> Option<IdedExpr> {
    let literal = |literal| Expr::Literal(literal);
    let expr = match shape {
        Shape::Any => return None,
        Shape::Text => literal(LiteralValue::String(CelString::from("1".to_owned()))),
        Shape::Int => literal(LiteralValue::Int(CelInt::from(1))),
        Shape::Double => literal(LiteralValue::Double(CelDouble::from(1.5))),
        Shape::Bool => literal(LiteralValue::Boolean(CelBool::from(true))),
        Shape::Null => literal(LiteralValue::Null),
        Shape::List => Expr::List(ListExpr::new(Vec::new())),
        Shape::Map | Shape::Event | Shape::Session | Shape::Usage => Expr::Ident("map".to_owned()),
    };
    Some(IdedExpr { id: 0, expr })
}

/// The context that samples are tried in.
struct Samples(Context<'static, 'static>);

static SAMPLES: LazyLock<Samples> = LazyLock::new(|| {
    let mut context = Context::with_env(std::sync::Arc::clone(&ENVIRONMENT));
    context.add_variable_as_val("map", Box::new(SortedMap::new(BTreeMap::new())));
    Samples(context)
});
