//! Destructive programs and options. `flyball-shell` knows which programs only read.

use super::{Risk, RiskFinding, git};
use flyball_shell::{ShellWord, program_is_read_only};

/// Programs that are destructive with any options, and why.
const DESTRUCTIVE_PROGRAMS: [(&str, &str); 31] = [
    ("rm", "deletes files"),
    ("unlink", "deletes a file"),
    ("rimraf", "deletes files"),
    ("shred", "destroys the content of files"),
    ("srm", "destroys the content of files"),
    ("truncate", "truncates files"),
    ("wipefs", "destroys a file system"),
    ("fdisk", "changes the partitions of a disk"),
    ("sfdisk", "changes the partitions of a disk"),
    ("gdisk", "changes the partitions of a disk"),
    ("sgdisk", "changes the partitions of a disk"),
    ("parted", "changes the partitions of a disk"),
    ("blkdiscard", "destroys the content of a disk"),
    ("mkswap", "destroys the content of a disk"),
    ("mke2fs", "creates a new file system"),
    ("newfs", "creates a new file system"),
    ("dropdb", "deletes a database"),
    ("dropuser", "deletes a user"),
    ("userdel", "deletes a user"),
    ("groupdel", "deletes a group"),
    ("deluser", "deletes a user"),
    ("shutdown", "stops the machine"),
    ("reboot", "stops the machine"),
    ("halt", "stops the machine"),
    ("poweroff", "stops the machine"),
    ("init", "changes the state of the machine"),
    ("telinit", "changes the state of the machine"),
    ("lvremove", "deletes a volume"),
    ("vgremove", "deletes a volume group"),
    ("pvremove", "deletes a physical volume"),
    ("cryptsetup", "changes an encrypted disk"),
];

/// Arguments that make a program destructive. An entry `A=` matches every argument with that prefix.
const DESTRUCTIVE_ARGS: [(&str, &[&str], &str); 25] = [
    ("dd", &["of="], "overwrites a file or a disk"),
    (
        "rsync",
        &["--delete", "--delete-before", "--delete-after", "--delete-during", "--remove-source-files"],
        "deletes files",
    ),
    ("rclone", &["delete", "deletefile", "purge", "sync", "rmdir", "rmdirs", "cleanup"], "deletes files"),
    ("docker", &["prune", "rm", "rmi", "kill"], "removes containers, images or data"),
    ("podman", &["prune", "rm", "rmi", "kill"], "removes containers, images or data"),
    ("kubectl", &["delete", "drain", "replace"], "removes resources of a cluster"),
    ("helm", &["uninstall", "delete", "rollback"], "removes a release"),
    (
        "terraform",
        &["destroy", "-destroy", "taint", "-auto-approve"],
        "changes infrastructure without asking",
    ),
    ("tofu", &["destroy", "-destroy", "taint", "-auto-approve"], "changes infrastructure without asking"),
    ("pulumi", &["destroy"], "removes infrastructure"),
    (
        "aws",
        &["rm", "rb", "--delete", "delete-*", "terminate-*", "purge-*"],
        "removes resources in the cloud",
    ),
    ("gcloud", &["delete", "rm"], "removes resources in the cloud"),
    ("gsutil", &["rm", "rb", "-d"], "removes resources in the cloud"),
    ("az", &["delete", "purge"], "removes resources in the cloud"),
    ("gh", &["delete", "DELETE", "--method=DELETE", "-XDELETE"], "deletes something on the server"),
    ("curl", &["DELETE", "-XDELETE", "--request=DELETE"], "deletes something on a server"),
    ("wget", &["--method=DELETE"], "deletes something on a server"),
    ("http", &["DELETE"], "deletes something on a server"),
    ("npm", &["publish", "unpublish", "deprecate"], "publishes permanently"),
    ("cargo", &["publish", "yank"], "publishes permanently"),
    ("twine", &["upload"], "publishes permanently"),
    ("redis-cli", &["flushall", "flushdb", "FLUSHALL", "FLUSHDB"], "empties a database"),
    ("mysqladmin", &["drop"], "deletes a database"),
    ("iptables", &["-F", "--flush", "-X"], "removes firewall rules"),
    ("zfs", &["destroy", "rollback"], "deletes a file system"),
];

/// Interpreters, with the letters of the options that pass inline code or modify files in place.
const INTERPRETERS: [(&str, &str); 11] = [
    ("python", "c"),
    ("pypy", "c"),
    ("perl", "eEi"),
    ("ruby", "ei"),
    ("node", "ep"),
    ("bun", "ep"),
    ("deno", ""),
    ("php", "r"),
    ("lua", "e"),
    ("Rscript", "e"),
    ("osascript", "e"),
];

/// Database clients.
const DATABASE_CLIENTS: &str = "\
    psql mysql mariadb sqlite3 sqlite duckdb sqlcmd clickhouse-client cockroach mongosh mongo sqlplus";

/// Whether a list of words contains a word.
pub(super) fn contains_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// Assesses a program with its arguments. `whole` is the command line that contains it; `known` says whether it is a
/// system program.
pub(super) fn assess_program(name: &str, args: &[ShellWord], whole: &str, known: bool) -> RiskFinding {
    if matches!(args, [only] if matches!(only.text.as_str(), "--help" | "--version")) && known {
        return RiskFinding::new(Risk::Safe, format!("'{name}' prints information about itself"));
    }
    if let Some(finding) = destructive_finding(name, args, whole) {
        return finding;
    }
    if name != "git" && known && program_is_read_only(name, args) {
        return RiskFinding::new(Risk::Safe, format!("'{name}' only reads"));
    }
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if let Some((_, letters)) = INTERPRETERS.iter().find(|(program, _)| *program == bare) {
        return assess_interpreter(name, letters, args);
    }
    match name {
        "git" => git::assess_git(args),
        "awk" | "gawk" | "mawk" => {
            RiskFinding::new(Risk::Unknown, "cannot determine what this awk program does")
        }
        "sed" if sed_runs_command(args) => {
            RiskFinding::new(Risk::Unknown, "this sed script may run a command")
        }
        _ => RiskFinding::new(Risk::Moderate, format!("'{name}' may change something")),
    }
}

