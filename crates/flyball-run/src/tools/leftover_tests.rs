//! What is left behind is removed, and nothing else.

use super::{remove_half_written, temporary};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

#[test]
fn a_half_written_file_is_removed_and_one_that_is_being_written_stays() {
    let folder = std::env::temp_dir().join(format!("flyball-leftover-{}", std::process::id()));
    let below = folder.join("src");
    std::fs::create_dir_all(&below).unwrap();
    let left = below.join(temporary().unwrap());
    std::fs::write(&left, "half").unwrap();
    let held = folder.join(temporary().unwrap());
    let writer = File::create(&held).unwrap();
    flock(&writer, FlockOperation::LockExclusive).unwrap();
    let others = [folder.join(".flyball-notes.tmp"), folder.join("a.tmp"), below.join("lib.rs")];
    others.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
    remove_half_written(&folder);
    assert!(!left.exists(), "its writer is gone");
    assert!(held.exists(), "somebody is at it");
    assert!(others.iter().all(|path| path.exists()), "not ours");
    drop(writer);
    remove_half_written(&folder);
    assert!(!held.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
