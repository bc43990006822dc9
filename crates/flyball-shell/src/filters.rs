//! Programs with their own language: `sed`, `awk` and `test`.

use crate::options::AllowedOptions;
use crate::syntax::is_arithmetic_test;
use crate::word::ShellWord;

const SED: AllowedOptions = AllowedOptions {
    flags: "nErsuz",
    valued: "e",
    long: "--quiet --silent --regexp-extended --separate --null-data --sandbox --unbuffered --posix --debug",
    operands: usize::MAX,
};

/// Whether a `sed` call only prints: addresses with `p`, `d`, `q`, `=` or a substitution that writes nothing.
pub(crate) fn sed_is_read_only(args: &[ShellWord]) -> bool {
    let Some(matched) = SED.matches(args, false) else { return false };
    let mut scripts: Vec<&ShellWord> = Vec::new();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        at += 1;
        let text = word.text.as_str();
        if text == "--" {
            break;
        }
        // `matches` has verified that every option is known.
        if text.starts_with('-') && !text.starts_with("--") && text.ends_with('e') {
            scripts.extend(args.get(at));
            at += 1;
        } else if text.starts_with('-') && !text.starts_with("--") && text.contains('e') {
            return false;
        }
    }
    if scripts.is_empty() {
        scripts.extend(matched.operands.first().copied());
    }
    !scripts.is_empty() && scripts.iter().all(|script| script.known().is_some_and(sed_script_prints_only))
}

fn sed_script_prints_only(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', ';', '\n', '\t']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = skip_sed_command(rest) else { return false };
        let after = after.trim_start_matches([' ', '\t']);
        if !(after.is_empty() || after.starts_with([';', '\n', '}'])) {
            return false;
        }
        rest = after;
    }
}

/// Skips one command with its addresses and returns the rest; `None` if the command is not known to only print.
fn skip_sed_command(text: &str) -> Option<&str> {
    let mut rest = skip_sed_address(text)?.trim_start();
    if let Some(after) = rest.strip_prefix(',') {
        rest = skip_sed_address(after.trim_start_matches([' ', '+', '~']))?.trim_start();
    }
    rest = rest.trim_start_matches([' ', '!']);
    let mut chars = rest.chars();
    match chars.next()? {
        'p' | 'd' | '=' | 'P' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' => Some(chars.as_str()),
        'q' | 'Q' => Some(chars.as_str().trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
        's' | 'y' => {
            let mark = chars.next().filter(char::is_ascii_punctuation).filter(|mark| *mark != '\\')?;
            let after = skip_sed_section(chars.as_str(), mark)?;
            let after = skip_sed_section(after, mark)?;
            Some(after.trim_start_matches(|c: char| "gpiI".contains(c) || c.is_ascii_digit()))
        }
        _ => None,
    }
}

/// Skips an address: a number, `$`, `first~step` or a pattern.
fn skip_sed_address(text: &str) -> Option<&str> {
    match text.strip_prefix('/') {
        Some(pattern) => Some(skip_sed_section(pattern, '/')?.trim_start_matches(['I', 'M'])),
        None => Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || c == '~')),
    }
}

/// Skips to the delimiter that ends a section. Returns `None` for cases in which implementations disagree (an escaped
/// delimiter, or one in brackets).
fn skip_sed_section(text: &str, mark: char) -> Option<&str> {
    let mut chars = text.char_indices().peekable();
    let mut in_bracket = false;
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == mark => {
                let after = text.get(at + c.len_utf8()..)?;
                return (!in_bracket).then_some(after);
            }
            '\n' => return None,
            '\\' => {
                let (_, escaped) = chars.next()?;
                if escaped == mark || escaped == '\n' {
                    return None;
                }
            }
            '[' if !in_bracket => {
                in_bracket = true;
                // A closing bracket at the beginning of a set is literal.
                chars.next_if(|(_, next)| *next == '^');
                chars.next_if(|(_, next)| *next == ']');
            }
            ']' => in_bracket = false,
            _ => {}
        }
    }
    None
}

const AWK: AllowedOptions =
    AllowedOptions { flags: "", valued: "Fv", long: "--field-separator= --assign=", operands: usize::MAX };

/// Whether an `awk` call only prints. Output redirections, pipes, `system` and `getline` are rejected.
pub(crate) fn awk_is_read_only(args: &[ShellWord]) -> bool {
    // Options end at the program; files and assignments follow, which awk only reads.
    let Some(matched) = AWK.matches(args, true) else { return false };
    let Some(program) = args.get(matched.leading).and_then(ShellWord::known) else { return false };
    // Some implementations accept options after the program too.
    let behind = args.get(matched.leading + 1..).unwrap_or_default();
    if behind.iter().any(|word| word.literal && word.may_be_option()) {
        return false;
    }
    let prints_to_file = program.contains("print")
        && program
            .match_indices('>')
            .any(|(at, _)| !program.get(at + 1..).is_some_and(|rest| rest.starts_with('=')));
    let pipes = program.replace("||", "").contains('|');
    let runs = ["system", "getline", "@", "close", "fflush"].iter().any(|word| program.contains(word));
    !(prints_to_file || pipes || runs)
}

/// Whether a `test` call evaluates nothing: `-v` and numeric comparisons can run commands in some shells.
pub(crate) fn test_is_read_only(name: &str, args: &[ShellWord]) -> bool {
    let args = match args.split_last() {
        Some((last, rest)) if name == "[" => {
            if last.known() != Some("]") {
                return false;
            }
            rest
        }
        _ => args,
    };
    let args = match args.split_first() {
        Some((first, rest)) if first.known() == Some("!") => rest,
        _ => args,
    };
    // A word that splits may expand to an operator.
    let evaluates = |word: &ShellWord| word.splits || matches!(word.known(), Some("-v" | "-R"));
    if args.iter().any(evaluates) {
        return false;
    }
    if args.iter().all(|word| word.literal) {
        return true;
    }
    match args {
        [_] => true,
        [operator, _] => operator.literal,
        [_, operator, _] => operator.known().is_some_and(|operator| !is_arithmetic_test(operator)),
        _ => false,
    }
}
