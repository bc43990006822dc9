//! The arguments of `flyball hook`.

use super::PolicyArgs;
use clap::{Args, Subcommand};
use flyball_integrations::hook::Host;
use std::ffi::OsString;
use std::time::Duration;

/// `flyball hook`.
#[derive(Debug, Args)]
pub(crate) struct HookCommandArgs {
    /// Coding agent
    #[arg(value_parser = host_parser())]
    pub(crate) host: Host,
    /// Without one, the hook itself runs: it reads the payload from stdin and writes the verdict.
    #[command(subcommand)]
    pub(crate) action: Option<HookAction>,
    #[command(flatten)]
    pub(crate) run: HookRunArgs,
}

impl HookCommandArgs {
    /// The command line exactly as `install` writes it, taken without asking the parser of all commands: a host waits
    /// for each call, and building that parser takes longer than deciding. Anything else is `None`.
    pub(crate) fn parse_installed(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || words.next().map(OsString::into_string);
        if next()?.ok()? != "hook" {
            return None;
        }
        let host = Host::from_name(&next()?.ok()?)?;
        let mut answer = HookRunArgs::default();
        while let Some(flag) = next() {
            let (flag, value) = (flag.ok()?, next()?.ok()?);
            // Anything that is not clearly a flag with its value is left to the parser.
            if value.starts_with('-') || !answer.parse_flag(&flag, value)? {
                return None;
            }
        }
        answer.event.is_some().then_some(HookCommandArgs { host, action: None, run: answer })
    }
}

/// Flags of the hook itself. With `install` they are written into the host's settings; `uninstall` and `test` refuse them.
#[derive(Debug, Args, Default)]
pub(crate) struct HookRunArgs {
    /// Name of the hook event, as the coding agent spells it
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Maximum response time, e.g. 2s or 500ms [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    pub(crate) deadline: Option<Duration>,
    /// Store: sqlite:PATH or postgres://… [default: $FLYBALL_STORE, else the project's, else one in your state directory]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

impl HookRunArgs {
    /// Takes one flag as `install` writes it. Whether it was taken; `None` if its value is wrong.
    fn parse_flag(&mut self, flag: &str, value: String) -> Option<bool> {
        let taken = match flag {
            "--event" => self.event.replace(value).is_none(),
            "--store" => self.store.replace(value).is_none(),
            "--policy" => self.policy.policy.replace(value.into()).is_none(),
            "--preset" => self.policy.preset.replace(value).is_none(),
            "--deadline" => self.deadline.replace(parse_deadline(&value).ok()?).is_none(),
            "--set" => {
                self.policy.set.push(value);
                true
            }
            _ => false,
        };
        Some(taken)
    }

    /// The flags that were given, by their names.
    pub(crate) fn given_flags(&self) -> Vec<&'static str> {
        let PolicyArgs { policy, preset, set } = &self.policy;
        let all = [
            ("--event", self.event.is_some()),
            ("--deadline", self.deadline.is_some()),
            ("--store", self.store.is_some()),
            ("--policy", policy.is_some()),
            ("--preset", preset.is_some()),
            ("--set", !set.is_empty()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }
}

/// Action on the hook of a coding agent.
#[derive(Debug, Subcommand)]
pub(crate) enum HookAction {
    /// Add the hook to the coding agent's settings.
    Install(HookInstallArgs),
    /// Remove the hook from the coding agent's settings.
    Uninstall(HookInstallArgs),
    /// Check that the installed hook stops a known loop.
    Test(SettingsScopeArgs),
}

/// Which settings.
#[derive(Debug, Args, Default)]
pub(crate) struct SettingsScopeArgs {
    /// Use the settings of the current repository (default)
    #[arg(long, conflicts_with = "user")]
    pub(crate) project: bool,
    /// Use your own settings, for all projects
    #[arg(long)]
    pub(crate) user: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball hook HOST install` and `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct HookInstallArgs {
    #[command(flatten)]
    pub(crate) scope: SettingsScopeArgs,
    /// Show the changes without making them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn host_parser() -> impl clap::builder::TypedValueParser<Value = Host> {
    use clap::builder::TypedValueParser;
    let names = clap::builder::PossibleValuesParser::new(Host::ALL.map(Host::as_str));
    names.try_map(|name| Host::from_name(&name).ok_or("unknown coding agent"))
}

fn parse_deadline(text: &str) -> Result<Duration, String> {
    match flyball::units::parse_duration_ms(text) {
        Some(ms @ 1..=600_000) => Ok(Duration::from_millis(ms)),
        _ => Err("expected a duration of at most 600s, e.g. 2s or 500ms".to_owned()),
    }
}
