//! Large tool outputs: stored per session, and read in slices with Flyball's own tool.

use super::results::LargeText;
use crate::json_patch::{elements, field, inserted_text, range_in, replace_ranges};
use flyball::output::{OutputLimits, ReadHints, preview_text, truncated_text};
use flyball_store::{LargeOutputs, OutputRef};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The name of the tool that reads large outputs.
pub(super) const READ_TOOL: &str = "flyball_read_output";
/// Default and maximum number of characters per read.
const DEFAULT_SLICE_CHARS: u64 = 20_000;
const MAX_SLICE_CHARS: u64 = 100_000;
/// Maximum number of lines that a search returns.
const MAX_MATCHES: usize = 50;

/// The large outputs stored by one proxy.
#[derive(Default)]
pub(super) struct ProxyOutputs {
    by_session: Mutex<BTreeMap<String, BTreeSet<OutputRef>>>,
    /// Tools with an output schema.
    with_schema: Mutex<BTreeSet<String>>,
    count: AtomicU64,
}

/// A text that was stored or truncated.
pub(super) struct ReplacedOutput {
    pub(super) replaced: LargeText,
    /// Whether it is the first in its session.
    pub(super) is_first: bool,
}

impl ProxyOutputs {
    /// Stores a text if it is large.
    pub(super) fn store(
        &self,
        outputs: &LargeOutputs,
        session: &str,
        text: &str,
        limits: &OutputLimits,
    ) -> Option<ReplacedOutput> {
        let (stored, rest) = outputs.store_if_large(session, text, limits)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        let output = json!({"ref": stored.reference, "preview": stored.preview, "bytes": stored.bytes,
            "chars": stored.chars, "read_with": READ_TOOL});
        let reference = stored.reference.as_deref().and_then(OutputRef::parse);
        let Some(reference) = reference else {
            let why = stored.error.as_deref().unwrap_or("the output was not stored");
            let text = truncated_text(&rest.unwrap_or_default(), stored.chars, why);
            return Some(ReplacedOutput { replaced: LargeText { text, output }, is_first: false });
        };
        let hints = read_hints(outputs, &reference);
        let text = preview_text(&stored.preview, stored.chars, &hints);
        let mut all = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(session.to_owned()).or_default();
        let is_first = own.is_empty();
        own.insert(reference);
        Some(ReplacedOutput { replaced: LargeText { text, output }, is_first })
    }

    /// Number of texts stored or truncated so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a session has stored outputs.
    pub(super) fn has_any(&self, session: &str) -> bool {
        let all = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(session).is_some_and(|own| !own.is_empty())
    }

    /// Removes all stored outputs.
    pub(super) fn remove_all(&self, outputs: &LargeOutputs) {
        let all = std::mem::take(&mut *self.by_session.lock().unwrap_or_else(PoisonError::into_inner));
        for reference in all.values().flatten() {
            // Outputs that cannot be removed are cleaned up later.
            let _ = outputs.remove(reference);
        }
    }

    /// Remembers the tools in a list that have an output schema.
    pub(super) fn record_schemas(&self, result: &str) {
        let tools = field(result, "tools").and_then(elements).unwrap_or_default();
        let mut known = self.with_schema.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools.into_iter().filter(|tool| field(tool, "outputSchema").is_some()) {
            let name = field(tool, "name").and_then(|name| serde_json::from_str::<String>(name).ok());
            known.extend(name);
        }
    }

    /// Whether a tool has an output schema.
    pub(super) fn has_schema(&self, tool: &str) -> bool {
        self.with_schema.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }
}

/// Instructions for reading a stored output.
fn read_hints(outputs: &LargeOutputs, reference: &OutputRef) -> ReadHints {
    let path = outputs.file_path(reference).map(|path| path.display().to_string());
    ReadHints {
        location: path.unwrap_or_else(|| reference.to_string()),
        lines: vec![
            format!(
                "Call the tool {READ_TOOL} with {{\"ref\": \"{reference}\", \"offset\": 0}}, or with \"search\""
            ),
            format!("In a shell: flyball output {reference} --offset 0 --limit {DEFAULT_SLICE_CHARS}"),
        ],
    }
}

/// Appends the read tool to a tool list, unless another page follows.
pub(super) fn append_read_tool(line: &str, result: &str) -> Option<String> {
    let tools = field(result, "tools")?;
    let is_ours = |tool: &&str| field(tool, "name") == Some(format!("\"{READ_TOOL}\"").as_str());
    let more = field(result, "nextCursor").is_some_and(|cursor| cursor != "null");
    if more || elements(tools)?.iter().any(is_ours) {
        return None;
    }
    let integer = |words: &str| json!({"type": "integer", "minimum": 0, "description": words});
    let tool = json!({
        "name": READ_TOOL,
        "description": "Reads part of a large tool result that was stored instead of returned, or searches \
             it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "ref": {"type": "string", "description": "The reference given in the result."},
                "offset": integer("The first character to read, starting at 0."),
                "limit": integer("The number of characters to read; default 20000, at most 100000."),
                "search": {"type": "string", "description": "Return only the lines that contain this text."},
            },
            "required": ["ref"],
        },
        "annotations": {"readOnlyHint": true},
    });
    let end = range_in(line, tools)?.end.checked_sub(1)?;
    replace_ranges(line, &[(end..end, inserted_text(tools, "", &tool)?)])
}

/// Reads part of a large output for a tool call. Returns whether the output exists, and the result.
pub(super) fn read_output(outputs: &LargeOutputs, session: &str, arguments: &Value) -> (bool, Value) {
    match read_part(outputs, session, arguments) {
        Ok((text, structured)) => {
            let content = json!([{"type": "text", "text": text}]);
            (true, json!({"content": content, "structuredContent": structured, "isError": false}))
        }
        Err(why) => (false, json!({"content": [{"type": "text", "text": why}], "isError": true})),
    }
}

fn read_part(outputs: &LargeOutputs, session: &str, arguments: &Value) -> Result<(String, Value), String> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let number = |key: &str| arguments.get(key).and_then(Value::as_u64);
    let unknown = || {
        "There is no output with this reference in this session. Outputs are deleted when the session \
             ends."
            .to_owned()
    };
    let reference = text("ref").and_then(OutputRef::parse).ok_or_else(unknown)?;
    let failed = |error: std::io::Error| format!("The output cannot be read: {error}");
    if outputs.session_of(&reference).map_err(failed)?.as_deref() != Some(session) {
        return Err(unknown());
    }
    if let Some(needle) = text("search") {
        let found = outputs.search(&reference, needle, MAX_MATCHES).map_err(failed)?.ok_or_else(unknown)?;
        let lines = found.iter().map(|found| format!("{}: {}", found.offset, found.text));
        let shown = lines.collect::<Vec<_>>().join("\n");
        let shown = if found.is_empty() { "No line contains this text.".to_owned() } else { shown };
        return Ok((shown, json!({"matches": found})));
    }
    let limit = number("limit").unwrap_or(DEFAULT_SLICE_CHARS).clamp(1, MAX_SLICE_CHARS);
    let slice = outputs.slice(&reference, number("offset").unwrap_or(0), limit).map_err(failed)?;
    let slice = slice.ok_or_else(unknown)?;
    let rest = slice.next.map(|next| {
        format!("\n[characters {}-{next} of {}; continue with offset {next}]", slice.offset, slice.chars)
    });
    Ok((format!("{}{}", slice.text, rest.unwrap_or_default()), json!(slice)))
}
