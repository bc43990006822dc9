//! What hooks did, compared with what the settings say now: a hook that ran and is gone, or that records elsewhere.

use super::Finding;
use super::hooks::Store;
use crate::args::Doctor;
use crate::commands::hook::installed_flags;
use crate::hook_runs::{self, Intent};
use crate::words::{line, moment};
use crate::{clock, load};
use flyball::policy::from_environment;
use flyball_adapt::hook::Host;
use flyball_adapt::hook::settings::places;
use flyball_journal::{Address, Which};
use std::path::{Path, PathBuf};

/// How many sessions are looked at for the last one of a host.
const LOOKED_AT: usize = 10_000;

/// A hook that was installed or that ran, and that the host will not call any more. `broken`: that it is in the settings,
/// and why it does not work, is told already.
pub(super) fn missing(host: Host, project: &Path, store: Store<'_>, broken: bool) -> Option<Finding> {
    let intents: Vec<Intent> =
        [project, Path::new("")].into_iter().filter_map(|place| hook_runs::intent(host, place)).collect();
    let removed = intents.iter().filter_map(|intent| match intent {
        Intent::Removed { at } => Some(*at),
        Intent::Installed { .. } => None,
    });
    let removed = removed.max().unwrap_or_default();
    let installed = intents.iter().find_map(|intent| match intent {
        Intent::Installed { at, settings } => Some((*at, settings)),
        Intent::Removed { .. } => None,
    });
    let ran = hook_runs::last(host, project).map(|last| last.at).max(recorded(host, store));
    let own = places(host).first().map_or_else(PathBuf::new, |place| project.join(place.project));
    let settings = installed.map_or(&own, |(_, settings)| settings).display();
    let what = match (ran.filter(|at| *at > removed), installed.filter(|(at, _)| *at > removed)) {
        (Some(at), _) if broken => format!("{} ran Flyball's hook until {}", host.shown(), moment(at)),
        (None, _) if broken => return None,
        (Some(at), _) => format!(
            "{} is NOT ARMED: it ran Flyball's hook until {}; the hook is no longer in {settings}",
            host.shown(),
            moment(at)
        ),
        (None, Some((at, _))) => format!(
            "{} is NOT ARMED: the hook was installed in {settings} at {}, and is not there any more",
            host.shown(),
            moment(at)
        ),
        (None, None) => return None,
    };
    let advice = format!(
        "flyball hook {} install; if you removed it yourself: flyball doctor --accept",
        host.as_str()
    );
    Some(Finding::wrong("hook", what, advice))
}

/// When the project's store last heard of a session of the host.
fn recorded(host: Host, store: Store<'_>) -> Option<u64> {
    let heads = store?.heads(Which::All, LOOKED_AT).ok()?;
    let own =
        heads.iter().filter(|head| host.owns(&head.session) && !head.session.contains(":flyball-test-"));
    own.map(|head| head.updated).max()
}

/// A person says that a hook which is gone may be gone.
pub(super) fn accept(host: Host, project: &Path) {
    if let Some(at) = clock::now() {
        hook_runs::intend(host, project, &Intent::Removed { at });
    }
}

/// A hook that last recorded in another store, or went by another policy file, than the project's.
pub(super) fn elsewhere(
    host: Host,
    project: &Path,
    args: &Doctor,
    address: Option<&Address>,
) -> Vec<Finding> {
    let Some(last) = hook_runs::last(host, project) else { return Vec::new() };
    let flags = installed_flags(host, project);
    let given = |flag: &str| flags.iter().any(|word| word == flag);
    let mut found = Vec::new();
    let here = address.map(hook_runs::shown).filter(|here| !same(here, &last.run.store));
    if let Some(here) = here.filter(|_| args.who.store.store.is_none() && !given("--store")) {
        let there = line(&last.run.store, 200);
        let what =
            format!("{}'s hook recorded in {there} at {}, not in {here}", host.shown(), moment(last.at));
        let advice =
            format!("look there with --store {there}, or unset FLYBALL_STORE where the host is started");
        found.push(Finding::wrong("environment", what, advice));
    }
    let policies = last.run.policy.zip(load::policy_file(project)).filter(|(used, own)| used != own);
    if let Some((used, own)) = policies.filter(|_| !given("--policy")) {
        let what = format!(
            "{}'s hook used {} at {}, not the project's {}",
            host.shown(),
            used.display(),
            moment(last.at),
            own.display()
        );
        found.push(Finding::wrong("policy", what, "keep one policy, at the root of the project"));
    }
    found
}

/// Whether two names of a store mean the same one.
fn same(one: &str, other: &str) -> bool {
    let real = |text: &str| {
        let path = PathBuf::from(text.strip_prefix("sqlite:")?);
        path.canonicalize().ok()
    };
    one == other || real(one).is_some_and(|path| real(other) == Some(path))
}

/// Variables of this environment that choose the store or change the policy.
pub(super) fn environment() -> Option<Finding> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut names: Vec<String> = variables
        .filter(|(name, value)| {
            let policy =
                !matches!(from_environment(std::iter::once((name.clone(), value.clone()))), Ok(None));
            policy || (name == "FLYBALL_STORE" && !value.trim().is_empty())
        })
        .map(|(name, _)| name)
        .collect();
    names.sort();
    (!names.is_empty()).then(|| {
        let what =
            format!("set here, for hooks of hosts that are started from here as well: {}", names.join(", "));
        Finding::ok("environment", what)
    })
}
