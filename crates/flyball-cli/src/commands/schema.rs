//! `flyball schema`: JSON schemas of policy and workflow files, and the server's OpenAPI document.

use crate::args::{SchemaArgs, SchemaKind};
use crate::error::{CliError, Exit};
use std::io::Write;

/// Prints the schema.
pub(crate) fn run(args: &SchemaArgs) -> Result<Exit, CliError> {
    let text = match args.of {
        SchemaKind::Policy => flyball::policy::json_schema(),
        SchemaKind::Workflow => flyball_runner::workflow::json_schema(),
        SchemaKind::Openapi => {
            serde_json::to_string_pretty(&flyball_server::openapi()).map_err(std::io::Error::from)?
        }
    };
    writeln!(crate::terminal::raw_stdout(), "{}", text.trim_end())?;
    Ok(Exit::Success)
}
