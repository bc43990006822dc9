//! Tables of commands, and properties that hold for every command.

use super::{check_argv_read_only, check_read_only};

const EFFECTS: &str = include_str!("../../../fixtures/shell/effects.txt");
const READ_ONLY: &str = include_str!("../../../fixtures/shell/read-only.txt");

/// The commands of a table, one per line; `␤` represents a line break in a command.
fn table(text: &str) -> Vec<String> {
    text.lines().map(|line| line.replace('␤', "\n")).collect()
}

#[test]
fn no_command_with_effects_passes_as_read_only() {
    let commands = table(EFFECTS);
    assert!(commands.len() >= 150, "{}", commands.len());
    let passed: Vec<&String> = commands.iter().filter(|command| check_read_only(command).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn read_only_commands_are_recognized() {
    let commands = table(READ_ONLY);
    assert!(commands.len() >= 80, "{}", commands.len());
    let refused: Vec<String> = commands
        .iter()
        .filter_map(|command| check_read_only(command).err().map(|why| format!("{command}: {why}")))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// A deterministic pseudorandom sequence.
fn pseudo_random(count: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some((state >> 11) as usize)
    })
    .take(count)
}

#[test]
fn effect_anywhere_makes_the_command_effectful() {
    let (effects, reads) = (table(EFFECTS), table(READ_ONLY));
    let closed =
        |command: &&String| !command.contains(['\n', '#', '"', '\'', '\\', '`', '(', ')', '{', '&', '$']);
    let effects: Vec<&String> = effects.iter().filter(closed).collect();
    let reads: Vec<&String> = reads.iter().filter(closed).collect();
    let frames: [fn(&str, &str) -> String; 14] = [
        |read, effect| format!("{read}; {effect}"),
        |read, effect| format!("{effect}; {read}"),
        |read, effect| format!("{read} && {effect}"),
        |read, effect| format!("{read} || {effect}"),
        |read, effect| format!("{read} | {effect}"),
        |read, effect| format!("{effect} | {read}"),
        |read, effect| format!("{read} & {effect}"),
        |read, effect| format!("{read}\n{effect}"),
        |read, effect| format!("if {read}; then {effect}; fi"),
        |read, effect| format!("( {read}; {effect} )"),
        |_, effect| format!("echo \"$({effect})\""),
        |_, effect| format!("cat <({effect})"),
        |_, effect| format!("bash -c '{effect}'"),
        |_, effect| format!("for f in a; do {effect}; done"),
    ];
    let mut numbers = pseudo_random(usize::MAX);
    let mut pick = |length: usize| numbers.next().unwrap_or(0) % length;
    for _ in 0..6_000 {
        let (read, effect) = (reads[pick(reads.len())], effects[pick(effects.len())]);
        let command = frames[pick(frames.len())](read, effect);
        assert!(check_read_only(&command).is_err(), "{command}");
    }
}

#[test]
fn an_unquoted_redirection_to_a_file_is_an_effect() {
    let reads = table(READ_ONLY);
    let plain = |command: &&String| !command.contains(['\n', '#', '>', '"', '\'', '\\']);
    for read in reads.iter().filter(plain) {
        for operator in [">", ">>", ">|", "&>", "&>>", "2>", "1>>", "<>", " > ", ">&"] {
            for target in ["f", "a/b", "~/x", "\"$F\"", "$F", "/dev/sda", "'/dev/null '", "/dev/nullx"] {
                let command = format!("{read} {operator}{target}");
                assert!(check_read_only(&command).is_err(), "{command}");
            }
        }
    }
}

#[test]
fn random_text_is_checked_without_panic_or_delay() {
    let pieces = [
        "ls",
        " ",
        ";",
        "|",
        "&",
        "&&",
        ">",
        "<",
        "$(",
        ")",
        "(",
        "`",
        "'",
        "\"",
        "\\",
        "\n",
        "{",
        "}",
        "$",
        "${",
        "x",
        "=",
        "[[",
        "]]",
        "[",
        "]",
        "if ",
        "then ",
        "fi",
        "for ",
        "do ",
        "done",
        "case ",
        "esac",
        "<<E",
        "#",
        "*",
        "~",
        "\u{e9}",
        "\u{a0}",
        "\0",
        "((",
        "))",
        "-",
        "!",
        "time ",
        "function ",
        "$'",
        "$\"",
        "<<<",
        "\t",
    ];
    let mut numbers = pseudo_random(usize::MAX);
    let mut pick = |length: usize| numbers.next().unwrap_or(0) % length;
    for _ in 0..20_000 {
        let command: String = (0..pick(24)).map(|_| pieces[pick(pieces.len())]).collect();
        let began = std::time::Instant::now();
        let _ = check_read_only(&command);
        assert!(began.elapsed().as_secs() < 5, "{command:?}");
    }
}

#[test]
fn deep_nesting_is_refused_before_it_exhausts_the_stack() {
    let openers = [
        "$(",
        "(",
        "{ ",
        "if ",
        "`",
        "<(",
        "${x:-",
        "\"$(",
        "[[ ( ",
        "! ",
        "time ",
        "echo \"${x:-\"",
        "(( ",
        "case x in x) ",
        "while ",
        "$((",
        "[",
        "{a,",
        "env ",
        "bash -c ",
        "xargs ",
        "find -exec ",
        "${ ",
    ];
    for opener in openers {
        for count in [8, 12, 13, 39, 41, 199, 5_000] {
            let _ = check_read_only(&opener.repeat(count));
            let _ = check_read_only(&format!("{}ls{}", opener.repeat(count), ")".repeat(count)));
            let _ = check_read_only(&format!("{}ls{}", opener.repeat(count), "}".repeat(count)));
        }
    }
    let nested = (0..20).fold("ls".to_owned(), |inner, _| format!("env {inner}"));
    assert!(check_read_only(&nested).is_err());
    assert!(check_read_only(&"x".repeat(100_000)).is_err());
}

#[test]
fn arguments_without_a_shell_are_taken_literally() {
    assert!(check_argv_read_only(&["bash", "-lc", "ls -la"]).is_ok());
    assert!(check_argv_read_only(&["grep", "a > b; rm x", "f"]).is_ok());
    assert!(check_argv_read_only(&["bash", "-lc", "rm x"]).is_err());
    assert!(check_argv_read_only(&["rm", "x"]).is_err());
    assert!(check_argv_read_only(&[]).is_err());
}
