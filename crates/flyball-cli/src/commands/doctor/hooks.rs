//! Whether the hooks of coding agents are armed: whether the host will call them, and whether they stop a known loop.

use super::Finding;
use super::runs;
use crate::args::Doctor;
use crate::commands::hook::{Installed, check, project, redirected, told};
use crate::fail::Failure;
use crate::{load, store};
use flyball_adapt::hook::Host;
use flyball_journal::Desk;
use std::path::Path;
use std::sync::Arc;

/// One finding for each hook that is installed in this project or for this user, or that was once; one that says so if
/// there is none.
pub(super) fn all(args: &Doctor) -> Result<Vec<Finding>, Failure> {
    let here = std::env::current_dir()?;
    let root = project(&here);
    let address = store::address(&args.who.store).ok();
    let desk = address.as_ref().and_then(|address| store::existing(address).ok());
    let mut found = Vec::new();
    for host in Host::ALL {
        let before = found.len();
        let armed = installed(host, &mut found);
        if args.accept && !armed && found.len() == before {
            runs::accept(host, &root);
        }
        if !armed {
            let broken = found.len() > before;
            found.extend(runs::missing(host, &root, desk.as_ref().map(Arc::as_ref), broken));
        }
        found.extend(redirected(host, &root).iter().map(|variable| {
            let advice = format!(
                "remove it there; to use another store or policy, install the hook with it: flyball hook --store URL {} install",
                host.as_str()
            );
            Finding::wrong("environment", told(variable), advice)
        }));
        found.extend(runs::elsewhere(host, &root, args, address.as_ref()));
    }
    if found.is_empty() {
        let what = "no coding agent calls Flyball here; `flyball hook HOST install` makes it";
        found.push(Finding::ok("hook", what));
    }
    found.extend(nearer_policy(&here, &root, args));
    found.extend(runs::environment());
    Ok(found)
}

/// What is installed for a host. Whether at least one hook is armed.
fn installed(host: Host, found: &mut Vec<Finding>) -> bool {
    let mut armed = false;
    for user in [false, true] {
        let flag = if user { "--user" } else { "--project" };
        match check(host, user) {
            Ok(Installed::Armed(what)) => {
                armed = true;
                found.push(Finding::ok("hook", format!("{} is armed: {what}", host.shown())));
            }
            Ok(Installed::Broken(what, help)) => {
                let advice = help.unwrap_or_else(|| format!("flyball hook {} install {flag}", host.as_str()));
                found.push(Finding::wrong("hook", format!("{} is NOT ARMED: {what}", host.shown()), advice));
            }
            // Without a home there are no settings of the user, and what is not there is not wrong.
            Ok(Installed::Absent(_)) => {}
            Err(failure) if failure.complaints.iter().any(|complaint| complaint.code == "hook_home") => {}
            Err(failure) => found.push(Finding::failed("hook", &failure)),
        }
    }
    armed
}

/// A policy file that is nearer to this folder than the project's own.
fn nearer_policy(here: &Path, root: &Path, args: &Doctor) -> Option<Finding> {
    if args.who.policy.policy.is_some() {
        return None;
    }
    let (near, own) = (load::policy_file(here)?, load::policy_file(root)?);
    (near != own).then(|| {
        let what =
            format!("{} is nearer to this folder than the project's {}", near.display(), own.display());
        Finding::wrong("policy", what, "keep one policy, at the root of the project")
    })
}

/// The store that a person's commands use, for what needs one.
pub(super) type Store<'a> = Option<&'a dyn Desk>;
