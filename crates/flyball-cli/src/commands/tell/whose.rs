//! Which session is meant, if nobody says so: the coding agent's that this runs under, else the one at work here.

use crate::fail::Failure;
use crate::words::{line, typed};
use flyball::Status;
use flyball_adapt::hook::Host;
use flyball_journal::{Desk, Head, Which};

/// How many sessions are looked at.
const LOOKED_AT: usize = 200;
/// Who spoke at most so long before the newest one may be meant as well.
const AT_WORK_MS: u64 = 60 * 60 * 1_000;

/// The session: as named, else as the environment says, else the only one at work in this store.
pub(super) fn session(desk: &dyn Desk, named: Option<String>) -> Result<String, Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    if let Some(session) = named.or_else(|| set("FLYBALL_SESSION")) {
        return Ok(session);
    }
    let mut own = Vec::new();
    let mut hosts = Vec::new();
    for host in Host::ALL {
        let Some(id) = host.session_variable().and_then(set) else { continue };
        let session = host.session(&id);
        hosts.push(host);
        own.extend(desk.load(&session)?.map(|found| found.head));
    }
    if own.is_empty() {
        own = at_work(flyball_view::heads::heads(desk, &[Which::All], LOOKED_AT)?, &hosts);
    }
    match own.as_slice() {
        [only] => Ok(only.session.clone()),
        [] => {
            let what = format!("no hook has told of a session in {}", desk.address());
            let advice = "install one with `flyball hook HOST install`, or name a session with --session";
            Err(Failure::new("session_unknown", "", what, advice))
        }
        several => {
            let names: Vec<String> =
                several.iter().take(5).map(|head| typed(&line(&head.session, 80))).collect();
            let what = format!("{} sessions may be meant: {}", several.len(), names.join(", "));
            Err(Failure::new("session_unclear", "", what, "name one with --session, or set FLYBALL_SESSION"))
        }
    }
}

/// The sessions of hooks that have not ended, from the newest back to those that were at work beside it. If it is known
/// which agent speaks, only its own.
fn at_work(heads: Vec<Head>, speaks: &[Host]) -> Vec<Head> {
    let hosts: &[Host] = if speaks.is_empty() { &Host::ALL } else { speaks };
    let ours = |head: &Head| hosts.iter().any(|host| host.owns(&head.session));
    let mut live: Vec<Head> = heads
        .into_iter()
        .filter(|head| head.glance.status != Status::Ended && head.glance.parent.is_none() && ours(head))
        .collect();
    let newest = live.iter().map(|head| head.updated).max().unwrap_or_default();
    live.retain(|head| newest.saturating_sub(head.updated) <= AT_WORK_MS);
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_journal::Glance;

    fn head(session: &str, updated: u64, status: Status, parent: Option<&str>) -> Head {
        let glance = Glance { status, parent: parent.map(str::to_owned), ..Glance::default() };
        Head { session: session.to_owned(), updated, glance, ..Head::default() }
    }

    #[test]
    fn old_ended_and_foreign_sessions_and_sub_agents_are_not_meant() {
        let hour = AT_WORK_MS;
        let heads = vec![
            head("default", 9 * hour, Status::Running, None),
            head("codex:over", 9 * hour, Status::Ended, None),
            head("claude-code:now/a1", 9 * hour, Status::Running, Some("claude-code:now")),
            head("claude-code:now", 9 * hour, Status::Halted, None),
            head("goose:beside", 8 * hour, Status::Running, None),
            head("claude-code:old", 8 * hour - 1, Status::Running, None),
        ];
        let names = |speaks: &[Host]| -> Vec<String> {
            at_work(heads.clone(), speaks).into_iter().map(|head| head.session).collect()
        };
        assert_eq!(names(&[]), ["claude-code:now", "goose:beside"]);
        assert_eq!(names(&[Host::Goose]), ["goose:beside"]);
        assert_eq!(names(&[Host::Cursor]), [""; 0]);
    }
}
