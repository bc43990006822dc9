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
        let mut next = || words.next()?.into_string().ok();
        if next()? != "hook" {
            return None;
        }
        let host = Host::from_word(&next()?)?;
        let event = if next()? == "--event" { next() } else { None };
        if event.is_none() || words.next().is_some() {
            return None;
        }
        Some(Hook { host, action: None, answer: AnswerArgs { event, ..AnswerArgs::default() } })
    }
}

/// What the hook itself takes; the host's settings have it.
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