fn destructive_finding(name: &str, args: &[ShellWord], whole: &str) -> Option<RiskFinding> {
    let found = |why: &str| Some(RiskFinding::new(Risk::Destructive, format!("'{name}' {why}")));
    if let Some((_, why)) = DESTRUCTIVE_PROGRAMS.iter().find(|(program, _)| *program == name) {
        return found(why);
    }
    if name.starts_with("mkfs") {
        return found("creates a new file system");
    }
    if let Some((_, words, why)) = DESTRUCTIVE_ARGS.iter().find(|(program, ..)| *program == name)
        && args.iter().any(|arg| words.iter().any(|word| matches_word(&arg.text, word)))
    {
        return found(why);
    }
    if contains_word(DATABASE_CLIENTS, name) && deletes_data(whole) {
        return found("deletes data from a database");
    }
    let has = |words: &[&str]| args.iter().any(|word| words.contains(&word.text.as_str()));
    let last = args.last().map_or("", |word| word.text.as_str());
    match name {
        "mv" | "cp" if last.starts_with("/dev/") => found("overwrites a device"),
        "chmod" | "chown" | "chgrp"
            if is_recursive(args) && has(&["/", "/*", "~", "~/", "/etc", "/usr", "/home"]) =>
        {
            found("changes permissions system-wide")
        }
        "kill" if matches!(last, "-1" | "1") => found("kills every process"),
        "docker" | "podman" | "docker-compose" if has(&["down"]) && has(&["-v", "--volumes"]) => {
            found("removes containers and their data")
        }
        "awk" | "gawk" if has(&["inplace"]) => found("overwrites files"),
        _ => None,
    }
}

fn is_recursive(args: &[ShellWord]) -> bool {
    args.iter()
        .any(|word| word.text == "--recursive" || (word.text.starts_with('-') && word.text.contains('R')))
}

/// Whether an argument matches an entry; `of=` and `delete-*` match prefixes.
fn matches_word(argument: &str, word: &str) -> bool {
    match word.strip_suffix('*') {
        Some(prefix) => argument.starts_with(prefix),
        None if word.ends_with('=') => argument.starts_with(word),
        None => argument == word,
    }
}

fn assess_interpreter(name: &str, letters: &str, args: &[ShellWord]) -> RiskFinding {
    // Arguments after the script or module belong to it.
    let own = || {
        args.iter().map(|word| word.text.as_str()).take_while(|text| text.starts_with('-') && *text != "-m")
    };
    let short = |text: &str| !text.starts_with("--") && text.contains(|c| letters.contains(c));
    let inline = own().any(|text| short(text) || text.starts_with("--eval") || text.starts_with("--print"));
    let rest = args.get(own().count()).map(|word| word.text.as_str());
    if inline || rest == Some("eval") {
        RiskFinding::new(Risk::Unknown, format!("'{name}' runs inline code"))
    } else if rest.is_some() {
        RiskFinding::new(Risk::Moderate, format!("'{name}' runs a program"))
    } else {
        RiskFinding::new(Risk::Unknown, format!("'{name}' runs code from its standard input"))
    }
}

/// Whether a sed script has a command that runs programs: `e`, or `s` with the flag `e`.
fn sed_runs_command(args: &[ShellWord]) -> bool {
    let runs = |part: &str| {
        let command = skip_sed_address(part.trim());
        let flags = command.strip_prefix('s').and_then(sed_flags);
        command.starts_with('e') || flags.is_some_and(|flags| flags.contains('e'))
    };
    args.iter().any(|word| !word.text.starts_with('-') && word.text.split(';').any(runs))
}

/// Skips the address of a sed command: `5`, `1,5`, `$`, `/a/`, `/a/,/b/`.
fn skip_sed_address(part: &str) -> &str {
    let mut rest = part;
    loop {
        let before = rest;
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || " ,$~+!".contains(c));
        if let Some((_, after)) = rest.strip_prefix('/').and_then(|inside| inside.split_once('/')) {
            rest = after;
        }
        if rest == before {
            return rest;
        }
    }
}

/// Flags of a sed substitution, given the text after `s`.
fn sed_flags(rest: &str) -> Option<&str> {
    let mark = rest.chars().next().filter(char::is_ascii_punctuation)?;
    let pieces: Vec<&str> = rest.split(mark).collect();
    if pieces.len() == 4 { pieces.last().copied() } else { None }
}

/// Whether a text contains a statement that deletes data, in common database languages.
fn deletes_data(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    let words: Vec<&str> =
        small.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2).any(|pair| {
        matches!(
            pair,
            [
                "drop",
                "table"
                    | "database"
                    | "schema"
                    | "index"
                    | "view"
                    | "user"
                    | "role"
                    | "column"
                    | "materialized"
                    | "collection"
                    | "type"
                    | "function"
                    | "sequence"
                    | "extension"
            ] | ["delete", "from"]
                | ["truncate", _]
        )
    });
    let calls = ["dropdatabase", "deletemany", "deleteone", "drop", "remove"];
    pairs || (small.contains("db.") && words.iter().any(|word| calls.contains(word)))
}
