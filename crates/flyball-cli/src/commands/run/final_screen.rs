//! The last screen of a run: what happened, why, the evidence, and the commands that continue.

use super::run_printer::RunPrinter;
use super::run_state::RunState;
use super::screen_page::ScreenPage;
use super::suggest_limit::suggest_limit;
use super::trip_evidence::{
    MAX_LINE_CHARS, finding_lines, still_failing_text, supporting_events, worst_trip,
};
use crate::args::StoreArgs;
use crate::color::{TextStyle, style_stdout};
use crate::commands::graph::ascii_graph;
use crate::error::CliError;
use crate::explanations::actions;
use crate::formatting::{format_dollars, format_duration, plural, single_line, typed};
use crate::live_screen::{TerminalSize, is_interactive};
use crate::plan_printer::{PlanView, with_store};
use crate::trend;
use flyball::{Decision, SessionReport, Trip};
use flyball_runner::engine::{RunEnd, RunStop};
use flyball_store::AdminStore;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// A run that has ended or stopped.
pub(super) struct FinalScreen<'a> {
    pub(super) session: &'a str,
    pub(super) end: &'a RunEnd,
    pub(super) lines: &'a RunPrinter,
    /// The store with the run, if it is stored.
    pub(super) admin_store: Option<&'a dyn AdminStore>,
    pub(super) store: &'a StoreArgs,
    /// The working folder of its nodes.
    pub(super) workspace: &'a Path,
    pub(super) json: bool,
}

