//! System inspection programs and shell builtins.

use crate::options::{AllowedOptions, contains_word};
use crate::read_only::is_local_variable;
use crate::word::ShellWord;

/// Whether a call is known to be read-only; `None` for programs that are not listed here.
pub(crate) fn is_read_only(name: &str, args: &[ShellWord]) -> Option<bool> {
    let first = args.first().and_then(ShellWord::known).unwrap_or_default();
    let allowed = |flags, valued, long, operands| AllowedOptions { flags, valued, long, operands };
    Some(match name {
        "read" => {
            let matched = allowed("rs", "", "", usize::MAX).matches(args, false);
            matched.is_some_and(|matched| {
                matched.operands.iter().all(|word| word.known().is_some_and(is_local_variable))
            })
        }
        "set" => args.iter().all(|word| {
            word.known().is_some_and(|text| {
                let letters = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty());
                letters.is_some_and(|letters| letters.chars().all(|letter| "euo".contains(letter)))
                    || contains_word("pipefail errexit nounset", text)
            })
        }),
        "sysctl" => {
            let allowed = allowed("aneNAX", "", "--all --values --names", usize::MAX);
            let matched = allowed.matches(args, false);
            matched.is_some_and(|matched| {
                matched.operands.iter().all(|word| word.known().is_some_and(|text| !text.contains('=')))
            })
        }
        "ip" => ip_is_read_only(args),
        "systemctl" => {
            contains_word("status is-active is-enabled is-failed list-units list-unit-files list-timers show cat", first)
                && allowed(
                    "lqan",
                    "ptn",
                    "--no-pager --all --full --plain --no-legend --user --failed --type= --state= --property= --lines= \
                     --output=",
                    64,
                )
                .permits(args)
        }
        "journalctl" => allowed(
            "efkrxqa",
            "unpotSUbg",
            "--no-pager --unit= --lines= --since= --until= --boot[= --priority= --output= --grep= --reverse --user \
             --follow --no-hostname --utc --dmesg --identifier= --list-boots --disk-usage",
            0,
        )
        .permits(args),
        "lsof" => args.iter().all(|word| {
            word.known().is_some_and(|text| !(text.starts_with(['-', '+']) && text.contains(['D', 'r'])))
        }),
        // Without one of these options, it extracts files.
        "unzip" => {
            let matched = allowed("lvtqZ1", "", "", usize::MAX).matches(args, false);
            matched.is_some_and(|matched| matched.has(&["-l", "-v", "-t", "-Z"]))
        }
        "tar" => tar_is_read_only(args),
        "crontab" => args.len() == 1 && first == "-l",
        "yq" => yq_is_read_only(args),
        _ => return package_tool_is_read_only(name, args),
    })
}

/// Whether a package manager or similar tool is called with a read-only subcommand.
fn package_tool_is_read_only(name: &str, args: &[ShellWord]) -> Option<bool> {
    let first = args.first().and_then(ShellWord::known).unwrap_or_default();
    let allowed = |flags, valued, long, operands| AllowedOptions { flags, valued, long, operands };
    Some(match name {
        "dpkg" => {
            matches!(first, "-l" | "-L" | "-s" | "-S" | "--list" | "--listfiles" | "--status" | "--search")
                && args.iter().skip(1).all(|word| !word.may_be_option())
        }
        "apt-cache" => {
            contains_word("show search policy depends rdepends showpkg", first)
                && args.iter().skip(1).all(|word| !word.may_be_option())
        }
        "apt" => {
            (contains_word("list show search policy", first))
                && allowed("a", "", "--installed --upgradable --all-versions", 64).permits(args)
        }
        "pip" | "pip3" => {
            contains_word("list show freeze", first)
                && allowed(
                    "fo",
                    "",
                    "--outdated --format= --files --user --local --verbose --not-required",
                    64,
                )
                .permits(args)
        }
        "npm" => {
            contains_word("ls list ll root prefix", first)
                && allowed("gal", "", "--depth= --global --all --json --long --prod --dev --parseable", 64)
                    .permits(args)
        }
        "go" => {
            first == "env"
                && args.iter().skip(1).all(|word| !word.may_be_option() || word.known() == Some("-json"))
        }
        "psql" => matches!(args, [only] if matches!(only.known(), Some("-l" | "--list"))),
        "flyball" => {
            contains_word("status explain list", first)
                && allowed("", "", "--json --blocked --waiting --struggling", 2).permits(args)
        }
        _ => return None,
    })
}

/// Whether `ip` only lists objects. Its verbs may be abbreviated; only full ones are accepted.
fn ip_is_read_only(args: &[ShellWord]) -> bool {
    let words: Option<Vec<&str>> = args.iter().map(ShellWord::known).collect();
    let Some(words) = words else { return false };
    let options = words.iter().take_while(|word| word.starts_with('-'));
    let harmless = |word: &&str| {
        contains_word(
            "-4 -6 -br -brief -o -oneline -s -stats -j -json -p -pretty -d -details -c -color",
            word,
        )
    };
    let count = options.clone().count();
    if !options.into_iter().all(harmless) {
        return false;
    }
    match words.get(count..).unwrap_or_default() {
        [object, rest @ ..] if contains_word("a addr address l link r route n neigh rule maddr", object) => {
            rest.first().is_none_or(|verb| contains_word("show list ls get", verb))
        }
        _ => false,
    }
}

/// Whether `tar` lists an archive (`t`).
fn tar_is_read_only(args: &[ShellWord]) -> bool {
    let Some((first, rest)) = args.split_first() else { return false };
    let Some(letters) = first.known().map(|text| text.trim_start_matches('-')) else { return false };
    let lists = letters.starts_with('t') && letters.chars().all(|letter| "tvzjJf".contains(letter));
    // An archive name with a colon refers to another machine.
    let plain =
        |word: &ShellWord| word.known().is_some_and(|text| !text.starts_with('-') && !text.contains(':'));
    lists && letters.ends_with('f') && !rest.is_empty() && rest.iter().all(plain)
}

/// Whether `yq` is called without options that write files.
fn yq_is_read_only(args: &[ShellWord]) -> bool {
    let allowed = AllowedOptions {
        flags: "rPeNCMjcn",
        valued: "opI",
        long: "--raw-output --prettyPrint --exit-status --no-doc --colors --no-colors --output-format= --input-format= \
               --indent= --compact-output --null-input --unwrapScalar[=",
        operands: usize::MAX,
    };
    let matched = allowed.matches(args, false);
    matched.is_some_and(|matched| matched.operands.iter().all(|word| !word.text.contains("load")))
}
