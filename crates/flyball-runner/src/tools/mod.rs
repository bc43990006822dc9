//! Tools of an agent in its workspace: built-in ones, and those that a workflow declares.
//!
//! Data flow of a call: [`Toolbox::call`] -> tool lookup -> argument validation -> the tool -> large outputs saved and
//! shortened for the model. [`Toolbox::assess`] says beforehand whether a call may run; the toolbox itself asks no one.

mod args_schema;
mod builtin;
mod command_tool;
mod edit;
mod execute;
mod read;
pub mod risk;
mod search;
mod temp_files;
mod text_reader;
mod tool_error;
mod workspace;
mod write;

pub use command_tool::CommandTool;
pub use risk::{Assessment, Risk, RiskPolicy, RiskVerdict, ToolRule};
pub(crate) use temp_files::remove_stale_temp_files;
pub use tool_error::ToolError;

use crate::process::{CancelToken, ProcessSpec};
use builtin::BuiltinTool;
use execute::{ToolResult, run_program};
use flyball::output::OutputLimits;
use flyball_store::SessionOutputs;
use risk::RiskFinding;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workspace::WorkspaceRoot;

/// Names of the built-in tools.
#[must_use]
pub fn builtin_names() -> Vec<&'static str> {
    BuiltinTool::names()
}

/// Description of a tool for a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Tool name.
    pub name: String,
    /// Description.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolOutput {
    /// Whether the tool succeeded.
    pub ok: bool,
    /// Output; a failed command has one too.
    pub text: String,
    /// Error and help.
    pub error: Option<String>,
    /// Stable error code. `missing_field`, `wrong_type`, `unknown_field` and `unknown_tool` are mistakes of the model,
    /// detected before anything ran.
    pub code: Option<&'static str>,
    /// Duration.
    pub duration_ms: u64,
    /// Log lines about large outputs.
    pub log: Vec<String>,
}

/// Configuration of a toolbox.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// Built-in tools to offer; `None` means all.
    pub builtins: Option<Vec<String>>,
    /// Declared tools of the workflow.
    pub commands: Vec<CommandTool>,
    /// Environment variables for programs, added to the inherited ones.
    pub env: Vec<(String, String)>,
    /// Maximum duration of a call; a call may request less.
    pub deadline: Duration,
    /// Maximum number of bytes kept of a program's output.
    pub max_output_bytes: usize,
    /// Storage for large outputs; without it they are returned in full.
    pub outputs: Option<Arc<SessionOutputs>>,
    /// Folders inside the workspace that the file tools must not touch, such as the store's. Always includes the folder
    /// for large outputs.
    pub protected_dirs: Vec<PathBuf>,
    /// Risk policy.
    pub risk: RiskPolicy,
}

impl Default for ToolboxOptions {
    fn default() -> Self {
        ToolboxOptions {
            builtins: None,
            commands: Vec::new(),
            env: Vec::new(),
            deadline: Duration::from_secs(600),
            max_output_bytes: ProcessSpec::DEFAULT_KEPT_BYTES,
            outputs: None,
            protected_dirs: Vec::new(),
            risk: RiskPolicy::default(),
        }
    }
}

/// Options of a single call.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolCallOptions<'a> {
    /// Environment variables for its program, added to those of the toolbox.
    pub env: &'a [(String, String)],
    /// Large-output limits; `None` means those of the toolbox.
    pub limits: Option<OutputLimits>,
}

/// The tools of one agent in one workspace. Can be shared between threads.
#[derive(Debug)]
pub struct Toolbox {
    workspace: WorkspaceRoot,
    builtins: Vec<BuiltinTool>,
    options: ToolboxOptions,
}

/// A tool of the toolbox.
enum ToolRef<'a> {
    Builtin(BuiltinTool),
    Command(&'a CommandTool),
}

/// Context of a running tool.
struct ToolContext<'a> {
    toolbox: &'a Toolbox,
    cancel: &'a CancelToken,
    /// Maximum duration.
    deadline: Duration,
    /// Environment variables for its program.
    env: &'a [(String, String)],
    /// Large-output limits.
    limits: Option<OutputLimits>,
}

impl Toolbox {
    /// Creates the tools for a workspace.
    ///
    /// # Errors
    /// `bad_workspace` if the workspace is not a folder, `unknown_tool` for an unknown built-in tool, `bad_tool` for an
    /// invalid declared tool.
    pub fn new(workspace: PathBuf, options: ToolboxOptions) -> Result<Self, ToolError> {
        let builtins = match &options.builtins {
            None => BuiltinTool::ALL.to_vec(),
            Some(names) => {
                let known = |name: &String| {
                    BuiltinTool::from_name(name).ok_or_else(|| unknown_tool(name, &BuiltinTool::names()))
                };
                names.iter().map(known).collect::<Result<_, _>>()?
            }
        };
        for (number, tool) in options.commands.iter().enumerate() {
            tool.validate()?;
            let before = options.commands.iter().take(number);
            if BuiltinTool::from_name(&tool.name).is_some()
                || before.into_iter().any(|other| other.name == tool.name)
            {
                let what = format!("tool '{}' is defined twice", tool.name);
                return Err(ToolError::new("bad_tool", what, "give the declared tool another name"));
            }
        }
        let mut protected = options.protected_dirs.clone();
        protected.extend(options.outputs.as_ref().map(|outputs| outputs.base_dir().to_owned()));
        let workspace = WorkspaceRoot::new(&workspace, protected)?;
        Ok(Toolbox { workspace, builtins, options })
    }

