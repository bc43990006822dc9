//! Names of sessions and ids of events, made of what a host calls them: safe to type and of bounded length.

use super::host::Host;
use flyball::Fingerprint;
use flyball::limits::NAME_BYTES;

/// The longest part of a name that a host may choose, in bytes.
const PART_BYTES: usize = 160;

/// The session of a host's session, or of a sub-agent inside it.
pub(super) fn session(host: Host, id: &str, agent: Option<&str>) -> String {
    let id = part(if id.is_empty() { "unknown" } else { id });
    match agent.filter(|agent| !agent.is_empty()) {
        Some(agent) => format!("{}:{id}/{}", host.as_str(), part(agent)),
        None => format!("{}:{id}", host.as_str()),
    }
}

/// The id of an event: the same call of the same hook has the same id.
pub(super) fn event_id(host: Host, key: &str, event: &str) -> String {
    format!("{}:{}:{event}", host.as_str(), part(key))
}

/// A name with nothing in it that a shell or a terminal would take for something else. What is too long keeps its
/// beginning, and a fingerprint of the whole.
pub(super) fn part(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@' | '/');
    let clean: String = text.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if clean.len() <= PART_BYTES && clean == text {
        return clean;
    }
    let head: String = clean.chars().take(PART_BYTES - 17).collect();
    format!("{head}-{}", Fingerprint::of_text(text))
}

/// A name of a tool or a call as the host writes it, unless it is too long for the contract.
pub(super) fn bounded(text: &str) -> String {
    if text.len() <= NAME_BYTES { text.to_owned() } else { part(text) }
}

#[cfg(test)]
mod tests {
    use super::{Host, part, session};

    #[test]
    fn names_are_bounded_safe_and_tell_sessions_apart() {
        assert_eq!(session(Host::Codex, "0199-ab", None), "codex:0199-ab");
        assert_eq!(session(Host::ClaudeCode, "s1", Some("a2")), "claude-code:s1/a2");
        assert_eq!(session(Host::Goose, "", None), "goose:unknown");
        let long = "x".repeat(5_000);
        assert!(part(&long).len() <= 160);
        assert_ne!(part(&long), part(&"x".repeat(5_001)));
        let odd = part("a b;$(rm)\u{1b}[31m");
        assert!(odd.chars().all(|c| c.is_ascii_graphic() && !"();$".contains(c)), "{odd}");
        assert_ne!(part("a b"), part("a;b"));
    }
}
