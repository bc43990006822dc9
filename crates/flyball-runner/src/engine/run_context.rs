//! Resources shared by all nodes of a run: providers, tools, gates, the workspace, and its listeners.

use super::event_sink::EventSink;
use super::orphans::RUN_DIR_VAR;
use super::replay_log::{HumanInput, RunListener};
use crate::gates::QualityGate;
use crate::process::CancelToken;
use crate::provider::{Provider, ProviderConfig, ProviderConfigs, build_provider};
use crate::run_error::RunError;
use crate::tools::{RiskPolicy, Toolbox, ToolboxOptions};
use crate::workflow::spec::WorkspaceSpec;
use crate::workflow::{NodeKind, WorkflowPlan, declared_tools};
use flyball::graph::WorkflowLimits;
use flyball::policy::{GuardMode, PolicyRule};
use flyball_store::{OutputOptions, SessionOutputs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks up an environment variable.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Configuration of a run.
pub struct RunOptions {
    /// Destination of events.
    pub sink: Arc<EventSink>,
    /// Receives events and output.
    pub listener: Arc<dyn RunListener>,
    /// Answers questions to people.
    pub human_input: Arc<dyn HumanInput>,
    /// Cancels the run from outside.
    pub cancel: CancelToken,
    /// Directory for the files of the run, such as its copy of the workspace.
    pub run_dir: PathBuf,
    /// Directory for large outputs of all sessions in the store.
    pub outputs: PathBuf,
    /// Looks up an environment variable.
    pub env: EnvLookup,
    /// Handling of interrupted steps.
    pub on_interrupted_step: InterruptedStepPolicy,
    /// The workflow file, so that the run can be resumed by its session name alone.
    pub workflow_file: Option<PathBuf>,
}

/// Handling of an interrupted step whose kind does not allow running it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InterruptedStepPolicy {
    /// Ask a person.
    #[default]
    Ask,
    /// Run it again.
    Rerun,
    /// Treat it as failed.
    Skip,
}

/// Resources shared by all nodes of a run.
pub struct RunContext {
    pub(crate) plan: WorkflowPlan,
    pub(crate) sink: Arc<EventSink>,
    pub(crate) listener: Arc<dyn RunListener>,
    pub(crate) human_input: Arc<dyn HumanInput>,
    pub(crate) cancel: CancelToken,
    pub(crate) workspace: PathBuf,
    /// Directory for the files of the run.
    pub(crate) run_dir: PathBuf,
    /// Limits that the governor enforces on its sessions.
    pub(crate) limits: WorkflowLimits,
    pub(crate) on_interrupted_step: InterruptedStepPolicy,
    pub(crate) workflow_file: Option<PathBuf>,
    pub(crate) toolbox: Toolbox,
    pub(crate) gates: Vec<QualityGate>,
    pub(crate) outputs: Arc<SessionOutputs>,
    /// Tools that may run again after an interruption.
    rerunnable_tools: BTreeSet<String>,
    providers: BTreeMap<String, Box<dyn Provider>>,
    /// Compiled conditions of `route` nodes, by node.
    conditions: BTreeMap<String, Vec<PolicyRule>>,
    /// Looks up an environment variable.
    env: EnvLookup,
}

/// The named variables that are set.
fn lookup_vars<'a>(names: impl Iterator<Item = &'a String>, env: &EnvLookup) -> Vec<(String, String)> {
    names.filter_map(|name| env(name).map(|value| (name.clone(), value))).collect()
}

impl RunContext {
    /// Variables that a program inherits in addition to the default set: those that the workflow lists, and `more`.
    pub(crate) fn passed_env(&self, more: &[String]) -> Vec<(String, String)> {
        lookup_vars(self.plan.pass_env.iter().chain(more), &self.env)
    }

