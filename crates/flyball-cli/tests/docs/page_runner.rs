//! Runs the command blocks of a page as a reader would: in order, in one shell, in an empty folder, with `flyball` on
//! the PATH. See [`crate::blocks`] for the directives.
//!
//! Two things differ from the page: port 7717 becomes a free port, and the folder is shown as `/projects` in outputs.

use crate::blocks::{Block, Page, blocks};
use crate::kit::repo_root;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Pages whose `sh` blocks all run, or have a reason why not.
const PAGES: [&str; 14] = [
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    "docs/concepts.md",
    "docs/how-to/coding-agent.md",
    "docs/how-to/own-agent.md",
    "docs/how-to/workflow.md",
    "docs/how-to/server.md",
    "docs/how-to/policy.md",
    "docs/operations/index.md",
    "docs/operations/backup.md",
    "docs/operations/upgrade.md",
    "docs/faq.md",
    "docs/reference/policy.md",
];
/// The port used on pages, the default of `flyball serve`.
const PORT: &str = "7717";
/// The folder shown in outputs.
const SHOWN_FOLDER: &str = "/projects";
/// Far longer than any page takes.
const DEADLINE: Duration = Duration::from_secs(300);
/// Starts each marker line of the script.
const MARKER: char = '\u{1}';

/// An empty folder outside any repository, so that stores and policies are found as in a new project.
pub(crate) struct PageFolder {
    path: PathBuf,
    port: u16,
}

impl PageFolder {
    pub(crate) fn new(page: &str) -> Self {
        let name = page.replace(['/', '.'], "-");
        let path = std::env::temp_dir().join(format!("flyball-docs-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("projects")).unwrap();
        std::fs::create_dir_all(path.join("user")).unwrap();
        copy(&repo_root().join("examples"), &path.join("projects/examples"));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        PageFolder { path: path.canonicalize().unwrap(), port: free }
    }

    fn projects(&self) -> PathBuf {
        self.path.join("projects")
    }

    /// A shell that runs the blocks of a page and prints markers between their outputs.
    pub(crate) fn shell(&self, blocks: &[Block]) -> Command {
        let mut script = String::from(
            "set -E\ntrap 'code=$?' ERR\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n\
             cargo() { shift 3; flyball \"$@\"; }\n",
        );
        for (number, block) in blocks.iter().enumerate() {
            let text = block.text.replace(PORT, &self.port.to_string());
            write!(
                script,
                "printf '\\n{MARKER}%s\\n' begin-{number}\ncode=0\n{text}\nprintf '\\n{MARKER}%s\\n' \"end-{number} $code\"\n"
            )
            .unwrap();
        }
        let file = self.path.join("page.sh");
        std::fs::write(&file, script).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
        let others = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.arg(file)
            .current_dir(self.projects())
            .env_clear()
            .env("PATH", format!("{}:{others}", program.display()))
            .env("HOME", self.path.join("user"))
            .envs(rust_toolchain())
            .envs([("USER", "anna"), ("LANG", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "xterm")]);
        bash
    }

    /// An output as shown on a page.
    pub(crate) fn shown(&self, output: &str) -> String {
        let output =
            output.replace("\r\n", "\n").replace(&self.projects().display().to_string(), SHOWN_FOLDER);
        output.replace(&format!(":{}", self.port), &format!(":{PORT}"))
    }
}

impl Drop for PageFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The folders of rustup and cargo, because workflows run `cargo test` with another HOME.
fn rust_toolchain() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folders =
        [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")].into_iter().map(move |(name, usual)| {
            (name, std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from))
        });
    let toolchain =
        std::env::var_os("RUSTUP_TOOLCHAIN").map(|name| ("RUSTUP_TOOLCHAIN", PathBuf::from(name)));
    folders.filter(|(_, folder)| folder.is_dir()).chain(toolchain)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// The output of one block, and the exit code of the last command in it that failed.
pub(crate) struct BlockRun {
    pub(crate) output: String,
    pub(crate) code: i32,
}

/// Splits a shell's output into the runs of blocks. Panics if the shell exited too early.
pub(crate) fn block_runs(output: &str, count: usize) -> Vec<BlockRun> {
    (0..count)
        .map(|number| {
            let begin = format!("\n{MARKER}begin-{number}\n");
            let end = format!("\n{MARKER}end-{number} ");
            let rest = output
                .split_once(&begin)
                .unwrap_or_else(|| panic!("block {number} did not run:\n{output}"))
                .1;
            let (text, rest) =
                rest.split_once(&end).unwrap_or_else(|| panic!("block {number} did not finish:\n{output}"));
            let code = rest.lines().next().unwrap().parse().unwrap();
            BlockRun { output: text.to_owned(), code }
        })
        .collect()
}

/// The `sh` blocks of a page that are run.
pub(crate) fn runnable(page: &Page) -> Vec<Block> {
    let run = |block: &Block| block.language == "sh" && block.directive("not run").is_none();
    blocks(&page.text).into_iter().filter(run).collect()
}

