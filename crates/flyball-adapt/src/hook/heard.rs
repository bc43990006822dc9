//! What a host makes of an answer, from its side: the rules by which it reads stdout, stderr and the exit code.
//!
//! The encoders say what we mean; this says what is understood. A hook is armed only if the two agree.

use super::call::Moment;
use super::host::Host;
use serde_json::{Map, Value};

/// What the host will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Understood {
    /// It goes on.
    GoesOn,
    /// It goes on, and the model reads this.
    Context(String),
    /// It asks its user, and shows this.
    Asks(String),
    /// It does not do it, and the model reads this.
    Refuses(String),
    /// It stops, and the user reads this.
    Stops(String),
    /// It takes the hook for broken, and goes on as if there were none.
    Broken(String),
}

/// Reads an answer as the host does.
#[must_use]
pub fn understood(host: Host, event: &str, stdout: &str, stderr: &str, exit: i32) -> Understood {
    let moment = host.moment(event);
    let heard = Heard { event, moment, out: stdout.trim(), err: stderr.trim(), exit };
    match host {
        Host::ClaudeCode => heard.claude_code(),
        Host::Codex => heard.codex(),
        Host::Gemini => heard.gemini(),
        Host::Copilot => heard.copilot(),
        Host::Cursor => heard.cursor(),
        Host::Goose => heard.goose(),
        Host::Opencode => heard.opencode(),
    }
}

struct Heard<'a> {
    event: &'a str,
    moment: Moment,
    out: &'a str,
    err: &'a str,
    exit: i32,
}

type Object = Map<String, Value>;

fn text<'a>(map: &'a Object, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn broken(what: impl Into<String>) -> Understood {
    Understood::Broken(what.into())
}

fn context(words: Option<&str>) -> Understood {
    words.map_or(Understood::GoesOn, |words| Understood::Context(words.to_owned()))
}

fn refuses(words: Option<&str>) -> Understood {
    words.map_or_else(|| broken("a refusal without a reason"), |words| Understood::Refuses(words.to_owned()))
}

