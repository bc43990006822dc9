//! Large outputs: replacement texts for outputs that would fill a model's context.
//!
//! The governor stores no text. The receiver of an output (`output.received`) stores it first and passes the location
//! ([`StoredOutput`]); the decision carries the reference, a preview and the text for the model. If the output could
//! not be stored, it is truncated and the text says so.

use crate::policy::{GuardMode, LargeResponsePolicy};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Maximum length of the truncation notice, in characters.
const MAX_NOTICE_CHARS: usize = 400;

/// Size limits for outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Outputs up to this many characters are unchanged; `None` = no limit.
    pub threshold_chars: Option<usize>,
    /// Length of the preview, in characters.
    pub preview_chars: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        OutputLimits::from(&LargeResponsePolicy::default())
    }
}

impl From<&LargeResponsePolicy> for OutputLimits {
    fn from(policy: &LargeResponsePolicy) -> Self {
        let size = |chars: u64| usize::try_from(chars).unwrap_or(usize::MAX);
        let threshold = policy.threshold.filter(|_| policy.mode != GuardMode::Off).map(size);
        OutputLimits { threshold_chars: threshold, preview_chars: size(policy.preview) }
    }
}

impl OutputLimits {
    /// The number of characters of a large text; `None` if the text is not large.
    #[must_use]
    pub fn large_char_count(&self, text: &str) -> Option<usize> {
        let threshold = self.threshold_chars?;
        // A text has no more characters than bytes, so most texts need no counting.
        if text.len() <= threshold {
            return None;
        }
        Some(text.chars().count()).filter(|chars| *chars > threshold)
    }

    /// The beginning of a large text.
    #[must_use]
    pub fn preview_of(&self, text: &str) -> String {
        text.chars().take(self.preview_chars.min(self.threshold_chars.unwrap_or(usize::MAX))).collect()
    }

    /// Truncates a text so that it fits together with the truncation notice.
    #[must_use]
    pub fn truncate(&self, text: &str) -> String {
        let threshold = self.threshold_chars.unwrap_or(usize::MAX);
        let room = threshold.saturating_sub(MAX_NOTICE_CHARS).max(self.preview_chars.min(threshold));
        text.chars().take(room).collect()
    }
}

/// Location of a large output, as reported by the component that stored it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOutput {
    /// The reference it is read by; `None` if it could not be stored.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Its first characters.
    #[serde(default)]
    pub preview: String,
    /// Its length in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Its length in characters.
    #[serde(default)]
    pub chars: u64,
    /// Error if it could not be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A large output in a decision: `output {ref, preview, bytes, chars, text}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeOutput {
    /// The reference it is read by; `None` if it could not be stored.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its first characters.
    pub preview: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its length in characters.
    pub chars: u64,
    /// Replacement text for the model.
    pub text: String,
}

impl LargeOutput {
    /// The result for an `output.received` event; `None` if the text is small and stays unchanged.
    pub(crate) fn from_text(text: &str, stored: Option<&StoredOutput>, limits: OutputLimits) -> Option<Self> {
        if let Some(stored) = stored {
            let shown = match (&stored.reference, stored.error.as_deref()) {
                (Some(reference), _) => preview_text(&stored.preview, stored.chars, &read_hints(reference)),
                (None, why) => truncated_text(text, stored.chars, why.unwrap_or("it was not stored")),
            };
            return Some(LargeOutput {
                reference: stored.reference.clone(),
                preview: stored.preview.clone(),
                bytes: stored.bytes,
                chars: stored.chars,
                text: shown,
            });
        }
        let chars = limits.large_char_count(text)? as u64;
        Some(LargeOutput {
            reference: None,
            preview: limits.preview_of(text),
            bytes: text.len() as u64,
            chars,
            text: truncated_text(&limits.truncate(text), chars, "no store keeps it"),
        })
    }
}

/// How to read a stored output.
fn read_hints(reference: &str) -> ReadHints {
    ReadHints {
        location: reference.to_owned(),
        lines: vec![
            format!("Read a part of it: flyball output {reference} --offset 0 --limit 20000"),
            format!("Over HTTP: GET /v1/outputs/{reference}?offset=0&limit=20000"),
            format!("Search it: flyball output {reference} --search TEXT"),
        ],
    }
}

/// Location of a large output, and how to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadHints {
    /// The location as its reader knows it: a reference or a path.
    pub location: String,
    /// Instructions, one line each.
    pub lines: Vec<String>,
}

/// Replacement text for a stored output.
#[must_use]
pub fn preview_text(preview: &str, chars: u64, hints: &ReadHints) -> String {
    let mut text = format!(
        "Tool response too large ({chars} characters). Full output saved to: {}\n\nTo examine the output:\n",
        hints.location
    );
    for line in &hints.lines {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "- {line}");
    }
    text.push_str("- The file will be cleaned up when the session ends\n\n");
    let _ = write!(text, "Preview (first {} chars):\n{preview}...", preview.chars().count());
    text
}

/// Replacement text for an output that could not be stored: its beginning and the reason.
#[must_use]
pub fn truncated_text(shown: &str, chars: u64, why: &str) -> String {
    let length = shown.chars().count();
    format!(
        "{shown}\n\n[TRUNCATED: Response was {chars} characters, showing first {length}]\n\
         [The rest is lost, it could not be saved: {why}]"
    )
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
