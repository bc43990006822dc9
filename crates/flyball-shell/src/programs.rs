//! Read-only programs, and the options with which they remain read-only.

use crate::filters::{awk_is_read_only, sed_is_read_only, test_is_read_only};
use crate::options::{AllowedOptions, contains_word};
use crate::word::ShellWord;
use crate::{cloud, git, system};

/// The folders of system programs; a program elsewhere may be anything with the same name.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"];

/// Programs without any option or operand that writes a file, starts a program or contacts another machine.
const ALWAYS_READ_ONLY: &str = "\
    ls dir vdir cat tac head tail wc nl cut tr fold fmt paste join comm cmp diff diff3 grep egrep fgrep pwd echo true false \
    : basename dirname realpath readlink stat du df whoami id groups users who w uname printenv which type whereis \
    md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum od hexdump strings jq seq sleep \
    ps pgrep pidof pstree uptime free vmstat nproc getconf locale expr tty column cal numfmt tsort expand unexpand rev \
    factor zcat bzcat xzcat gzcat zipinfo lsblk lscpu lsmod lsns findmnt getent sw_vers readelf \
    cd pushd popd dirs exit return break continue shift clear [[";

/// Programs that are read-only with these options.
const READ_ONLY_WITH_OPTIONS: [(&str, AllowedOptions); 26] = [
    (
        "sort",
        AllowedOptions {
            flags: "bdfghiMnRrVcCmsuz",
            valued: "ktS",
            long: "--unique --reverse --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort \
                   --month-sort --ignore-case --ignore-leading-blanks --stable --zero-terminated --check[= --key= \
                   --field-separator= --parallel= --merge --dictionary-order",
            operands: usize::MAX,
        },
    ),
    // A second operand is the output file.
    (
        "uniq",
        AllowedOptions {
            flags: "cduizD",
            valued: "fsw",
            long: "--count --repeated --unique --ignore-case --skip-fields= --skip-chars= --all-repeated[=",
            operands: 1,
        },
    ),
    ("xxd", AllowedOptions { flags: "", valued: "cgl", long: "-b -e -i -p -ps -u -C", operands: 1 }),
    (
        "base64",
        AllowedOptions { flags: "dDi", valued: "w", long: "--decode --wrap= --ignore-garbage", operands: 1 },
    ),
    ("base32", AllowedOptions { flags: "di", valued: "w", long: "--decode --wrap=", operands: 1 }),
    (
        "file",
        AllowedOptions {
            flags: "bhikLnNprsSvE0",
            valued: "feFP",
            long: "--brief --mime --mime-type --mime-encoding --dereference --no-pad --version",
            operands: usize::MAX,
        },
    ),
    (
        "tree",
        AllowedOptions {
            flags: "adfilxpsughDFqNQrtcUvACnJXS",
            valued: "LPI",
            long: "--dirsfirst --noreport --gitignore --prune --charset= --filelimit= --du --si --sort[= --filesfirst \
                   --matchdirs --ignore-case --inodes --device --timefmt= --metafirst",
            operands: usize::MAX,
        },
    ),
    (
        "rg",
        AllowedOptions {
            flags: "acFhHiIlLnNoPqsSuUvVwx0pz.",
            valued: "ABCEefgjmMrtTd",
            long: "--after-context= --before-context= --context= --count --count-matches --case-sensitive --column \
                   --color= --colors= --debug --encoding= --engine= --file= --files --files-with-matches \
                   --files-without-match --fixed-strings --follow --glob= --iglob= --heading --no-heading --hidden \
                   --no-hidden --ignore-case --ignore-file= --include-zero --invert-match --json --line-number \
                   --no-line-number --line-regexp --max-columns= --max-count= --max-depth= --max-filesize= --multiline \
                   --multiline-dotall --no-config --no-filename --with-filename --no-ignore --no-ignore-vcs \
                   --no-messages --null --only-matching --passthru --path-separator= --pcre2 --pretty --quiet \
                   --regexp= --replace= --smart-case --sort= --sortr= --stats --text --threads= --trim --type= \
                   --type-not= --type-list --type-add= --unrestricted --vimgrep --word-regexp --version --crlf \
                   --no-ignore-parent --no-ignore-global --one-file-system --byte-offset --search-zip --binary",
            operands: usize::MAX,
        },
    ),
    (
        "fd",
        AllowedOptions {
            flags: "HIuaLpsgFi0q1",
            valued: "dteEScj",
            long: "--hidden --no-ignore --no-ignore-vcs --unrestricted --absolute-path --follow --full-path \
                   --case-sensitive --ignore-case --glob --fixed-strings --print0 --max-depth= --min-depth= \
                   --exact-depth= --type= --extension= --exclude= --size= --changed-within= --changed-before= \
                   --color= --max-results= --prune --no-follow --relative-path --owner= --base-directory=",
            operands: usize::MAX,
        },
    ),
    (
        "bat",
        AllowedOptions {
            flags: "pnAPf",
            valued: "lrHm",
            long: "--plain --number --show-all --style= --paging=never --color= --language= --line-range= \
                   --highlight-line= --no-pager --wrap= --decorations= --theme=",
            operands: usize::MAX,
        },
    ),
    (
        "date",
        AllowedOptions {
            flags: "uRjn",
            valued: "drv",
            long: "-I -Idate -Ihours -Iminutes -Iseconds -Ins --date= --reference= --utc --universal --rfc-email --iso-8601[= --rfc-3339=",
            operands: 0,
        },
    ),
    (
        "hostname",
        AllowedOptions { flags: "fsiIdAy", valued: "", long: "--fqdn --short --ip-address", operands: 0 },
    ),
    ("arch", AllowedOptions::NOTHING),
    ("wait", AllowedOptions { flags: "n", valued: "", long: "", operands: usize::MAX }),
    ("jobs", AllowedOptions { flags: "lprs", valued: "", long: "", operands: 0 }),
    ("umask", AllowedOptions { flags: "S", valued: "", long: "", operands: 0 }),
    ("ulimit", AllowedOptions { flags: "aSHn", valued: "", long: "", operands: 0 }),
    ("mount", AllowedOptions { flags: "l", valued: "", long: "", operands: 0 }),
    ("ifconfig", AllowedOptions { flags: "a", valued: "", long: "", operands: 1 }),
    ("dmesg", AllowedOptions { flags: "TtkxL", valued: "l", long: "--ctime --level= --color=", operands: 0 }),
    (
        "shuf",
        AllowedOptions {
            flags: "erz",
            valued: "in",
            long: "--echo --head-count= --input-range=",
            operands: usize::MAX,
        },
    ),
    ("ss", AllowedOptions { flags: "hnralmpotuwx46siebH", valued: "", long: "", operands: 0 }),
    ("netstat", AllowedOptions { flags: "anptulrisev46o", valued: "", long: "", operands: 0 }),
    ("top", AllowedOptions { flags: "bcHi", valued: "nopuw", long: "", operands: 0 }),
    ("tee", AllowedOptions { flags: "ai", valued: "", long: "--append", operands: 0 }),
    ("pr", AllowedOptions { flags: "adDfFJmrtTv", valued: "ehilnNoSsWw", long: "", operands: usize::MAX }),
];

