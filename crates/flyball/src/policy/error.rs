//! What is wrong with a policy: a stable code, the place, what it is and what to do.

use std::fmt;

/// Errors reported at once; a file with more than this many is wrong in some other way.
const MAX_ERRORS: usize = 100;

/// The kind of an error. Its text never changes, so scripts may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The text is not YAML, TOML or JSON, or is too large or too deep.
    Syntax,
    /// A key that the policy does not have.
    UnknownKey,
    /// A guard that does not exist.
    UnknownGuard,
    /// A value of the wrong kind.
    Type,
    /// A value outside its range.
    Range,
    /// Two values that cannot both hold.
    Contradiction,
    /// A custom rule that cannot be used.
    Rule,
    /// A version of the policy file that this program does not know.
    Version,
    /// One key written twice.
    DuplicateKey,
    /// A key that this source may not set.
    Forbidden,
}

impl Code {
    /// The stable text of the code.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Syntax => "policy_syntax",
            Code::UnknownKey => "policy_unknown_key",
            Code::UnknownGuard => "policy_unknown_guard",
            Code::Type => "policy_type",
            Code::Range => "policy_range",
            Code::Contradiction => "policy_contradiction",
            Code::Rule => "policy_rule",
            Code::Version => "policy_version",
            Code::DuplicateKey => "policy_duplicate_key",
            Code::Forbidden => "policy_forbidden",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One error in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The kind of the error.
    pub code: Code,
    /// The file, the environment variable, or `--set`.
    pub file: String,
    /// The line, from 1, if the source has lines.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
    /// The key as written, dotted; empty for the whole file.
    pub path: String,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, in one line; may be empty.
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
        write!(f, ": {}: {}", self.code, self.what)?;
        if !self.help.is_empty() {
            write!(f, "\n  {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

/// All errors of a policy, in the order of their places. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(Vec<PolicyError>);

impl PolicyErrors {
    /// `Ok` if there are no errors; otherwise sorted, without duplicates, and bounded.
    pub(super) fn check(mut errors: Vec<PolicyError>) -> Result<(), PolicyErrors> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by(|a, b| {
            (&a.file, a.line, a.column, &a.path, a.code, &a.what)
                .cmp(&(&b.file, b.line, b.column, &b.path, b.code, &b.what))
        });
        errors.dedup();
        errors.truncate(MAX_ERRORS);
        Err(PolicyErrors(errors))
    }

    /// Exactly one.
    pub(super) fn one(error: PolicyError) -> PolicyErrors {
        PolicyErrors(vec![error])
    }

    /// The errors.
    pub fn iter(&self) -> std::slice::Iter<'_, PolicyError> {
        self.0.iter()
    }

    /// How many errors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always false: there is an error, or there would not be this value.
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
#[path = "error_tests.rs"]
mod tests;
