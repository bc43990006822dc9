//! Finds programs that cargo does not provide, and installs them if permitted.

use crate::command::{command, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of a program, if it is installed.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Ensures that a program is installed: as root with `apt-get`, otherwise with an error that says what to install.
///
/// # Errors
/// If it is missing and could not be installed; the text says what to do.
pub(crate) fn ensure_program(program: &str, package: &str) -> Result<(), String> {
    if find_program(program).is_some() {
        return Ok(());
    }
    if is_root() {
        install_package(package)?;
    }
    match find_program(program) {
        Some(_) => Ok(()),
        None => Err(format!("`{program}` is missing; install it, for example: apt-get install {package}")),
    }
}

/// Installs a package with `apt-get`, if available. The caller checks whether the program is there afterwards.
///
/// # Errors
/// If `apt-get` cannot be started.
pub(crate) fn install_package(package: &str) -> Result<(), String> {
    if find_program("apt-get").is_none() {
        return Ok(());
    }
    let install = || {
        let mut command = command("apt-get", &["install", "-y", "--no-install-recommends", package]);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        run(command)
    };
    // A fresh container has no package lists yet.
    if !install()?.ok && run(command("apt-get", &["update"]))?.ok {
        install()?;
    }
    Ok(())
}

/// Ensures that npm modules (`name@version`) are installed in a folder.
///
/// # Errors
/// If npm is missing or cannot install them.
pub(crate) fn need_modules(folder: &Path, modules: &[&str]) -> Result<(), String> {
    ensure_program("node", "nodejs")?;
    ensure_program("npm", "npm")?;
    if modules.iter().all(|module| has_module(folder, module)) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut npm = command("npm", &["install", "--no-package-lock", "--no-save", "--no-audit", "--no-fund"]);
    npm.args(modules).current_dir(folder);
    run(npm).and_then(crate::external_checks::into_result)
}

/// Whether a module is installed in this version.
fn has_module(folder: &Path, module: &str) -> bool {
    let Some((name, version)) = module.rsplit_once('@') else { return false };
    let own = std::fs::read_to_string(folder.join("node_modules").join(name).join("package.json"));
    own.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
}

/// Ensures that a component of the Rust toolchain is installed.
///
/// # Errors
/// If it is missing; the text says what to do.
pub(crate) fn ensure_component(subcommand: &str, component: &str) -> Result<(), String> {
    let there =
        crate::command::cargo(&[subcommand, "--version"]).output().is_ok_and(|out| out.status.success());
    if there {
        return Ok(());
    }
    Err(format!("`cargo {subcommand}` is missing; install it: rustup component add {component}"))
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}
