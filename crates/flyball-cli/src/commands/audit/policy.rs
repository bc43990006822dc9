//! `--write-policy`: a policy that fits the history, checked against that history before it is written.

use super::crew;
use super::outfile;
use super::walk::Walked;
use crate::args::Audit;
use crate::fail::Failure;
use crate::paint::{Style, paint_out};
use crate::words::{plural, typed};
use flyball::policy::{Format, parse};
use flyball::{PolicySource, Preset};
use flyball_adapt::audit::{Bench, Fit, Survey, fit};
use std::io::Write;
use std::path::Path;

/// How often a policy is fitted at most.
const ROUNDS: usize = 4;

/// What came of it.
pub(super) struct Written {
    path: String,
    changes: usize,
    inseparable: usize,
    check: Check,
}

/// The history under the new policy.
struct Check {
    looped: usize,
    /// Of these, how many the new policy stops as well.
    still: usize,
    doubtful: usize,
    /// Of these, how many the new policy leaves alone.
    spared: usize,
}

/// Complains before the work is done rather than after it, if the file is there.
pub(super) fn may_write(args: &Audit) -> Result<(), Failure> {
    match &args.write_policy {
        Some(path) if path.exists() && !args.force => {
            let what = "there is a file of this name already";
            let name = path.display().to_string();
            Err(Failure::new("file_exists", name, what, "name another one, or add --force"))
        }
        _ => Ok(()),
    }
}

/// Works the policy out, audits the history again with it, and writes it with what came of that. Room for one guard
/// may bring the next one to the fore: then it is fitted once more, as long as that lets no loop through.
pub(super) fn write(
    path: &Path,
    (survey, bench): (&Survey, &Bench),
    (walked, jobs): (&Walked, usize),
    force: bool,
) -> Result<Written, Failure> {
    let name = path.display().to_string();
    let mut known = survey.clone();
    let mut best: Option<(Fit, Check)> = None;
    for _ in 0..ROUNDS {
        let fitted = fit(&known, bench.policy());
        if best.as_ref().is_some_and(|(before, _)| before.text == fitted.text) {
            break;
        }
        let second = audit_with(&fitted, &name, bench, (walked, jobs))?;
        let check = Check::of(survey, &second);
        if best.as_ref().is_some_and(|(_, before)| check.still < before.still || check.spared < before.spared)
        {
            break;
        }
        let done = check.spared == check.doubtful;
        best = Some((fitted, check));
        if done {
            break;
        }
        known.learn(&second);
    }
    let Some((fitted, check)) = best else {
        return Err(Failure::new("bad_policy", name, "no policy fits", ""));
    };
    outfile::write(path, &check.beside(&fitted.text), force)?;
    Ok(Written { path: name, changes: fitted.changes, inseparable: fitted.inseparable.len(), check })
}

/// The history once more, under the policy that was worked out.
fn audit_with(
    fitted: &Fit,
    name: &str,
    bench: &Bench,
    (walked, jobs): (&Walked, usize),
) -> Result<Survey, Failure> {
    let layer = parse(&fitted.text, Format::Yaml, name)?;
    let source = PolicySource::new(vec![layer], Preset::Agent)?;
    let again = Bench::new(source, bench.prices().clone()).map_err(|error| Failure::at(name, &error))?;
    Ok(crew::survey(walked, &again, jobs))
}

impl Check {
    fn of(first: &Survey, second: &Survey) -> Self {
        let spared = |run: &&_| !second.doubtful_runs.contains(run) && !second.looped_runs.contains(run);
        Check {
            looped: first.looped_runs.len(),
            still: first.looped_runs.intersection(&second.looped_runs).count(),
            doubtful: first.doubtful_runs.len(),
            spared: first.doubtful_runs.iter().filter(spared).count(),
        }
    }

    /// The file, with the check after its first lines.
    fn beside(&self, text: &str) -> String {
        let check = format!("# Checked against the same history: {}.\n", self.told());
        match text.find("version: 1") {
            Some(at) => [text.get(..at), Some(&check), text.get(at..)].into_iter().flatten().collect(),
            None => check + text,
        }
    }

    fn told(&self) -> String {
        let Check { looped, still, doubtful, spared } = self;
        let mut text = format!("it still stops {still} of the {looped} runs that looped");
        if *doubtful > 0 {
            text.push_str(&format!(
                ", and leaves {spared} of {} alone",
                plural(*doubtful as u64, "doubtful run")
            ));
        }
        text
    }
}

impl Written {
    /// Tells it on the terminal.
    pub(super) fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let style = if self.check.still == self.check.looped { Style::Good } else { Style::Warn };
        let changes = plural(self.changes as u64, "value");
        writeln!(out, "Policy written to {}: {changes} that fit this history.", self.path)?;
        writeln!(out, "  {}", paint_out(style, &format!("Checked: {}.", self.check.told())))?;
        if self.inseparable > 0 {
            let rows = plural(self.inseparable as u64, "kind");
            writeln!(out, "  {rows} of harmless rows are as long as loops; nothing was changed for them.")?;
        }
        writeln!(out, "  Next: flyball check {}", typed(&self.path))
    }
}
