//! `cargo xtask static`: the command linked statically. It needs only the kernel and starts in about half the time,
//! because no libraries have to be loaded; that matters for hooks, which are a process per call.
//!
//! Only linking differs from the normal build, so earlier builds are reused. Host names are resolved by files and DNS;
//! other sources in `nsswitch.conf` work only if the same glibc version is installed.

use crate::command::{cargo, command, print_line, run as run_command, run_with, target_dir};
use crate::external_checks::into_result;
use crate::test::PROFILE;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    let program = build("release")?;
    print_line(&format!("{} needs no libraries; put it on the PATH as `flyball`", program.display()));
    Ok(())
}

/// Builds it in a profile; returns the program, copied out of cargo's usual place.
pub(crate) fn build(profile: &str) -> Result<PathBuf, String> {
    let mut build = cargo(&["rustc", "--profile", profile, "--package", "flyball-cli", "--bin", "flyball"]);
    build.args(["--", "-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    build.args(["-C", "strip=symbols"]);
    run_command(build).and_then(into_result)?;
    let folder = target_dir().join("static").join(profile);
    let program = folder.join("flyball");
    let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
    // A separate repository; otherwise the hook would be installed in the enclosing one.
    fs::create_dir_all(folder.join(".git")).map_err(wrong)?;
    // The old program may be running, so replace the file instead of overwriting it.
    let _ = fs::remove_file(&program);
    fs::copy(target_dir().join(profile).join("flyball"), &program).map_err(wrong)?;
    if is_static(&fs::read(&program).map_err(wrong)?) {
        return Ok(program);
    }
    Err(format!("{} still needs shared libraries", program.display()))
}

/// Whether a program has no interpreter that loads shared libraries.
fn is_static(elf: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let all = elf.get(at..at + bytes).unwrap_or_default();
        all.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    // ELF64 header: offset of the program headers, size of an entry, number of entries.
    let (list, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    /// Type of the segment that names the interpreter.
    const INTERPRETER: usize = 3;
    elf.starts_with(b"\x7fELF\x02\x01")
        && count > 0
        && (0..count).all(|entry| number(list + entry * size, 4) != INTERPRETER)
}

/// Checks that it works: its hook is armed, it opens a store, and it resolves a host name.
pub(crate) fn check() -> Result<(), String> {
    let program = build(PROFILE)?;
    let folder = target_dir().join("static/project");
    let _ = fs::remove_dir_all(&folder);
    // A separate repository, so that the hook is not installed in this one.
    fs::create_dir_all(folder.join(".git")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let run_flyball = |args: &[&str]| {
        let mut command = command(&program, args);
        let own = program.parent().into_iter().map(Path::to_path_buf);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(own.chain(std::env::split_paths(&others)));
        command
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("PATH", path.map_err(|error| error.to_string())?);
        run_with(command, |_| true)
    };
    run_flyball(&["hook", "claude-code", "install"]).and_then(into_result)?;
    run_flyball(&["hook", "claude-code", "test"]).and_then(into_result)?;
    // Nothing listens on that port; if the name cannot be resolved, the error is a different one.
    let found = run_flyball(&["list", "--store", "postgres://nobody@localhost:1/nothing"])?.output;
    if found.contains("refused") { Ok(()) } else { Err("it cannot resolve localhost".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_with_an_interpreter_is_not_static() {
        let mut elf = vec![0_u8; 64 + 2 * 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 2, 1);
        assert!(is_static(&elf));
        elf[64 + 56] = 3;
        assert!(!is_static(&elf));
        assert!(!is_static(b"#!/bin/sh"));
    }
}