    /// Builds everything that a plan needs.
    ///
    /// # Errors
    /// If a provider, tool or gate is unusable, or the workspace cannot be created.
    pub fn new(plan: WorkflowPlan, session: &str, around: RunOptions) -> Result<Self, RunError> {
        let workspace = prepare_workspace(&plan, &around.run_dir)?;
        let policy = around.sink.policy();
        let limits = plan.limits(policy);
        let options = OutputOptions::from(&policy.guards.large_response);
        let outputs = SessionOutputs::open(&around.outputs, session, options).map_err(|error| {
            RunError::new("run_directory", error.to_string(), "check that the store folder is writable")
        })?;
        let outputs = Arc::new(outputs);
        let (commands, rerunnable) = declared_tools(&plan)?;
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
        let configs = ProviderConfigs::from_value(&Value::Object(written))?;
        for (name, mut config) in configs.0 {
            if let ProviderConfig::Command(command) = &mut config {
                let named = lookup_vars(plan.pass_env.iter().chain(&command.pass_env), &around.env);
                command.env.extend(named);
                command.env.insert(RUN_DIR_VAR.to_owned(), around.run_dir.display().to_string());
            }
            providers.insert(name.clone(), build_provider(&config, &name, around.env.as_ref())?);
        }
        let conditions = conditions(&plan)?;
        let dependencies = &policy.guards.gate.dependencies;
        let gates = if plan.uses_gates() { plan.gates_in(&workspace, dependencies)? } else { Vec::new() };
        Ok(RunContext {
            plan,
            sink: around.sink,
            listener: around.listener,
            human_input: around.human_input,
            cancel: around.cancel,
            workspace,
            run_dir: around.run_dir,
            limits,
            on_interrupted_step: around.on_interrupted_step,
            workflow_file: around.workflow_file,
            toolbox,
            gates,
            outputs,
            rerunnable_tools: rerunnable,
            providers,
            conditions,
            env: around.env,
        })
    }

    /// A provider by name.
    pub(crate) fn provider(&self, name: &str) -> Result<&dyn Provider, RunError> {
        self.providers.get(name).map(AsRef::as_ref).ok_or_else(|| {
            RunError::new(
                "workflow_unknown_provider",
                format!("unknown provider '{name}'"),
                "add it under `providers:`",
            )
        })
    }

    /// Compiled conditions of a `route` node, in order.
    pub(crate) fn conditions(&self, node: &str) -> &[PolicyRule] {
        self.conditions.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether an interrupted tool call may be repeated: it is read-only or idempotent.
    pub(crate) fn can_rerun_tool(&self, tool: &str) -> bool {
        ["read", "search", "write", "edit"].contains(&tool) || self.rerunnable_tools.contains(tool)
    }
}

/// Compiles the conditions of all `route` nodes.
fn conditions(plan: &WorkflowPlan) -> Result<BTreeMap<String, Vec<PolicyRule>>, RunError> {
    let mut all = BTreeMap::new();
    for node in plan.nodes.values() {
        let NodeKind::Route(route) = &node.kind else { continue };
        let compiled =
            route.rules.iter().map(|rule| PolicyRule::new(&node.name, &rule.when, GuardMode::Observe, ""));
        let compiled: Result<Vec<PolicyRule>, _> = compiled.collect();
        let compiled = compiled.map_err(|error| {
            RunError::new("workflow_bad_condition", error.to_string(), "fix `when`")
                .at(format!("node '{}'", node.name))
        })?;
        all.insert(node.name.clone(), compiled);
    }
    Ok(all)
}

/// Working directory: as configured, a copy made for this run, or the folder of the workflow file.
fn prepare_workspace(plan: &WorkflowPlan, run_dir: &Path) -> Result<PathBuf, RunError> {
    let wrong = |path: &Path, error: std::io::Error| {
        RunError::new("run_workspace", error.to_string(), "check `workspace:` of the workflow")
            .at(path.display().to_string())
    };
    match &plan.workspace {
        None => Ok(plan.folder.clone()),
        Some(WorkspaceSpec::Folder(folder)) => {
            let path = plan.folder.join(folder);
            std::fs::create_dir_all(&path).map_err(|error| wrong(&path, error))?;
            Ok(path)
        }
        Some(WorkspaceSpec::Copy { copy }) => {
            let (from, to) = (plan.folder.join(copy), run_dir.join("workspace"));
            if !to.exists() {
                // Copied next to it and then renamed, so that a partial copy is never used.
                let half = run_dir.join("workspace.copying");
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
