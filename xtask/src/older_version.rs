//! Builds an older version of the program for upgrade tests, from its commit in a separate work tree.

use crate::command::{cargo, command, print_line, repo_root, run, target_dir};
use std::path::PathBuf;

/// The commit before stores had an id.
const OLDER_COMMIT: &str = "c8b04aa";

/// Builds the older version; returns the path of its program.
///
/// # Errors
/// If the commit is missing (a shallow clone) or cannot be built.
pub(crate) fn build_older_version() -> Result<PathBuf, String> {
    let tree = target_dir().join("before");
    if !tree.join("Cargo.toml").is_file() {
        let path = tree.to_string_lossy().into_owned();
        let made = run(command("git", &["worktree", "add", "--force", "--detach", &path, OLDER_COMMIT]))?;
        if !made.ok {
            return Err(format!("cannot check out {OLDER_COMMIT}"));
        }
    }
    print_line(&format!(
        "building {OLDER_COMMIT} in {}",
        tree.strip_prefix(repo_root()).unwrap_or(&tree).display()
    ));
    let built = tree.join("target");
    let mut build = cargo(&["build", "--profile", "ci", "--package", "flyball-cli", "--bin", "flyball"]);
    build.current_dir(&tree).env("CARGO_TARGET_DIR", &built);
    if run(build)?.ok { Ok(built.join("ci/flyball")) } else { Err(format!("cannot build {OLDER_COMMIT}")) }
}
