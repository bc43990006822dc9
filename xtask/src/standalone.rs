//! `cargo xtask static`: the command linked statically. It needs nothing of the system but its kernel, and starts in about
//! half the time, because nobody has to look for libraries and put them together first: a hook is a process of its own.
//!
//! Only the last step of a build is another one, so what was built before is used. Names of machines are resolved by the
//! files and the DNS; other sources that a system may name (`nsswitch.conf`) are asked only where the same glibc is there.

use crate::outside::succeeded;
use crate::run::{cargo, command, run as run_command, run_with, say, target};
use crate::test::PROFILE;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the task.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    let program = build("release")?;
    say(&format!("{} needs no library; put it where the hooks find `flyball`", program.display()));
    Ok(())
}

/// Builds it in a profile; gives the program, apart from where cargo puts it.
pub(crate) fn build(profile: &str) -> Result<PathBuf, String> {
    let mut build = cargo(&["rustc", "--profile", profile, "--package", "flyball-cli", "--bin", "flyball"]);
    build.args(["--", "-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    build.args(["-C", "strip=symbols"]);
    run_command(build).and_then(succeeded)?;
    let folder = target().join("static").join(profile);
    let program = folder.join("flyball");
    let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
    // A repository of its own, or the hook would be installed in the one around it.
    fs::create_dir_all(folder.join(".git")).map_err(wrong)?;
    // The old one may be running; a new file takes its place.
    let _ = fs::remove_file(&program);
    fs::copy(target().join(profile).join("flyball"), &program).map_err(wrong)?;
    if is_alone(&fs::read(&program).map_err(wrong)?) {
        return Ok(program);
    }
    Err(format!("{} still asks for libraries", program.display()))
}

/// Whether a program starts without another one that loads its libraries.
fn is_alone(elf: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let all = elf.get(at..at + bytes).unwrap_or_default();
        all.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    // In the head of a 64-bit ELF file: where the list of segments is, how long an entry is, and how many there are.
    let (list, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    /// The segment that names the loader.
    const INTERPRETER: usize = 3;
    elf.starts_with(b"\x7fELF\x02\x01")
        && count > 0
        && (0..count).all(|entry| number(list + entry * size, 4) != INTERPRETER)
}

/// It works: a hook made of it is armed, with a store and all, and it finds a machine by its name.
pub(crate) fn check() -> Result<(), String> {
    let program = build(PROFILE)?;
    let folder = target().join("static/project");
    let _ = fs::remove_dir_all(&folder);
    // A separate repository, so that the hook is not installed in this one.
    fs::create_dir_all(folder.join(".git")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let told = |args: &[&str]| {
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
    told(&["hook", "claude-code", "install"]).and_then(succeeded)?;
    told(&["hook", "claude-code", "test"]).and_then(succeeded)?;
    // Nobody listens at that port; whoever does not find the machine complains about its name instead.
    let found = told(&["list", "--store", "postgres://nobody@localhost:1/nothing"])?.output;
    if found.contains("refused") { Ok(()) } else { Err("it does not find localhost".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_not_alone() {
        let mut elf = vec![0_u8; 64 + 2 * 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 2, 1);
        assert!(is_alone(&elf));
        elf[64 + 56] = 3;
        assert!(!is_alone(&elf));
        assert!(!is_alone(b"#!/bin/sh"));
    }
}
