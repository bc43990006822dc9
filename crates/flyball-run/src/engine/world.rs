//! What all nodes of a run share: providers, tools, gates, the workspace, and those who watch and answer.

use super::book::Book;
use super::lane::{Asker, Watcher};
use super::leftover::RUN;
use crate::fail::Failure;
use crate::gates::Gate;
use crate::process::Cancel;
use crate::provider::{Provider, ProviderConfig, Providers, build};
use crate::tools::{RiskPolicy, Toolbox, ToolboxOptions};
use crate::workflow::spec::Workspace;
use crate::workflow::{Plan, Work, declared};
use flyball::graph::Limits;
use flyball::policy::{Mode, Rule};
use flyball_journal::{OutputOptions, SessionOutputs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks up a variable of the environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a run is given from outside.
pub struct Surroundings {
    /// Where events go.
    pub book: Arc<Book>,
    /// Who is told.
    pub watcher: Arc<dyn Watcher>,
    /// Who answers for people.
    pub asker: Arc<dyn Asker>,
    /// Stops the run from outside.
    pub cancel: Cancel,
    /// A folder for the files of the run: the copy of the workspace.
    pub files: PathBuf,
    /// The folder for the large outputs of all sessions of the store.
    pub outputs: PathBuf,
    /// Looks up a variable of the environment.
    pub env: Environment,
    /// Steps that were cut off and may be run again, or are to be taken as failed.
    pub cut_off: CutOff,
    /// The workflow file, so that the run can be taken up by its session's name alone.
    pub origin: Option<PathBuf>,
}

/// What to do about a step that was cut off and whose kind does not allow to run it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CutOff {
    /// A person is asked.
    #[default]
    Ask,
    /// It is run again.
    Rerun,
    /// It counts as failed.
    Skip,
}

/// What all nodes share.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) book: Arc<Book>,
    pub(crate) watcher: Arc<dyn Watcher>,
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) cancel: Cancel,
    pub(crate) workspace: PathBuf,
    /// The folder for the files of the run.
    pub(crate) files: PathBuf,
    /// What its sessions are held to.
    pub(crate) limits: Limits,
    pub(crate) cut_off: CutOff,
    pub(crate) origin: Option<PathBuf>,
    pub(crate) toolbox: Toolbox,
    pub(crate) gates: Vec<Gate>,
    pub(crate) outputs: Arc<SessionOutputs>,
    /// Tools that may be run again after they were cut off.
    rerunnable: BTreeSet<String>,
    providers: BTreeMap<String, Box<dyn Provider>>,
    /// The conditions of routers, by node.
    conditions: BTreeMap<String, Vec<Rule>>,
    /// Looks up a variable of the environment.
    env: Environment,
}

/// Those of the named variables that are set.
fn passed<'a>(names: impl Iterator<Item = &'a String>, env: &Environment) -> Vec<(String, String)> {
    names.filter_map(|name| env(name).map(|value| (name.clone(), value))).collect()
}

impl World {
    /// The variables that a program inherits beside the ordinary ones: those that the workflow names, and `more`.
    pub(crate) fn passed(&self, more: &[String]) -> Vec<(String, String)> {
        passed(self.plan.pass_env.iter().chain(more), &self.env)
    }

