//! Policy errors: a stable code, a position, a message and a help text.

use std::fmt;

/// Maximum number of errors in one report. A file with more than that has some other problem.
const MAX_ERRORS: usize = 100;

/// The kind of an error. Its text is stable, so scripts may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyErrorCode {
    /// The text is not valid YAML, TOML or JSON, or is too large or too deeply nested.
    Syntax,
    /// An unknown key.
    UnknownKey,
    /// An unknown guard.
    UnknownGuard,
    /// A value of the wrong type.
    Type,
    /// A value out of range.
    Range,
    /// Two conflicting values.
    Contradiction,
    /// An invalid custom rule.
    Rule,
    /// An unsupported version of the policy file format.
    Version,
    /// A duplicate key.
    DuplicateKey,
    /// A key that this source may not set.
    Forbidden,
}

impl PolicyErrorCode {
    /// The stable text of the code.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyErrorCode::Syntax => "policy_syntax",
            PolicyErrorCode::UnknownKey => "policy_unknown_key",
            PolicyErrorCode::UnknownGuard => "policy_unknown_guard",
            PolicyErrorCode::Type => "policy_type",
            PolicyErrorCode::Range => "policy_range",
            PolicyErrorCode::Contradiction => "policy_contradiction",
            PolicyErrorCode::Rule => "policy_rule",
            PolicyErrorCode::Version => "policy_version",
            PolicyErrorCode::DuplicateKey => "policy_duplicate_key",
            PolicyErrorCode::Forbidden => "policy_forbidden",
        }
    }
}

impl fmt::Display for PolicyErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One error in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The kind of the error.
    pub code: PolicyErrorCode,
    /// The file, the environment variable, or `--set`.
    pub file: String,
    /// The line, starting at 1, if the source has lines.
    pub line: Option<u32>,
    /// The column in characters, starting at 1.
    pub column: Option<u32>,
    /// The dotted key as written; empty for the whole file.
    pub path: String,
    /// The problem, in one line.
    pub message: String,
    /// The suggested fix, in one line; may be empty.
    pub help: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {}: {}", self.code, self.message)?;
        if !self.help.is_empty() {
            write!(f, "\n  {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

/// All errors of a policy, in order of position. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(Vec<PolicyError>);

impl PolicyErrors {
    /// `Ok` if there are no errors; otherwise the errors, sorted, deduplicated and bounded.
    pub(super) fn into_result(mut errors: Vec<PolicyError>) -> Result<(), PolicyErrors> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by(|a, b| {
            (&a.file, a.line, a.column, &a.path, a.code, &a.message)
                .cmp(&(&b.file, b.line, b.column, &b.path, b.code, &b.message))
        });
        errors.dedup();
        errors.truncate(MAX_ERRORS);
        Err(PolicyErrors(errors))
    }

    /// A single error.
    pub(super) fn single(error: PolicyError) -> PolicyErrors {
        PolicyErrors(vec![error])
    }

    /// The errors.
    pub fn iter(&self) -> std::slice::Iter<'_, PolicyError> {
        self.0.iter()
    }

    /// The number of errors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always false, because this type is only created with at least one error.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<PolicyError> for PolicyErrors {
    fn from(error: PolicyError) -> Self {
        PolicyErrors(vec![error])
    }
}

impl<'a> IntoIterator for &'a PolicyErrors {
    type Item = &'a PolicyError;
    type IntoIter = std::slice::Iter<'a, PolicyError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

#[cfg(test)]
#[path = "policy_error_tests.rs"]
mod tests;
