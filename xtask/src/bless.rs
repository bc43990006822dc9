//! `cargo xtask bless`: rewrites recorded files. A person reviews the diff.

use crate::command::{cargo, repo_root, run as run_command, run_with};
use crate::external_checks::into_result;

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    let schemas = [
        ("policy", "docs/policy.schema.json"),
        ("workflow", "docs/workflow.schema.json"),
        ("openapi", "docs/openapi.json"),
    ];
    for (of, path) in schemas {
        let print = cargo(&["run", "--quiet", "--package", "flyball-cli", "--", "schema", of]);
        let schema = run_with(print, |_| false)?;
        if !schema.ok || !schema.output.starts_with('{') {
            return Err(format!("`flyball schema {of}` printed no schema: {}", schema.output));
        }
        let path = repo_root().join(path);
        std::fs::write(&path, schema.output).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut tests = cargo(&["test", "--workspace", "--exclude", "xtask", "--no-fail-fast"]);
    tests.env("FLYBALL_BLESS", "1");
    run_command(tests).and_then(into_result)
}
