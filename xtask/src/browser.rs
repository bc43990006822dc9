//! The pages in a real browser: Chromium is driven by the scripts in `xtask/browser`, against the program as it is built.

use crate::outside::succeeded;
use crate::run::{command, root, run, target};
use crate::tools;
use std::path::{Path, PathBuf};

/// What drives the browser, and the rules of accessibility.
const MODULES: [&str; 2] = ["playwright-core@1.64.1", "axe-core@4.11.0"];
/// Where the pictures of the pages go.
const PICTURES: &str = "docs/images";

/// A browser, and what drives it.
struct Driver {
    chromium: PathBuf,
    modules: PathBuf,
}

impl Driver {
    /// Finds them, or installs them where we may.
    fn ready() -> Result<Self, String> {
        tools::need("chromium", "chromium")?;
        let chromium = tools::find("chromium").ok_or("`chromium` is missing")?;
        let modules = target().join("browser");
        tools::need_modules(&modules, &MODULES)?;
        Ok(Driver { chromium, modules })
    }

    /// Runs the scripts against a program.
    fn drive(&self, flyball: &Path, more: &[&str]) -> Result<(), String> {
        let mut node = command("node", &["xtask/browser/run.mjs"]);
        node.arg("--flyball").arg(flyball);
        node.arg("--chromium").arg(&self.chromium);
        node.arg("--modules").arg(&self.modules).args(more);
        run(node).and_then(succeeded)
    }
}

/// Checks the pages, if there is a browser to be had. `Err` is why there is none.
///
/// # Errors
/// If the browser or its driver is not there and cannot be installed; the text says what to do.
pub(crate) fn check(flyball: &Path) -> Result<Result<(), String>, String> {
    Ok(Driver::ready()?.drive(flyball, &[]))
}

/// `cargo xtask screenshots`: the pictures of the pages, from the same small world every time.
pub(crate) fn pictures(args: &[String]) -> Result<(), String> {
    crate::no_more(args)?;
    let driver = Driver::ready()?;
    run(crate::run::cargo(&["build", "--release", "--package", "flyball-cli"])).and_then(succeeded)?;
    let folder = root().join(PICTURES);
    driver.drive(&target().join("release/flyball"), &["--shots", &folder.to_string_lossy()])
}