/// Prints the final screen.
pub(super) fn print_final_screen(screen: &FinalScreen<'_>) -> Result<(), CliError> {
    let lines = if screen.json {
        vec![screen.lines.with_run_state(|run_state| screen.as_json(run_state)).to_string()]
    } else {
        let page = screen.lines.with_run_state(|run_state| screen.render(run_state))?;
        page.lines(is_interactive().then(TerminalSize::current))
    };
    let mut out = crate::terminal::stdout();
    for text in lines {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

impl FinalScreen<'_> {
    fn render(&self, run_state: &RunState) -> Result<ScreenPage, CliError> {
        match self.end {
            RunEnd::Done => Ok(self.ended_page(run_state, style_stdout(TextStyle::Success, "done"), "")),
            RunEnd::Failed => {
                let words = ": it reached `failed`";
                Ok(self.ended_page(run_state, style_stdout(TextStyle::Error, "failed"), words))
            }
            RunEnd::Stopped(stop) => self.stopped_page(run_state, stop),
        }
    }

    fn stopped_page(&self, run_state: &RunState, stop: &RunStop) -> Result<ScreenPage, CliError> {
        match stop {
            RunStop::Halted(decision) => self.tripped_page(run_state, decision, "halted", &[]),
            RunStop::Gate(decision) => self.tripped_page(run_state, decision, "blocked by a gate", &[]),
            RunStop::Blocked { decision, alternatives } => {
                self.tripped_page(run_state, decision, "blocked", alternatives)
            }
            RunStop::AwaitingInput(question) => self.question_page(run_state, question),
            RunStop::StepOutcomeUnknown { step } => {
                let words = format!(
                    "'{}' was running when the run was interrupted; its outcome is unknown.",
                    single_line(step, 80)
                );
                let again = (self.resume_command(" --rerun"), "run it again");
                Ok(self.waiting_page(
                    vec![words],
                    &[again, (self.resume_command(" --skip"), "treat it as failed and continue")],
                ))
            }
            RunStop::Interrupted | RunStop::Skipped => {
                let mut page = self.ended_page(
                    run_state,
                    style_stdout(TextStyle::Warning, "interrupted"),
                    ": its progress is saved",
                );
                page.next = self.command_lines(&[(self.resume_command(""), "continue")]);
                Ok(page)
            }
            RunStop::Failed(failure) => Ok(ScreenPage {
                head: vec![format!("{} {failure}", style_stdout(TextStyle::Error, "failed"))],
                ..ScreenPage::default()
            }),
        }
    }

    /// An end that needs no action.
    fn ended_page(&self, run_state: &RunState, word: String, words: &str) -> ScreenPage {
        let mut head = vec![String::new(), format!("{word} {}{words}", single_line(self.session, 200))];
        if let Some(report) = run_state.report(self.session) {
            head.push(format!("  {}", spend_text(&report)));
            head.extend(progress_lines(&report).iter().map(|text| format!("  {text}")));
        }
        ScreenPage { head, ..ScreenPage::default() }
    }

    /// A stop by a guard.
    fn tripped_page(
        &self,
        run_state: &RunState,
        decision: &Decision,
        word: &str,
        alternatives: &[String],
    ) -> Result<ScreenPage, CliError> {
        let name = &decision.session;
        let title = format!("{} {}", style_stdout(TextStyle::Error, word), single_line(name, 200));
        let mut page = ScreenPage { head: vec![String::new(), title], ..ScreenPage::default() };
        let report = run_state.report(name);
        if let Some(report) = &report {
            let node = report.node.as_deref().unwrap_or("the start");
            page.head.push(format!(
                "  at event {}, in {}, after {}",
                decision.seq,
                single_line(node, 80),
                spend_text(report)
            ));
        }
        let Some(trip) = worst_trip(decision) else { return Ok(page) };
        page.head.extend(finding_lines(trip).iter().map(|text| format!("  {text}")));
        page.head.extend(halt_text(decision, report.as_ref()));
        if !alternatives.is_empty() {
            page.head.push(format!(
                "  other transitions from here: {}",
                single_line(&alternatives.join(", "), MAX_LINE_CHARS)
            ));
        }
        page.evidence = supporting_events(self.admin_store, name, trip)?;
        page.evidence.extend(still_failing_text(run_state, name, trip));
        if let Some(report) = &report {
            page.evidence.extend(trend::all_trends(report));
            page.graph_fallback = progress_lines(report);
        }
        let drawn = run_state.session(name).and_then(|found| ascii_graph(found.state(), found.policy()));
        page.graph = drawn.unwrap_or_default().lines().map(str::to_owned).collect();
        page.help = self.help_lines(name, trip);
        page.next = self.commands_after_trip(name, trip, run_state);
        Ok(page)
    }

    fn help_lines(&self, name: &str, trip: &Trip) -> Vec<String> {
        let mut all = Vec::new();
        for action in actions(trip, name) {
            let place = if action.name == "switch_to_interactive" {
                format!(" (in {})", self.display_path(self.workspace))
            } else {
                String::new()
            };
            let command = action.command.map(|command| format!(": {}", with_store(&command, self.store)));
            all.push(format!("{}{place}{}", action.text, command.unwrap_or_default()));
        }
        all
    }

    /// A path relative to the current folder.
    fn display_path(&self, path: &Path) -> String {
        let here = std::env::current_dir().unwrap_or_default();
        single_line(&path.strip_prefix(here).unwrap_or(path).display().to_string(), MAX_LINE_CHARS)
    }

    fn commands_after_trip(&self, name: &str, trip: &Trip, run_state: &RunState) -> Vec<String> {
        let release = format!("flyball release {} --guard {} --why \"…\"", typed(name), typed(&trip.guard));
        let release = with_store(&release, self.store);
        let grant = run_state.session(name).map_or(3, |found| found.policy().releases.grant);
        let go_on = format!("{release} && {}", self.resume_command(""));
        let means = match trip.guard.as_str() {
            "human" => "lift the stop and continue".to_owned(),
            "budget" => "raise the budget by one step and continue".to_owned(),
            _ => format!("continue, {grant} more allowed"),
        };
        let mut commands = vec![(go_on, means)];
        if let Some(set) = suggest_limit(trip) {
            let command = format!("{release} && {}", self.resume_command(&format!(" --set {}", typed(&set))));
            commands.push((command, "continue with a larger limit".to_owned()));
        }
        let explain = with_store(&format!("flyball explain {}", typed(name)), self.store);
        commands.push((explain, "show the full explanation".to_owned()));
        let commands: Vec<(String, &str)> =
            commands.iter().map(|(command, words)| (command.clone(), words.as_str())).collect();
        self.command_lines(&commands)
    }

    /// A question to a person.
    fn question_page(&self, run_state: &RunState, question: &str) -> Result<ScreenPage, CliError> {
        let name = run_state.asking_session();
        let send = with_store(&format!("flyball send {} \"…\"", typed(name)), self.store);
        let state = run_state.session(name).map(flyball::Session::state);
        let (Some(admin_store), Some(state)) = (self.admin_store, state) else {
            return Ok(self.waiting_page(vec![single_line(question, 2_000)], &[(send, "answer it")]));
        };
        let Some(plan) = PlanView::load(admin_store, name, state)? else {
            return Ok(self.waiting_page(vec![single_line(question, 2_000)], &[(send, "answer it")]));
        };
        let mut shown = Vec::new();
        crate::plan_printer::print_plan(&plan, &mut shown, admin_store.now()?)?;
        let shown = String::from_utf8_lossy(&shown).lines().map(str::to_owned).collect();
        let mut commands: Vec<(String, &str)> =
            crate::plan_printer::next_commands(admin_store, name, state, Some(&plan))?
                .iter()
                .map(|command| (with_store(command, self.store), ""))
                .collect();
        commands.push((send, "answer in words"));
        Ok(self.waiting_page(shown, &commands))
    }

    /// A page for a run waiting for a person.
    fn waiting_page(&self, words: Vec<String>, commands: &[(String, &str)]) -> ScreenPage {
        let title = style_stdout(TextStyle::Warning, "waiting for a person");
        let mut head = vec![String::new(), format!("{title} {}", single_line(self.session, 200))];
        head.extend(words.iter().map(|text| format!("  {text}")));
        ScreenPage { head, next: self.command_lines(commands), ..ScreenPage::default() }
    }

    /// The command that resumes the run.
    fn resume_command(&self, flags: &str) -> String {
        with_store(&format!("flyball resume {}{flags}", typed(self.session)), self.store)
    }

    /// Commands, each with a description as a shell comment.
    fn command_lines(&self, commands: &[(String, &str)]) -> Vec<String> {
        if self.admin_store.is_none() {
            return vec!["this run was not stored and cannot be resumed".to_owned()];
        }
        let comment = |words: &str| style_stdout(TextStyle::Dim, &format!("   # {words}"));
        let shown = |(command, words): &(String, &str)| match words.is_empty() {
            true => command.clone(),
            false => format!("{command}{}", comment(words)),
        };
        commands.iter().map(shown).collect()
    }

    fn as_json(&self, run_state: &RunState) -> Value {
        let detail = match self.end {
            RunEnd::Stopped(RunStop::Halted(decision) | RunStop::Gate(decision)) => json!(decision),
            RunEnd::Stopped(RunStop::Blocked { decision, alternatives }) => {
                json!({"decision": decision, "alternatives": alternatives})
            }
            RunEnd::Stopped(RunStop::AwaitingInput(question)) => json!(question),
            RunEnd::Stopped(RunStop::StepOutcomeUnknown { step }) => json!(step),
            _ => Value::Null,
        };
        let asking = matches!(self.end, RunEnd::Stopped(RunStop::AwaitingInput(_)))
            .then(|| run_state.asking_session());
        json!({"session": self.session, "end": outcome_name(self.end), "detail": detail, "asking": asking,
            "report": run_state.report(self.session)})
    }
}

/// The usage in one line.
fn spend_text(report: &SessionReport) -> String {
    let mut parts = vec![plural(report.turns, "turn"), plural(report.calls, "call")];
    if report.tokens > 0 {
        parts.push(plural(report.tokens, "token"));
    }
    if report.cost_micro_usd > 0 {
        parts.push(format_dollars(report.cost_micro_usd));
    }
    parts.push(format!("{} active", format_duration(report.active_ms)));
    parts.join(", ")
}

/// Loops and trends, one line each.
fn progress_lines(report: &SessionReport) -> Vec<String> {
    let went = report.loops.iter().filter(|found| found.iterations > 0);
    let halted =
        report.halt_reason.map(|reason| format!(" · halted: {}", reason.as_str())).unwrap_or_default();
    let loops =
        went.map(|found| format!("{}{halted} ({})", found.badge, single_line(&found.nodes.join(", "), 120)));
    loops.chain(trend::all_trends(report)).collect()
}

/// The effect of a halt in words: which loop, and why.
fn halt_text(decision: &Decision, report: Option<&SessionReport>) -> Option<String> {
    let effect = decision.effects.iter().find(|effect| effect.effect == "loop.halted")?;
    let reason = effect.fields.get("haltReason").and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("  loop.halted: {reason}");
    if let Some(id) = effect.fields.get("cycleId").and_then(Value::as_str) {
        text.push_str(&format!(", cycle {id}"));
        let found = report.and_then(|report| report.loops.iter().find(|found| found.id == id));
        if let Some(found) = found {
            text.push_str(&format!(" ({}), {}", single_line(&found.nodes.join(", "), 120), found.badge));
        }
    }
    Some(text)
}

fn outcome_name(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Done => "done",
        RunEnd::Failed => "failed",
        RunEnd::Stopped(RunStop::Halted(_)) => "halted",
        RunEnd::Stopped(RunStop::Blocked { .. }) => "blocked",
        RunEnd::Stopped(RunStop::Gate(_)) => "gate",
        RunEnd::Stopped(RunStop::AwaitingInput(_)) => "asks",
        RunEnd::Stopped(RunStop::StepOutcomeUnknown { .. }) => "cut_off",
        RunEnd::Stopped(RunStop::Interrupted | RunStop::Skipped) => "interrupted",
        RunEnd::Stopped(RunStop::Failed(_)) => "error",
    }
}
