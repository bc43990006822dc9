//! Session names and event ids derived from a host's ids: safe to type and of bounded length.

use super::host::Host;
use flyball::Fingerprint;
use flyball::limits::NAME_BYTES;

/// Maximum length of a part chosen by the host, in bytes.
const PART_BYTES: usize = 160;

/// The session name for a host's session or for a sub-agent in it.
pub(super) fn session_name(host: Host, id: &str, agent: Option<&str>) -> String {
    let id = sanitize(if id.is_empty() { "unknown" } else { id });
    match agent.filter(|agent| !agent.is_empty()) {
        Some(agent) => format!("{}:{id}/{}", host.as_str(), sanitize(agent)),
        None => format!("{}:{id}", host.as_str()),
    }
}

/// The id of an event: equal for repeated deliveries of the same hook call.
pub(super) fn event_id(host: Host, key: &str, event: &str) -> String {
    format!("{}:{}:{event}", host.as_str(), sanitize(key))
}

/// Replaces characters that are special to a shell or terminal. A long name keeps its beginning plus a fingerprint of
/// the whole.
pub(super) fn sanitize(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@' | '/');
    let clean: String = text.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if clean.len() <= PART_BYTES && clean == text {
        return clean;
    }
    let head: String = clean.chars().take(PART_BYTES - 17).collect();
    format!("{head}-{}", Fingerprint::of_text(text))
}

/// A tool name or call id as the host writes it, shortened if it exceeds the event limits.
pub(super) fn bounded_name(text: &str) -> String {
    if text.len() <= NAME_BYTES { text.to_owned() } else { sanitize(text) }
}

#[cfg(test)]
mod tests {
    use super::{Host, sanitize, session_name};

    #[test]
    fn session_names_are_bounded_safe_and_distinct() {
        assert_eq!(session_name(Host::Codex, "0199-ab", None), "codex:0199-ab");
        assert_eq!(session_name(Host::ClaudeCode, "s1", Some("a2")), "claude-code:s1/a2");
        assert_eq!(session_name(Host::Goose, "", None), "goose:unknown");
        let long = "x".repeat(5_000);
        assert!(sanitize(&long).len() <= 160);
        assert_ne!(sanitize(&long), sanitize(&"x".repeat(5_001)));
        let odd = sanitize("a b;$(rm)\u{1b}[31m");
        assert!(odd.chars().all(|c| c.is_ascii_graphic() && !"();$".contains(c)), "{odd}");
        assert_ne!(sanitize("a b"), sanitize("a;b"));
    }
}
