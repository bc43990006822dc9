//! Rules in order: the first that holds says where to go.

use crate::engine::{Outcome, Stop, Turn};
use crate::fail::Failure;
use crate::workflow::spec::Route;
use flyball::policy::{Counters, Mode, Rule};
use serde_json::json;

/// Finds the way.
pub(super) fn run(turn: &mut Turn<'_>, route: &Route) -> Result<Outcome, Stop> {
    let vars = turn.walk.vars.all();
    let visits: serde_json::Map<_, _> =
        turn.walk.visits.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    let last = turn.walk.vars.get("last").cloned().unwrap_or_default();
    let event = json!({"output": last, "vars": vars, "visits": visits, "node": turn.node.name});
    for rule in &route.rules {
        let wrong = |what: String| {
            Failure::new("workflow_bad_condition", what, "correct `when`")
                .at(format!("node '{}'", turn.node.name))
        };
        let condition = Rule::new(&turn.node.name, &rule.when, Mode::Observe, "");
        let condition = condition.map_err(|error| wrong(error.to_string()))?;
        if condition.eval(&event, &Counters::default()).map_err(|error| wrong(error.to_string()))? {
            return Ok(Outcome { to: Some(rule.to.clone()), ..Outcome::success("") });
        }
    }
    Ok(Outcome { to: Some(route.otherwise.clone()), ..Outcome::success("") })
}
