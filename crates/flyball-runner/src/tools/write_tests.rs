//! Concurrent changes between resolving a file and replacing it.

use super::super::workspace::WorkspaceRoot;
use super::replace_file;
use std::path::PathBuf;

/// A folder that is removed at the end of the test.
struct WriteTestDir(PathBuf);

impl WriteTestDir {
    fn new() -> Self {
        let name = format!("flyball-write-{}", flyball_store::random_name().expect("a name"));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        WriteTestDir(path)
    }
}

impl Drop for WriteTestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A concurrent change of the file, with its name.
type ConcurrentChange = (&'static str, fn(&PathBuf));

#[test]
fn concurrently_changed_file_is_not_overwritten() {
    let folder = WriteTestDir::new();
    let file = folder.0.join("a.txt");
    let workspace = WorkspaceRoot::new(&folder.0, Vec::new()).expect("a workspace");
    let changes: [ConcurrentChange; 4] = [
        ("it has come", |file| std::fs::write(file, "theirs").expect("a file")),
        ("it has grown", |file| std::fs::write(file, "theirs, and more").expect("a file")),
        ("it was replaced", |file| {
            let other = file.with_extension("new");
            std::fs::write(&other, "theirs, and more").expect("a file");
            std::fs::rename(other, file).expect("renamed over");
        }),
        ("it is gone", |file| std::fs::remove_file(file).expect("removed")),
    ];
    for (what, change) in changes {
        let target = workspace.resolve("a.txt", false).expect("a path");
        change(&file);
        let error = replace_file(&target, b"ours").expect_err(what);
        assert_eq!(error.code, "file_changed", "{what}");
        assert_ne!(std::fs::read_to_string(&file).unwrap_or_default(), "ours", "{what}");
        let names = folder.0.read_dir().expect("the folder").count();
        assert!(names <= 1, "{what}: something was left behind");
    }
    let target = workspace.resolve("a.txt", false).expect("a path");
    replace_file(&target, b"ours").expect("no concurrent change");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "ours");
}
