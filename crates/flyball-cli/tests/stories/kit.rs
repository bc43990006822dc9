//! Runs a story in a separate folder and compares its output with its transcript.

use crate::is_installed;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the modules `typescript` and `@types/node`. `cargo xtask test` sets it; then every language must be
/// installed, and nothing is skipped.
pub(crate) const TYPESCRIPT: &str = "FLYBALL_TEST_TYPESCRIPT";

/// The repository root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Skips a test, unless everything must be installed.
pub(crate) fn missing(what: &str) {
    assert!(std::env::var_os(TYPESCRIPT).is_none(), "missing: {what}");
    eprintln!("skipped: this test needs {what}");
}

/// A story, and the folder in which it runs.
pub(crate) struct Story {
    /// Its program and transcript.
    source: PathBuf,
    /// Home folder, temporary files and stores.
    place: PathBuf,
}

impl Story {
    pub(crate) fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stories").join(name);
        let _ = std::fs::remove_dir_all(&place);
        // The search for flyball.yaml and for a store stops here.
        for folder in [".git", "home", "tmp"] {
            std::fs::create_dir_all(place.join(folder)).expect("a folder");
        }
        Story { source: root().join("examples/stories").join(name), place }
    }

    /// Runs a program of the story and compares its output.
    pub(crate) fn run(&self, language: &str, args: &[&str]) {
        if !is_installed(language) {
            return missing(&format!("`{language}`"));
        }
        let mut command = self.command(language);
        command.args(args.iter().map(|arg| self.source.join(arg)));
        let ran = command.output().expect("the program starts");
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{:?}\n{out}\n{err}", ran.status);
        assert_eq!(err, "", "a story prints nothing to stderr");
        let transcript = self.source.join("transcript.txt");
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(&transcript, out.as_bytes()).expect("a writable transcript");
        }
        let wanted = std::fs::read_to_string(&transcript).expect("a transcript");
        assert!(out == wanted, "{}\n--- expected\n{wanted}\n--- printed\n{out}", transcript.display());
        let left: Vec<_> =
            std::fs::read_dir(self.place.join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "it left files behind: {left:?}");
    }

    /// A command in the story's folder whose environment contains only the path of the Flyball binary.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("FLYBALL")) {
            command.env_remove(name);
        }
        command
            .current_dir(&self.place)
            .env("FLYBALL", env!("CARGO_BIN_EXE_flyball"))
            .env("HOME", self.place.join("home"))
            .env("TMPDIR", self.place.join("tmp"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUTF8", "1")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME");
        command
    }
}

/// Type-checks a TypeScript program and compiles it next to a copy of the story's other files. Returns the path of the
/// JavaScript.
pub(crate) fn compile(story: &Story, program: &str) -> String {
    let modules = PathBuf::from(std::env::var_os(TYPESCRIPT).expect("checked before")).join("node_modules");
    let build = story.place.join("build");
    std::fs::create_dir_all(&build).expect("a folder");
    for entry in std::fs::read_dir(&story.source).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), build.join(entry.file_name())).expect("a copy");
    }
    std::os::unix::fs::symlink(&modules, build.join("node_modules")).expect("a link");
    let mut tsc = story.command("node");
    tsc.arg(modules.join("typescript/bin/tsc"))
        .args(["--strict", "--noUnusedLocals", "--erasableSyntaxOnly", "--types", "node"])
        .args(["--target", "es2022", "--module", "nodenext", program])
        .current_dir(&build);
    let ran = tsc.output().expect("node starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    build.join(program).with_extension("mjs").display().to_string()
}