    /// Puts together what a plan needs.
    ///
    /// # Errors
    /// If a provider, tool or gate cannot be used, or the workspace cannot be made.
    pub fn new(plan: Plan, session: &str, around: Surroundings) -> Result<Self, Failure> {
        let workspace = workspace(&plan, &around.files)?;
        let policy = around.book.policy();
        let limits = plan.limits(policy);
        let options = OutputOptions::from(&policy.guards.large_response);
        let outputs = SessionOutputs::open(&around.outputs, session, options).map_err(|error| {
            Failure::new("run_files", error.to_string(), "check that the folder of the store can be written")
        })?;
        let outputs = Arc::new(outputs);
        let (commands, rerunnable) = declared(&plan)?;
        let risk = plan.risk.as_ref().map_or(Ok(RiskPolicy::default()), RiskPolicy::from_json)?;
        let options = ToolboxOptions {
            commands,
            outputs: Some(Arc::clone(&outputs)),
            risk,
            ..ToolboxOptions::default()
        };
        let toolbox = Toolbox::new(workspace.clone(), options)?;
        let mut providers = BTreeMap::new();
        let written: serde_json::Map<String, Value> =
            plan.providers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let configs = Providers::from_value(&Value::Object(written))?;
        for (name, mut config) in configs.0 {
            if let ProviderConfig::Command(command) = &mut config {
                let named = passed(plan.pass_env.iter().chain(&command.pass_env), &around.env);
                command.env.extend(named);
                command.env.insert(RUN.to_owned(), around.files.display().to_string());
            }
            providers.insert(name.clone(), build(&config, &name, around.env.as_ref())?);
        }
        let conditions = conditions(&plan)?;
        let dependencies = &policy.guards.gate.dependencies;
        let gates = if plan.uses_gates() { plan.gates_in(&workspace, dependencies)? } else { Vec::new() };
        Ok(World {
            plan,
            book: around.book,
            watcher: around.watcher,
            asker: around.asker,
            cancel: around.cancel,
            workspace,
            files: around.files,
            limits,
            cut_off: around.cut_off,
            origin: around.origin,
            toolbox,
            gates,
            outputs,
            rerunnable,
            providers,
            conditions,
            env: around.env,
        })
    }

    /// A provider by name.
    pub(crate) fn provider(&self, name: &str) -> Result<&dyn Provider, Failure> {
        self.providers.get(name).map(AsRef::as_ref).ok_or_else(|| {
            Failure::new("workflow_unknown_provider", format!("there is no provider '{name}'"), "add it")
        })
    }

    /// The conditions of a router, in order.
    pub(crate) fn conditions(&self, node: &str) -> &[Rule] {
        self.conditions.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether a call of a tool that was cut off may be made again: one that only looks, or leads to the same end.
    pub(crate) fn may_call_again(&self, tool: &str) -> bool {
        ["read", "search", "write", "edit"].contains(&tool) || self.rerunnable.contains(tool)
    }
}

/// The conditions of all routers, compiled once.
fn conditions(plan: &Plan) -> Result<BTreeMap<String, Vec<Rule>>, Failure> {
    let mut all = BTreeMap::new();
    for node in plan.nodes.values() {
        let Work::Route(route) = &node.work else { continue };
        let compiled = route.rules.iter().map(|rule| Rule::new(&node.name, &rule.when, Mode::Observe, ""));
        let compiled: Result<Vec<Rule>, _> = compiled.collect();
        let compiled = compiled.map_err(|error| {
            Failure::new("workflow_bad_condition", error.to_string(), "correct `when`")
                .at(format!("node '{}'", node.name))
        })?;
        all.insert(node.name.clone(), compiled);
    }
    Ok(all)
}

/// The folder to work in: as written, a copy made for this run, or the folder of the file.
fn workspace(plan: &Plan, files: &Path) -> Result<PathBuf, Failure> {
    let wrong = |path: &Path, error: std::io::Error| {
        Failure::new("run_workspace", error.to_string(), "check `workspace:` of the workflow")
            .at(path.display().to_string())
    };
    match &plan.workspace {
        None => Ok(plan.folder.clone()),
        Some(Workspace::Folder(folder)) => {
            let path = plan.folder.join(folder);
            std::fs::create_dir_all(&path).map_err(|error| wrong(&path, error))?;
            Ok(path)
        }
        Some(Workspace::Copy { copy }) => {
            let (from, to) = (plan.folder.join(copy), files.join("workspace"));
            if !to.exists() {
                // Made beside it and then renamed: a copy that was cut off is never worked in.
                let half = files.join("workspace.copying");
                let _ = std::fs::remove_dir_all(&half);
                copy_tree(&from, &half).map_err(|error| wrong(&from, error))?;
                std::fs::rename(&half, &to).map_err(|error| wrong(&to, error))?;
            }
            Ok(to)
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, kind) = (to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            copy_tree(&entry.path(), &path)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), path)?;
        }
    }
    Ok(())
}
