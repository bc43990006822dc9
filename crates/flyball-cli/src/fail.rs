//! How the command fails: one line of what, one of what to do, with a stable code; and the exit codes.

use crate::paint::{Style, paint_err};
use flyball::policy::{PolicyError, PolicyErrors};
use flyball::visible;
use std::io::Write;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, nothing tripped.
    Done = 0,
    /// Something was wrong; it was reported already.
    Error = 1,
    /// A hook refuses, as some hosts want to be told.
    Refused = 2,
    /// A guard stopped something.
    Stopped = 3,
    /// A person is waited for.
    Waits = 4,
    /// A quality gate refused the completion.
    Gate = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// One complaint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) code: String,
    pub(crate) place: String,
    pub(crate) what: String,
    pub(crate) advice: String,
}

/// A command that could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) complaints: Vec<Complaint>,
}

impl Failure {
    /// A failure with one complaint.
    pub(crate) fn new(
        code: &str,
        place: impl Into<String>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let complaint = Complaint {
            code: code.to_owned(),
            place: place.into(),
            what: what.into(),
            advice: advice.into(),
        };
        Failure { complaints: vec![complaint] }
    }

    /// An error of the core at a place.
    pub(crate) fn at(place: impl Into<String>, error: &flyball::Error) -> Self {
        Failure::new(error.code.as_str(), place, &error.what, &error.advice)
    }

    /// Prints the complaints on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        self.print();
        Exit::Error.into()
    }

    /// Prints the complaints on stderr.
    pub(crate) fn print(&self) {
        let mut err = std::io::stderr().lock();
        for complaint in &self.complaints {
            let Complaint { code, place, what, advice } = complaint;
            let head = paint_err(Style::Bad, &format!("error[{code}]"));
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            // If stderr is gone there is nobody left to tell.
            let _ = writeln!(err, "{head}: {}", visible(&format!("{place}{what}")));
            if !advice.is_empty() {
                let _ = writeln!(err, "  help: {}", visible(advice));
            }
        }
    }
}

impl From<PolicyErrors> for Failure {
    fn from(errors: PolicyErrors) -> Self {
        Failure { complaints: errors.iter().map(complaint).collect() }
    }
}

fn complaint(error: &PolicyError) -> Complaint {
    let mut place = error.file.clone();
    if let Some(line) = error.line {
        place.push_str(&format!(":{line}"));
        if let Some(column) = error.column {
            place.push_str(&format!(":{column}"));
        }
    }
    Complaint {
        code: error.code.as_str().to_owned(),
        place,
        what: error.what.clone(),
        advice: error.help.clone(),
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::new("io", "", error.to_string(), "check that the place can be read and written")
    }
}
