//! Toolchains of the stories (`examples/stories`): Python, Node, and the TypeScript compiler in a separate folder.

use crate::{command::target_dir, tools};
use std::path::PathBuf;

/// The compiler, and the types of Node's modules.
const MODULES: [&str; 2] = ["typescript@5.9.3", "@types/node@20.19.43"];

/// Finds the tools for the stories, or installs them if permitted. Returns the compiler's folder.
///
/// # Errors
/// If a tool is missing and cannot be installed; the text says what to do.
pub(crate) fn ready() -> Result<PathBuf, String> {
    tools::ensure_program("python3", "python3")?;
    let modules = target_dir().join("typescript");
    tools::need_modules(&modules, &MODULES)?;
    Ok(modules)
}
