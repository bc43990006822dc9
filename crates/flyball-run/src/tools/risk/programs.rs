//! What is known about single programs: which destroy, and with which options. Which of them only read is the
//! knowledge of `flyball-shell`.

use super::{Finding, Risk, git};
use flyball_shell::{Word, program_is_read_only};

/// Programs that destroy, whatever their options, and how.
const DESTROYING: [(&str, &str); 31] = [
    ("rm", "deletes files"),
    ("unlink", "deletes a file"),
    ("rimraf", "deletes files"),
    ("shred", "destroys the content of files"),
    ("srm", "destroys the content of files"),
    ("truncate", "cuts files off"),
    ("wipefs", "destroys a file system"),
    ("fdisk", "changes the partitions of a disk"),
    ("sfdisk", "changes the partitions of a disk"),
    ("gdisk", "changes the partitions of a disk"),
    ("sgdisk", "changes the partitions of a disk"),
    ("parted", "changes the partitions of a disk"),
    ("blkdiscard", "destroys the content of a disk"),
    ("mkswap", "destroys the content of a disk"),
    ("mke2fs", "makes a new file system"),
    ("newfs", "makes a new file system"),
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

/// Words that, as an argument of a program, make it destroy. An argument `A=` also stands for one that begins so.
const DESTROYING_WORDS: [(&str, &[&str], &str); 25] = [
    ("dd", &["of="], "writes over a file or a disk"),
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
    ("npm", &["publish", "unpublish", "deprecate"], "publishes for good"),
    ("cargo", &["publish", "yank"], "publishes for good"),
    ("twine", &["upload"], "publishes for good"),
    ("redis-cli", &["flushall", "flushdb", "FLUSHALL", "FLUSHDB"], "empties a database"),
    ("mysqladmin", &["drop"], "deletes a database"),
    ("iptables", &["-F", "--flush", "-X"], "removes the rules of the firewall"),
    ("zfs", &["destroy", "rollback"], "deletes a file system"),
];

/// Programs that read a program from their arguments, with the letters of the options that give it, or that make
/// them write over the files that they read.
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

/// Programs that talk to a database.
const DATABASES: &str = "\
    psql mysql mariadb sqlite3 sqlite duckdb sqlcmd clickhouse-client cockroach mongosh mongo sqlplus";

/// Whether a word stands in a list of words.
pub(super) fn is_among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// How dangerous a program is with these arguments. `whole` is the command line that it is a part of; `known` is
/// whether it is the system's own program.
pub(super) fn rate(name: &str, args: &[Word], whole: &str, known: bool) -> Finding {
    if matches!(args, [only] if matches!(only.text.as_str(), "--help" | "--version")) && known {
        return Finding::new(Risk::Safe, format!("'{name}' tells about itself"));
    }
    if let Some(finding) = destroys(name, args, whole) {
        return finding;
    }
    if name != "git" && known && program_is_read_only(name, args) {
        return Finding::new(Risk::Safe, format!("'{name}' only reads"));
    }
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if let Some((_, letters)) = INTERPRETERS.iter().find(|(program, _)| *program == bare) {
        return interpreter(name, letters, args);
    }
    match name {
        "git" => git::rate(args),
        "awk" | "gawk" | "mawk" => Finding::new(Risk::Unknown, "what this awk program does cannot be told"),
        "sed" if sed_runs(args) => Finding::new(Risk::Unknown, "this sed script may run a command"),
        _ => Finding::new(Risk::Moderate, format!("'{name}' may change something")),
    }
}

fn destroys(name: &str, args: &[Word], whole: &str) -> Option<Finding> {
    let found = |why: &str| Some(Finding::new(Risk::Destructive, format!("'{name}' {why}")));
    if let Some((_, why)) = DESTROYING.iter().find(|(program, _)| *program == name) {
        return found(why);
    }
    if name.starts_with("mkfs") {
        return found("makes a new file system");
    }
    if let Some((_, words, why)) = DESTROYING_WORDS.iter().find(|(program, ..)| *program == name)
        && args.iter().any(|arg| words.iter().any(|word| fits(&arg.text, word)))
    {
        return found(why);
    }
    if is_among(DATABASES, name) && deletes_data(whole) {
        return found("deletes data from a database");
    }
    let has = |words: &[&str]| args.iter().any(|word| words.contains(&word.text.as_str()));
    let last = args.last().map_or("", |word| word.text.as_str());
    match name {
        "mv" | "cp" if last.starts_with("/dev/") => found("writes over a device"),
        "chmod" | "chown" | "chgrp"
            if recursive(args) && has(&["/", "/*", "~", "~/", "/etc", "/usr", "/home"]) =>
        {
            found("changes the rights of the whole system")
        }
        "kill" if matches!(last, "-1" | "1") => found("ends every process"),
        "docker" | "podman" | "docker-compose" if has(&["down"]) && has(&["-v", "--volumes"]) => {
            found("removes containers and their data")
        }
        "awk" | "gawk" if has(&["inplace"]) => found("writes over files"),
        _ => None,
    }
}

fn recursive(args: &[Word]) -> bool {
    args.iter()
        .any(|word| word.text == "--recursive" || (word.text.starts_with('-') && word.text.contains('R')))
}

/// Whether an argument is this word; `of=` and `delete-*` stand for what begins so.
fn fits(argument: &str, word: &str) -> bool {
    match word.strip_suffix('*') {
        Some(beginning) => argument.starts_with(beginning),
        None if word.ends_with('=') => argument.starts_with(word),
        None => argument == word,
    }
}

fn interpreter(name: &str, letters: &str, args: &[Word]) -> Finding {
    // What comes after the script or the module is for that.
    let own = || {
        args.iter().map(|word| word.text.as_str()).take_while(|text| text.starts_with('-') && *text != "-m")
    };
    let short = |text: &str| !text.starts_with("--") && text.contains(|c| letters.contains(c));
    let inline = own().any(|text| short(text) || text.starts_with("--eval") || text.starts_with("--print"));
    let rest = args.get(own().count()).map(|word| word.text.as_str());
    if inline || rest == Some("eval") {
        Finding::new(Risk::Unknown, format!("'{name}' runs a program from the command line"))
    } else if rest.is_some() {
        Finding::new(Risk::Moderate, format!("'{name}' runs a program"))
    } else {
        Finding::new(Risk::Unknown, format!("'{name}' runs whatever it is given to read"))
    }
}

/// Whether a sed script has a command that runs others: `e`, or `s` with the flag `e`.
fn sed_runs(args: &[Word]) -> bool {
    let runs = |part: &str| {
        let command = behind_address(part.trim());
        let flags = command.strip_prefix('s').and_then(sed_flags);
        command.starts_with('e') || flags.is_some_and(|flags| flags.contains('e'))
    };
    args.iter().any(|word| !word.text.starts_with('-') && word.text.split(';').any(runs))
}

/// What comes after the lines that a sed command is for: `5`, `1,5`, `$`, `/a/`, `/a/,/b/`.
fn behind_address(part: &str) -> &str {
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

/// The flags of a sed substitution, whose rest after the `s` this is.
fn sed_flags(rest: &str) -> Option<&str> {
    let mark = rest.chars().next().filter(char::is_ascii_punctuation)?;
    let pieces: Vec<&str> = rest.split(mark).collect();
    if pieces.len() == 4 { pieces.last().copied() } else { None }
}

/// Whether a text holds a statement that deletes data, in the usual languages of databases.
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
