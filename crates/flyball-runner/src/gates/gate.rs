//! A gate: a command whose result decides whether work may be called done.

use flyball_checks::{CheckKind, ResultsFormat};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Placeholder in `argv`, `env` and scratch files for the results file.
pub const RESULTS_PLACEHOLDER: &str = "{results}";
/// Placeholder in `argv`, `env` and scratch files for the temporary folder of the run.
pub const SCRATCH_PLACEHOLDER: &str = "{scratch}";

/// Default deadline by kind.
const fn default_deadline(kind: CheckKind) -> Duration {
    match kind {
        CheckKind::Build | CheckKind::Tests | CheckKind::Custom => Duration::from_secs(300),
        CheckKind::Lint => Duration::from_secs(120),
    }
}

/// Location of the machine-readable results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResultsLocation {
    /// Standard output.
    #[default]
    Stdout,
    /// A file of this name in the temporary folder; the command refers to it as `{results}`.
    Scratch(String),
    /// A file relative to the gate's folder. It counts only if this run wrote it.
    File(PathBuf),
}

/// A quality gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualityGate {
    /// Unique name.
    pub name: String,
    /// Check that it counts toward. Several gates may share one, which passes if none of them fails.
    pub check: String,
    /// Kind of check.
    pub kind: CheckKind,
    /// The command and its arguments, run without a shell.
    pub argv: Vec<String>,
    /// Checklist file to check instead of running a command, relative to `dir`.
    pub checklist: Option<PathBuf>,
    /// Working directory, relative to the workspace.
    pub dir: PathBuf,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// Maximum duration.
    pub deadline: Duration,
    /// Format of its results.
    pub format: ResultsFormat,
    /// Location of its results.
    pub results: ResultsLocation,
    /// Files to write into the temporary folder before it starts: name and content.
    pub scratch_files: Vec<(String, String)>,
    /// Gates that must not have failed for this one to run.
    pub needs: Vec<String>,
    /// Why it is disabled, for people.
    pub skip: Option<String>,
    /// Whether the agent may ask to skip it.
    pub may_skip: bool,
    /// Whether it must run: if skipped, it counts as failed.
    pub required: bool,
}

impl QualityGate {
    /// A gate that runs a command, with defaults for everything else.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: CheckKind, argv: &[&str]) -> Self {
        let name = name.into();
        let check = if kind == CheckKind::Custom { name.clone() } else { kind.as_str().to_owned() };
        QualityGate {
            name,
            check,
            kind,
            argv: argv.iter().map(|part| (*part).to_owned()).collect(),
            checklist: None,
            dir: PathBuf::new(),
            env: BTreeMap::new(),
            deadline: default_deadline(kind),
            format: ResultsFormat::Auto,
            results: ResultsLocation::Stdout,
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
        QualityGate { skip: Some(reason.into()), ..QualityGate::new(name, kind, &[]) }
    }

    /// Sets the format of its results.
    #[must_use]
    pub fn format(mut self, format: ResultsFormat) -> Self {
        self.format = format;
        self
    }

    /// Writes the results to a file in the temporary folder.
    #[must_use]
    pub fn results_in(mut self, file: impl Into<String>) -> Self {
        self.results = ResultsLocation::Scratch(file.into());
        self
    }

    /// Adds a gate that must not have failed.
    #[must_use]
    pub fn needs(mut self, gate: impl Into<String>) -> Self {
        self.needs.push(gate.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }
}