impl Heard<'_> {
    fn object(&self) -> Result<Object, Understood> {
        match serde_json::from_str(self.out) {
            Ok(Value::Object(map)) => Ok(map),
            Ok(_) => Err(broken("JSON, but not an object")),
            Err(error) => Err(broken(format!("no JSON: {error}"))),
        }
    }

    /// Exit code 2 refuses; another one is an error that stops nothing; `{` begins a decision.
    fn claude_code(&self) -> Understood {
        if self.exit == 2 {
            return refuses(Some(self.err));
        }
        if self.out.is_empty() {
            return if self.exit == 0 { Understood::GoesOn } else { broken(self.err) };
        }
        let map = match self.object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return Understood::Stops(text(&map, "stopReason").unwrap_or_default().to_owned());
        }
        let own = map.get("hookSpecificOutput").and_then(Value::as_object);
        if let Some(own) = own
            && text(own, "hookEventName") != Some(self.event)
        {
            return broken("hookSpecificOutput names another event");
        }
        let permission = own.and_then(|own| text(own, "permissionDecision"));
        let reason = own.and_then(|own| text(own, "permissionDecisionReason"));
        match permission {
            Some("deny") => return refuses(reason),
            Some("ask") => return Understood::Asks(reason.unwrap_or_default().to_owned()),
            _ => {}
        }
        if text(&map, "decision") == Some("block") {
            return refuses(text(&map, "reason"));
        }
        context(own.and_then(|own| text(own, "additionalContext")))
    }

    /// As Claude Code, but what it does not know makes the hook fail.
    fn codex(&self) -> Understood {
        if self.exit == 2 {
            return refuses(Some(self.err).filter(|text| !text.is_empty()));
        }
        if self.exit != 0 {
            return broken(format!("exit code {}", self.exit));
        }
        if self.out.is_empty() {
            return Understood::GoesOn;
        }
        let map = match self.object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        let known: &[&str] = match self.moment {
            Moment::BeforeTool => &["decision", "reason", "hookSpecificOutput", "systemMessage"],
            Moment::Stop => {
                &["continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason"]
            }
            Moment::SessionStart => {
                &["continue", "stopReason", "suppressOutput", "systemMessage", "hookSpecificOutput"]
            }
            Moment::AfterTool | Moment::Prompt => &[
                "continue",
                "stopReason",
                "suppressOutput",
                "systemMessage",
                "decision",
                "reason",
                "hookSpecificOutput",
            ],
            _ => &["continue", "stopReason", "suppressOutput", "systemMessage"],
        };
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return broken(format!("unsupported key {key}"));
        }
        let own_known: &[&str] = if self.moment == Moment::BeforeTool {
            &["hookEventName", "permissionDecision", "permissionDecisionReason", "additionalContext"]
        } else {
            &["hookEventName", "additionalContext"]
        };
        if let Some(own) = map.get("hookSpecificOutput").and_then(Value::as_object) {
            if let Some(key) = own.keys().find(|key| !own_known.contains(&key.as_str())) {
                return broken(format!("unsupported key {key}"));
            }
            if let Some(word) = text(own, "permissionDecision").filter(|word| *word != "deny") {
                return broken(format!("unsupported permissionDecision {word}"));
            }
        }
        if text(&map, "decision").is_some_and(|word| word != "block") {
            return broken("unsupported decision");
        }
        self.claude_code()
    }

    /// JSON is read whatever the exit code.
    fn gemini(&self) -> Understood {
        let map = match self.object() {
            Ok(map) => map,
            Err(_) if self.out.is_empty() && self.exit == 0 => return Understood::GoesOn,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return Understood::Stops(text(&map, "stopReason").unwrap_or_default().to_owned());
        }
        match text(&map, "decision") {
            Some("deny" | "block") => return refuses(text(&map, "reason")),
            Some("ask") => {
                return Understood::Asks(text(&map, "systemMessage").unwrap_or_default().to_owned());
            }
            _ => {}
        }
        let own = map.get("hookSpecificOutput").and_then(Value::as_object);
        context(own.and_then(|own| text(own, "additionalContext")))
    }

    /// Before a call any exit code but 0 refuses.
    fn copilot(&self) -> Understood {
        if self.exit != 0 {
            let closed = self.moment == Moment::BeforeTool;
            return if closed { refuses(Some("the hook failed")) } else { broken(self.err) };
        }
        if self.out.is_empty() {
            return Understood::GoesOn;
        }
        let map = match self.object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        let reason = text(&map, "permissionDecisionReason");
        match (self.moment, text(&map, "permissionDecision"), text(&map, "behavior")) {
            (Moment::BeforeTool, Some("deny"), _) => refuses(reason),
            (Moment::BeforeTool, Some("ask"), _) => Understood::Asks(reason.unwrap_or_default().to_owned()),
            (Moment::Permission, _, Some("deny")) => {
                let words = text(&map, "message").unwrap_or_default().to_owned();
                let stops = map.get("interrupt") == Some(&Value::Bool(true));
                if stops { Understood::Stops(words) } else { Understood::Refuses(words) }
            }
            (Moment::Stop, ..) if text(&map, "decision") == Some("block") => refuses(text(&map, "reason")),
            _ => context(text(&map, "additionalContext")),
        }
    }

    fn cursor(&self) -> Understood {
        if self.exit == 2 {
            return refuses(Some("exit code 2"));
        }
        if self.exit != 0 {
            return broken(format!("exit code {}", self.exit));
        }
        let map = match self.object() {
            Ok(map) => map,
            Err(_) if self.out.is_empty() => return Understood::GoesOn,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return Understood::Refuses(text(&map, "user_message").unwrap_or_default().to_owned());
        }
        let words = text(&map, "agent_message");
        match text(&map, "permission") {
            Some("deny") => refuses(words.or_else(|| text(&map, "user_message"))),
            Some("ask") => Understood::Asks(words.unwrap_or_default().to_owned()),
            _ => context(words.or_else(|| text(&map, "additional_context"))),
        }
    }

    /// Only a call and the end of a turn can be refused; anything but silence is no decision.
    fn goose(&self) -> Understood {
        let listens = matches!(self.moment, Moment::BeforeTool | Moment::Stop);
        if !listens {
            return Understood::GoesOn;
        }
        if self.exit == 2 {
            return refuses(Some(self.err).filter(|text| !text.is_empty()));
        }
        let map = self.object().unwrap_or_default();
        match text(&map, "decision") {
            Some("block") => refuses(Some(text(&map, "reason").unwrap_or("denied by plugin hook"))),
            Some("allow") if self.exit == 0 => Understood::GoesOn,
            _ if self.exit == 0 && self.out.is_empty() => Understood::GoesOn,
            _ => broken("no decision"),
        }
    }

    /// Our own plugin.
    fn opencode(&self) -> Understood {
        let map = match self.object() {
            Ok(map) if self.exit == 0 => map,
            Ok(_) => return broken(format!("exit code {}", self.exit)),
            Err(why) => return why,
        };
        let words = text(&map, "message").or_else(|| text(&map, "notice")).unwrap_or_default().to_owned();
        match text(&map, "verdict") {
            Some("allow") => Understood::GoesOn,
            Some("warn") => Understood::Context(words),
            Some("ask") => Understood::Asks(words),
            Some("block") => Understood::Refuses(words),
            Some("halt") => Understood::Stops(words),
            _ => broken("no verdict"),
        }
    }
}
