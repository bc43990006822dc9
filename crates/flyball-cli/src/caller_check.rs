//! Distinguishes a person's command from one started by an agent: only a person may approve or release a session.
//!
//! Flyball and the coding agents it knows mark the environments of the processes they start. The environments of all
//! ancestor processes are read from the system, so removing the mark from one's own environment does not help. This
//! keeps an agent from casually approving its own actions; a malicious agent running as the same user can do more and
//! must be run as another user.
//!
//! A host starts its hooks itself and marks only the shells of its tools. A hook below such a mark was therefore
//! started by the agent, and the prompt on its stdin does not come from a person.

use crate::error::CliError;
use flyball_integrations::hook::Host;
use flyball_store::{ClaimPolicy, StoreAddress};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

/// Maximum number of ancestor processes inspected.
const MAX_ANCESTORS: usize = 64;

/// An environment variable that marks processes started by an agent.
struct AgentMarker {
    variable: &'static str,
    /// The host whose sessions the process may not act on; `None` means all sessions.
    host: Option<Host>,
    agent_name: &'static str,
}

const AGENT_MARKERS: [AgentMarker; 9] = [
    AgentMarker { variable: flyball_runner::engine::RUN_DIR_VAR, host: None, agent_name: "a run of Flyball" },
    AgentMarker {
        variable: flyball_integrations::mcp::PROXY_MARKER_VARIABLE,
        host: None,
        agent_name: "a server behind `flyball mcp`",
    },
    AgentMarker { variable: "CLAUDECODE", host: Some(Host::ClaudeCode), agent_name: "Claude Code" },
    AgentMarker { variable: "CODEX_SANDBOX", host: Some(Host::Codex), agent_name: "Codex" },
    AgentMarker { variable: "CODEX_THREAD_ID", host: Some(Host::Codex), agent_name: "Codex" },
    AgentMarker {
        variable: "COPILOT_AGENT_SESSION_ID",
        host: Some(Host::Copilot),
        agent_name: "Copilot CLI",
    },
    AgentMarker { variable: "GEMINI_CLI", host: Some(Host::Gemini), agent_name: "Gemini CLI" },
    AgentMarker { variable: "CURSOR_AGENT", host: Some(Host::Cursor), agent_name: "Cursor's agent" },
    AgentMarker { variable: "OPENCODE", host: Some(Host::Opencode), agent_name: "opencode" },
];

/// Fails if an agent acts on a session it may not act on.
pub(crate) fn require_person(session: &str) -> Result<(), CliError> {
    match find_agent(|host| host.is_none_or(|host| host.owns_session(session))) {
        Some(who) => Err(agent_not_allowed(who)),
        None => Ok(()),
    }
}

/// Fails if a coding agent acts on its own hook's session, or a program of a run on that run's session.
pub(crate) fn reject_own_session(session: &str) -> Result<(), CliError> {
    let who = find_agent(|host| host.is_some_and(|host| host.owns_session(session)));
    let who = who.or_else(|| is_started_by_run(session).then_some("a run of Flyball"));
    who.map_or(Ok(()), |who| Err(agent_not_allowed(who)))
}

/// Whether the session's run started this process. The mark is the run's folder, named after the session.
fn is_started_by_run(session: &str) -> bool {
    let own = std::env::var_os(flyball_runner::engine::RUN_DIR_VAR).map(OsString::into_vec);
    let above = ancestor_environments(std::process::id()).filter_map(|environ| {
        variable_value(&environ, flyball_runner::engine::RUN_DIR_VAR).map(<[u8]>::to_vec)
    });
    let runs: Vec<Vec<u8>> = own.into_iter().chain(above).collect();
    // A branch's session is named below its run's session.
    let ends = session.match_indices('/').map(|(at, _)| at).chain([session.len()]);
    let names: Vec<String> =
        ends.filter_map(|end| session.get(..end)).map(StoreAddress::run_folder_name).collect();
    let is_of = |run: &[u8]| {
        let folder = Path::new(OsStr::from_bytes(run)).file_name();
        folder.is_some_and(|folder| names.iter().any(|name| folder == name.as_str()))
    };
    runs.iter().any(|run| is_of(run))
}

