//! What a gate is: a command whose result decides whether the work may be called done.

use flyball_checks::{CheckKind, Format};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Stands in `argv`, `env` and scratch files for the file that the tool is to write its results into.
pub const RESULTS: &str = "{results}";
/// Stands in `argv`, `env` and scratch files for the folder of the run, which is removed afterwards.
pub const SCRATCH: &str = "{scratch}";

/// How long a gate of a kind may take unless it says otherwise.
const fn default_deadline(kind: CheckKind) -> Duration {
    match kind {
        CheckKind::Build | CheckKind::Tests | CheckKind::Custom => Duration::from_secs(300),
        CheckKind::Lint => Duration::from_secs(120),
    }
}

/// Where the tool's machine-readable results are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Results {
    /// On its standard output.
    #[default]
    Stdout,
    /// In a file of this name in the run's own folder; the command names it as `{results}`.
    Scratch(String),
    /// In a file of the workspace, seen from the gate's folder. It must be written by this run to count.
    File(PathBuf),
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name, different from every other gate's.
    pub name: String,
    /// The check that it counts towards. Several gates may share one: it passes if none of them fails.
    pub check: String,
    /// What it looks at.
    pub kind: CheckKind,
    /// The command and its arguments; no shell is involved.
    pub argv: Vec<String>,
    /// A checklist of the workspace to look at instead of running a command, seen from `dir`.
    pub checklist: Option<PathBuf>,
    /// The folder to run in, seen from the workspace.
    pub dir: PathBuf,
    /// Variables on top of the environment.
    pub env: BTreeMap<String, String>,
    /// How long it may take.
    pub deadline: Duration,
    /// How its results are written.
    pub format: Format,
    /// Where its results are.
    pub results: Results,
    /// Files put into the run's own folder before it starts: name and content.
    pub scratch_files: Vec<(String, String)>,
    /// Gates that must not have failed for this one to run.
    pub needs: Vec<String>,
    /// Why it does not run at all, in words for people.
    pub skip: Option<String>,
    /// Whether the one whose work is checked may ask to leave it out.
    pub may_skip: bool,
    /// Whether it must run: if it is skipped, it counts as failed.
    pub required: bool,
}

impl Gate {
    /// A gate that runs a command; everything else has its default.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: CheckKind, argv: &[&str]) -> Self {
        let name = name.into();
        let check = if kind == CheckKind::Custom { name.clone() } else { kind.as_str().to_owned() };
        Gate {
            name,
            check,
            kind,
            argv: argv.iter().map(|part| (*part).to_owned()).collect(),
            checklist: None,
            dir: PathBuf::new(),
            env: BTreeMap::new(),
            deadline: default_deadline(kind),
            format: Format::Auto,
            results: Results::Stdout,
            scratch_files: Vec::new(),
            needs: Vec::new(),
            skip: None,
            may_skip: false,
            required: false,
        }
    }

    /// A gate that cannot run, with the reason.
    #[must_use]
    pub fn skipped(name: impl Into<String>, kind: CheckKind, reason: impl Into<String>) -> Self {
        Gate { skip: Some(reason.into()), ..Gate::new(name, kind, &[]) }
    }

    /// Sets the format of its results.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Lets the tool write its results into a file of the run's own folder.
    #[must_use]
    pub fn results_in(mut self, file: impl Into<String>) -> Self {
        self.results = Results::Scratch(file.into());
        self
    }

    /// Adds a gate that must not have failed.
    #[must_use]
    pub fn needs(mut self, gate: impl Into<String>) -> Self {
        self.needs.push(gate.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }
}
