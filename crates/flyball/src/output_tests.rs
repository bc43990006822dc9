//! Tests of large output replacement.

use super::{LargeOutput, OutputLimits, StoredOutput};

const LIMITS: OutputLimits = OutputLimits { threshold_chars: Some(600), preview_chars: 10 };

#[test]
fn text_up_to_the_threshold_passes_through() {
    assert_eq!(LargeOutput::from_text(&"ä".repeat(600), None, LIMITS), None);
    assert!(LargeOutput::from_text(&"ä".repeat(601), None, LIMITS).is_some());
    assert_eq!(
        LargeOutput::from_text(
            &"x".repeat(9_999),
            None,
            OutputLimits { threshold_chars: None, preview_chars: 1 }
        ),
        None
    );
}

#[test]
fn a_stored_output_is_answered_with_its_reference_and_preview() {
    let stored = StoredOutput {
        reference: Some("abc".to_owned()),
        preview: "0123456789".to_owned(),
        bytes: 5_000,
        chars: 4_000,
        error: None,
    };
    let output = LargeOutput::from_text("", Some(&stored), LIMITS).expect("an output");
    assert_eq!((output.reference.as_deref(), output.bytes, output.chars), (Some("abc"), 5_000, 4_000));
    assert!(
        output.text.starts_with("Tool response too large (4000 characters). Full output saved to: abc\n")
    );
    assert!(output.text.ends_with("Preview (first 10 chars):\n0123456789..."), "{}", output.text);
}

#[test]
fn unstored_output_is_truncated_with_a_note_within_the_threshold() {
    let output = LargeOutput::from_text(&"y".repeat(1_000), None, LIMITS).expect("an output");
    assert_eq!(output.reference, None);
    assert!(
        output.text.contains("[TRUNCATED: Response was 1000 characters, showing first 200]"),
        "{}",
        output.text
    );
    assert!(output.text.chars().count() <= 600);
}
