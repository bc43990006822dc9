//! The program of an older version, for the tests of upgrades: built from its commit in a work tree of its own.

use crate::run::{cargo, command, root, run, say, target};
use std::path::PathBuf;

/// The commit before stores had an id.
const BEFORE: &str = "c8b04aa";

/// Builds the older version; gives its program.
///
/// # Errors
/// If the commit is not there (a shallow clone), or cannot be built.
pub(crate) fn program() -> Result<PathBuf, String> {
    let tree = target().join("before");
    if !tree.join("Cargo.toml").is_file() {
        let path = tree.to_string_lossy().into_owned();
        let made = run(command("git", &["worktree", "add", "--force", "--detach", &path, BEFORE]))?;
        if !made.ok {
            return Err(format!("{BEFORE} cannot be checked out"));
        }
    }
    say(&format!("building {BEFORE} in {}", tree.strip_prefix(root()).unwrap_or(&tree).display()));
    let built = tree.join("target");
    let mut build = cargo(&["build", "--profile", "ci", "--package", "flyball-cli", "--bin", "flyball"]);
    build.current_dir(&tree).env("CARGO_TARGET_DIR", &built);
    if run(build)?.ok { Ok(built.join("ci/flyball")) } else { Err(format!("{BEFORE} cannot be built")) }
}
