//! Finds the session if none is named: the coding agent's that started this process, else the only active one.

use crate::error::CliError;
use crate::formatting::{single_line, typed};
use flyball::SessionPhase;
use flyball_integrations::hook::Host;
use flyball_store::{AdminStore, SessionFilter, SessionRow};

/// Maximum number of sessions checked.
const MAX_SESSIONS_CHECKED: usize = 200;
/// Sessions whose last event is at most this much older than the newest session's count as active.
const ACTIVE_WINDOW_MS: u64 = 60 * 60 * 1_000;

/// The session as named, else from the environment, else the only active one in this store.
pub(super) fn find_session(admin_store: &dyn AdminStore, named: Option<String>) -> Result<String, CliError> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    if let Some(session) = named.or_else(|| set("FLYBALL_SESSION")) {
        return Ok(session);
    }
    let mut own = Vec::new();
    let mut hosts = Vec::new();
    for host in Host::ALL {
        let Some(id) = host.session_variable().and_then(set) else { continue };
        let session = host.session_name(&id);
        hosts.push(host);
        own.extend(admin_store.load(&session)?.map(|found| found.head));
    }
    if own.is_empty() {
        own = active_sessions(
            flyball_view::session_list::list_sessions(
                admin_store,
                &[SessionFilter::All],
                MAX_SESSIONS_CHECKED,
            )?,
            &hosts,
        );
    }
    match own.as_slice() {
        [only] => Ok(only.session.clone()),
        [] => {
            let what = format!("no hook has recorded a session in {}", admin_store.address());
            let help = "install one with `flyball hook HOST install`, or name a session with --session";
            Err(CliError::new("session_unknown", "", what, help))
        }
        several => {
            let names: Vec<String> =
                several.iter().take(5).map(|row| typed(&single_line(&row.session, 80))).collect();
            let what = format!("{} sessions are active: {}", several.len(), names.join(", "));
            Err(CliError::new(
                "session_ambiguous",
                "",
                what,
                "name one with --session, or set FLYBALL_SESSION",
            ))
        }
    }
}

/// The open hook sessions, newest first, that were active together with the newest. If the calling agent is known, only
/// its own.
fn active_sessions(rows: Vec<SessionRow>, speaks: &[Host]) -> Vec<SessionRow> {
    let hosts: &[Host] = if speaks.is_empty() { &Host::ALL } else { speaks };
    let ours = |row: &SessionRow| hosts.iter().any(|host| host.owns_session(&row.session));
    let mut live: Vec<SessionRow> = rows
        .into_iter()
        .filter(|row| row.summary.status != SessionPhase::Ended && row.summary.parent.is_none() && ours(row))
        .collect();
    let newest = live.iter().map(|row| row.updated).max().unwrap_or_default();
    live.retain(|row| newest.saturating_sub(row.updated) <= ACTIVE_WINDOW_MS);
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_store::SessionSummary;

    fn row(session: &str, updated: u64, status: SessionPhase, parent: Option<&str>) -> SessionRow {
        let summary =
            SessionSummary { status, parent: parent.map(str::to_owned), ..SessionSummary::default() };
        SessionRow { session: session.to_owned(), updated, summary, ..SessionRow::default() }
    }

    #[test]
    fn old_ended_and_foreign_sessions_and_sub_agents_are_excluded() {
        let hour = ACTIVE_WINDOW_MS;
        let rows = vec![
            row("default", 9 * hour, SessionPhase::Running, None),
            row("codex:over", 9 * hour, SessionPhase::Ended, None),
            row("claude-code:now/a1", 9 * hour, SessionPhase::Running, Some("claude-code:now")),
            row("claude-code:now", 9 * hour, SessionPhase::Halted, None),
            row("goose:beside", 8 * hour, SessionPhase::Running, None),
            row("claude-code:old", 8 * hour - 1, SessionPhase::Running, None),
        ];
        let names = |speaks: &[Host]| -> Vec<String> {
            active_sessions(rows.clone(), speaks).into_iter().map(|row| row.session).collect()
        };
        assert_eq!(names(&[]), ["claude-code:now", "goose:beside"]);
        assert_eq!(names(&[Host::Goose]), ["goose:beside"]);
        assert_eq!(names(&[Host::Cursor]), [""; 0]);
    }
}