/// Runs a page without a terminal.
fn run_page(page: &Page, folder: &PageFolder) -> Vec<BlockRun> {
    let blocks = runnable(page);
    let log = folder.path.join("output");
    let output = File::create(&log).unwrap();
    let mut shell = folder.shell(&blocks);
    shell.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = shell.spawn().expect("bash starts");
    let pid = Pid::from_child(&child);
    let (ended, wait) = channel();
    std::thread::spawn(move || {
        child.wait().unwrap();
        let _ = ended.send(());
    });
    if wait.recv_timeout(DEADLINE).is_err() {
        let _ = kill_process(pid, Signal::KILL);
        panic!("{} takes too long:\n{}", page.name, std::fs::read_to_string(&log).unwrap_or_default());
    }
    block_runs(&folder.shown(&std::fs::read_to_string(&log).unwrap()), blocks.len())
}

/// The part of an output that a block shows.
fn shown_part(block: &Block, output: &str) -> String {
    let limit = block.directive("output").and_then(|text| text.strip_suffix(" lines"));
    let lines = output.trim_end().lines().map(str::trim_end);
    let lines: Vec<&str> = match limit {
        Some(limit) => lines.take(limit.parse().expect("a number of lines")).collect(),
        None => lines.collect(),
    };
    lines.join("\n") + "\n"
}

/// Runs a page and compares the shown outputs, or writes them.
fn check_page(name: &str) -> Vec<String> {
    let page = Page::read(name);
    let programs = std::env::var("PATH").unwrap_or_default();
    let has_curl = std::env::split_paths(&programs).any(|folder| folder.join("curl").is_file());
    if !has_curl && runnable(&page).iter().any(|block| block.text.contains("curl ")) {
        eprintln!("skipped: {name} needs curl");
        return Vec::new();
    }
    let runs = run_page(&page, &PageFolder::new(name));
    let mut problems = Vec::new();
    let mut text = page.text.clone();
    let mut last: Option<&BlockRun> = None;
    let mut runs = runs.iter();
    let mut replaced = Vec::new();
    for block in blocks(&page.text) {
        let at = format!("{name}:{}", block.line);
        if block.language == "sh" && block.directive("not run").is_none() {
            let run = runs.next().unwrap();
            let wanted = block.directive("exit").map_or(0, |code| code.parse().expect("an exit code"));
            if run.code != wanted {
                problems.push(format!("{at}: exit code {}, expected {wanted}:\n{}", run.code, run.output));
            }
            last = Some(run);
        } else if block.directive("output").is_some() {
            let run = last.unwrap_or_else(|| panic!("{at}: no block ran before this output"));
            let shown = shown_part(&block, &run.output);
            if shown != block.text {
                problems.push(format!("{at}: the page shows\n{}but the output is\n{shown}", block.text));
                replaced.push((block.span.clone(), shown));
            }
        }
    }
    if std::env::var_os("FLYBALL_BLESS").is_some() && !replaced.is_empty() {
        for (span, shown) in replaced.into_iter().rev() {
            text.replace_range(span, &shown);
        }
        std::fs::write(repo_root().join(name), text).unwrap();
        problems.retain(|problem| !problem.contains(": the page shows"));
    }
    problems
}

#[test]
fn every_command_block_runs_as_written_and_prints_what_the_page_shows() {
    let problems: Vec<String> = PAGES.iter().flat_map(|page| check_page(page)).collect();
    assert!(
        problems.is_empty(),
        "\n{}\nTo write changed outputs: FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs\n",
        problems.join("\n")
    );
}

#[test]
fn the_readme_fits_on_three_screens() {
    let lines = Page::read("README.md").text.lines().count();
    assert!(lines <= 150, "README.md has {lines} lines, but at most 150 are allowed: move details to docs");
}

#[test]
fn the_tutorial_runs_almost_completely() {
    let page = Page::read("docs/tutorial.md");
    let skipped = blocks(&page.text).into_iter().filter(|block| block.directive("not run").is_some()).count();
    let run = runnable(&page);
    let shown = blocks(&page.text).iter().filter(|block| block.directive("output").is_some()).count();
    assert!(run.len() >= 10 && skipped <= 1, "{} blocks run, {skipped} do not", run.len());
    assert!(shown >= 6, "only {shown} outputs are shown");
}

#[test]
fn output_is_split_at_the_markers() {
    let output = "\n\u{1}begin-0\na\nb\n\n\u{1}end-0 3\n\n\u{1}begin-1\n\n\u{1}end-1 0\n";
    let runs = block_runs(output, 2);
    assert_eq!((runs[0].output.as_str(), runs[0].code), ("a\nb\n", 3));
    assert_eq!((runs[1].output.as_str(), runs[1].code), ("", 0));
}
