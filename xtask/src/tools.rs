//! Programs that cargo does not bring: looks for them, and installs them where we may.

use crate::run::{command, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program is, if it is there.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Makes sure that a program is there: with root by `apt-get`, else by saying what to install.
///
/// # Errors
/// If it is not there and could not be installed; the text says what to do.
pub(crate) fn need(program: &str, package: &str) -> Result<(), String> {
    if find(program).is_some() {
        return Ok(());
    }
    if is_root() {
        install(package)?;
    }
    match find(program) {
        Some(_) => Ok(()),
        None => Err(format!("`{program}` is missing; install it, for example: apt-get install {package}")),
    }
}

/// Installs a package by `apt-get`, if there is one; whether it brought what was wanted, the caller sees.
///
/// # Errors
/// If `apt-get` cannot be started.
pub(crate) fn install(package: &str) -> Result<(), String> {
    if find("apt-get").is_none() {
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

/// Makes sure that modules of npm (`name@version`) are in a folder.
///
/// # Errors
/// If npm is missing or cannot install them.
pub(crate) fn need_modules(folder: &Path, modules: &[&str]) -> Result<(), String> {
    need("node", "nodejs")?;
    need("npm", "npm")?;
    if modules.iter().all(|module| has_module(folder, module)) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut npm = command("npm", &["install", "--no-package-lock", "--no-save", "--no-audit", "--no-fund"]);
    npm.args(modules).current_dir(folder);
    run(npm).and_then(crate::outside::succeeded)
}

/// Whether a module is installed in this version.
fn has_module(folder: &Path, module: &str) -> bool {
    let Some((name, version)) = module.rsplit_once('@') else { return false };
    let own = std::fs::read_to_string(folder.join("node_modules").join(name).join("package.json"));
    own.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
}

/// Makes sure that a part of the Rust toolchain is there.
///
/// # Errors
/// If it is not; the text says what to do.
pub(crate) fn need_component(subcommand: &str, component: &str) -> Result<(), String> {
    let there = crate::run::cargo(&[subcommand, "--version"]).output().is_ok_and(|out| out.status.success());
    if there {
        return Ok(());
    }
    Err(format!("`cargo {subcommand}` is missing; install it: rustup component add {component}"))
}

/// Whether we may do everything on this machine.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}
