//! Compares recorded hook runs with the current settings: hooks that are gone, or that record elsewhere.

use super::DoctorCheck;
use super::hook_checks::OptionalStore;
use crate::args::DoctorArgs;
use crate::commands::hook::installed_flags;
use crate::formatting::{local_time, single_line};
use crate::hook_runs::{self, InstallRecord};
use crate::{clock, policy_loader};
use flyball::policy::from_environment;
use flyball_integrations::hook::Host;
use flyball_integrations::hook::settings::settings_paths;
use flyball_store::{SessionFilter, StoreAddress};
use std::path::{Path, PathBuf};

/// Maximum number of sessions searched for the last one of a host.
const MAX_SESSIONS_CHECKED: usize = 10_000;

/// Reports a hook that was installed or ran but that the host will no longer call. `broken`: the hook is still in the
/// settings, and why it does not work is already reported.
pub(super) fn check_missing_hook(
    host: Host,
    project: &Path,
    store: OptionalStore<'_>,
    broken: bool,
) -> Option<DoctorCheck> {
    let intents: Vec<InstallRecord> = [project, Path::new("")]
        .into_iter()
        .filter_map(|place| hook_runs::install_record(host, place))
        .collect();
    let removed = intents.iter().filter_map(|intent| match intent {
        InstallRecord::Removed { at } => Some(*at),
        InstallRecord::Installed { .. } => None,
    });
    let removed = removed.max().unwrap_or_default();
    let installed = intents.iter().find_map(|intent| match intent {
        InstallRecord::Installed { at, settings } => Some((*at, settings)),
        InstallRecord::Removed { .. } => None,
    });
    let ran = hook_runs::last_run(host, project).map(|last| last.at).max(last_recorded(host, store));
    let own = settings_paths(host).first().map_or_else(PathBuf::new, |place| project.join(place.project));
    let settings = installed.map_or(&own, |(_, settings)| settings).display();
    let message = match (ran.filter(|at| *at > removed), installed.filter(|(at, _)| *at > removed)) {
        (Some(at), _) if broken => {
            format!("{} last ran Flyball's hook at {}", host.display_name(), local_time(at))
        }
        (None, _) if broken => return None,
        (Some(at), _) => format!(
            "{} is NOT ARMED: it last ran Flyball's hook at {}; the hook is no longer in {settings}",
            host.display_name(),
            local_time(at)
        ),
        (None, Some((at, _))) => format!(
            "{} is NOT ARMED: the hook was installed in {settings} at {} and is no longer there",
            host.display_name(),
            local_time(at)
        ),
        (None, None) => return None,
    };
    let help = format!(
        "flyball hook {} install; if you removed it yourself: flyball doctor --accept",
        host.as_str()
    );
    Some(DoctorCheck::wrong("hook", message, help))
}

/// Time of the last event of the host's sessions in the project's store.
fn last_recorded(host: Host, store: OptionalStore<'_>) -> Option<u64> {
    let rows = store?.list_sessions(SessionFilter::All, MAX_SESSIONS_CHECKED).ok()?;
    let own =
        rows.iter().filter(|row| host.owns_session(&row.session) && !row.session.contains(":flyball-test-"));
    own.map(|row| row.updated).max()
}

/// Accepts that a hook was removed.
pub(super) fn accept_removal(host: Host, project: &Path) {
    if let Some(at) = clock::now() {
        hook_runs::record_install(host, project, &InstallRecord::Removed { at });
    }
}

/// Reports a hook that last used another store or policy file than the project's.
pub(super) fn check_other_store(
    host: Host,
    project: &Path,
    args: &DoctorArgs,
    address: Option<&StoreAddress>,
) -> Vec<DoctorCheck> {
    let Some(last) = hook_runs::last_run(host, project) else { return Vec::new() };
    let flags = installed_flags(host, project);
    let given = |flag: &str| flags.iter().any(|word| word == flag);
    let mut found = Vec::new();
    let here = address.map(hook_runs::display_address).filter(|here| !is_same_store(here, &last.run.store));
    if let Some(here) = here.filter(|_| args.common.store.store.is_none() && !given("--store")) {
        let there = single_line(&last.run.store, 200);
        let message = format!(
            "{}'s hook last recorded to {there} at {}, not to {here}",
            host.display_name(),
            local_time(last.at)
        );
        let help = format!("use --store {there}, or unset FLYBALL_STORE where the host is started");
        found.push(DoctorCheck::wrong("environment", message, help));
    }
    let policies = last.run.policy.zip(policy_loader::policy_file(project)).filter(|(used, own)| used != own);
    if let Some((used, own)) = policies.filter(|_| !given("--policy")) {
        let message = format!(
            "{}'s hook used {} at {}, not the project's {}",
            host.display_name(),
            used.display(),
            local_time(last.at),
            own.display()
        );
        found.push(DoctorCheck::wrong("policy", message, "keep one policy file, at the project root"));
    }
    found
}

/// Whether two addresses mean the same store.
fn is_same_store(one: &str, other: &str) -> bool {
    let real = |text: &str| {
        let path = PathBuf::from(text.strip_prefix("sqlite:")?);
        path.canonicalize().ok()
    };
    one == other || real(one).is_some_and(|path| real(other) == Some(path))
}

/// Lists environment variables that choose the store or change the policy.
pub(super) fn check_environment() -> Option<DoctorCheck> {
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
        let message =
            format!("set in this environment and inherited by hosts started from it: {}", names.join(", "));
        DoctorCheck::ok("environment", message)
    })
}
