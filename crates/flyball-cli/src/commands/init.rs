//! `flyball init`: a commented policy file for the project, with its schema beside it for editors.

use crate::args::{InitArgs, StoreArgs};
use crate::error::{CliError, Exit};
use crate::output_file::write_file;
use crate::plan_printer::print_next;
use crate::policy_loader::POLICY_FILE_NAMES;
use std::io::Write;
use std::path::Path;

const POLICY_FILE: &str = "flyball.yaml";
/// Beside the policy and not in `.flyball/`, which is usually not committed: the modeline must also work in a clone and
/// without network. Language servers resolve the path against the directory of the policy file.
const SCHEMA_FILE: &str = "flyball.schema.json";
const TEMPLATE: &str = include_str!("init_template.yaml");

/// Writes both files.
pub(crate) fn run(args: &InitArgs) -> Result<Exit, CliError> {
    let exists = |name: &str| Path::new(name).symlink_metadata().is_ok();
    let other = POLICY_FILE_NAMES.into_iter().find(|name| *name != POLICY_FILE && exists(name));
    if let Some(other) = other {
        let message = "this directory already has a policy file, which flyball.yaml would override";
        let help = format!("edit {other}, or move it away and run `flyball init` again");
        return Err(CliError::new("file_exists", other, message, help));
    }
    if let Some(existing) = [POLICY_FILE, SCHEMA_FILE].into_iter().find(|name| !args.force && exists(name)) {
        let help = "edit the file, or overwrite it with `flyball init --force`";
        return Err(CliError::new("file_exists", existing, "the file already exists", help));
    }
    write_file(Path::new(SCHEMA_FILE), &flyball::policy::json_schema(), args.force)?;
    write_file(Path::new(POLICY_FILE), TEMPLATE, args.force)?;
    let mut out = crate::terminal::stdout();
    writeln!(out, "Wrote {POLICY_FILE} and {SCHEMA_FILE} (completion and validation in editors)")?;
    print_next(&mut out, &[format!("flyball check {POLICY_FILE}")], &StoreArgs::default())?;
    Ok(Exit::Success)
}
