//! Tool results: extracts their text, and edits them without changing any other byte.

use crate::json_patch::{elements, field, inserted_text, range_in, replace_ranges};
use serde_json::{Value, json};
use std::ops::Range;

/// Maximum length of a result's text that is recorded in full, in bytes.
const MAX_RECORDED_BYTES: usize = 256 * 1024;

/// Whether a result is a success, and its text for the record.
pub(super) fn result_text(result: Option<&str>, error: Option<&str>) -> (bool, String) {
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
        // Images and other content without text: recorded as JSON, so that different results stay different.
        (true, None) => blocks.map(|blocks| Value::from(blocks.clone()).to_string()).unwrap_or_default(),
    };
    (ok, bounded_text(text))
}

/// A text bounded for an event: a long one becomes its beginning, its length and its digest.
fn bounded_text(text: String) -> String {
    if text.len() <= MAX_RECORDED_BYTES {
        return text;
    }
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let cut = (0..=MAX_RECORDED_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let digest = digest.as_str().get(..16).unwrap_or_default();
    format!("{} [{} bytes, {digest}]", text.get(..cut).unwrap_or_default(), text.len())
}

/// A large text of a result that was stored, or truncated if that failed.
pub(super) struct LargeText {
    /// The replacement text.
    pub(super) text: String,
    /// The replacement for structured content: `{ref, preview, bytes, chars}`.
    pub(super) output: Value,
}

/// How large parts of a result are replaced.
pub(super) struct ReplaceOptions<'a> {
    /// Texts up to this many bytes are never large.
    pub(super) threshold: usize,
    /// Whether the tool has an output schema.
    pub(super) has_schema: bool,
    /// Stores a text; `None` if it is not large.
    pub(super) store: &'a dyn Fn(&str) -> Option<LargeText>,
}

/// Limits for text and list lengths in structured content with a schema, tried in order.
const SHORTENING_STEPS: [(usize, usize); 3] = [(1_000, 100), (200, 20), (40, 3)];

/// Returns the response with large parts replaced by previews and a note appended. `None` if nothing changes.
pub(super) fn edit_result(
    line: &str,
    result: &str,
    note: Option<&str>,
    replacing: &ReplaceOptions<'_>,
) -> Option<String> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut notes: Vec<String> = note.map(str::to_owned).into_iter().collect();
    let content = field(result, "content");
    let mut first: Option<Value> = None;
    for block in content.and_then(elements).unwrap_or_default() {
        // The text of a block or of a resource embedded in it.
        let raw = field(block, "text").or_else(|| field(field(block, "resource")?, "text"));
        // A character has at least one byte, so a text below the limit in bytes cannot be large.
        let Some(raw) = raw.filter(|raw| raw.len() > replacing.threshold) else { continue };
        let Ok(text) = serde_json::from_str::<String>(raw) else { continue };
        if let Some(LargeText { text, output }) = (replacing.store)(&text) {
            edits.push((range_in(line, raw)?, Value::from(text).to_string()));
            first.get_or_insert(output);
        }
    }
    match field(result, "structuredContent") {
        Some(raw) if raw.len() > replacing.threshold => {
            if let Some(stored) = (replacing.store)(raw) {
                let (new, reference_note) = replace_structured(raw, stored, replacing);
                edits.push((range_in(line, raw)?, new));
                notes.extend(reference_note);
            }
        }
        // For clients that read only the structured content.
        None if !replacing.has_schema => {
            if let Some(output) = first {
                let end = range_in(line, result)?.end.checked_sub(1)?;
                let comma =
                    if result.trim_start_matches('{').trim_start().starts_with('}') { "" } else { "," };
                edits.push((end..end, format!("{comma}\"structuredContent\":{}", json!({"output": output}))));
            }
        }
        _ => {}
    }
    if let Some(content) = content {
        let end = range_in(line, content)?.end.checked_sub(1)?;
        let mut inserted = String::new();
        for note in &notes {
            let part = json!({"type": "text", "text": note});
            let so_far = if inserted.is_empty() { content } else { "[0]" };
            inserted.push_str(&inserted_text(so_far, note, &part)?);
        }
        if !inserted.is_empty() {
            edits.push((end..end, inserted));
        }
    }
    edits.sort_by_key(|(place, _)| place.start);
    if edits.is_empty() { None } else { replace_ranges(line, &edits) }
}

/// The replacement for large structured content: the reference. If the tool has an output schema, the content is
/// shortened but keeps its shape, and a note contains the reference.
fn replace_structured(
    raw: &str,
    stored: LargeText,
    replacing: &ReplaceOptions<'_>,
) -> (String, Option<String>) {
    let LargeText { text, output } = stored;
    if replacing.has_schema
        && let Ok(value) = serde_json::from_str::<Value>(raw)
    {
        let shortened =
            SHORTENING_STEPS.iter().map(|(chars, items)| shorten_value(&value, *chars, *items).to_string());
        if let Some(new) = shortened.into_iter().find(|new| new.len() <= replacing.threshold) {
            return (new, Some(format!("[flyball] structuredContent was shortened. {text}")));
        }
    }
    (json!({"output": output}).to_string(), None)
}

/// A value of the same shape with long texts and lists truncated.
fn shorten_value(value: &Value, chars: usize, items: usize) -> Value {
    match value {
        Value::String(text) => flyball::text::truncate(text, chars).into(),
        Value::Array(all) => all.iter().take(items).map(|value| shorten_value(value, chars, items)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), shorten_value(value, chars, items)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
