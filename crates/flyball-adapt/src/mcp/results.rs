//! Results of tools: what they say, and how words are added or a long text is replaced without touching anything else.

use crate::splice::{addition, elements, field, place, replaced};
use serde_json::{Value, json};
use std::ops::Range;

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

/// A large text of a result that was stored, or cut because it could not be.
pub(super) struct Replaced {
    /// What stands in its place.
    pub(super) text: String,
    /// The same for programs: `{ref, preview, bytes, chars}`.
    pub(super) output: Value,
}

/// How large parts of a result are replaced.
pub(super) struct Replacing<'a> {
    /// Texts of up to this many bytes are never large.
    pub(super) threshold: usize,
    /// The tool has declared what its structured content looks like.
    pub(super) has_schema: bool,
    /// Stores a text; `None` if it is not large.
    pub(super) store: &'a dyn Fn(&str) -> Option<Replaced>,
}

/// The longest texts and lists of structured content that must keep its shape, tried one after the other.
const SHAPES: [(usize, usize); 3] = [(1_000, 100), (200, 20), (40, 3)];

/// The answer with large parts replaced by their previews, and a note at the end. `None` if nothing changes.
pub(super) fn edited(
    line: &str,
    result: &str,
    note: Option<&str>,
    replacing: &Replacing<'_>,
) -> Option<String> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut notes: Vec<String> = note.map(str::to_owned).into_iter().collect();
    let content = field(result, "content");
    let mut first: Option<Value> = None;
    for block in content.and_then(elements).unwrap_or_default() {
        // The text of a block, or of a resource that stands in it.
        let raw = field(block, "text").or_else(|| field(field(block, "resource")?, "text"));
        // A character is at least a byte, so a short text needs no second look.
        let Some(raw) = raw.filter(|raw| raw.len() > replacing.threshold) else { continue };
        let Ok(text) = serde_json::from_str::<String>(raw) else { continue };
        if let Some(Replaced { text, output }) = (replacing.store)(&text) {
            edits.push((place(line, raw)?, Value::from(text).to_string()));
            first.get_or_insert(output);
        }
    }
    match field(result, "structuredContent") {
        Some(raw) if raw.len() > replacing.threshold => {
            if let Some(stored) = (replacing.store)(raw) {
                let (new, told) = structured(raw, stored, replacing);
                edits.push((place(line, raw)?, new));
                notes.extend(told);
            }
        }
        // For programs that read the structured content and nothing else.
        None if !replacing.has_schema => {
            if let Some(output) = first {
                let end = place(line, result)?.end.checked_sub(1)?;
                let comma =
                    if result.trim_start_matches('{').trim_start().starts_with('}') { "" } else { "," };
                edits.push((end..end, format!("{comma}\"structuredContent\":{}", json!({"output": output}))));
            }
        }
        _ => {}
    }
    if let Some(content) = content {
        let end = place(line, content)?.end.checked_sub(1)?;
        let mut inserted = String::new();
        for note in &notes {
            let part = json!({"type": "text", "text": note});
            let so_far = if inserted.is_empty() { content } else { "[0]" };
            inserted.push_str(&addition(so_far, note, &part)?);
        }
        if !inserted.is_empty() {
            edits.push((end..end, inserted));
        }
    }
    edits.sort_by_key(|(place, _)| place.start);
    if edits.is_empty() { None } else { replaced(line, &edits) }
}

/// What stands in the place of large structured content: the reference. If the tool has declared its shape, the content is
/// shortened and keeps it, and a note has the reference.
fn structured(raw: &str, stored: Replaced, replacing: &Replacing<'_>) -> (String, Option<String>) {
    let Replaced { text, output } = stored;
    if replacing.has_schema
        && let Ok(value) = serde_json::from_str::<Value>(raw)
    {
        let shortened = SHAPES.iter().map(|(chars, items)| shortened(&value, *chars, *items).to_string());
        if let Some(new) = shortened.into_iter().find(|new| new.len() <= replacing.threshold) {
            return (new, Some(format!("[flyball] structuredContent is shortened. {text}")));
        }
    }
    (json!({"output": output}).to_string(), None)
}

/// A value of the same shape with long texts cut and long lists ended.
fn shortened(value: &Value, chars: usize, items: usize) -> Value {
    match value {
        Value::String(text) => flyball::text::cut(text, chars).into(),
        Value::Array(all) => all.iter().take(items).map(|value| shortened(value, chars, items)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), shortened(value, chars, items)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
