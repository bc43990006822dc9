//! Tools declared in a workflow file.

use super::WorkflowPlan;
use crate::run_error::RunError;
use crate::tools::CommandTool;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the declared tools and the names of those that may be called again after an interruption.
///
/// # Errors
/// If a declaration is invalid.
pub(crate) fn declared_tools(plan: &WorkflowPlan) -> Result<(Vec<CommandTool>, BTreeSet<String>), RunError> {
    let mut all = Vec::new();
    let mut again = BTreeSet::new();
    for (name, value) in &plan.tools {
        let (tool, rerun) = parse_tool(name, value)?;
        all.push(tool);
        again.extend(rerun.then(|| name.clone()));
    }
    Ok((all, again))
}

/// Parses one tool and its `rerun` flag: whether a second call does no harm.
pub(super) fn parse_tool(name: &str, value: &Value) -> Result<(CommandTool, bool), RunError> {
    let mut value = value.clone();
    let mut rerun = false;
    if let Some(map) = value.as_object_mut() {
        map.insert("name".to_owned(), Value::String(name.to_owned()));
        rerun = match map.remove("rerun") {
            None => false,
            Some(Value::Bool(rerun)) => rerun,
            Some(_) => {
                let what = format!("tool '{name}': `rerun` must be true or false");
                return Err(RunError::new("workflow_bad_tool", what, "write `rerun: true`, or omit it"));
            }
        };
    }
    let tool: CommandTool = serde_path_to_error::deserialize(value).map_err(|error| {
        let what = format!("tool '{name}': {}: {}", error.path(), error.inner());
        RunError::new("workflow_bad_tool", what, "a tool needs description, schema and argv")
    })?;
    tool.validate()?;
    Ok((tool, rerun))
}
