//! Checks the glue of each story: its number of lines, one statement per line, and no access to Flyball outside it.

use crate::kit::root;

/// The stories and their programs.
pub(crate) const PROGRAMS: [(&str, &str); 5] = [
    ("soni", "soni.py"),
    ("kira", "kira.py"),
    ("shepherd", "shepherd.py"),
    ("dex", "dex.mjs"),
    ("vuhlp", "vuhlp.mts"),
];
const MOST_LINES: usize = 10;
const MOST_COLUMNS: usize = 120;
/// Ways to reach another program or a server; only glue may use them.
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

/// The lines of a program that are glue, and the others.
#[derive(Debug, Default)]
struct Parts {
    glue: Vec<String>,
    logic: Vec<String>,
}

/// Splits a program at the comments around its glue. Blank lines do not count.
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
    if inside { Err("the glue is not closed".to_owned()) } else { Ok(parts) }
}

/// The errors in the glue of a program.
fn problems(text: &str) -> Vec<String> {
    let Parts { glue, logic } = match split(text) {
        Ok(parts) => parts,
        Err(fault) => return vec![fault],
    };
    let mut problems = Vec::new();
    if glue.is_empty() || glue.len() > MOST_LINES {
        problems.push(format!("{} lines of glue, but at most {MOST_LINES} are allowed", glue.len()));
    }
    for line in glue.iter().chain(&logic).filter(|line| line.chars().count() > MOST_COLUMNS) {
        problems.push(format!("more than {MOST_COLUMNS} columns: {line}"));
    }
    for line in glue.iter().filter(|line| line.trim_end_matches(';').contains(';')) {
        problems.push(format!("two statements on one line: {line}"));
    }
    let is_comment =
        |line: &str| line.starts_with("//") || line.contains("set FLYBALL") || line.contains("Set FLYBALL");
    for line in logic.iter().filter(|line| !is_comment(line)) {
        problems.extend(
            REACHES
                .iter()
                .filter(|way| line.contains(*way))
                .map(|way| format!("{way} outside the glue: {line}")),
        );
    }
    problems
}

#[test]
fn glue_of_each_story_has_at_most_ten_lines() {
    for (story, program) in PROGRAMS {
        let text =
            std::fs::read_to_string(root().join("examples/stories").join(story).join(program)).unwrap();
        assert_eq!(problems(&text), Vec::<String>::new(), "{story}/{program}");
    }
}

#[test]
fn dishonest_glue_is_found() {
    let lines = |count: usize| "send()\n".repeat(count);
    let glued = |inside: &str| format!("# --- glue\n{inside}# --- end of glue\n");
    assert_eq!(problems(&glued(&lines(10))), Vec::<String>::new());
    for (text, fault) in [
        (glued(&lines(11)), "11 lines"),
        (glued(&lines(6)) + &glued(&lines(5)), "11 lines"),
        (lines(3), "0 lines"),
        (glued("a(); b();\n"), "two statements"),
        (glued(&format!("{}\n", "x".repeat(121))), "columns"),
        (glued("a()\n") + "urlopen(url)\n", "outside the glue"),
        ("# --- glue\na()\n".to_owned(), "is not closed"),
        ("# --- end of glue\n".to_owned(), "do not match"),
    ] {
        let found = problems(&text);
        assert!(found.iter().any(|found| found.contains(fault)), "{text}: {found:?}");
    }
}
