//! What can be wrong with a call of a tool, in words that a model or a person can act on.

use crate::process::NotStarted;
use std::fmt;
use std::io;

/// Why a tool did not do what it was asked. The code is stable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The stable code, for example `missing_field`, `wrong_type`, `unknown_tool`, `outside_workspace`.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, in one line.
    pub hint: String,
}

impl ToolError {
    /// Makes an error from its parts.
    pub fn new(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        ToolError { code, what: what.into(), hint: hint.into() }
    }

    /// An error of the system with a file or folder.
    pub(super) fn io(path: &str, error: &io::Error) -> Self {
        let (code, hint) = match error.kind() {
            io::ErrorKind::NotFound => ("not_found", "check the path; look around with search or shell"),
            io::ErrorKind::PermissionDenied => {
                ("forbidden", "choose another file, or ask a person for the right")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                ("read_only", "choose another place; this disk cannot be written")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ("disk_full", "free some space, then try again; the file is as it was")
            }
            io::ErrorKind::NotADirectory => ("not_a_folder", "check the path: a part of it is a file"),
            io::ErrorKind::IsADirectory => ("not_a_file", "name a file in this folder"),
            io::ErrorKind::InvalidFilename => ("bad_path", "use a shorter name"),
            _ => ("io", "try again; if it stays so, ask a person to look at the disk"),
        };
        ToolError::new(code, format!("'{path}': {error}"), hint)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} [{}]", self.what, self.hint, self.code)
    }
}

impl std::error::Error for ToolError {}

impl From<NotStarted> for ToolError {
    fn from(error: NotStarted) -> Self {
        ToolError::new(error.code, error.what, error.hint)
    }
}
