//! What git does with a repository: it looks, it works, or it throws away what was never committed or pushed.

use super::{Finding, Risk};
use flyball_shell::{Word, program_is_read_only};

/// How dangerous a call of git is.
pub(super) fn rate(args: &[Word]) -> Finding {
    let texts: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
    let mut rest = texts.as_slice();
    while let Some((first, after)) = rest.split_first() {
        match *first {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => rest = after.get(1..).unwrap_or_default(),
            "-c" | "--config-env" | "--exec-path" => {
                return Finding::new(Risk::Unknown, "git is given settings that may run other programs");
            }
            option if option.starts_with("--exec-path=") || option.starts_with("--config-env=") => {
                return Finding::new(Risk::Unknown, "git is given settings that may run other programs");
            }
            option if option.starts_with('-') => rest = after,
            _ => break,
        }
    }
    let Some((command, rest)) = rest.split_first() else {
        return Finding::new(Risk::Safe, "git tells about itself");
    };
    if let Some(why) = destroys(command, rest) {
        return Finding::new(Risk::Destructive, format!("`git {command}` {why}"));
    }
    if args.iter().any(|word| !word.literal) && matches!(*command, "push" | "reset" | "checkout" | "branch") {
        return Finding::new(
            Risk::Unknown,
            format!("what `git {command}` is given is known only when it runs"),
        );
    }
    if program_is_read_only("git", args) {
        Finding::new(Risk::Safe, format!("`git {command}` only looks"))
    } else {
        Finding::new(Risk::Moderate, format!("`git {command}` changes the repository"))
    }
}

/// What it throws away.
fn destroys(command: &str, args: &[&str]) -> Option<&'static str> {
    let has = |options: &[&str]| args.iter().any(|arg| options.contains(arg));
    // Short options may be written together: -fd, -xdf.
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
                Some("writes over the history of others")
            } else {
                deletes.then_some("deletes a branch of others")
            }
        }
        "reset" if has(&["--hard", "--merge", "--keep"]) => Some("throws uncommitted work away"),
        "clean" if !(short('n') || has(&["--dry-run"])) => {
            Some("deletes files that are not in the repository")
        }
        "checkout" if short('f') || has(&["--force", "--", "."]) => Some("throws uncommitted work away"),
        "switch" if short('f') || has(&["--force", "--discard-changes"]) => {
            Some("throws uncommitted work away")
        }
        "restore" if !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]) => {
            Some("throws uncommitted work away")
        }
        "branch" if short('D') || (has(&["--delete", "-d"]) && (short('f') || has(&["--force"]))) => {
            Some("deletes a branch that may not be merged")
        }
        "tag" if short('d') || has(&["--delete"]) => Some("deletes a tag"),
        "stash" if has(&["drop", "clear"]) => Some("throws stashed work away"),
        "reflog" if has(&["expire", "delete"]) => Some("forgets the history that undoes mistakes"),
        "gc" if begins("--prune") => Some("forgets the history that undoes mistakes"),
        "update-ref" if short('d') => Some("deletes a reference"),
        "worktree" if has(&["remove"]) && (short('f') || has(&["--force"])) => {
            Some("throws uncommitted work away")
        }
        "filter-branch" | "filter-repo" => Some("writes the whole history anew"),
        "prune" => Some("forgets the history that undoes mistakes"),
        "rm" if short('f') || has(&["--force"]) => Some("deletes files with uncommitted work"),
        _ => None,
    }
}