/// Programs that print their version or help and exit, if that is their only argument.
const VERSION_OR_HELP: &str = "\
    ls cat grep find sed awk gawk sort git bash sh zsh make cmake gcc g++ cc clang ld go java javac node npm bun deno \
    python python3 pip pip3 ruby gem perl php lua rustc cargo rustup docker docker-compose podman kubectl helm \
    terraform tofu aws gcloud az gh glab psql mysql sqlite3 redis-cli curl wget rsync ssh tar zip unzip vim nvim emacs \
    nano less jq yq rg fd bat tree tmux ffmpeg openssl ansible vault consul nginx systemctl cp mv rm mkdir touch chmod \
    flyball";

/// Whether a program is named without a folder or with a system folder.
#[must_use]
pub fn is_system_program(path: &str, name: &str) -> bool {
    path == name
        || path
            .strip_suffix(name)
            .is_some_and(|folder| SYSTEM_FOLDERS.contains(&folder.trim_end_matches('/')))
}

/// Whether a program with these arguments is known to be read-only. Programs that start others are handled by
/// [`crate::launch`].
#[must_use]
pub fn program_is_read_only(name: &str, args: &[ShellWord]) -> bool {
    if let [only] = args
        && contains_word(VERSION_OR_HELP, name)
        && let Some(text) = only.known()
        && (matches!(text, "--version" | "--help")
            || matches!((name, text), ("java" | "javac", "-version") | ("node" | "npm", "-v"))
            || (text == "-V" && name.starts_with("python"))
            || (text == "version" && contains_word("go docker kubectl helm terraform tofu git rustup", name)))
    {
        return true;
    }
    if contains_word(ALWAYS_READ_ONLY, name) {
        return true;
    }
    if let Some((_, allowed)) = READ_ONLY_WITH_OPTIONS.iter().find(|(listed, _)| *listed == name) {
        return allowed.permits(args) || (name == "date" && is_date_format(allowed, args));
    }
    match name {
        "git" => git::is_read_only(args),
        "sed" | "gsed" => sed_is_read_only(args),
        "awk" | "gawk" | "mawk" | "nawk" => awk_is_read_only(args),
        "test" | "[" => test_is_read_only(name, args),
        // `-v` and, in zsh, numeric conversions evaluate their argument.
        "printf" => {
            args.first().is_none_or(|first| !first.may_be_option() || first.known() == Some("--"))
                && !args.iter().any(|word| word.text.contains("$(") || word.text.contains('`'))
        }
        _ => system::is_read_only(name, args).or_else(|| cloud::is_read_only(name, args)).unwrap_or(false),
    }
}

/// Whether `date` is called with a format. Any other operand sets the time.
fn is_date_format(allowed: &AllowedOptions, args: &[ShellWord]) -> bool {
    let matched = allowed.matches(args, false);
    let formats = |word: &&ShellWord| !word.splits && word.head.starts_with('+');
    // `-j` makes BSD's `date` parse its operand instead of setting it; GNU's has no such option and fails.
    matched.is_some_and(|matched| matched.operands.iter().all(formats))
}
