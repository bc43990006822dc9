//! Locations in a tool's output are parsed.

use super::{parse_location, relative_to};
use std::path::Path;

#[test]
fn source_locations_are_parsed() {
    let read = |text| parse_location(text).map(|at| (at.file, at.line, at.rest));
    assert_eq!(read("./calc.go:8:9: cannot use x"), Some(("./calc.go", 8, "cannot use x")));
    assert_eq!(read("    calc_test.go:16: got 4"), Some(("calc_test.go", 16, "got 4")));
    assert_eq!(read("src/lib.rs:3"), Some(("src/lib.rs", 3, "")));
    assert_eq!(read("C:\\p\\a.ts:3:4 - error"), Some(("C:\\p\\a.ts", 3, "- error")));
    for not in [
        "12:30: lunch",
        "https://x.org:80",
        "note: a.rs",
        "a b.rs:3: x",
        "",
        "::",
        "a.rs:x",
        "99999999999.rs:99999999999",
    ] {
        assert_eq!(read(not), None, "{not}");
    }
}

#[test]
fn paths_are_relative_to_the_workspace() {
    let root = Path::new("/project");
    assert_eq!(relative_to(root, "/project/src/a.rs"), "src/a.rs");
    assert_eq!(relative_to(root, "file:///project/a.js"), "a.js");
    assert_eq!(relative_to(root, "./a.go"), "a.go");
    assert_eq!(relative_to(root, "/projects/a.go"), "/projects/a.go");
}
