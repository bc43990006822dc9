//! The last screen of a run: what happened, why, the evidence, and the commands that continue.

use super::evidence::{WIDE, finding, gravest, still_failing, support};
use super::lines::Lines;
use super::page::Page;
use super::raise::raised;
use super::so_far::SoFar;
use crate::args::StoreArgs;
use crate::commands::graph::picture;
use crate::fail::Failure;
use crate::meaning::actions;
use crate::paint::{Style, paint_out};
use crate::screen::{Size, is_live};
use crate::telling::{Plan, whole};
use crate::trend;
use crate::words::{counted, dollars, line, plural, typed};
use flyball::{Decision, Report, Trip};
use flyball_journal::Desk;
use flyball_run::engine::{End, Stop};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// A run that has ended or stopped.
pub(super) struct Ending<'a> {
    pub(super) session: &'a str,
    pub(super) end: &'a End,
    pub(super) lines: &'a Lines,
    /// Where the run is kept, if it is.
    pub(super) desk: Option<&'a dyn Desk>,
    pub(super) store: &'a StoreArgs,
    /// The folder that its nodes worked in.
    pub(super) workspace: &'a Path,
    pub(super) json: bool,
}

/// Tells how it ended.
pub(super) fn tell(ending: &Ending<'_>) -> Result<(), Failure> {
    let lines = if ending.json {
        vec![ending.lines.so_far(|so_far| ending.as_json(so_far)).to_string()]
    } else {
        let page = ending.lines.so_far(|so_far| ending.page(so_far))?;
        page.lines(is_live().then(Size::now))
    };
    let mut out = crate::terminal::stdout();
    for text in lines {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

impl Ending<'_> {
    fn page(&self, so_far: &SoFar) -> Result<Page, Failure> {
        match self.end {
            End::Done => Ok(self.over(so_far, paint_out(Style::Good, "done"), "")),
            End::Failed => {
                let words = ": it came to `failed`, its end without success";
                Ok(self.over(so_far, paint_out(Style::Bad, "failed"), words))
            }
            End::Stopped(stop) => self.stopped(so_far, stop),
        }
    }

    fn stopped(&self, so_far: &SoFar, stop: &Stop) -> Result<Page, Failure> {
        match stop {
            Stop::Halted(decision) => self.tripped(so_far, decision, "halted", &[]),
            Stop::Gate(decision) => self.tripped(so_far, decision, "blocked by a gate", &[]),
            Stop::Blocked { decision, alternatives } => {
                self.tripped(so_far, decision, "blocked", alternatives)
            }
            Stop::Asks(question) => self.asks(so_far, question),
            Stop::CutOff { step } => {
                let words = format!(
                    "'{}' was under way when the run was cut off; nobody knows how far it came.",
                    line(step, 80)
                );
                let again = (self.run(" --rerun"), "run it again");
                Ok(self.waits(vec![words], &[again, (self.run(" --skip"), "take it as failed, and go on")]))
            }
            Stop::Interrupted | Stop::Skipped => {
                let mut page =
                    self.over(so_far, paint_out(Style::Warn, "interrupted"), ": what was done is kept");
                page.next = self.commands(&[(self.run(""), "go on where it was")]);
                Ok(page)
            }
            Stop::Failed(failure) => Ok(Page {
                head: vec![format!("{} {failure}", paint_out(Style::Bad, "failed"))],
                ..Page::default()
            }),
        }
    }

    /// An end that nobody needs to do anything about.
    fn over(&self, so_far: &SoFar, word: String, words: &str) -> Page {
        let mut head = vec![String::new(), format!("{word} {}{words}", line(self.session, 200))];
        if let Some(report) = so_far.report(self.session) {
            head.push(format!("  {}", spent(&report)));
            head.extend(progress(&report).iter().map(|text| format!("  {text}")));
        }
        Page { head, ..Page::default() }
    }

    /// A guard has stopped it.
    fn tripped(
        &self,
        so_far: &SoFar,
        decision: &Decision,
        word: &str,
        alternatives: &[String],
    ) -> Result<Page, Failure> {
        let name = &decision.session;
        let title = format!("{} {}", paint_out(Style::Bad, word), line(name, 200));
        let mut page = Page { head: vec![String::new(), title], ..Page::default() };
        let report = so_far.report(name);
        if let Some(report) = &report {
            let node = report.node.as_deref().unwrap_or("its start");
            page.head.push(format!(
                "  at event {}, in {}, after {}",
                decision.seq,
                line(node, 80),
                spent(report)
            ));
        }
        let Some(trip) = gravest(decision) else { return Ok(page) };
        page.head.extend(finding(trip).iter().map(|text| format!("  {text}")));
        page.head.extend(halted(decision, report.as_ref()));
        if !alternatives.is_empty() {
            page.head.push(format!("  other ways from here: {}", line(&alternatives.join(", "), WIDE)));
        }
        page.evidence = support(self.desk, name, trip)?;
        page.evidence.extend(still_failing(so_far, name, trip));
        if let Some(report) = &report {
            page.evidence.extend(trend::all(report));
            page.instead = progress(report);
        }
        let drawn = so_far.session(name).and_then(|found| picture(found.state(), found.policy()));
        page.picture = drawn.unwrap_or_default().lines().map(str::to_owned).collect();
        page.helps = self.helps(name, trip);
        page.next = self.after_a_trip(name, trip, so_far);
        Ok(page)
    }

    fn helps(&self, name: &str, trip: &Trip) -> Vec<String> {
        let mut all = Vec::new();
        for action in actions(trip, name) {
            let place = if action.name == "switch_to_interactive" {
                format!(" (in {})", self.shown(self.workspace))
            } else {
                String::new()
            };
            let command = action.command.map(|command| format!(": {}", whole(&command, self.store)));
            all.push(format!("{}{place}{}", action.text, command.unwrap_or_default()));
        }
        all
    }

    /// A path as it is seen from here.
    fn shown(&self, path: &Path) -> String {
        let here = std::env::current_dir().unwrap_or_default();
        line(&path.strip_prefix(here).unwrap_or(path).display().to_string(), WIDE)
    }

    fn after_a_trip(&self, name: &str, trip: &Trip, so_far: &SoFar) -> Vec<String> {
        let release = format!("flyball release {} --guard {} --why \"…\"", typed(name), typed(&trip.guard));
        let release = whole(&release, self.store);
        let grant = so_far.session(name).map_or(3, |found| found.policy().releases.grant);
        let go_on = format!("{release} && {}", self.run(""));
        let means = match trip.guard.as_str() {
            "human" => "lift the stop, and continue".to_owned(),
            "budget" => "raise the budget by a step, and continue".to_owned(),
            _ => format!("go on, {grant} more"),
        };
        let mut commands = vec![(go_on, means)];
        if let Some(set) = raised(trip) {
            let command = format!("{release} && {}", self.run(&format!(" --set {}", typed(&set))));
            commands.push((command, "go on with a larger limit".to_owned()));
        }
        let explain = whole(&format!("flyball explain {}", typed(name)), self.store);
        commands.push((explain, "everything about it".to_owned()));
        let commands: Vec<(String, &str)> =
            commands.iter().map(|(command, words)| (command.clone(), words.as_str())).collect();
        self.commands(&commands)
    }

    /// A person is asked something.
    fn asks(&self, so_far: &SoFar, question: &str) -> Result<Page, Failure> {
        let name = so_far.asking();
        let send = whole(&format!("flyball send {} \"…\"", typed(name)), self.store);
        let state = so_far.session(name).map(flyball::Session::state);
        let (Some(desk), Some(state)) = (self.desk, state) else {
            return Ok(self.waits(vec![line(question, 2_000)], &[(send, "answer it")]));
        };
        let Some(plan) = Plan::of(desk, name, state)? else {
            return Ok(self.waits(vec![line(question, 2_000)], &[(send, "answer it")]));
        };
        let mut shown = Vec::new();
        crate::telling::print_plan(&plan, &mut shown, desk.now()?)?;
        let shown = String::from_utf8_lossy(&shown).lines().map(str::to_owned).collect();
        let mut commands: Vec<(String, &str)> = crate::telling::next(desk, name, state, Some(&plan))?
            .iter()
            .map(|command| (whole(command, self.store), ""))
            .collect();
        commands.push((send, "answer in words"));
        Ok(self.waits(shown, &commands))
    }

    /// It waits for a person.
    fn waits(&self, words: Vec<String>, commands: &[(String, &str)]) -> Page {
        let title = paint_out(Style::Warn, "waits for a person");
        let mut head = vec![String::new(), format!("{title} {}", line(self.session, 200))];
        head.extend(words.iter().map(|text| format!("  {text}")));
        Page { head, next: self.commands(commands), ..Page::default() }
    }

    /// The command that goes on with the run.
    fn run(&self, flags: &str) -> String {
        whole(&format!("flyball resume {}{flags}", typed(self.session)), self.store)
    }

    /// Commands, each with what it does as a comment that a shell ignores.
    fn commands(&self, commands: &[(String, &str)]) -> Vec<String> {
        if self.desk.is_none() {
            return vec!["nothing was kept of this run, so that it cannot be taken up again".to_owned()];
        }
        let comment = |words: &str| paint_out(Style::Dim, &format!("   # {words}"));
        let shown = |(command, words): &(String, &str)| match words.is_empty() {
            true => command.clone(),
            false => format!("{command}{}", comment(words)),
        };
        commands.iter().map(shown).collect()
    }

    fn as_json(&self, so_far: &SoFar) -> Value {
        let detail = match self.end {
            End::Stopped(Stop::Halted(decision) | Stop::Gate(decision)) => json!(decision),
            End::Stopped(Stop::Blocked { decision, alternatives }) => {
                json!({"decision": decision, "alternatives": alternatives})
            }
            End::Stopped(Stop::Asks(question)) => json!(question),
            End::Stopped(Stop::CutOff { step }) => json!(step),
            _ => Value::Null,
        };
        let asking = matches!(self.end, End::Stopped(Stop::Asks(_))).then(|| so_far.asking());
        json!({"session": self.session, "end": word(self.end), "detail": detail, "asking": asking,
            "report": so_far.report(self.session)})
    }
}

/// What was used, in one line.
fn spent(report: &Report) -> String {
    let mut parts = vec![plural(report.turns, "turn"), plural(report.calls, "call")];
    if report.tokens > 0 {
        parts.push(plural(report.tokens, "token"));
    }
    if report.cost_micro_usd > 0 {
        parts.push(dollars(report.cost_micro_usd));
    }
    parts.push(format!("{} at work", counted(report.active_ms)));
    parts.join(", ")
}

/// Loops and trends, one line each.
fn progress(report: &Report) -> Vec<String> {
    let went = report.loops.iter().filter(|found| found.iterations > 0);
    let halted =
        report.halt_reason.map(|reason| format!(" · halted: {}", reason.as_str())).unwrap_or_default();
    let loops = went.map(|found| format!("{}{halted} ({})", found.badge, line(&found.nodes.join(", "), 120)));
    loops.chain(trend::all(report)).collect()
}

/// The effect of a halt in words: which loop, and why.
fn halted(decision: &Decision, report: Option<&Report>) -> Option<String> {
    let effect = decision.effects.iter().find(|effect| effect.effect == "loop.halted")?;
    let reason = effect.fields.get("haltReason").and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("  loop.halted: {reason}");
    if let Some(id) = effect.fields.get("cycleId").and_then(Value::as_str) {
        text.push_str(&format!(", cycle {id}"));
        let found = report.and_then(|report| report.loops.iter().find(|found| found.id == id));
        if let Some(found) = found {
            text.push_str(&format!(" ({}), {}", line(&found.nodes.join(", "), 120), found.badge));
        }
    }
    Some(text)
}

fn word(end: &End) -> &'static str {
    match end {
        End::Done => "done",
        End::Failed => "failed",
        End::Stopped(Stop::Halted(_)) => "halted",
        End::Stopped(Stop::Blocked { .. }) => "blocked",
        End::Stopped(Stop::Gate(_)) => "gate",
        End::Stopped(Stop::Asks(_)) => "asks",
        End::Stopped(Stop::CutOff { .. }) => "cut_off",
        End::Stopped(Stop::Interrupted | Stop::Skipped) => "interrupted",
        End::Stopped(Stop::Failed(_)) => "error",
    }
}
