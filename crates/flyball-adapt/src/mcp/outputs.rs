//! Large outputs of tools: stored for the session, and read in slices with a tool of our own.

use super::results::Replaced;
use crate::splice::{addition, elements, field, place, replaced};
use flyball::output::{Hints, OutputLimits, cut_text, preview_text};
use flyball_journal::{OutputRef, Outputs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The tool that reads a large output.
pub(super) const READ_TOOL: &str = "flyball_read_output";
/// How many characters are read at a time unless the client says otherwise, and at most.
const SLICE: u64 = 20_000;
const MOST_SLICE: u64 = 100_000;
/// How many lines a search gives.
const MATCHES: usize = 50;

/// The large outputs that one proxy has stored.
#[derive(Default)]
pub(super) struct Written {
    by_session: Mutex<BTreeMap<String, BTreeSet<OutputRef>>>,
    /// Tools that have declared what their structured content looks like.
    with_schema: Mutex<BTreeSet<String>>,
    count: AtomicU64,
}

/// A text that was stored, or cut.
pub(super) struct Stored {
    pub(super) replaced: Replaced,
    /// It is the first of its session.
    pub(super) is_first: bool,
}

impl Written {
    /// Stores a text if it is large.
    pub(super) fn store(
        &self,
        outputs: &Outputs,
        session: &str,
        text: &str,
        limits: &OutputLimits,
    ) -> Option<Stored> {
        let (stored, rest) = outputs.store(session, text, limits)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        let output = json!({"ref": stored.reference, "preview": stored.preview, "bytes": stored.bytes,
            "chars": stored.chars, "read_with": READ_TOOL});
        let reference = stored.reference.as_deref().and_then(OutputRef::parse);
        let Some(reference) = reference else {
            let why = stored.error.as_deref().unwrap_or("it was not stored");
            let text = cut_text(&rest.unwrap_or_default(), stored.chars, why);
            return Some(Stored { replaced: Replaced { text, output }, is_first: false });
        };
        let hints = hints(outputs, &reference);
        let text = preview_text(&stored.preview, stored.chars, &hints);
        let mut all = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(session.to_owned()).or_default();
        let is_first = own.is_empty();
        own.insert(reference);
        Some(Stored { replaced: Replaced { text, output }, is_first })
    }

    /// How many texts were stored or cut so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there is something to read in a session.
    pub(super) fn has_any(&self, session: &str) -> bool {
        let all = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(session).is_some_and(|own| !own.is_empty())
    }

    /// Removes all of them.
    pub(super) fn remove_all(&self, outputs: &Outputs) {
        let all = std::mem::take(&mut *self.by_session.lock().unwrap_or_else(PoisonError::into_inner));
        for reference in all.values().flatten() {
            // What cannot be removed is swept later.
            let _ = outputs.remove(reference);
        }
    }

    /// Takes note of the tools in a list that have declared their structured content.
    pub(super) fn note_schemas(&self, result: &str) {
        let tools = field(result, "tools").and_then(elements).unwrap_or_default();
        let mut known = self.with_schema.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools.into_iter().filter(|tool| field(tool, "outputSchema").is_some()) {
            let name = field(tool, "name").and_then(|name| serde_json::from_str::<String>(name).ok());
            known.extend(name);
        }
    }

    /// Whether a tool has declared its structured content.
    pub(super) fn has_schema(&self, tool: &str) -> bool {
        self.with_schema.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }
}

/// Where a stored output is, and how a client reads it.
fn hints(outputs: &Outputs, reference: &OutputRef) -> Hints {
    let path = outputs.path(reference).map(|path| path.display().to_string());
    Hints {
        place: path.unwrap_or_else(|| reference.to_string()),
        lines: vec![
            format!(
                "Call the tool {READ_TOOL} with {{\"ref\": \"{reference}\", \"offset\": 0}}, or with \"search\""
            ),
            format!("In a shell: flyball output {reference} --offset 0 --limit {SLICE}"),
        ],
    }
}

/// A list of tools with ours at its end, unless another page of it follows.
pub(super) fn with_tool(line: &str, result: &str) -> Option<String> {
    let tools = field(result, "tools")?;
    let is_ours = |tool: &&str| field(tool, "name") == Some(format!("\"{READ_TOOL}\"").as_str());
    let more = field(result, "nextCursor").is_some_and(|cursor| cursor != "null");
    if more || elements(tools)?.iter().any(is_ours) {
        return None;
    }
    let integer = |words: &str| json!({"type": "integer", "minimum": 0, "description": words});
    let tool = json!({
        "name": READ_TOOL,
        "description": "Reads a part of a large tool result that was stored instead of being returned, or searches it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ref": {"type": "string", "description": "The reference from the result."},
                "offset": integer("The first character to read; 0 is the beginning."),
                "limit": integer("How many characters to read; 20000 if it is left out, at most 100000."),
                "search": {"type": "string", "description": "Give the lines that contain this text instead."},
            },
            "required": ["ref"],
        },
        "annotations": {"readOnlyHint": true},
    });
    let end = place(line, tools)?.end.checked_sub(1)?;
    replaced(line, &[(end..end, addition(tools, "", &tool)?)])
}

/// A part of a large output of a session, as the result of a call; and whether there is such an output.
pub(super) fn read(outputs: &Outputs, session: &str, arguments: &Value) -> (bool, Value) {
    match part(outputs, session, arguments) {
        Ok((text, structured)) => {
            let content = json!([{"type": "text", "text": text}]);
            (true, json!({"content": content, "structuredContent": structured, "isError": false}))
        }
        Err(why) => (false, json!({"content": [{"type": "text", "text": why}], "isError": true})),
    }
}

fn part(outputs: &Outputs, session: &str, arguments: &Value) -> Result<(String, Value), String> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let number = |key: &str| arguments.get(key).and_then(Value::as_u64);
    let unknown =
        || "There is no output with this reference in this session; it ends with the session.".to_owned();
    let reference = text("ref").and_then(OutputRef::parse).ok_or_else(unknown)?;
    let failed = |error: std::io::Error| format!("The output cannot be read: {error}");
    if outputs.session_of(&reference).map_err(failed)?.as_deref() != Some(session) {
        return Err(unknown());
    }
    if let Some(needle) = text("search") {
        let found = outputs.search(&reference, needle, MATCHES).map_err(failed)?.ok_or_else(unknown)?;
        let lines = found.iter().map(|found| format!("{}: {}", found.offset, found.text));
        let shown = lines.collect::<Vec<_>>().join("\n");
        let shown = if found.is_empty() { "No line contains it.".to_owned() } else { shown };
        return Ok((shown, json!({"matches": found})));
    }
    let limit = number("limit").unwrap_or(SLICE).clamp(1, MOST_SLICE);
    let slice = outputs.slice(&reference, number("offset").unwrap_or(0), limit).map_err(failed)?;
    let slice = slice.ok_or_else(unknown)?;
    let rest = slice.next.map(|next| {
        format!("\n[characters {}-{next} of {}; read on with offset {next}]", slice.offset, slice.chars)
    });
    Ok((format!("{}{}", slice.text, rest.unwrap_or_default()), json!(slice)))
}
