//! Effects of `find` and `fd` on the files they find.

use crate::word::ShellWord;

/// Predicates of `find` that write, delete or start a program. They are matched exactly, as `find` does.
const WRITERS: [&str; 4] = ["-fprint", "-fprint0", "-fprintf", "-fls"];
const LAUNCHERS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// The effects of a `find` call.
#[derive(Debug, Default)]
pub struct FindUse {
    /// Whether it deletes files.
    pub deletes: bool,
    /// Whether it writes its results to a file.
    pub writes: bool,
    /// The programs it starts, with their arguments.
    pub launches: Vec<Vec<ShellWord>>,
    /// Whether an argument could be any predicate.
    pub unclear: bool,
}

/// The program that `fd` starts for its results, with its arguments.
#[must_use]
pub fn fd_launch(name: &str, args: &[ShellWord]) -> Option<Vec<ShellWord>> {
    if !matches!(name, "fd" | "fdfind") {
        return None;
    }
    let at =
        args.iter().position(|word| matches!(word.known(), Some("-x" | "-X" | "--exec" | "--exec-batch")))?;
    let command = args.get(at + 1..).unwrap_or_default();
    Some(command.iter().map(|word| word.with_placeholder("{}")).chain([ShellWord::unknown()]).collect())
}

/// The effects of a `find` call.
#[must_use]
pub fn find_use(args: &[ShellWord]) -> FindUse {
    let mut found = FindUse::default();
    let mut rest = args;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let Some(text) = word.known() else {
            let risky = WRITERS.iter().chain(&LAUNCHERS).chain(&["-delete"]);
            found.unclear |= risky.into_iter().any(|predicate| word.may_equal(predicate));
            continue;
        };
        match text {
            "-delete" => found.deletes = true,
            _ if WRITERS.contains(&text) => found.writes = true,
            _ if LAUNCHERS.contains(&text) => {
                let end = after.iter().position(|word| matches!(word.known(), Some(";" | "+")));
                let (command, behind) = after.split_at(end.unwrap_or(after.len()));
                found.launches.push(command.iter().map(|word| word.with_placeholder("{}")).collect());
                rest = behind;
            }
            _ => {}
        }
    }
    found
}
