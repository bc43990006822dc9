//! Results of tools: what they say, and how words are added or a long text is replaced without touching anything else.

use super::Spill;
use crate::splice::{addition, elements, field, place, replaced};
use serde_json::{Value, json};

/// The longest text of a result that is recorded as it is.
const RECORDED: usize = 256 * 1024;

/// What a result says, for the record, and whether it went well.
pub(super) fn said(result: Option<&str>, error: Option<&str>) -> (bool, String) {
    if let Some(error) = error {
        let error: Value = serde_json::from_str(error).unwrap_or_default();
        return (false, error.get("message").and_then(Value::as_str).unwrap_or("error").to_owned());
    }
    let result: Value = result.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let ok = result.get("isError") != Some(&Value::Bool(true));
    let blocks = result.get("content").and_then(Value::as_array);
    let texts: Vec<&str> =
        blocks.into_iter().flatten().filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    let text = match (texts.is_empty(), result.get("structuredContent")) {
        (false, _) => texts.join("\n"),
        (true, Some(structured)) => structured.to_string(),
        // Pictures and the like: told apart by what they are.
        (true, None) => blocks.map(|blocks| Value::from(blocks.clone()).to_string()).unwrap_or_default(),
    };
    (ok, bounded(text))
}

/// A text that fits into an event: of a long one the beginning, its length and its digest.
fn bounded(text: String) -> String {
    if text.len() <= RECORDED {
        return text;
    }
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let cut = (0..=RECORDED).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let digest = digest.as_str().get(..16).unwrap_or_default();
    format!("{} [{} bytes, {digest}]", text.get(..cut).unwrap_or_default(), text.len())
}

/// The answer with long texts replaced by their previews, and a note at the end. `None` if nothing changes.
pub(super) fn edited(line: &str, result: &str, note: Option<&str>, spill: &dyn Spill) -> Option<String> {
    let content = field(result, "content")?;
    let mut edits = Vec::new();
    for block in elements(content)? {
        let Some(raw) = field(block, "text") else { continue };
        // A character is at least a byte, so a short text needs no second look.
        if raw.len() <= spill.threshold() {
            continue;
        }
        let Ok(text) = serde_json::from_str::<String>(raw) else { continue };
        if let Some(short) = spill.fit(text) {
            edits.push((place(line, raw)?, Value::from(short).to_string()));
        }
    }
    if let Some(note) = note {
        let end = place(line, content)?.end.checked_sub(1)?;
        edits.push((end..end, addition(content, note, &json!({"type": "text", "text": note}))?));
    }
    if edits.is_empty() { None } else { replaced(line, &edits) }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