/// Fails if any known agent started this process: agents may not change their own supervision.
pub(crate) fn require_no_agent() -> Result<(), CliError> {
    find_agent(|_| true).map_or(Ok(()), |who| Err(agent_not_allowed(who)))
}

/// Whether a known agent started this process.
pub(crate) fn is_started_by_agent() -> bool {
    static CACHED: OnceLock<bool> = OnceLock::new();
    *CACHED.get_or_init(|| find_agent(|_| true).is_some())
}

/// Whether the agent, not the host, started this hook. opencode marks its hooks too; the shells of its tools are
/// recognized by the variable our plugin sets for them.
fn is_started_by_tool(host: Host) -> bool {
    if host != Host::Opencode {
        return is_started_by_agent();
    }
    let of_a_tool = |environ: &[u8]| {
        let session = variable_value(environ, "FLYBALL_SESSION");
        session.is_some_and(|session| session.starts_with(b"opencode:"))
    };
    let own = std::env::var("FLYBALL_SESSION").is_ok_and(|session| host.owns_session(&session));
    own || find_agent(|marked| marked != Some(Host::Opencode)).is_some()
        || ancestor_environments(std::process::id()).any(|environ| of_a_tool(&environ))
}

/// Downgrades claims about people in a hook's events to the agent's own claims if the agent started the hook. Returns
/// whether it did.
pub(crate) fn apply_agent_claims(host: Host, events: &mut [Value]) -> bool {
    let is = |event: &Value, field: &str, word: &str| event.get(field).is_some_and(|value| value == word);
    let claims_person = |event: &Value| match event.get("type").and_then(Value::as_str) {
        Some("user.message") => is(event, "origin", "human"),
        Some("tool.denied") => is(event, "by", "human"),
        _ => false,
    };
    if !events.iter().any(claims_person) || !is_started_by_tool(host) {
        return false;
    }
    for event in events {
        if let Some(fields) = event.as_object_mut() {
            ClaimPolicy::for_agent().with_sender_time().replace_claims_in(fields);
        }
    }
    true
}

fn agent_not_allowed(who: &str) -> CliError {
    CliError::new(
        "agent_not_allowed",
        "",
        format!("this was started by {who}; only a person may do this"),
        "run it in your own terminal, or use the dashboard of `flyball serve`",
    )
}

/// The agent that started this process or one of its ancestors, among the markers that match.
fn find_agent(concerns: impl Fn(Option<Host>) -> bool) -> Option<&'static str> {
    let marks: Vec<&AgentMarker> = AGENT_MARKERS.iter().filter(|mark| concerns(mark.host)).collect();
    let own = marks.iter().find(|mark| std::env::var_os(mark.variable).is_some());
    own.or_else(|| {
        let mut above = ancestor_environments(std::process::id());
        above.find_map(|environ| marks.iter().find(|mark| has_variable(&environ, mark.variable)))
    })
    .map(|mark| mark.agent_name)
}

fn has_variable(environ: &[u8], variable: &str) -> bool {
    variable_value(environ, variable).is_some()
}

/// The value of a variable in an environment.
fn variable_value<'a>(environ: &'a [u8], variable: &str) -> Option<&'a [u8]> {
    let mut entries = environ.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
}

/// The initial environments of a process and its ancestors, as far as they are readable.
fn ancestor_environments(pid: u32) -> impl Iterator<Item = Vec<u8>> {
    let parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; the parent is the second field after it.
        let pid = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (pid > 0).then_some(pid)
    };
    std::iter::successors(Some(pid), parent)
        .take(MAX_ANCESTORS)
        .map(|pid| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_matches_the_whole_variable_name() {
        let environ = b"A=1\0CLAUDECODE=1\0FLYBALL_RUN_NOT=1\0";
        assert!(has_variable(environ, "CLAUDECODE"));
        assert!(!has_variable(environ, flyball_runner::engine::RUN_DIR_VAR));
        assert!(!has_variable(environ, "CLAUDE"));
        assert!(!has_variable(b"", "CLAUDECODE"));
    }

    #[test]
    fn process_has_ancestors() {
        assert!(ancestor_environments(std::process::id()).count() >= 2);
        assert_eq!(ancestor_environments(1).count(), 1);
    }
}
