//! `cargo xtask bless`: writes what is recorded anew. The diff is then read by a person.

use crate::outside::succeeded;
use crate::run::{cargo, root, run as run_command, run_with};

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
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
        let path = root().join(path);
        std::fs::write(&path, schema.output).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut tests = cargo(&["test", "--workspace", "--exclude", "xtask", "--no-fail-fast"]);
    tests.env("FLYBALL_BLESS", "1");
    run_command(tests).and_then(succeeded)
}
