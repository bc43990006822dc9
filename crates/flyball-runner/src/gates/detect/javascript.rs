//! JavaScript and TypeScript: the scripts of `package.json`, with a machine-readable report where the underlying tool
//! is known to support one.

use super::probe::ProjectProbe;
use crate::gates::gate::QualityGate;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NpmPackage {
    scripts: BTreeMap<String, String>,
    dependencies: BTreeMap<String, Value>,
    dev_dependencies: BTreeMap<String, Value>,
    package_manager: Option<String>,
}

/// Package manager that runs the scripts.
#[derive(Clone, Copy)]
struct PackageManager(&'static str);

impl PackageManager {
    fn detect(probe: &ProjectProbe, package: &NpmPackage) -> Self {
        let named = package.package_manager.as_deref().and_then(|name| name.split('@').next());
        let by_lock = [
            ("pnpm", &["pnpm-lock.yaml"][..]),
            ("yarn", &["yarn.lock"]),
            ("bun", &["bun.lock", "bun.lockb"]),
            ("npm", &["package-lock.json"]),
        ];
        let known =
            by_lock.iter().find(|(name, locks)| named.map_or_else(|| probe.has(locks), |own| own == *name));
        PackageManager(known.map_or("npm", |(name, _)| name))
    }

    /// Command for a script with additional arguments.
    fn script_argv<'a>(self, script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let mut argv = vec![self.0, "run"];
        if self.0 == "npm" {
            argv.push("--silent");
        }
        argv.push(script);
        if self.0 == "npm" && !more.is_empty() {
            argv.push("--");
        }
        argv.extend(more);
        argv
    }
}

pub(super) fn gates(probe: &ProjectProbe) -> Option<Vec<QualityGate>> {
    let text = probe.read("package.json")?;
    let kinds = [("build", CheckKind::Build), ("tests", CheckKind::Tests), ("lint", CheckKind::Lint)];
    let all_off =
        |reason: &str| Some(kinds.map(|(name, kind)| QualityGate::skipped(name, kind, reason)).into());
    let package: NpmPackage = match serde_json::from_str(&text) {
        Ok(package) => package,
        Err(error) => return all_off(&format!("cannot parse package.json: {error}")),
    };
    let manager = PackageManager::detect(probe, &package);
    if !probe.works(&[manager.0, "--version"]) {
        return all_off(&format!("{} is not installed", manager.0));
    }
    let wants_packages = !package.dependencies.is_empty() || !package.dev_dependencies.is_empty();
    if wants_packages && !probe.has_above("node_modules") && !probe.has(&[".pnp.cjs"]) {
        return all_off(&format!("the packages are not installed: run `{} install`", manager.0));
    }
    let mut gates = vec![build_gate(&package, manager)];
    gates.extend(types_gate(probe, &package, manager));
    gates.push(tests_gate(&package, manager));
    gates.push(lint_gate(probe, &package, manager));
    // Without it some tools wait for a key press.
    Some(gates.into_iter().map(|gate| gate.env("CI", "true")).collect())
}

fn build_gate(package: &NpmPackage, manager: PackageManager) -> QualityGate {
    match package.scripts.get("build") {
        Some(_) => QualityGate::new("build", CheckKind::Build, &manager.script_argv("build", &[])),
        None => QualityGate::skipped("build", CheckKind::Build, "package.json has no `build` script"),
    }
}

