//! Risk of git commands: read-only, ordinary work, or discarding what was never committed or pushed.

use super::{Risk, RiskFinding};
use flyball_shell::{ShellWord, program_is_read_only};

/// Assesses a git command.
pub(super) fn assess_git(args: &[ShellWord]) -> RiskFinding {
    let texts: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
    let mut rest = texts.as_slice();
    while let Some((first, after)) = rest.split_first() {
        match *first {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => rest = after.get(1..).unwrap_or_default(),
            "-c" | "--config-env" | "--exec-path" => {
                return RiskFinding::new(Risk::Unknown, "git gets settings that may run other programs");
            }
            option if option.starts_with("--exec-path=") || option.starts_with("--config-env=") => {
                return RiskFinding::new(Risk::Unknown, "git gets settings that may run other programs");
            }
            option if option.starts_with('-') => rest = after,
            _ => break,
        }
    }
    let Some((command, rest)) = rest.split_first() else {
        return RiskFinding::new(Risk::Safe, "git prints information about itself");
    };
    if let Some(why) = destructive_reason(command, rest) {
        return RiskFinding::new(Risk::Destructive, format!("`git {command}` {why}"));
    }
    if args.iter().any(|word| !word.literal) && matches!(*command, "push" | "reset" | "checkout" | "branch") {
        return RiskFinding::new(
            Risk::Unknown,
            format!("the arguments of `git {command}` are known only at run time"),
        );
    }
    if program_is_read_only("git", args) {
        RiskFinding::new(Risk::Safe, format!("`git {command}` only reads"))
    } else {
        RiskFinding::new(Risk::Moderate, format!("`git {command}` changes the repository"))
    }
}

/// The loss that the command would cause, if any.
fn destructive_reason(command: &str, args: &[&str]) -> Option<&'static str> {
    let has = |options: &[&str]| args.iter().any(|arg| options.contains(arg));
    // Short options may be combined: -fd, -xdf.
    let short = |letter: char| {
        args.iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
    };
    let begins = |beginning: &str| args.iter().any(|arg| arg.starts_with(beginning));
    let plain = || args.iter().copied().filter(|arg| !arg.starts_with('-'));
    match command {
        "push" => {
            let forced = short('f')
                || begins("--force")
                || has(&["--mirror", "--prune"])
                || plain().any(|arg| arg.starts_with('+'));
            let deletes = short('d') || has(&["--delete"]) || plain().any(|arg| arg.starts_with(':'));
            if forced {
                Some("overwrites remote history")
            } else {
                deletes.then_some("deletes a remote branch")
            }
        }
        "reset" if has(&["--hard", "--merge", "--keep"]) => Some("discards uncommitted work"),
        "clean" if !(short('n') || has(&["--dry-run"])) => Some("deletes untracked files"),
        "checkout" if short('f') || has(&["--force", "--", "."]) => Some("discards uncommitted work"),
        "switch" if short('f') || has(&["--force", "--discard-changes"]) => Some("discards uncommitted work"),
        "restore" if !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]) => {
            Some("discards uncommitted work")
        }
        "branch" if short('D') || (has(&["--delete", "-d"]) && (short('f') || has(&["--force"]))) => {
            Some("deletes a branch that may not be merged")
        }
        "tag" if short('d') || has(&["--delete"]) => Some("deletes a tag"),
        "stash" if has(&["drop", "clear"]) => Some("discards stashed work"),
        "reflog" if has(&["expire", "delete"]) => Some("removes history needed to undo mistakes"),
        "gc" if begins("--prune") => Some("removes history needed to undo mistakes"),
        "update-ref" if short('d') => Some("deletes a reference"),
        "worktree" if has(&["remove"]) && (short('f') || has(&["--force"])) => {
            Some("discards uncommitted work")
        }
        "filter-branch" | "filter-repo" => Some("rewrites the whole history"),
        "prune" => Some("removes history needed to undo mistakes"),
        "rm" if short('f') || has(&["--force"]) => Some("deletes files with uncommitted work"),
        _ => None,
    }
}
