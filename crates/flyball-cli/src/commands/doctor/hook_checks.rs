//! Checks whether coding agents' hooks are armed: the host calls them, and they stop a known loop.

use super::DoctorCheck;
use super::hook_run_checks;
use crate::args::DoctorArgs;
use crate::commands::hook::{
    HookHealth, check_hook, redirecting_variables, redirection_text, repository_root,
};
use crate::error::CliError;
use crate::{policy_loader, store};
use flyball_integrations::hook::Host;
use flyball_store::AdminStore;
use std::path::Path;
use std::sync::Arc;

/// One check for each hook installed now or earlier, in this project or for this user; a note if there is none.
pub(super) fn check_hooks(args: &DoctorArgs) -> Result<Vec<DoctorCheck>, CliError> {
    let here = std::env::current_dir()?;
    let root = repository_root(&here);
    let address = store::store_address(&args.common.store).ok();
    let store = address.as_ref().and_then(|address| store::open_existing(address).ok());
    let mut found = Vec::new();
    for host in Host::ALL {
        let before = found.len();
        let armed = check_installed(host, &mut found);
        if args.accept && !armed && found.len() == before {
            hook_run_checks::accept_removal(host, &root);
        }
        if !armed {
            let broken = found.len() > before;
            found.extend(hook_run_checks::check_missing_hook(
                host,
                &root,
                store.as_ref().map(Arc::as_ref),
                broken,
            ));
        }
        found.extend(redirecting_variables(host, &root).iter().map(|variable| {
            let help = format!(
                "remove it there; to use another store or policy, pass it when installing the hook: \
                 flyball hook --store URL {} install",
                host.as_str()
            );
            DoctorCheck::wrong("environment", redirection_text(variable), help)
        }));
        found.extend(hook_run_checks::check_other_store(host, &root, args, address.as_ref()));
    }
    if found.is_empty() {
        let message = "no coding agent calls Flyball here; to add a hook: `flyball hook HOST install`";
        found.push(DoctorCheck::ok("hook", message));
    }
    found.extend(check_nearer_policy(&here, &root, args));
    found.extend(hook_run_checks::check_environment());
    Ok(found)
}

/// Checks the installed hooks of a host. Returns whether at least one is armed.
fn check_installed(host: Host, found: &mut Vec<DoctorCheck>) -> bool {
    let mut armed = false;
    for user in [false, true] {
        let flag = if user { "--user" } else { "--project" };
        match check_hook(host, user) {
            Ok(HookHealth::Armed(message)) => {
                armed = true;
                found.push(DoctorCheck::ok("hook", format!("{} is armed: {message}", host.display_name())));
            }
            Ok(HookHealth::Broken(message, help)) => {
                let help = help.unwrap_or_else(|| format!("flyball hook {} install {flag}", host.as_str()));
                found.push(DoctorCheck::wrong(
                    "hook",
                    format!("{} is NOT ARMED: {message}", host.display_name()),
                    help,
                ));
            }
            // Without a home folder there are no user settings, which is not an error.
            Ok(HookHealth::Absent(_)) => {}
            Err(failure) if failure.diagnostics.iter().any(|diagnostic| diagnostic.code == "hook_home") => {}
            Err(failure) => found.push(DoctorCheck::failed("hook", &failure)),
        }
    }
    armed
}

/// Reports a policy file nearer to this folder than the project's.
fn check_nearer_policy(here: &Path, root: &Path, args: &DoctorArgs) -> Option<DoctorCheck> {
    if args.common.policy.policy.is_some() {
        return None;
    }
    let (near, own) = (policy_loader::policy_file(here)?, policy_loader::policy_file(root)?);
    (near != own).then(|| {
        let message = format!(
            "in this folder {} takes precedence over the project's {}",
            near.display(),
            own.display()
        );
        DoctorCheck::wrong("policy", message, "keep one policy file, at the project root")
    })
}

/// The store used by a person's commands, for checks that need one.
pub(super) type OptionalStore<'a> = Option<&'a dyn AdminStore>;
