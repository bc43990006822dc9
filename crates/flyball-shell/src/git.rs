//! Which git calls are read-only.

use crate::options::{AllowedOptions, contains_word};
use crate::word::ShellWord;

/// Read-only subcommands, except with [`WRITING_OPTIONS`].
const READ_ONLY_SUBCOMMANDS: &str = "\
    status log show diff blame annotate shortlog describe rev-parse rev-list ls-files ls-tree cat-file name-rev \
    merge-base for-each-ref show-ref whatchanged count-objects check-ignore check-attr diff-tree diff-index diff-files \
    cherry range-diff grep version";
/// Options that write a file or run a program chosen by the caller. Git accepts any unambiguous prefix of a long
/// option, so every prefix counts.
const WRITING_OPTIONS: [&str; 5] =
    ["--output", "--ext-diff", "--open-files-in-pager", "--upload-pack", "--exec"];
/// Settings that may be given with `-c`, because they change only how git prints.
const HARMLESS_SETTINGS: [&str; 8] = [
    "color.ui=never",
    "color.ui=false",
    "core.pager=cat",
    "core.quotepath=false",
    "core.quotepath=off",
    "core.quotePath=false",
    "core.quotePath=off",
    "log.showSignature=false",
];

/// Whether a call of git is known to be read-only.
pub(crate) fn is_read_only(args: &[ShellWord]) -> bool {
    let Some(at) = subcommand_index(args) else { return false };
    let Some((command, rest)) = args.get(at..).and_then(<[ShellWord]>::split_first) else {
        // Without a subcommand git prints its usage.
        return true;
    };
    let Some(command) = command.known() else { return false };
    let Some(options) = options(rest) else { return false };
    if options.iter().any(|option| is_writing(option)) {
        return false;
    }
    if command == "grep" && options.iter().any(|option| !option.starts_with("--") && option.contains('O')) {
        return false;
    }
    contains_word(READ_ONLY_SUBCOMMANDS, command) || operands_are_read_only(command, rest)
}

/// The index of the subcommand after git's global options; `None` if one of them is not known to be harmless.
fn subcommand_index(args: &[ShellWord]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.may_be_option()) {
        match word.known()? {
            "-C" => {
                args.get(at + 1).filter(|folder| !folder.splits)?;
                at += 2;
            }
            "-c" => {
                let setting = args.get(at + 1)?.known()?;
                HARMLESS_SETTINGS.contains(&setting).then_some(())?;
                at += 2;
            }
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" => at += 1,
            _ => return None,
        }
    }
    Some(at)
}

/// The options before `--`; `None` if a word could be any option.
fn options(args: &[ShellWord]) -> Option<Vec<&str>> {
    let before_paths = args.iter().take_while(|word| word.known() != Some("--"));
    before_paths.filter(|word| word.may_be_option()).map(ShellWord::known).collect()
}

fn is_writing(option: &str) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    name.len() > 2 && WRITING_OPTIONS.iter().any(|writing| writing.starts_with(name))
}

/// Subcommands that read or write, depending on their operands.
fn operands_are_read_only(command: &str, args: &[ShellWord]) -> bool {
    let first = args.first().and_then(ShellWord::known).unwrap_or_default();
    let allowed = |flags, long, operands| AllowedOptions { flags, valued: "", long, operands };
    const LISTING: &str = "--all --remotes --list --show-current --no-color --color[= --column[= --no-column --sort= \
                           --format= --contains= --no-contains= --merged= --no-merged= --points-at= --verbose \
                           --ignore-case";
    match command {
        // A name alone creates the branch or tag.
        "branch" | "tag" => {
            let flags = if command == "branch" { "arvi" } else { "lni" };
            let allowed = allowed(flags, LISTING, usize::MAX);
            let matched = allowed.matches(args, false);
            matched.is_some_and(|matched| {
                matched.operands.is_empty()
                    || matched.has(&["--list"])
                    || (command == "tag" && matched.has(&["-l"]))
            })
        }
        "remote" => match first {
            "" => args.is_empty(),
            "-v" | "--verbose" => args.len() == 1,
            "get-url" => allowed("", "--push --all", 2).permits(args),
            "show" => allowed("n", "", 2).permits(args),
            _ => false,
        },
        "stash" => matches!(first, "list" | "show"),
        "worktree" => first == "list" && allowed("vz", "--porcelain --verbose", 1).permits(args),
        "submodule" => {
            args.is_empty() || (first == "status" && allowed("", "--recursive --cached", 64).permits(args))
        }
        "reflog" => args.is_empty() || first == "show" || first == "exists" || first.starts_with('-'),
        "notes" => matches!(first, "list" | "show"),
        "config" => config_is_read_only(args),
        // With a second operand it writes the reference.
        "symbolic-ref" => allowed("q", "--quiet --short --recurse --no-recurse", 1).permits(args),
        "ls-remote" => {
            let allowed =
                allowed("htq", "--heads --branches --tags --refs --quiet --exit-code --symref --get-url", 8);
            let is_name = |word: &&ShellWord| {
                // A URL may name a program (`ext::`), so the remote must be a configured one.
                word.known().is_some_and(|text| {
                    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./*".contains(&byte))
                })
            };
            let matched = allowed.matches(args, false);
            matched.is_some_and(|matched| {
                matched.operands.iter().all(is_name)
                    && matched.operands.first().is_none_or(|remote| !remote.text.contains('/'))
            })
        }
        _ => false,
    }
}

fn config_is_read_only(args: &[ShellWord]) -> bool {
    const LONG: &str = "--get --get-all --get-regexp --list --global --local --system --worktree --show-origin \
                        --show-scope --name-only --null --bool --int --type= --includes --no-includes --default=";
    let allowed = AllowedOptions { flags: "lz", valued: "", long: LONG, operands: 3 };
    let Some(matched) = allowed.matches(args, false) else { return false };
    let first = matched.operands.first().and_then(|word| word.known()).unwrap_or_default();
    if matched.has(&["--get", "--get-all", "--get-regexp"]) {
        return matched.operands.len() <= 2;
    }
    if matched.has(&["--list", "-l"]) {
        return matched.operands.is_empty();
    }
    match first {
        "get" => matched.operands.len() <= 2,
        "list" => matched.operands.len() == 1,
        // With a second operand it sets the value.
        _ => {
            matched.operands.len() == 1
                && first.contains('.')
                && matched.operands.iter().all(|word| word.literal)
        }
    }
}
