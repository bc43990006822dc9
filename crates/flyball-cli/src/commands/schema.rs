//! `flyball schema`: the JSON schema of policy or workflow files, for editors; the document of the server, for clients.

use crate::args::{Schema, SchemaOf};
use crate::fail::{Exit, Failure};
use std::io::Write;

/// Prints the schema.
pub(crate) fn run(args: &Schema) -> Result<Exit, Failure> {
    let text = match args.of {
        SchemaOf::Policy => flyball::policy::json_schema(),
        SchemaOf::Workflow => flyball_run::workflow::json_schema(),
        SchemaOf::Openapi => {
            serde_json::to_string_pretty(&flyball_serve::openapi()).map_err(std::io::Error::from)?
        }
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(Exit::Done)
}
