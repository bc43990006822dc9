//! The tools that a workflow file declares.

use super::Plan;
use crate::fail::Failure;
use crate::tools::CommandTool;
use serde_json::Value;
use std::collections::BTreeSet;

/// The declared tools, and the names of those that may be called again after they were cut off.
///
/// # Errors
/// If a declaration cannot be used.
pub(crate) fn declared(plan: &Plan) -> Result<(Vec<CommandTool>, BTreeSet<String>), Failure> {
    let mut all = Vec::new();
    let mut again = BTreeSet::new();
    for (name, value) in &plan.tools {
        let (tool, rerun) = one(name, value)?;
        all.push(tool);
        again.extend(rerun.then(|| name.clone()));
    }
    Ok((all, again))
}

/// One tool; `rerun: true` says that a second call does no harm.
pub(super) fn one(name: &str, value: &Value) -> Result<(CommandTool, bool), Failure> {
    let mut value = value.clone();
    let mut rerun = false;
    if let Some(map) = value.as_object_mut() {
        map.insert("name".to_owned(), Value::String(name.to_owned()));
        rerun = match map.remove("rerun") {
            None => false,
            Some(Value::Bool(rerun)) => rerun,
            Some(_) => {
                let what = format!("tool '{name}': `rerun` is neither true nor false");
                return Err(Failure::new("workflow_bad_tool", what, "write rerun: true, or leave it out"));
            }
        };
    }
    let tool: CommandTool = serde_path_to_error::deserialize(value).map_err(|error| {
        let what = format!("tool '{name}': {}: {}", error.path(), error.inner());
        Failure::new("workflow_bad_tool", what, "write description, schema and argv")
    })?;
    tool.check()?;
    Ok((tool, rerun))
}
