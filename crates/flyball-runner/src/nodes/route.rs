//! Route node: the first matching rule determines the next node.

use crate::engine::{NodeOutcome, RunStop, Turn};
use crate::run_error::RunError;
use crate::workflow::spec::RouteNode;
use flyball::policy::{RuleInput, SessionCounters};
use serde_json::json;
use std::sync::Arc;

/// Chooses the next node.
pub(super) fn run(turn: &mut Turn<'_>, route: &RouteNode) -> Result<NodeOutcome, RunStop> {
    let to = if route.rules.is_empty() { None } else { first_match(turn, route)? };
    Ok(NodeOutcome { to: Some(to.unwrap_or_else(|| route.otherwise.clone())), ..NodeOutcome::success("") })
}

/// Target of the first matching rule.
fn first_match(turn: &Turn<'_>, route: &RouteNode) -> Result<Option<String>, RunStop> {
    let world = Arc::clone(&turn.walk.context);
    let vars = turn.walk.vars.to_value();
    let last = turn
        .walk
        .previous_node
        .as_ref()
        .and_then(|from| turn.walk.vars.get(from))
        .cloned()
        .unwrap_or_default();
    let event = json!({
        "from": turn.walk.previous_node,
        "outcome": last.get("outcome"),
        "output": last.get("output"),
        "structured": last.get("structured"),
        "vars": vars,
        "visits": turn.walk.visits,
        "node": turn.node.name,
    });
    let facts = RuleInput::new(&event, &SessionCounters::default());
    for (rule, condition) in route.rules.iter().zip(world.conditions(&turn.node.name)) {
        let holds = condition.matches(&facts).map_err(|error| {
            RunError::new("workflow_bad_condition", error.to_string(), "fix `when`")
                .at(format!("node '{}'", turn.node.name))
        })?;
        if holds {
            return Ok(Some(rule.to.clone()));
        }
    }
    Ok(None)
}
