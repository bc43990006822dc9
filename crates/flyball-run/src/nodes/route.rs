//! Rules in order: the first that holds says where to go.

use crate::engine::{Outcome, Stop, Turn};
use crate::fail::Failure;
use crate::workflow::spec::Route;
use flyball::policy::{Counters, Facts};
use serde_json::json;
use std::sync::Arc;

/// Finds the way.
pub(super) fn run(turn: &mut Turn<'_>, route: &Route) -> Result<Outcome, Stop> {
    let to = if route.rules.is_empty() { None } else { first(turn, route)? };
    Ok(Outcome { to: Some(to.unwrap_or_else(|| route.otherwise.clone())), ..Outcome::success("") })
}

/// Where the first rule leads that holds.
fn first(turn: &Turn<'_>, route: &Route) -> Result<Option<String>, Stop> {
    let world = Arc::clone(&turn.walk.world);
    let vars = turn.walk.vars.all();
    let last = turn.walk.from.as_ref().and_then(|from| turn.walk.vars.get(from)).cloned().unwrap_or_default();
    let event = json!({
        "from": turn.walk.from,
        "outcome": last.get("outcome"),
        "output": last.get("output"),
        "structured": last.get("structured"),
        "vars": vars,
        "visits": turn.walk.visits,
        "node": turn.node.name,
    });
    let facts = Facts::new(&event, &Counters::default());
    for (rule, condition) in route.rules.iter().zip(world.conditions(&turn.node.name)) {
        let holds = condition.holds(&facts).map_err(|error| {
            Failure::new("workflow_bad_condition", error.to_string(), "correct `when`")
                .at(format!("node '{}'", turn.node.name))
        })?;
        if holds {
            return Ok(Some(rule.to.clone()));
        }
    }
    Ok(None)
}
