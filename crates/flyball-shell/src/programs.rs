//! Programs that are known to be read-only, and the options that keep them so.

use crate::filters::{awk, sed, test};
use crate::options::{Allowed, is_among};
use crate::word::Word;
use crate::{cloud, git, system};

/// Where the system's own programs are; a program elsewhere may be anything that has the same name.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"];

/// Programs without any option or operand that writes a file, starts a program or talks to another machine.
const ALWAYS: &str = "\
    ls dir vdir cat tac head tail wc nl cut tr fold fmt paste join comm cmp diff diff3 grep egrep fgrep pwd echo true false \
    : basename dirname realpath readlink stat du df whoami id groups users who w uname printenv which type whereis \
    md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum od hexdump strings jq seq sleep \
    ps pgrep pidof pstree uptime free vmstat nproc getconf locale expr tty column cal numfmt tsort expand unexpand rev \
    factor zcat bzcat xzcat gzcat zipinfo lsblk lscpu lsmod lsns findmnt getent sw_vers readelf \
    cd pushd popd dirs exit return break continue shift clear [[";

/// Programs that are read-only with these options.
const LIMITED: [(&str, Allowed); 26] = [
    (
        "sort",
        Allowed {
            flags: "bdfghiMnRrVcCmsuz",
            valued: "ktS",
            long: "--unique --reverse --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort \
                   --month-sort --ignore-case --ignore-leading-blanks --stable --zero-terminated --check[= --key= \
                   --field-separator= --parallel= --merge --dictionary-order",
            operands: usize::MAX,
        },
    ),
    // A second operand is the file that it writes.
    (
        "uniq",
        Allowed {
            flags: "cduizD",
            valued: "fsw",
            long: "--count --repeated --unique --ignore-case --skip-fields= --skip-chars= --all-repeated[=",
            operands: 1,
        },
    ),
    ("xxd", Allowed { flags: "", valued: "cgl", long: "-b -e -i -p -ps -u -C", operands: 1 }),
    ("base64", Allowed { flags: "dDi", valued: "w", long: "--decode --wrap= --ignore-garbage", operands: 1 }),
    ("base32", Allowed { flags: "di", valued: "w", long: "--decode --wrap=", operands: 1 }),
    (
        "file",
        Allowed {
            flags: "bhikLnNprsSvE0",
            valued: "feFP",
            long: "--brief --mime --mime-type --mime-encoding --dereference --no-pad --version",
            operands: usize::MAX,
        },
    ),
    (
        "tree",
        Allowed {
            flags: "adfilxpsughDFqNQrtcUvACnJXS",
            valued: "LPI",
            long: "--dirsfirst --noreport --gitignore --prune --charset= --filelimit= --du --si --sort[= --filesfirst \
                   --matchdirs --ignore-case --inodes --device --timefmt= --metafirst",
            operands: usize::MAX,
        },
    ),
    (
        "rg",
        Allowed {
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
        Allowed {
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
        Allowed {
            flags: "pnAPf",
            valued: "lrHm",
            long: "--plain --number --show-all --style= --paging=never --color= --language= --line-range= \
                   --highlight-line= --no-pager --wrap= --decorations= --theme=",
            operands: usize::MAX,
        },
    ),
    (
        "date",
        Allowed {
            flags: "uRjn",
            valued: "drv",
            long: "-I -Idate -Ihours -Iminutes -Iseconds -Ins --date= --reference= --utc --universal --rfc-email --iso-8601[= --rfc-3339=",
            operands: 0,
        },
    ),
    ("hostname", Allowed { flags: "fsiIdAy", valued: "", long: "--fqdn --short --ip-address", operands: 0 }),
    ("arch", Allowed::NOTHING),
    ("wait", Allowed { flags: "n", valued: "", long: "", operands: usize::MAX }),
    ("jobs", Allowed { flags: "lprs", valued: "", long: "", operands: 0 }),
    ("umask", Allowed { flags: "S", valued: "", long: "", operands: 0 }),
    ("ulimit", Allowed { flags: "aSHn", valued: "", long: "", operands: 0 }),
    ("mount", Allowed { flags: "l", valued: "", long: "", operands: 0 }),
    ("ifconfig", Allowed { flags: "a", valued: "", long: "", operands: 1 }),
    ("dmesg", Allowed { flags: "TtkxL", valued: "l", long: "--ctime --level= --color=", operands: 0 }),
    (
        "shuf",
        Allowed {
            flags: "erz",
            valued: "in",
            long: "--echo --head-count= --input-range=",
            operands: usize::MAX,
        },
    ),
    ("ss", Allowed { flags: "hnralmpotuwx46siebH", valued: "", long: "", operands: 0 }),
    ("netstat", Allowed { flags: "anptulrisev46o", valued: "", long: "", operands: 0 }),
    ("top", Allowed { flags: "bcHi", valued: "nopuw", long: "", operands: 0 }),
    ("tee", Allowed { flags: "ai", valued: "", long: "--append", operands: 0 }),
    ("pr", Allowed { flags: "adDfFJmrtTv", valued: "ehilnNoSsWw", long: "", operands: usize::MAX }),
];

/// Programs that print their version or help and end, with nothing else among their arguments.
const VERSIONED: &str = "\
    ls cat grep find sed awk gawk sort git bash sh zsh make cmake gcc g++ cc clang ld go java javac node npm bun deno \
    python python3 pip pip3 ruby gem perl php lua rustc cargo rustup docker docker-compose podman kubectl helm \
    terraform tofu aws gcloud az gh glab psql mysql sqlite3 redis-cli curl wget rsync ssh tar zip unzip vim nvim emacs \
    nano less jq yq rg fd bat tree tmux ffmpeg openssl ansible vault consul nginx systemctl cp mv rm mkdir touch chmod \
    flyball";

/// Whether a program is named without a folder, or by one of the folders of the system.
#[must_use]
pub fn is_system_program(path: &str, name: &str) -> bool {
    path == name
        || path
            .strip_suffix(name)
            .is_some_and(|folder| SYSTEM_FOLDERS.contains(&folder.trim_end_matches('/')))
}

/// Whether a program with these arguments is known to be read-only. Programs that start others are not: see
/// [`crate::launch`].
#[must_use]
pub fn program_is_read_only(name: &str, args: &[Word]) -> bool {
    if let [only] = args
        && is_among(VERSIONED, name)
        && let Some(text) = only.known()
        && (matches!(text, "--version" | "--help")
            || matches!((name, text), ("java" | "javac", "-version") | ("node" | "npm", "-v"))
            || (text == "-V" && name.starts_with("python"))
            || (text == "version" && is_among("go docker kubectl helm terraform tofu git rustup", name)))
    {
        return true;
    }
    if is_among(ALWAYS, name) {
        return true;
    }
    if let Some((_, allowed)) = LIMITED.iter().find(|(listed, _)| *listed == name) {
        return allowed.permits(args) || (name == "date" && date_format(allowed, args));
    }
    match name {
        "git" => git::is_read_only(args),
        "sed" | "gsed" => sed(args),
        "awk" | "gawk" | "mawk" | "nawk" => awk(args),
        "test" | "[" => test(name, args),
        // `-v` and, in zsh, numeric conversions evaluate their argument.
        "printf" => {
            args.first().is_none_or(|first| !first.may_be_option() || first.known() == Some("--"))
                && !args.iter().any(|word| word.text.contains("$(") || word.text.contains('`'))
        }
        _ => system::is_read_only(name, args).or_else(|| cloud::is_read_only(name, args)).unwrap_or(false),
    }
}

/// `date` with a format. Any other operand is a time that it sets.
fn date_format(allowed: &Allowed, args: &[Word]) -> bool {
    let matched = allowed.matches(args, false);
    let formats = |word: &&Word| !word.splits && word.head.starts_with('+');
    // `-j` makes BSD's `date` parse its operand instead of setting it; GNU's has no such option and fails.
    matched.is_some_and(|matched| matched.operands.iter().all(formats))
}
