//! Errors of the command line, each with a stable code, a message and a help line; and the exit codes.

use crate::color::{TextStyle, style_stderr};
use crate::terminal::StdoutClosed;
use flyball::escape_deceptive;
use flyball::policy::{PolicyError, PolicyErrors};
use std::io::Write;
use std::process::ExitCode;

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success; no guard tripped.
    Success = 0,
    /// An error, already reported.
    Error = 1,
    /// A hook blocked the action; some hosts expect this code.
    HookBlocked = 2,
    /// A guard stopped something.
    Stopped = 3,
    /// Waiting for a person.
    Waiting = 4,
    /// A quality gate refused the completion.
    GateFailed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// One error with its location and a help line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    pub(crate) code: String,
    pub(crate) location: String,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// A failed command with all its diagnostics.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The reader of stdout has gone. There is nothing to report, as after `| head -1`.
    stdout_closed: bool,
}

/// The exit code of a process that ended because of a closed pipe, as shells show it: 128 + SIGPIPE.
const STDOUT_CLOSED_EXIT: u8 = 141;

impl CliError {
    /// A failure with one diagnostic.
    pub(crate) fn new(
        code: &str,
        location: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let diagnostic = Diagnostic {
            code: code.to_owned(),
            location: location.into(),
            message: message.into(),
            help: help.into(),
        };
        CliError::from_diagnostics(vec![diagnostic])
    }

    /// A failure with several complaints.
    pub(crate) fn from_diagnostics(diagnostics: Vec<Diagnostic>) -> Self {
        CliError { diagnostics, stdout_closed: false }
    }

    /// An error of the core at a location.
    pub(crate) fn from_core(location: impl Into<String>, error: &flyball::Error) -> Self {
        CliError::new(error.code.as_str(), location, &error.message, &error.help)
    }

    /// Whether the command ended only because the reader of stdout has gone.
    pub(crate) const fn is_stdout_closed(&self) -> bool {
        self.stdout_closed
    }

    /// Prints the complaints on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.stdout_closed {
            return ExitCode::from(STDOUT_CLOSED_EXIT);
        }
        self.print();
        Exit::Error.into()
    }

    /// Prints the diagnostics on stderr.
    pub(crate) fn print(&self) {
        let mut err = std::io::stderr().lock();
        for diagnostic in &self.diagnostics {
            let Diagnostic { code, location, message, help } = diagnostic;
            let head = style_stderr(TextStyle::Error, &format!("error[{code}]"));
            let location = if location.is_empty() { String::new() } else { format!("{location}: ") };
            // A closed stderr leaves nowhere to report to.
            let _ = writeln!(err, "{head}: {}", escape_deceptive(&format!("{location}{message}")));
            if !help.is_empty() {
                let _ = writeln!(err, "  help: {}", escape_deceptive(help));
            }
        }
    }
}

/// The value of a flag that takes an age, in milliseconds.
pub(crate) fn parse_age(flag: &str, text: &str) -> Result<u64, CliError> {
    flyball::units::parse_age_ms(text).ok_or_else(|| {
        let message = format!("invalid duration \"{}\"", crate::formatting::single_line(text, 40));
        CliError::new("bad_duration", flag, message, "expected e.g. 90s, 10m, 4h, 30d or 2w")
    })
}

impl From<PolicyErrors> for CliError {
    fn from(errors: PolicyErrors) -> Self {
        CliError::from_diagnostics(errors.iter().map(policy_diagnostic).collect())
    }
}

fn policy_diagnostic(error: &PolicyError) -> Diagnostic {
    let mut location = error.file.clone();
    if let Some(line) = error.line {
        location.push_str(&format!(":{line}"));
        if let Some(column) = error.column {
            location.push_str(&format!(":{column}"));
        }
    }
    Diagnostic {
        code: error.code.as_str().to_owned(),
        location,
        message: error.message.clone(),
        help: error.help.clone(),
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<StdoutClosed>()) {
            return CliError { diagnostics: Vec::new(), stdout_closed: true };
        }
        CliError::new("io", "", error.to_string(), "check that the place can be read and written")
    }
}
