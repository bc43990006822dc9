//! What happens between the look at a file and its replacement.

use super::super::place::Workspace;
use super::replace;
use std::path::PathBuf;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("flyball-write-{}", flyball_journal::random_name().expect("a name"));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What somebody else does to the file, with a name for it.
type Change = (&'static str, fn(&PathBuf));

#[test]
fn what_somebody_else_has_changed_in_the_meantime_is_not_overwritten() {
    let folder = Folder::new();
    let file = folder.0.join("a.txt");
    let workspace = Workspace::new(&folder.0, Vec::new()).expect("a workspace");
    let changes: [Change; 4] = [
        ("it has come", |file| std::fs::write(file, "theirs").expect("a file")),
        ("it has grown", |file| std::fs::write(file, "theirs, and more").expect("a file")),
        ("it was replaced", |file| {
            let other = file.with_extension("new");
            std::fs::write(&other, "theirs, and more").expect("a file");
            std::fs::rename(other, file).expect("it takes the place");
        }),
        ("it is gone", |file| std::fs::remove_file(file).expect("it goes")),
    ];
    for (what, change) in changes {
        let spot = workspace.find("a.txt", false).expect("a place");
        change(&file);
        let error = replace(&spot, b"ours").expect_err(what);
        assert_eq!(error.code, "changed_meanwhile", "{what}");
        assert_ne!(std::fs::read_to_string(&file).unwrap_or_default(), "ours", "{what}");
        let names = folder.0.read_dir().expect("the folder").count();
        assert!(names <= 1, "{what}: something was left behind");
    }
    let spot = workspace.find("a.txt", false).expect("a place");
    replace(&spot, b"ours").expect("nobody was faster");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "ours");
}
