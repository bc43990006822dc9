//! A person speaks, or what an agent has started: the words that let a session go on are a person's alone.
//!
//! What runs under Flyball, and below the coding agents that it knows, is marked in its environment. The marks of all
//! processes above are read from the system, so that a mark is not lost by taking it out of one's own environment. It
//! keeps an agent from answering itself in passing; one that means harm and runs as the same user can do more, and is
//! kept out by running it as another user.
//!
//! A hook is started by the host itself, which marks the shells of its tools and not its hooks. So a hook below a mark was
//! started by the agent, and the prompt on its stdin is not a person's.

use crate::fail::Failure;
use flyball_adapt::hook::Host;
use flyball_journal::{Address, Claims};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

/// How many processes are looked at, from this one upwards.
const DEPTH: usize = 64;

/// Who may have started a process: a variable of its environment, and the sessions it may not speak for.
struct Mark {
    variable: &'static str,
    /// None: for no session at all.
    host: Option<Host>,
    who: &'static str,
}

const MARKS: [Mark; 9] = [
    Mark { variable: flyball_run::engine::RUN, host: None, who: "a run of Flyball" },
    Mark { variable: flyball_adapt::mcp::MARK, host: None, who: "a server behind `flyball mcp`" },
    Mark { variable: "CLAUDECODE", host: Some(Host::ClaudeCode), who: "Claude Code" },
    Mark { variable: "CODEX_SANDBOX", host: Some(Host::Codex), who: "Codex" },
    Mark { variable: "CODEX_THREAD_ID", host: Some(Host::Codex), who: "Codex" },
    Mark { variable: "COPILOT_AGENT_SESSION_ID", host: Some(Host::Copilot), who: "Copilot CLI" },
    Mark { variable: "GEMINI_CLI", host: Some(Host::Gemini), who: "Gemini CLI" },
    Mark { variable: "CURSOR_AGENT", host: Some(Host::Cursor), who: "Cursor's agent" },
    Mark { variable: "OPENCODE", host: Some(Host::Opencode), who: "opencode" },
];

/// An error if an agent speaks for itself in a session.
pub(crate) fn speaks(session: &str) -> Result<(), Failure> {
    match started_by(|host| host.is_none_or(|host| host.owns(session))) {
        Some(who) => Err(refused(who)),
        None => Ok(()),
    }
}

/// An error if a coding agent speaks in the session of its own hook, or a program of a run in the session of that run.
pub(crate) fn speaks_in_its_own(session: &str) -> Result<(), Failure> {
    let who = started_by(|host| host.is_some_and(|host| host.owns(session)));
    let who = who.or_else(|| started_by_run_of(session).then_some("a run of Flyball"));
    who.map_or(Ok(()), |who| Err(refused(who)))
}

/// Whether the run of a session has started this process: its mark is the folder of the run, named after the session.
fn started_by_run_of(session: &str) -> bool {
    let own = std::env::var_os(flyball_run::engine::RUN).map(OsString::into_vec);
    let above = above(std::process::id())
        .filter_map(|environ| value(&environ, flyball_run::engine::RUN).map(<[u8]>::to_vec));
    let runs: Vec<Vec<u8>> = own.into_iter().chain(above).collect();
    // A branch is a session below the one of its run.
    let ends = session.match_indices('/').map(|(at, _)| at).chain([session.len()]);
    let names: Vec<String> =
        ends.filter_map(|end| session.get(..end)).map(Address::run_folder_name).collect();
    let is_of = |run: &[u8]| {
        let folder = Path::new(OsStr::from_bytes(run)).file_name();
        folder.is_some_and(|folder| names.iter().any(|name| folder == name.as_str()))
    };
    runs.iter().any(|run| is_of(run))
}

/// An error if any agent that is known speaks: who guards it is not for it to say.
pub(crate) fn speaks_at_all() -> Result<(), Failure> {
    started_by(|_| true).map_or(Ok(()), |who| Err(refused(who)))
}

/// Whether an agent that is known has started this process.
pub(crate) fn is_below_an_agent() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| started_by(|_| true).is_some())
}

/// Whether the agent has started this hook of its host by itself. opencode marks its hooks too; there the shells of its
/// tools are known by the variable that our plugin sets for them.
fn is_below_a_tool(host: Host) -> bool {
    if host != Host::Opencode {
        return is_below_an_agent();
    }
    let of_a_tool = |environ: &[u8]| {
        let session = value(environ, "FLYBALL_SESSION");
        session.is_some_and(|session| session.starts_with(b"opencode:"))
    };
    let own = std::env::var("FLYBALL_SESSION").is_ok_and(|session| host.owns(&session));
    own || started_by(|marked| marked != Some(Host::Opencode)).is_some()
        || above(std::process::id()).any(|environ| of_a_tool(&environ))
}

/// Records what a hook was told about people as the agent's own claim, if the agent has started the hook by itself.
/// Says whether it has.
pub(crate) fn settle_claims(host: Host, events: &mut [Value]) -> bool {
    let is = |event: &Value, field: &str, word: &str| event.get(field).is_some_and(|value| value == word);
    let of_a_person = |event: &Value| match event.get("type").and_then(Value::as_str) {
        Some("user.message") => is(event, "origin", "human"),
        Some("tool.denied") => is(event, "by", "human"),
        _ => false,
    };
    if !events.iter().any(of_a_person) || !is_below_a_tool(host) {
        return false;
    }
    for event in events {
        if let Some(fields) = event.as_object_mut() {
            Claims::of_agent().with_time().settle_fields(fields);
        }
    }
    true
}

fn refused(who: &str) -> Failure {
    Failure::new(
        "agent_speaks",
        "",
        format!("this was started by {who}, and an agent does not answer for a person"),
        "a person does this in a terminal of their own, or on the page of `flyball serve`",
    )
}

/// Who has started this process or one above it, among those that concern us.
fn started_by(concerns: impl Fn(Option<Host>) -> bool) -> Option<&'static str> {
    let marks: Vec<&Mark> = MARKS.iter().filter(|mark| concerns(mark.host)).collect();
    let own = marks.iter().find(|mark| std::env::var_os(mark.variable).is_some());
    own.or_else(|| {
        let mut above = above(std::process::id());
        above.find_map(|environ| marks.iter().find(|mark| has(&environ, mark.variable)))
    })
    .map(|mark| mark.who)
}

fn has(environ: &[u8], variable: &str) -> bool {
    value(environ, variable).is_some()
}

/// The value of a variable in an environment.
fn value<'a>(environ: &'a [u8], variable: &str) -> Option<&'a [u8]> {
    let mut entries = environ.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
}

/// The environments with which a process and those above it were started, as far as they can be read.
fn above(pid: u32) -> impl Iterator<Item = Vec<u8>> {
    let parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may hold anything; the parent is the second word behind it.
        let pid = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (pid > 0).then_some(pid)
    };
    std::iter::successors(Some(pid), parent)
        .take(DEPTH)
        .map(|pid| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_whole_name_of_a_variable() {
        let environ = b"A=1\0CLAUDECODE=1\0FLYBALL_RUN_NOT=1\0";
        assert!(has(environ, "CLAUDECODE"));
        assert!(!has(environ, flyball_run::engine::RUN));
        assert!(!has(environ, "CLAUDE"));
        assert!(!has(b"", "CLAUDECODE"));
    }

    #[test]
    fn a_process_has_others_above_it() {
        assert!(above(std::process::id()).count() >= 2);
        assert_eq!(above(1).count(), 1);
    }
}
