//! The languages of the stories (`examples/stories`): Python, Node, and the TypeScript compiler in a folder of its own.

use crate::{run::target, tools};
use std::path::PathBuf;

/// The compiler, and the types of Node's own modules.
const MODULES: [&str; 2] = ["typescript@5.9.3", "@types/node@20.19.43"];

/// Finds what the stories need, or installs it where we may. Gives the folder of the compiler.
///
/// # Errors
/// If something is not there and cannot be installed; the text says what to do.
pub(crate) fn ready() -> Result<PathBuf, String> {
    tools::need("python3", "python3")?;
    let modules = target().join("typescript");
    tools::need_modules(&modules, &MODULES)?;
    Ok(modules)
}
