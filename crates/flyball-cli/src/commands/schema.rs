//! `flyball schema`: the JSON schema of policy files, for editors.

use crate::fail::{Exit, Failure};
use std::io::Write;

/// Prints the schema.
pub(crate) fn run() -> Result<Exit, Failure> {
    writeln!(std::io::stdout(), "{}", flyball::policy::json_schema())?;
    Ok(Exit::Done)
}
