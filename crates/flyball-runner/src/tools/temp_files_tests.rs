//! Only stale temporary files are removed.

use super::{remove_stale_temp_files, temp_name};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

#[test]
fn stale_temp_files_are_removed_and_locked_ones_kept() {
    let folder = std::env::temp_dir().join(format!("flyball-leftover-{}", std::process::id()));
    let below = folder.join("src");
    std::fs::create_dir_all(&below).unwrap();
    let left = below.join(temp_name().unwrap());
    std::fs::write(&left, "half").unwrap();
    let held = folder.join(temp_name().unwrap());
    let writer = File::create(&held).unwrap();
    flock(&writer, FlockOperation::LockExclusive).unwrap();
    let others = [folder.join(".flyball-notes.tmp"), folder.join("a.tmp"), below.join("lib.rs")];
    others.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
    remove_stale_temp_files(&folder);
    assert!(!left.exists(), "its writer is gone");
    assert!(held.exists(), "its writer holds the lock");
    assert!(others.iter().all(|path| path.exists()), "not a temporary file of the runner");
    drop(writer);
    remove_stale_temp_files(&folder);
    assert!(!held.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
