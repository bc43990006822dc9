//! Large outputs: what a model is given instead of a text that would fill its context.
//!
//! The governor keeps no text. Whoever receives an output (`output.received`) stores it first and tells the governor where
//! ([`StoredOutput`]); the decision carries the reference, a preview and the text to hand to the model. If the output could
//! not be stored it is cut, and the text says so.

use crate::policy::{LargeResponse, Mode};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Characters that the notice about a cut takes at most.
const NOTICE_CHARS: usize = 400;

/// When an output is large, and how much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Outputs of up to this many characters stay as they are. `None` = all do.
    pub threshold: Option<usize>,
    /// How many characters of a large output are shown.
    pub preview: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        OutputLimits::from(&LargeResponse::default())
    }
}

impl From<&LargeResponse> for OutputLimits {
    fn from(policy: &LargeResponse) -> Self {
        let size = |chars: u64| usize::try_from(chars).unwrap_or(usize::MAX);
        let threshold = policy.threshold.filter(|_| policy.mode != Mode::Off).map(size);
        OutputLimits { threshold, preview: size(policy.preview) }
    }
}

impl OutputLimits {
    /// The number of characters of a text that is large; `None` if it is not.
    #[must_use]
    pub fn exceeded_by(&self, text: &str) -> Option<usize> {
        let threshold = self.threshold?;
        // A text has no more characters than bytes, so most are not counted.
        if text.len() <= threshold {
            return None;
        }
        Some(text.chars().count()).filter(|chars| *chars > threshold)
    }

    /// The beginning of a large text.
    #[must_use]
    pub fn preview_of(&self, text: &str) -> String {
        text.chars().take(self.preview.min(self.threshold.unwrap_or(usize::MAX))).collect()
    }

    /// As much of a text as fits together with the notice that it was cut.
    #[must_use]
    pub fn cut(&self, text: &str) -> String {
        let threshold = self.threshold.unwrap_or(usize::MAX);
        let room = threshold.saturating_sub(NOTICE_CHARS).max(self.preview.min(threshold));
        text.chars().take(room).collect()
    }
}

/// Where a large output is, as whoever stored it tells the governor.
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
    /// Why it could not be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A large output in a decision: `output {ref, preview, bytes, chars, text}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The reference it is read by; `None` if it could not be stored.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its first characters.
    pub preview: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its length in characters.
    pub chars: u64,
    /// What to hand to the model instead of the output.
    pub text: String,
}

impl Output {
    /// The answer to an `output.received` event; `None` if the text is small and passes through unchanged.
    pub(crate) fn of(text: &str, stored: Option<&StoredOutput>, limits: OutputLimits) -> Option<Self> {
        if let Some(stored) = stored {
            let shown = match (&stored.reference, stored.error.as_deref()) {
                (Some(reference), _) => preview_text(&stored.preview, stored.chars, &read_hints(reference)),
                (None, why) => cut_text(text, stored.chars, why.unwrap_or("it was not stored")),
            };
            return Some(Output {
                reference: stored.reference.clone(),
                preview: stored.preview.clone(),
                bytes: stored.bytes,
                chars: stored.chars,
                text: shown,
            });
        }
        let chars = limits.exceeded_by(text)? as u64;
        Some(Output {
            reference: None,
            preview: limits.preview_of(text),
            bytes: text.len() as u64,
            chars,
            text: cut_text(&limits.cut(text), chars, "no store keeps it"),
        })
    }
}

/// How a stored output is read on any path.
fn read_hints(reference: &str) -> Hints {
    Hints {
        place: reference.to_owned(),
        lines: vec![
            format!("Read a part of it: flyball output {reference} --offset 0 --limit 20000"),
            format!("Over HTTP: GET /v1/outputs/{reference}?offset=0&limit=20000"),
            format!("Search it: flyball output {reference} --search TEXT"),
        ],
    }
}

/// Where a large output is, and how it is read there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// The place, in the words of whoever reads it there: a reference or a path.
    pub place: String,
    /// How to read it, one line each.
    pub lines: Vec<String>,
}

/// The text for an output that is stored.
#[must_use]
pub fn preview_text(preview: &str, chars: u64, hints: &Hints) -> String {
    let mut text = format!(
        "Tool response too large ({chars} characters). Full output saved to: {}\n\nTo examine the output:\n",
        hints.place
    );
    for line in &hints.lines {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "- {line}");
    }
    text.push_str("- The file will be cleaned up when the session ends\n\n");
    let _ = write!(text, "Preview (first {} chars):\n{preview}...", preview.chars().count());
    text
}

/// The text for an output that could not be stored: its beginning, and why the rest is missing.
#[must_use]
pub fn cut_text(shown: &str, chars: u64, why: &str) -> String {
    let length = shown.chars().count();
    format!(
        "{shown}\n\n[TRUNCATED: Response was {chars} characters, showing first {length}]\n\
         [The rest is lost, it could not be saved: {why}]"
    )
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