fn types_gate(probe: &ProjectProbe, package: &NpmPackage, manager: PackageManager) -> Option<QualityGate> {
    let named = ["typecheck", "type-check", "types", "tsc"]
        .into_iter()
        .find(|name| package.scripts.contains_key(*name));
    let builds_types =
        package.scripts.get("build").is_some_and(|build| command_words(build).any(|word| word == "tsc"));
    let gate = match (named, probe.read("tsconfig.json")) {
        (Some(script), _) => QualityGate::new("types", CheckKind::Build, &manager.script_argv(script, &[])),
        (None, None) => return None,
        _ if builds_types => return None,
        (None, Some(settings)) if settings.contains("\"references\"") => {
            let reason =
                "tsconfig.json only references other projects: add a `typecheck` script to package.json";
            QualityGate::skipped("types", CheckKind::Build, reason)
        }
        (None, Some(_)) if probe.has(&["node_modules/.bin/tsc"]) => QualityGate::new(
            "types",
            CheckKind::Build,
            &["node_modules/.bin/tsc", "--noEmit", "--pretty", "false"],
        ),
        (None, Some(_)) => QualityGate::skipped("types", CheckKind::Build, "TypeScript is not installed"),
    };
    let mut gate = gate.format(ResultsFormat::Plain);
    gate.check = "types".to_owned();
    Some(gate)
}

fn tests_gate(package: &NpmPackage, manager: PackageManager) -> QualityGate {
    let Some(script) = package.scripts.get("test") else {
        return QualityGate::skipped("tests", CheckKind::Tests, "package.json has no `test` script");
    };
    if script.contains("no test specified") {
        let reason = "no tests configured: the `test` script is npm's placeholder";
        return QualityGate::skipped("tests", CheckKind::Tests, reason);
    }
    let gate =
        |more: &[&str]| QualityGate::new("tests", CheckKind::Tests, &manager.script_argv("test", more));
    let last: Vec<&str> = command_words(last_command(script)).collect();
    let has = |tool: &str| last.contains(&tool);
    if has("vitest") {
        // vitest's JSON omits failed hooks; its JUnit report includes them.
        let more = ["--reporter=default", "--reporter=junit", "--outputFile.junit={results}"];
        gate(&more).format(ResultsFormat::Junit).results_in("results.xml")
    } else if has("jest") || has("react-scripts") {
        gate(&["--json", "--outputFile={results}"]).format(ResultsFormat::Jest).results_in("results.json")
    } else if has("mocha") {
        gate(&["--reporter", "tap"]).format(ResultsFormat::Tap)
    } else if has("node") && last.contains(&"--test") {
        // node does not parse options after file names, so pass them in the environment.
        let own = std::env::var("NODE_OPTIONS").unwrap_or_default();
        let options = format!("{own} --test-reporter=tap --test-reporter-destination={{results}}");
        gate(&[]).env("NODE_OPTIONS", options.trim()).format(ResultsFormat::Tap).results_in("results.tap")
    } else {
        gate(&[])
    }
}

fn lint_gate(probe: &ProjectProbe, package: &NpmPackage, manager: PackageManager) -> QualityGate {
    let json = ["-f", "json", "-o", "{results}"];
    let eslint = |argv: &[&str]| {
        QualityGate::new("lint", CheckKind::Lint, argv)
            .format(ResultsFormat::Eslint)
            .results_in("results.json")
    };
    if let Some(script) = package.scripts.get("lint") {
        return if command_words(last_command(script)).any(|word| word == "eslint") {
            eslint(&manager.script_argv("lint", &json))
        } else {
            QualityGate::new("lint", CheckKind::Lint, &manager.script_argv("lint", &[]))
        };
    }
    let settings =
        ["eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.json"];
    let older = [".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.yml", ".eslintrc.yaml"];
    if !probe.has(&settings) && !probe.has(&older) {
        let reason = "package.json has no `lint` script and ESLint is not configured";
        return QualityGate::skipped("lint", CheckKind::Lint, reason);
    }
    if !probe.has(&["node_modules/.bin/eslint"]) {
        return QualityGate::skipped("lint", CheckKind::Lint, "ESLint is configured but not installed");
    }
    let argv: Vec<&str> = ["node_modules/.bin/eslint", "."].into_iter().chain(json).collect();
    eslint(&argv)
}

/// The last command of a script, which receives additional arguments.
fn last_command(script: &str) -> &str {
    script.rsplit(['&', ';', '|']).next().unwrap_or(script)
}

/// Words of a command, without their directories.
fn command_words(command: &str) -> impl Iterator<Item = &str> {
    command.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word))
}
