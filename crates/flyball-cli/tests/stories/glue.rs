//! The glue of each story: how many lines it has, that they are honest lines, and that nothing beside it reaches Flyball.

use crate::kit::root;

/// The stories and the program with their logic.
pub(crate) const PROGRAMS: [(&str, &str); 5] = [
    ("soni", "soni.py"),
    ("kira", "kira.py"),
    ("shepherd", "shepherd.py"),
    ("dex", "dex.mjs"),
    ("vuhlp", "vuhlp.mts"),
];
const MOST_LINES: usize = 10;
const MOST_COLUMNS: usize = 120;
/// Ways to reach another program or a server: only the glue has them.
const REACHES: [&str; 14] = [
    "subprocess",
    "Popen",
    "check_output",
    "check_call",
    "GOVERNOR",
    "os.system",
    "urllib",
    "urlopen",
    "socket",
    "child_process",
    "spawn",
    "fetch(",
    "node:http",
    "FLYBALL",
];

/// The lines of a program that are glue, and those that are not.
#[derive(Debug, Default)]
struct Parts {
    glue: Vec<String>,
    logic: Vec<String>,
}

/// Splits a program at the comments around its glue. Blank lines count for nothing.
fn split(text: &str) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut inside = false;
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        match (line.trim_start_matches(['#', '/', ' ']), inside) {
            ("--- glue", false) => inside = true,
            ("--- end of glue", true) => inside = false,
            ("--- glue" | "--- end of glue", _) => {
                return Err("the comments around the glue do not match".to_owned());
            }
            (_, true) => parts.glue.push(line.to_owned()),
            (_, false) => parts.logic.push(line.to_owned()),
        }
    }
    if inside { Err("the glue does not end".to_owned()) } else { Ok(parts) }
}

/// What is wrong with the glue of a program.
fn faults(text: &str) -> Vec<String> {
    let Parts { glue, logic } = match split(text) {
        Ok(parts) => parts,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    if glue.is_empty() || glue.len() > MOST_LINES {
        faults.push(format!("{} lines of glue, and {MOST_LINES} are the most", glue.len()));
    }
    for line in glue.iter().chain(&logic).filter(|line| line.chars().count() > MOST_COLUMNS) {
        faults.push(format!("more than {MOST_COLUMNS} columns: {line}"));
    }
    for line in glue.iter().filter(|line| line.trim_end_matches(';').contains(';')) {
        faults.push(format!("two statements in one line: {line}"));
    }
    let is_comment =
        |line: &str| line.starts_with("//") || line.contains("set FLYBALL") || line.contains("Set FLYBALL");
    for line in logic.iter().filter(|line| !is_comment(line)) {
        faults.extend(
            REACHES
                .iter()
                .filter(|way| line.contains(*way))
                .map(|way| format!("{way} outside of the glue: {line}")),
        );
    }
    faults
}

#[test]
fn glue_of_each_story_has_at_most_ten_lines() {
    for (story, program) in PROGRAMS {
        let text =
            std::fs::read_to_string(root().join("examples/stories").join(story).join(program)).unwrap();
        assert_eq!(faults(&text), Vec::<String>::new(), "{story}/{program}");
    }
}

#[test]
fn dishonest_glue_is_found() {
    let lines = |count: usize| "send()\n".repeat(count);
    let glued = |inside: &str| format!("# --- glue\n{inside}# --- end of glue\n");
    assert_eq!(faults(&glued(&lines(10))), Vec::<String>::new());
    for (text, fault) in [
        (glued(&lines(11)), "11 lines"),
        (glued(&lines(6)) + &glued(&lines(5)), "11 lines"),
        (lines(3), "0 lines"),
        (glued("a(); b();\n"), "two statements"),
        (glued(&format!("{}\n", "x".repeat(121))), "columns"),
        (glued("a()\n") + "urlopen(url)\n", "outside of the glue"),
        ("# --- glue\na()\n".to_owned(), "does not end"),
        ("# --- end of glue\n".to_owned(), "do not match"),
    ] {
        let found = faults(&text);
        assert!(found.iter().any(|found| found.contains(fault)), "{text}: {found:?}");
    }
}
