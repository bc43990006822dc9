//! JavaScript and TypeScript: the scripts of `package.json`, with a report for programs where the tool behind a
//! script is known to write one.

use super::probe::Probe;
use crate::gates::gate::Gate;
use flyball_checks::CheckKind;
use flyball_checks::Format;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Package {
    scripts: BTreeMap<String, String>,
    dependencies: BTreeMap<String, Value>,
    dev_dependencies: BTreeMap<String, Value>,
    package_manager: Option<String>,
}

/// What runs the scripts.
#[derive(Clone, Copy)]
struct Manager(&'static str);

impl Manager {
    fn of(probe: &Probe, package: &Package) -> Self {
        let named = package.package_manager.as_deref().and_then(|name| name.split('@').next());
        let by_lock = [
            ("pnpm", &["pnpm-lock.yaml"][..]),
            ("yarn", &["yarn.lock"]),
            ("bun", &["bun.lock", "bun.lockb"]),
            ("npm", &["package-lock.json"]),
        ];
        let known =
            by_lock.iter().find(|(name, locks)| named.map_or_else(|| probe.has(locks), |own| own == *name));
        Manager(known.map_or("npm", |(name, _)| name))
    }

    /// The command for a script with further arguments.
    fn run<'a>(self, script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
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

pub(super) fn gates(probe: &Probe) -> Option<Vec<Gate>> {
    let text = probe.read("package.json")?;
    let kinds = [("build", CheckKind::Build), ("tests", CheckKind::Tests), ("lint", CheckKind::Lint)];
    let all_off = |reason: &str| Some(kinds.map(|(name, kind)| Gate::skipped(name, kind, reason)).into());
    let package: Package = match serde_json::from_str(&text) {
        Ok(package) => package,
        Err(error) => return all_off(&format!("package.json cannot be read: {error}")),
    };
    let manager = Manager::of(probe, &package);
    if !probe.works(&[manager.0, "--version"]) {
        return all_off(&format!("{} is not installed", manager.0));
    }
    let wants_packages = !package.dependencies.is_empty() || !package.dev_dependencies.is_empty();
    if wants_packages && !probe.has_above("node_modules") && !probe.has(&[".pnp.cjs"]) {
        return all_off(&format!("the packages are not installed: run `{} install`", manager.0));
    }
    let mut gates = vec![build(&package, manager)];
    gates.extend(types(probe, &package, manager));
    gates.push(tests(&package, manager));
    gates.push(lint(probe, &package, manager));
    // Without it some tools would wait for a key to be pressed.
    Some(gates.into_iter().map(|gate| gate.env("CI", "true")).collect())
}

fn build(package: &Package, manager: Manager) -> Gate {
    match package.scripts.get("build") {
        Some(_) => Gate::new("build", CheckKind::Build, &manager.run("build", &[])),
        None => Gate::skipped("build", CheckKind::Build, "package.json has no `build` script"),
    }
}

fn types(probe: &Probe, package: &Package, manager: Manager) -> Option<Gate> {
    let named = ["typecheck", "type-check", "types", "tsc"]
        .into_iter()
        .find(|name| package.scripts.contains_key(*name));
    let builds_types =
        package.scripts.get("build").is_some_and(|build| tools(build).any(|word| word == "tsc"));
    let gate = match (named, probe.read("tsconfig.json")) {
        (Some(script), _) => Gate::new("types", CheckKind::Build, &manager.run(script, &[])),
        (None, None) => return None,
        _ if builds_types => return None,
        (None, Some(settings)) if settings.contains("\"references\"") => {
            let reason =
                "tsconfig.json only refers to other projects: add a `typecheck` script to package.json";
            Gate::skipped("types", CheckKind::Build, reason)
        }
        (None, Some(_)) if probe.has(&["node_modules/.bin/tsc"]) => {
            Gate::new("types", CheckKind::Build, &["node_modules/.bin/tsc", "--noEmit", "--pretty", "false"])
        }
        (None, Some(_)) => Gate::skipped("types", CheckKind::Build, "TypeScript is not installed"),
    };
    let mut gate = gate.format(Format::Plain);
    gate.check = "types".to_owned();
    Some(gate)
}

fn tests(package: &Package, manager: Manager) -> Gate {
    let Some(script) = package.scripts.get("test") else {
        return Gate::skipped("tests", CheckKind::Tests, "package.json has no `test` script");
    };
    if script.contains("no test specified") {
        let reason = "no tests are set up: the `test` script is the one that npm puts there";
        return Gate::skipped("tests", CheckKind::Tests, reason);
    }
    let gate = |more: &[&str]| Gate::new("tests", CheckKind::Tests, &manager.run("test", more));
    let last: Vec<&str> = tools(last_command(script)).collect();
    let has = |tool: &str| last.contains(&tool);
    if has("vitest") {
        // vitest's JSON says nothing of a hook that failed; its JUnit does.
        let more = ["--reporter=default", "--reporter=junit", "--outputFile.junit={results}"];
        gate(&more).format(Format::Junit).results_in("results.xml")
    } else if has("jest") || has("react-scripts") {
        gate(&["--json", "--outputFile={results}"]).format(Format::Jest).results_in("results.json")
    } else if has("mocha") {
        gate(&["--reporter", "tap"]).format(Format::Tap)
    } else if has("node") && last.contains(&"--test") {
        // Options that come after the names of files would not be node's own.
        let own = std::env::var("NODE_OPTIONS").unwrap_or_default();
        let options = format!("{own} --test-reporter=tap --test-reporter-destination={{results}}");
        gate(&[]).env("NODE_OPTIONS", options.trim()).format(Format::Tap).results_in("results.tap")
    } else {
        gate(&[])
    }
}

fn lint(probe: &Probe, package: &Package, manager: Manager) -> Gate {
    let json = ["-f", "json", "-o", "{results}"];
    let eslint = |argv: &[&str]| {
        Gate::new("lint", CheckKind::Lint, argv).format(Format::Eslint).results_in("results.json")
    };
    if let Some(script) = package.scripts.get("lint") {
        return if tools(last_command(script)).any(|word| word == "eslint") {
            eslint(&manager.run("lint", &json))
        } else {
            Gate::new("lint", CheckKind::Lint, &manager.run("lint", &[]))
        };
    }
    let settings =
        ["eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.json"];
    let older = [".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.yml", ".eslintrc.yaml"];
    if !probe.has(&settings) && !probe.has(&older) {
        let reason = "package.json has no `lint` script and ESLint is not set up";
        return Gate::skipped("lint", CheckKind::Lint, reason);
    }
    if !probe.has(&["node_modules/.bin/eslint"]) {
        return Gate::skipped("lint", CheckKind::Lint, "ESLint is set up but not installed");
    }
    let argv: Vec<&str> = ["node_modules/.bin/eslint", "."].into_iter().chain(json).collect();
    eslint(&argv)
}

/// Further arguments of a script go to its last command.
fn last_command(script: &str) -> &str {
    script.rsplit(['&', ';', '|']).next().unwrap_or(script)
}

/// The words of a command, each without its folders.
fn tools(command: &str) -> impl Iterator<Item = &str> {
    command.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word))
}
