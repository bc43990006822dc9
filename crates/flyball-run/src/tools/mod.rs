//! The tools that an agent may use inside its workspace: the built-in ones, and those that a workflow declares.
//!
//! The way of a call: [`Toolbox::call`] -> the tool by its name -> its arguments against its schema -> the tool ->
//! its text and its error made short enough for a model. Whether a call may run at all is asked before, with
//! [`Toolbox::assess`]; the toolbox itself asks nobody.

mod builtin;
mod command;
mod edit;
mod error;
mod execute;
mod leftover;
mod place;
mod read;
pub mod risk;
mod schema;
mod search;
mod text;
mod write;

pub use command::CommandTool;
pub use error::ToolError;
pub(crate) use leftover::remove_half_written;
pub use risk::{Assessment, Risk, RiskPolicy, ToolRule, Verdict};

use crate::process::{Cancel, Job};
use builtin::Builtin;
use execute::{Done, execute};
use flyball::output::OutputLimits;
use flyball_journal::SessionOutputs;
use place::Workspace;
use risk::Finding;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The names of the built-in tools.
#[must_use]
pub fn builtin_names() -> Vec<&'static str> {
    Builtin::names()
}

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Whether the tool has done what it was asked.
    pub ok: bool,
    /// What it has to say; also a failed command has an output.
    pub text: String,
    /// What went wrong, and what to do about it.
    pub error: Option<String>,
    /// The stable code of what went wrong; `missing_field`, `wrong_type`, `unknown_field` and `unknown_tool` are
    /// mistakes of the model, found before anything was run.
    pub code: Option<&'static str>,
    /// How long it took.
    pub duration_ms: u64,
    /// Lines for the log: what became of a large output.
    pub log: Vec<String>,
}

/// What a toolbox holds and what it may do.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// The built-in tools to offer; `None` = all of them.
    pub builtins: Option<Vec<String>>,
    /// Tools that the workflow declares.
    pub commands: Vec<CommandTool>,
    /// Variables for the programs that are started, on top of the inherited environment.
    pub env: Vec<(String, String)>,
    /// The longest that one call may take; a call may ask for less.
    pub deadline: Duration,
    /// The most bytes of a program's output that are kept.
    pub keep: usize,
    /// Where large outputs go; `None` = they stay whole.
    pub outputs: Option<Arc<SessionOutputs>>,
    /// Folders inside the workspace that the file tools must not touch, for example the journal's. The folder of large
    /// outputs is always one of them.
    pub closed: Vec<PathBuf>,
    /// Which risk leads to which verdict.
    pub risk: RiskPolicy,
}

impl Default for ToolboxOptions {
    fn default() -> Self {
        ToolboxOptions {
            builtins: None,
            commands: Vec::new(),
            env: Vec::new(),
            deadline: Duration::from_secs(600),
            keep: Job::KEEP,
            outputs: None,
            closed: Vec::new(),
            risk: RiskPolicy::default(),
        }
    }
}

/// What one call has of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// Variables for the program that it starts, on top of those of the toolbox.
    pub env: &'a [(String, String)],
    /// When its output is large; `None` = as for all tools.
    pub limits: Option<OutputLimits>,
}

/// The tools of one agent in one workspace. It can be shared between threads.
#[derive(Debug)]
pub struct Toolbox {
    workspace: Workspace,
    builtins: Vec<Builtin>,
    options: ToolboxOptions,
}

/// A tool of the box.
enum Tool<'a> {
    Builtin(Builtin),
    Command(&'a CommandTool),
}

/// What a tool may use while it works.
struct Bench<'a> {
    toolbox: &'a Toolbox,
    cancel: &'a Cancel,
    /// How long it may take.
    deadline: Duration,
    /// Variables for the program that it starts.
    env: &'a [(String, String)],
    /// When its output is large.
    limits: Option<OutputLimits>,
}

impl Toolbox {
    /// The tools for a workspace.
    ///
    /// # Errors
    /// If the workspace is no folder (`bad_workspace`), a built-in tool is not known (`unknown_tool`), or a declared
    /// tool cannot be used (`bad_tool`).
    pub fn new(workspace: PathBuf, options: ToolboxOptions) -> Result<Self, ToolError> {
        let builtins = match &options.builtins {
            None => Builtin::ALL.to_vec(),
            Some(names) => {
                let known =
                    |name: &String| Builtin::from_name(name).ok_or_else(|| unknown(name, &Builtin::names()));
                names.iter().map(known).collect::<Result<_, _>>()?
            }
        };
        for (number, tool) in options.commands.iter().enumerate() {
            tool.check()?;
            let before = options.commands.iter().take(number);
            if Builtin::from_name(&tool.name).is_some()
                || before.into_iter().any(|other| other.name == tool.name)
            {
                let what = format!("there are two tools of the name '{}'", tool.name);
                return Err(ToolError::new("bad_tool", what, "give the declared tool another name"));
            }
        }
        let mut closed = options.closed.clone();
        closed.extend(options.outputs.as_ref().map(|outputs| outputs.base().to_owned()));
        let workspace = Workspace::new(&workspace, closed)?;
        Ok(Toolbox { workspace, builtins, options })
    }

