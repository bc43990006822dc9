//! The arguments of `flyball hook`.

use super::PolicyArgs;
use clap::{Args, Subcommand};
use flyball_adapt::hook::Host;
use std::ffi::OsString;
use std::time::Duration;

/// `flyball hook`.
#[derive(Debug, Args)]
pub(crate) struct Hook {
    /// The coding agent: claude-code, codex, gemini, copilot, cursor, goose or opencode.
    #[arg(value_parser = host)]
    pub(crate) host: Host,
    /// Without one: read what the host writes on stdin, and answer it.
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
}

impl Hook {
    /// The command line exactly as `install` writes it, taken without asking the parser of all commands: a host waits
    /// for each call, and building that parser takes longer than deciding. Anything else is `None`.
    pub(crate) fn as_installed(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut next = || words.next().map(OsString::into_string);
        if next()?.ok()? != "hook" {
            return None;
        }
        let host = Host::from_word(&next()?.ok()?)?;
        let mut answer = AnswerArgs::default();
        while let Some(flag) = next() {
            let (flag, value) = (flag.ok()?, next()?.ok()?);
            // What is not plainly a flag and its value is for the parser to judge.
            if value.starts_with('-') || !answer.take(&flag, value)? {
                return None;
            }
        }
        answer.event.is_some().then_some(Hook { host, action: None, answer })
    }
}

/// Flags of the hook itself. With `install` they are written into the host's settings; `uninstall` and `test` refuse them.
#[derive(Debug, Args, Default)]
pub(crate) struct AnswerArgs {
    /// The event, as the host names it.
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Answer within this time, whatever the store does: 2s, 500ms. Without it: 2s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) deadline: Option<Duration>,
    /// The store. Without it: FLYBALL_STORE, else the project's own, else one in your state folder.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

impl AnswerArgs {
    /// Takes one flag as `install` writes it. Whether it was taken; `None` if its value is wrong.
    fn take(&mut self, flag: &str, value: String) -> Option<bool> {
        let taken = match flag {
            "--event" => self.event.replace(value).is_none(),
            "--store" => self.store.replace(value).is_none(),
            "--policy" => self.policy.policy.replace(value.into()).is_none(),
            "--preset" => self.policy.preset.replace(value).is_none(),
            "--deadline" => self.deadline.replace(time(&value).ok()?).is_none(),
            "--set" => {
                self.policy.set.push(value);
                true
            }
            _ => false,
        };
        Some(taken)
    }

    /// The flags that were given, by their names.
    pub(crate) fn given(&self) -> Vec<&'static str> {
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

/// What is done with a host's settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Put the hook into the host's settings; what is there stays as it is.
    Install(Install),
    /// Take the hook out of the host's settings again.
    Uninstall(Install),
    /// Prove that the installed hook stops a known loop, through the host's own command line.
    Test(Place),
}

/// Which settings.
#[derive(Debug, Args, Default)]
pub(crate) struct Place {
    /// The project's settings: of the repository that this folder is in. This is the default.
    #[arg(long, conflicts_with = "user")]
    pub(crate) project: bool,
    /// Your own settings, for all projects.
    #[arg(long)]
    pub(crate) user: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `flyball hook HOST install` and `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only show what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn host(word: &str) -> Result<Host, String> {
    Host::from_word(word).ok_or_else(|| {
        let words = Host::ALL.map(Host::as_str);
        format!("the hosts are {}", words.join(", "))
    })
}

fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => text.strip_suffix('s').map_or((text, 1), |number| (number, 1_000)),
    };
    let ms = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match ms {
        Some(ms @ 1..=600_000) => Ok(Duration::from_millis(ms)),
        _ => Err("write a time such as 2s or 500ms, at most 600s".to_owned()),
    }
}
