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
        tools::need("node", "nodejs")?;
        tools::need("npm", "npm")?;
        tools::need("chromium", "chromium")?;
        let chromium = tools::find("chromium").ok_or("`chromium` is missing")?;
        let modules = target().join("browser");
        if MODULES.iter().any(|module| !is_there(&modules, module)) {
            std::fs::create_dir_all(&modules).map_err(|error| format!("{}: {error}", modules.display()))?;
            let mut npm =
                command("npm", &["install", "--no-package-lock", "--no-save", "--no-audit", "--no-fund"]);
            npm.args(MODULES).current_dir(&modules);
            run(npm).and_then(succeeded)?;
        }
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

/// Whether a module is installed in this version.
fn is_there(modules: &Path, module: &str) -> bool {
    let Some((name, version)) = module.split_once('@') else { return false };
    let own = std::fs::read_to_string(modules.join("node_modules").join(name).join("package.json"));
    own.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
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