    /// What to tell a model about the tools.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        let declared = self.options.commands.iter().map(|tool| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.schema.clone(),
        });
        self.builtins.iter().map(|tool| tool.spec()).chain(declared).collect()
    }

    /// Whether a call makes sense: the tool exists, and its arguments fit. Nothing is run.
    ///
    /// # Errors
    /// With `unknown_tool`, `missing_field`, `unknown_field` or `wrong_type`, naming the field.
    pub fn check(&self, name: &str, args: &Value) -> Result<(), ToolError> {
        let schema = match self.find(name)? {
            Tool::Builtin(tool) => tool.schema(),
            Tool::Command(tool) => tool.schema.clone(),
        };
        schema::check(name, &schema, args)
    }

    /// How dangerous a call is, and what the policy wants: that it runs, that a person is asked, or that it is
    /// refused. Nothing is run.
    ///
    /// # Errors
    /// Those of [`Toolbox::check`]: a call that makes no sense has no risk, it is never run.
    pub fn assess(&self, name: &str, args: &Value) -> Result<Assessment, ToolError> {
        self.check(name, args)?;
        let findings = match self.find(name)? {
            Tool::Builtin(tool) => tool.findings(&self.workspace, args),
            Tool::Command(tool) => match tool.risk {
                Some(risk) => vec![Finding::new(risk, format!("'{name}' is declared as {}", risk.as_str()))],
                None => {
                    vec![Finding::new(Risk::Unknown, format!("nobody has said how dangerous '{name}' is"))]
                }
            },
        };
        Ok(self.options.risk.assess(name, findings))
    }

    /// Runs a tool. It ends at the shorter of `deadline` and the toolbox's own, or when it is cancelled. Everything
    /// that can go wrong is told in the output.
    #[must_use]
    pub fn call(&self, name: &str, args: &Value, deadline: Option<Duration>, cancel: &Cancel) -> Output {
        self.call_with(name, args, deadline, cancel, &CallOptions::default())
    }

    /// The same, with what this call has of its own.
    #[must_use]
    pub fn call_with(
        &self,
        name: &str,
        args: &Value,
        deadline: Option<Duration>,
        cancel: &Cancel,
        options: &CallOptions<'_>,
    ) -> Output {
        let begun = Instant::now();
        let deadline = deadline.unwrap_or(self.options.deadline).min(self.options.deadline);
        let limits =
            options.limits.or_else(|| self.options.outputs.as_ref().map(|outputs| outputs.options().limits));
        let bench = Bench { toolbox: self, cancel, deadline, env: options.env, limits };
        let done = self.check(name, args).and_then(|()| bench.perform(name, args));
        let (text, trouble) = match done {
            Ok(Done { text, trouble }) => (text, trouble),
            Err(error) => (String::new(), Some(error)),
        };
        let mut log = Vec::new();
        let text = bench.fit(name, text, &mut log);
        let error = trouble.as_ref().map(|error| bench.fit(name, error.to_string(), &mut log));
        Output {
            ok: trouble.is_none(),
            text,
            error,
            code: trouble.map(|error| error.code),
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            log,
        }
    }

    fn find(&self, name: &str) -> Result<Tool<'_>, ToolError> {
        if let Some(tool) = self.builtins.iter().find(|tool| tool.name() == name) {
            return Ok(Tool::Builtin(*tool));
        }
        if let Some(tool) = self.options.commands.iter().find(|tool| tool.name == name) {
            return Ok(Tool::Command(tool));
        }
        let specs = self.specs();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        Err(unknown(name, &names))
    }
}

impl Bench<'_> {
    /// A text short enough for a model.
    fn fit(&self, tool: &str, text: String, log: &mut Vec<String>) -> String {
        let (Some(outputs), Some(limits)) = (&self.toolbox.options.outputs, &self.limits) else {
            return text;
        };
        let fitted = outputs.fit_within(text, limits);
        log.extend(fitted.log(tool));
        fitted.text
    }

    /// How many characters a page of a file may have, so that reading a large output is not a large output again.
    fn page_chars(&self) -> usize {
        let threshold = self.limits.and_then(|limits| limits.threshold);
        // The rest is for the line that says how to read on.
        threshold.map_or(read::PAGE_CHARS, |chars| read::PAGE_CHARS.min(chars.saturating_sub(200).max(1)))
    }

    fn perform(&self, name: &str, args: &Value) -> Result<Done, ToolError> {
        if self.cancel.is_cancelled() {
            let hint = "do not try again; the run is being stopped";
            return Err(ToolError::new("cancelled", format!("'{name}' was cancelled before it began"), hint));
        }
        match self.toolbox.find(name)? {
            Tool::Builtin(tool) => tool.perform(self, args),
            Tool::Command(tool) => self.execute(tool.command(args)?),
        }
    }

    /// Runs a program in the workspace.
    fn execute(&self, argv: Vec<String>) -> Result<Done, ToolError> {
        let mut job = Job::new(argv, self.toolbox.workspace.root());
        job.env.clone_from(&self.toolbox.options.env);
        job.env.extend_from_slice(self.env);
        job.deadline = Some(self.deadline);
        job.keep = self.toolbox.options.keep;
        execute(job, self.cancel)
    }
}

fn unknown(name: &str, known: &[&str]) -> ToolError {
    let hint = format!("the tools are: {}", known.join(", "));
    ToolError::new("unknown_tool", format!("there is no tool '{name}'"), hint)
}
