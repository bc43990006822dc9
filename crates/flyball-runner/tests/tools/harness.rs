//! A workspace with a toolbox for one test.

use flyball_runner::process::CancelToken;
use flyball_runner::tools::{ToolOutput, Toolbox, ToolboxOptions};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty temporary folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tools-{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path.canonicalize().expect("the folder")
}

/// A workspace `work` inside a temporary folder, so that there is an outside.
pub(crate) struct ToolHarness {
    pub(crate) outside: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) toolbox: Toolbox,
}

impl ToolHarness {
    pub(crate) fn new(name: &str) -> Self {
        ToolHarness::with(name, ToolboxOptions::default())
    }

    pub(crate) fn with(name: &str, options: ToolboxOptions) -> Self {
        ToolHarness::in_folder(folder(name), options)
    }

    pub(crate) fn in_folder(outside: PathBuf, options: ToolboxOptions) -> Self {
        let work = outside.join("work");
        std::fs::create_dir_all(&work).expect("a folder");
        let toolbox = Toolbox::new(work.clone(), options).expect("a toolbox");
        ToolHarness { outside, work, toolbox }
    }

    /// Writes a file into the workspace.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(&path, content).expect("a file");
        path
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.work.join(path)).expect("a file")
    }

    pub(crate) fn call(&self, tool: &str, args: &Value) -> ToolOutput {
        self.toolbox.call(tool, args, None, &CancelToken::new())
    }

    /// Output of a call that must succeed.
    pub(crate) fn call_ok(&self, tool: &str, args: &Value) -> String {
        let output = self.call(tool, args);
        assert!(output.ok && output.error.is_none() && output.code.is_none(), "{output:?}");
        output.text
    }

    /// Error of a call that must fail with this code.
    pub(crate) fn call_err(&self, tool: &str, args: &Value, code: &str) -> String {
        let output = self.call(tool, args);
        assert!(!output.ok, "{tool} {args}: {output:?}");
        assert_eq!(output.code, Some(code), "{tool} {args}: {output:?}");
        let words = output.error.expect("words");
        assert!(words.ends_with(&format!("[{code}]")), "{words}");
        words
    }

    /// All names below the workspace, to detect leftover files.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .work
            .read_dir()
            .expect("the workspace")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}
