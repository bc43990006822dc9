//! `--write-policy`: suggests a policy fitted to the history and checks it against the same history.

use super::file_walk::WalkResult;
use super::worker_pool;
use crate::args::AuditArgs;
use crate::color::{TextStyle, style_stdout};
use crate::error::CliError;
use crate::formatting::{plural, typed};
use crate::output_file;
use flyball::policy::{PolicyFormat, parse};
use flyball::{PolicySource, Preset};
use flyball_integrations::audit::{AuditConfig, AuditSummary, SuggestedPolicy, suggest_policy};
use std::io::Write;
use std::path::Path;

/// Maximum number of fitting rounds.
const MAX_FIT_ROUNDS: usize = 4;

/// A written policy suggestion and its check.
pub(super) struct PolicySuggestionReport {
    path: String,
    changes: usize,
    inseparable: usize,
    comparison: PolicyComparison,
}

/// The history audited under the new policy.
struct PolicyComparison {
    looped: usize,
    /// How many of these the new policy still stops.
    still_stopped: usize,
    doubtful: usize,
    /// How many of these the new policy leaves alone.
    spared: usize,
}

/// Fails early, before the audit, if the output file exists.
pub(super) fn check_output_path(args: &AuditArgs) -> Result<(), CliError> {
    match &args.write_policy {
        Some(path) if path.exists() && !args.force => {
            let what = "the file already exists";
            let name = path.display().to_string();
            Err(CliError::new("file_exists", name, what, "name another file, or add --force"))
        }
        _ => Ok(()),
    }
}

/// Fits a policy, audits the history again with it, and writes it with the result. Loosening one guard may make another
/// one trip; then it is fitted again, as long as no loop gets through.
pub(super) fn write_suggested_policy(
    path: &Path,
    (audit_summary, config): (&AuditSummary, &AuditConfig),
    (walked, jobs): (&WalkResult, usize),
    force: bool,
) -> Result<PolicySuggestionReport, CliError> {
    let name = path.display().to_string();
    let mut known = audit_summary.clone();
    let mut best: Option<(SuggestedPolicy, PolicyComparison)> = None;
    for _ in 0..MAX_FIT_ROUNDS {
        let fitted = suggest_policy(&known, config.policy());
        if best.as_ref().is_some_and(|(before, _)| before.text == fitted.text) {
            break;
        }
        let second = audit_with_policy(&fitted, &name, config, (walked, jobs))?;
        let check = PolicyComparison::compare(audit_summary, &second);
        if best.as_ref().is_some_and(|(_, before)| {
            check.still_stopped < before.still_stopped || check.spared < before.spared
        }) {
            break;
        }
        let done = check.spared == check.doubtful;
        best = Some((fitted, check));
        if done {
            break;
        }
        known.merge_streaks(&second);
    }
    let Some((fitted, check)) = best else {
        return Err(CliError::new("bad_policy", name, "no policy fits this history", ""));
    };
    output_file::write_file(path, &check.insert_into(&fitted.text), force)?;
    Ok(PolicySuggestionReport {
        path: name,
        changes: fitted.changes,
        inseparable: fitted.inseparable.len(),
        comparison: check,
    })
}

/// Audits the history again under the suggested policy.
fn audit_with_policy(
    fitted: &SuggestedPolicy,
    name: &str,
    config: &AuditConfig,
    (walked, jobs): (&WalkResult, usize),
) -> Result<AuditSummary, CliError> {
    let layer = parse(&fitted.text, PolicyFormat::Yaml, name)?;
    let source = PolicySource::new(vec![layer], Preset::Agent)?;
    let again = AuditConfig::new(source, config.prices().clone())
        .map_err(|error| CliError::from_core(name, &error))?;
    Ok(worker_pool::audit_files(walked, &again, jobs))
}

impl PolicyComparison {
    fn compare(first: &AuditSummary, second: &AuditSummary) -> Self {
        let spared = |run: &&_| !second.doubtful_runs.contains(run) && !second.looped_runs.contains(run);
        PolicyComparison {
            looped: first.looped_runs.len(),
            still_stopped: first.looped_runs.intersection(&second.looped_runs).count(),
            doubtful: first.doubtful_runs.len(),
            spared: first.doubtful_runs.iter().filter(spared).count(),
        }
    }

    /// The policy text with the check's result inserted after its first lines.
    fn insert_into(&self, text: &str) -> String {
        let check = format!("# Checked against the same history: {}.\n", self.summary());
        match text.find("version: 1") {
            Some(at) => [text.get(..at), Some(&check), text.get(at..)].into_iter().flatten().collect(),
            None => check + text,
        }
    }

    fn summary(&self) -> String {
        let PolicyComparison { looped, still_stopped: still, doubtful, spared } = self;
        let mut text = format!("it still stops {still} of the {looped} runs that looped");
        if *doubtful > 0 {
            text.push_str(&format!(
                " and leaves {spared} of {} alone",
                plural(*doubtful as u64, "doubtful run")
            ));
        }
        text
    }
}

impl PolicySuggestionReport {
    /// Prints the result.
    pub(super) fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let style = if self.comparison.still_stopped == self.comparison.looped {
            TextStyle::Success
        } else {
            TextStyle::Warning
        };
        let changes = plural(self.changes as u64, "value");
        writeln!(out, "Policy written to {}: {changes} fitted to this history.", self.path)?;
        writeln!(out, "  {}", style_stdout(style, &format!("Checked: {}.", self.comparison.summary())))?;
        if self.inseparable > 0 {
            let rows = plural(self.inseparable as u64, "kind");
            writeln!(out, "  harmless repetition as long as loops: {rows}; no limit was raised for it.")?;
        }
        writeln!(out, "  Next: flyball check {}", typed(&self.path))
    }
}
