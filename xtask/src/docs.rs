//! `cargo xtask docs`: builds the documentation site with MkDocs into `target/site` and checks it.
//!
//! MkDocs runs with `--strict`: a broken link, a missing anchor or a page outside the navigation fails the build. Links to
//! files of the repository are checked by `xtask/site/hooks.py`, links of the pages outside `docs` here. The command blocks
//! are checked by the tests `docs` of `flyball-cli`, which run them against the real program.

use crate::command::{cargo, command, print_line, repo_root, run as run_command, target_dir};
use crate::external_checks::into_result;
use crate::test::PROFILE;
use crate::tools;
use std::path::{Path, PathBuf};

/// MkDocs and its dependencies, pinned.
const REQUIREMENTS: &str = "docs/requirements.txt";
/// Markdown pages at the root of the repository.
const ROOT_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// Runs the task: the site, then the command blocks.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    site(&mkdocs()?)?;
    let tests = ["test", "--profile", PROFILE, "--package", "flyball-cli", "--test", "docs"];
    run_command(cargo(&tests)).and_then(into_result)?;
    print_line(&format!("\nthe site is in {}", target_dir().join("site").display()));
    Ok(())
}

/// Builds and checks the site for `cargo xtask test`, which runs the command blocks with the other tests. `Err` says
/// why MkDocs is not available.
///
/// # Errors
/// If Python, its `venv` module or MkDocs is missing and cannot be installed.
pub(crate) fn check() -> Result<Result<(), String>, String> {
    Ok(site(&mkdocs()?))
}

/// Builds the site and checks the links of the pages outside it.
fn site(mkdocs: &Path) -> Result<(), String> {
    let site = target_dir().join("site");
    let mut build = command(mkdocs, &["build", "--strict", "--clean", "--site-dir"]);
    build.arg(&site);
    run_command(build).and_then(into_result).map_err(|_| "MkDocs reported problems".to_owned())?;
    let mut broken = Vec::new();
    for page in ROOT_PAGES {
        let text =
            std::fs::read_to_string(repo_root().join(page)).map_err(|error| format!("{page}: {error}"))?;
        broken.extend(
            missing_targets(&text, &repo_root())
                .into_iter()
                .map(|link| format!("{page}: {link} does not exist")),
        );
    }
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
}

/// The pinned MkDocs in a virtual environment below the target folder; recreated when the pins change.
fn mkdocs() -> Result<PathBuf, String> {
    tools::ensure_program("python3", "python3")?;
    let venv = target_dir().join("mkdocs");
    let program = venv.join("bin/mkdocs");
    let pins = std::fs::read_to_string(repo_root().join(REQUIREMENTS))
        .map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
    let stamp = venv.join("requirements.txt");
    if program.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(program);
    }
    create_venv(&venv)?;
    let pip =
        ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement", REQUIREMENTS];
    run_command(command(venv.join("bin/pip"), &pip))
        .and_then(into_result)
        .map_err(|_| "pip could not install MkDocs; is there a network?".to_owned())?;
    std::fs::write(&stamp, pins).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(program)
}

/// Creates a virtual environment. Debian keeps the module for it in a separate package.
fn create_venv(venv: &Path) -> Result<(), String> {
    let create = || {
        let mut python = command("python3", &["-m", "venv", "--clear"]);
        python.arg(venv);
        run_command(python).and_then(into_result)
    };
    if create().is_ok() {
        return Ok(());
    }
    if tools::is_root() {
        tools::install_package("python3-venv")?;
    }
    create().map_err(|_| "Python cannot create a virtual environment; install python3-venv".to_owned())
}

/// Relative links and images of a page whose target file does not exist.
fn missing_targets(text: &str, folder: &Path) -> Vec<String> {
    let mut inside_code = false;
    let mut missing = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside_code = !inside_code;
        }
        if inside_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            let Some((link, _)) = part.split_once(')') else { continue };
            let path = link.split(['#', ' ']).next().unwrap_or_default();
            if !path.is_empty() && !path.contains(':') && !folder.join(path).exists() {
                missing.push(path.to_owned());
            }
        }
    }
    missing
}

#[cfg(test)]
#[path = "docs_tests.rs"]
mod tests;