    /// Descriptions of the tools for a model.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        let declared = self.options.commands.iter().map(|tool| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.schema.clone(),
        });
        self.builtins.iter().map(|tool| tool.spec()).chain(declared).collect()
    }

    /// Validates a call without running it: the tool exists, and its arguments match its schema.
    ///
    /// # Errors
    /// `unknown_tool`, `missing_field`, `unknown_field` or `wrong_type`, naming the field.
    pub fn validate_call(&self, name: &str, args: &Value) -> Result<(), ToolError> {
        let schema = match self.find(name)? {
            ToolRef::Builtin(tool) => tool.schema(),
            ToolRef::Command(tool) => tool.schema.clone(),
        };
        args_schema::validate_args(name, &schema, args)
    }

    /// Assesses the risk of a call without running it, and whether it may run, needs confirmation, or is refused.
    ///
    /// # Errors
    /// Those of [`Toolbox::validate_call`]: an invalid call has no risk, because it never runs.
    pub fn assess(&self, name: &str, args: &Value) -> Result<Assessment, ToolError> {
        self.validate_call(name, args)?;
        let findings = match self.find(name)? {
            ToolRef::Builtin(tool) => tool.findings(&self.workspace, args),
            ToolRef::Command(tool) => match tool.risk {
                Some(risk) => {
                    vec![RiskFinding::new(risk, format!("'{name}' is declared as {}", risk.as_str()))]
                }
                None => {
                    vec![RiskFinding::new(Risk::Unknown, format!("the risk of '{name}' is not declared"))]
                }
            },
        };
        Ok(self.options.risk.assess(name, findings))
    }

    /// Runs a tool until it finishes, is cancelled, or reaches the shorter of `deadline` and the toolbox's deadline.
    /// All errors are in the output.
    #[must_use]
    pub fn call(
        &self,
        name: &str,
        args: &Value,
        deadline: Option<Duration>,
        cancel: &CancelToken,
    ) -> ToolOutput {
        self.call_with(name, args, deadline, cancel, &ToolCallOptions::default())
    }

    /// Like [`Toolbox::call`], with options for this call.
    #[must_use]
    pub fn call_with(
        &self,
        name: &str,
        args: &Value,
        deadline: Option<Duration>,
        cancel: &CancelToken,
        options: &ToolCallOptions<'_>,
    ) -> ToolOutput {
        let begun = Instant::now();
        let deadline = deadline.unwrap_or(self.options.deadline).min(self.options.deadline);
        let limits =
            options.limits.or_else(|| self.options.outputs.as_ref().map(|outputs| outputs.options().limits));
        let context = ToolContext { toolbox: self, cancel, deadline, env: options.env, limits };
        let done = self.validate_call(name, args).and_then(|()| context.perform(name, args));
        let (text, error) = match done {
            Ok(ToolResult { text, error }) => (text, error),
            Err(error) => (String::new(), Some(error)),
        };
        let mut log = Vec::new();
        let text = context.save_if_large(name, text, &mut log);
        let error_text = error.as_ref().map(|error| context.save_if_large(name, error.to_string(), &mut log));
        ToolOutput {
            ok: error.is_none(),
            text,
            error: error_text,
            code: error.map(|error| error.code),
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            log,
        }
    }

    fn find(&self, name: &str) -> Result<ToolRef<'_>, ToolError> {
        if let Some(tool) = self.builtins.iter().find(|tool| tool.name() == name) {
            return Ok(ToolRef::Builtin(*tool));
        }
        if let Some(tool) = self.options.commands.iter().find(|tool| tool.name == name) {
            return Ok(ToolRef::Command(tool));
        }
        let specs = self.specs();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        Err(unknown_tool(name, &names))
    }
}

impl ToolContext<'_> {
    /// Saves a text that is too large for a model, and returns the shortened text.
    fn save_if_large(&self, tool: &str, text: String, log: &mut Vec<String>) -> String {
        let (Some(outputs), Some(limits)) = (&self.toolbox.options.outputs, &self.limits) else {
            return text;
        };
        let fitted = outputs.save_if_over(text, limits);
        log.extend(fitted.log_line(tool));
        fitted.text
    }

    /// Maximum characters of a page, so that reading a large output does not produce another large output.
    fn max_page_chars(&self) -> usize {
        let threshold = self.limits.and_then(|limits| limits.threshold_chars);
        // Reserve space for the line that says how to continue.
        threshold
            .map_or(read::MAX_PAGE_CHARS, |chars| read::MAX_PAGE_CHARS.min(chars.saturating_sub(200).max(1)))
    }

    fn perform(&self, name: &str, args: &Value) -> Result<ToolResult, ToolError> {
        if self.cancel.is_cancelled() {
            let help = "do not retry; the run is stopping";
            return Err(ToolError::new(
                "cancelled",
                format!("'{name}' was cancelled before it started"),
                help,
            ));
        }
        match self.toolbox.find(name)? {
            ToolRef::Builtin(tool) => tool.run(self, args),
            ToolRef::Command(tool) => self.execute(tool.build_argv(args)?),
        }
    }

    /// Runs a program in the workspace.
    fn execute(&self, argv: Vec<String>) -> Result<ToolResult, ToolError> {
        let mut job = ProcessSpec::new(argv, self.toolbox.workspace.root());
        job.env.clone_from(&self.toolbox.options.env);
        job.env.extend_from_slice(self.env);
        job.deadline = Some(self.deadline);
        job.max_kept_bytes = self.toolbox.options.max_output_bytes;
        run_program(job, self.cancel)
    }
}

fn unknown_tool(name: &str, known: &[&str]) -> ToolError {
    let help = format!("known tools: {}", known.join(", "));
    ToolError::new("unknown_tool", format!("unknown tool '{name}'"), help)
}
