//! Errors of tool calls, worded so that a model or a person can act on them.

use crate::process::SpawnError;
use std::fmt;
use std::io;

/// Why a tool call failed. The code is stable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// Stable code, such as `missing_field`, `wrong_type`, `unknown_tool`, `outside_workspace`.
    pub code: &'static str,
    /// The problem, in one line.
    pub message: String,
    /// The next thing to do, in one line.
    pub help: String,
}

impl ToolError {
    /// Creates an error.
    pub fn new(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        ToolError { code, message: message.into(), help: help.into() }
    }

    /// System error for a file or folder.
    pub(super) fn io(path: &str, error: &io::Error) -> Self {
        let (code, help) = match error.kind() {
            io::ErrorKind::NotFound => ("not_found", "check the path; explore with search or shell"),
            io::ErrorKind::PermissionDenied => {
                ("forbidden", "use another file, or ask a person for permission")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                ("read_only", "use another location; this disk is read-only")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ("disk_full", "free some space, then retry; the file is unchanged")
            }
            io::ErrorKind::NotADirectory => ("not_a_folder", "check the path: one of its parts is a file"),
            io::ErrorKind::IsADirectory => ("not_a_file", "name a file in this folder"),
            io::ErrorKind::InvalidFilename => ("bad_path", "use a shorter name"),
            _ => ("io", "retry; if it persists, ask a person to check the disk"),
        };
        ToolError::new(code, format!("'{path}': {error}"), help)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} [{}]", self.message, self.help, self.code)
    }
}

impl std::error::Error for ToolError {}

impl From<SpawnError> for ToolError {
    fn from(error: SpawnError) -> Self {
        ToolError::new(error.code, error.message, error.help)
    }
}
