//! Browser tests of the pages: the scripts in `xtask/browser` drive Chromium against the built program.

use crate::command::{command, repo_root, run, target_dir};
use crate::external_checks::into_result;
use crate::tools;
use std::path::{Path, PathBuf};

/// The browser driver and the accessibility rules.
const NPM_MODULES: [&str; 2] = ["playwright-core@1.64.1", "axe-core@4.11.0"];
/// Folder of the screenshots.
const SCREENSHOT_DIR: &str = "docs/images";

/// Chromium and the modules that drive it.
struct BrowserDriver {
    chromium: PathBuf,
    modules: PathBuf,
}

impl BrowserDriver {
    /// Finds them, or installs them if permitted.
    fn install() -> Result<Self, String> {
        tools::ensure_program("chromium", "chromium")?;
        let chromium = tools::find_program("chromium").ok_or("`chromium` is missing")?;
        let modules = target_dir().join("browser");
        tools::need_modules(&modules, &NPM_MODULES)?;
        Ok(BrowserDriver { chromium, modules })
    }

    /// Runs the scripts against a program.
    fn run_scripts(&self, flyball: &Path, more: &[&str]) -> Result<(), String> {
        let mut node = command("node", &["xtask/browser/run.mjs"]);
        node.arg("--flyball").arg(flyball);
        node.arg("--chromium").arg(&self.chromium);
        node.arg("--modules").arg(&self.modules).args(more);
        run(node).and_then(into_result)
    }
}

/// Checks the pages if a browser is available. `Err` says why there is none.
///
/// # Errors
/// If the browser or its driver is missing and cannot be installed; the text says what to do.
pub(crate) fn check_pages(flyball: &Path) -> Result<Result<(), String>, String> {
    Ok(BrowserDriver::install()?.run_scripts(flyball, &[]))
}

/// `cargo xtask screenshots`: screenshots of the pages, always from the same sample data.
pub(crate) fn take_screenshots(args: &[String]) -> Result<(), String> {
    crate::reject_args(args)?;
    let driver = BrowserDriver::install()?;
    run(crate::command::cargo(&["build", "--release", "--package", "flyball-cli"])).and_then(into_result)?;
    let folder = repo_root().join(SCREENSHOT_DIR);
    driver.run_scripts(&target_dir().join("release/flyball"), &["--shots", &folder.to_string_lossy()])
}
