//! Which hooks of coding agents are installed, and whether they answer.

use super::Finding;
use crate::commands::hook::{Installed, check};
use flyball_adapt::hook::Host;

/// One finding a hook that is installed, in this project or for this user; one that says so if there is none.
pub(super) fn all() -> Vec<Finding> {
    let mut found = Vec::new();
    for host in Host::ALL {
        for user in [false, true] {
            let flag = if user { "--user" } else { "--project" };
            match check(host, user) {
                Ok(Installed::Armed(what)) => {
                    found.push(Finding::ok("hook", format!("{} is armed: {what}", host.shown())));
                }
                Ok(Installed::Broken(what)) => {
                    let advice = format!("flyball hook {} install {flag}", host.as_str());
                    found.push(Finding::wrong(
                        "hook",
                        format!("{} is not armed: {what}", host.shown()),
                        advice,
                    ));
                }
                // Without a home there are no settings of the user, and what is not there is not wrong.
                Ok(Installed::Absent(_)) => {}
                Err(failure) if failure.complaints.iter().any(|complaint| complaint.code == "hook_home") => {}
                Err(failure) => found.push(Finding::failed("hook", &failure)),
            }
        }
    }
    if found.is_empty() {
        let what = "no coding agent calls Flyball here; `flyball hook HOST install` makes it";
        found.push(Finding::ok("hook", what));
    }
    found
}
