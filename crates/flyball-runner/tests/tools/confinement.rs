//! No path leads outside the workspace, including under a race.

use crate::harness::ToolHarness;
use flyball_runner::tools::{Toolbox, ToolboxOptions};
use rustix::fs::{RenameFlags, renameat_with};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A workspace with every kind of link that leads outside.
fn workspace_with_links() -> ToolHarness {
    let place = ToolHarness::new("prison");
    std::fs::write(place.outside.join("secret.txt"), "secret").expect("a file");
    std::fs::create_dir(place.outside.join("work-evil")).expect("a folder");
    std::fs::write(place.outside.join("work-evil/secret.txt"), "secret").expect("a file");
    place.put("inside/a.txt", "a");
    for (target, name) in [
        ("../secret.txt", "out"),
        ("..", "up"),
        ("../..", "inside/up"),
        ("inside/../../secret.txt", "around"),
        ("out", "twice"),
        ("loop", "loop"),
        ("/etc", "etc"),
        ("../work-evil", "neighbour"),
        ("../new.txt", "dangling"),
    ] {
        symlink(target, place.work.join(name)).expect("a link");
    }
    symlink(&place.outside, place.work.join("absolute")).expect("a link");
    place
}

#[test]
fn no_path_escapes_the_workspace() {
    let place = workspace_with_links();
    let outside = place.outside.display().to_string();
    let paths = [
        "../secret.txt".to_owned(),
        "inside/../../secret.txt".to_owned(),
        "inside/../inside/a.txt".to_owned(),
        "..".to_owned(),
        "/etc/passwd".to_owned(),
        format!("{outside}/secret.txt"),
        format!("{outside}/work/../secret.txt"),
        format!("{outside}/work-evil/secret.txt"),
        "out".to_owned(),
        "twice".to_owned(),
        "around".to_owned(),
        "up/secret.txt".to_owned(),
        "inside/up/secret.txt".to_owned(),
        "absolute/secret.txt".to_owned(),
        "neighbour/secret.txt".to_owned(),
        "etc/passwd".to_owned(),
        "dangling".to_owned(),
        "up/work/inside/a.txt".to_owned(),
    ];
    for path in &paths {
        for (tool, args) in [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "owned"})),
            ("edit", json!({"path": path, "old": "secret", "new": "owned"})),
            ("search", json!({"pattern": "secret", "path": path})),
        ] {
            let words = place.call_err(tool, &args, "outside_workspace");
            assert!(words.contains("outside the workspace"), "{words}");
        }
    }
    place.call_err("write", &json!({"path": "up/new/deep.txt", "content": ""}), "outside_workspace");
    assert!(!place.outside.join("new").exists() && !place.outside.join("new.txt").exists());
    let secret = std::fs::read_to_string(place.outside.join("secret.txt")).expect("the file");
    assert_eq!(secret, "secret");
}

#[test]
fn invalid_paths_are_rejected() {
    let place = workspace_with_links();
    place.call_err("read", &json!({"path": "a\u{0}b"}), "bad_path");
    place.call_err("read", &json!({"path": "loop"}), "bad_path");
    place.call_err("read", &json!({"path": "x/".repeat(2_000)}), "bad_path");
    place.call_err("write", &json!({"path": "x".repeat(300), "content": ""}), "bad_path");
    assert_eq!(place.call_ok("read", &json!({"path": "./inside//a.txt"})), "a");
}

#[test]
fn search_follows_no_links() {
    let place = workspace_with_links();
    assert_eq!(place.call_ok("search", &json!({"pattern": "secret"})), "[no match in 1 files]");
}

#[test]
fn symlinked_workspace_works_by_both_paths() {
    let place = ToolHarness::new("linked");
    let link = place.outside.join("link");
    symlink(&place.work, &link).expect("a link");
    place.put("a.txt", "a");
    let toolbox = Toolbox::new(link.clone(), ToolboxOptions::default()).expect("a toolbox");
    let cancel = flyball_runner::process::CancelToken::new();
    for path in [link.join("a.txt"), place.work.join("a.txt"), PathBuf::from("a.txt")] {
        let output = toolbox.call("read", &json!({"path": path}), None, &cancel);
        assert_eq!(output.text, "a", "{output:?}");
    }
}

#[test]
fn protected_directories_are_not_accessible() {
    let outside = crate::harness::folder("closed");
    let store = outside.join("work/.store");
    std::fs::create_dir_all(store.join("deep")).expect("a folder");
    std::fs::write(store.join("deep/journal.db"), "journal").expect("a file");
    let options = ToolboxOptions { protected_dirs: vec![store], ..ToolboxOptions::default() };
    let place = ToolHarness::in_folder(outside, options);
    symlink(".store/deep", place.work.join("innocent")).expect("a link");
    for path in [".store/deep/journal.db", "innocent/journal.db", ".store"] {
        place.call_err("read", &json!({"path": path}), "outside_workspace");
        place.call_err("write", &json!({"path": path, "content": ""}), "outside_workspace");
        place.call_err("search", &json!({"path": path, "pattern": "journal"}), "outside_workspace");
    }
    assert_eq!(place.get(".store/deep/journal.db"), "journal");
}

#[test]
fn racing_symlink_swap_never_escapes() {
    // One thread swaps a folder and a link to the outside as fast as it can, while files are read and written through
    // that name. Some calls succeed and some are rejected, but nothing ever crosses the boundary.
    let place = ToolHarness::new("race");
    place.put("door/a.txt", "inside");
    let target = place.outside.join("target");
    std::fs::create_dir(&target).expect("a folder");
    std::fs::write(target.join("a.txt"), "secret").expect("a file");
    symlink(&target, place.work.join("other")).expect("a link");
    let work = std::fs::File::open(&place.work).expect("the workspace");
    let over = AtomicBool::new(false);
    let (mut worked, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(&work, "door", &work, "other", RenameFlags::EXCHANGE).expect("the swap");
            }
        });
        for n in 0..100_000 {
            let read = place.call("read", &json!({"path": "door/a.txt"}));
            let path = if n % 2 == 0 { "door/a.txt".to_owned() } else { format!("door/new{n}/b.txt") };
            let wrote = place.call("write", &json!({"path": path, "content": "inside"}));
            if read.text.contains("secret") || target.read_dir().is_ok_and(|listing| listing.count() != 1) {
                break;
            }
            worked += u32::from(read.ok) + u32::from(wrote.ok);
            refused += u32::from(!read.ok) + u32::from(!wrote.ok);
            if n >= 10_000 && worked >= 100 && refused >= 100 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(worked >= 100 && refused >= 100, "the race did not occur: {worked}, {refused}");
    assert_eq!(std::fs::read_to_string(target.join("a.txt")).expect("the file"), "secret");
    assert_eq!(target.read_dir().expect("the folder").count(), 1, "something got out");
}
