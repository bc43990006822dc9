//! What a model is given instead of a large output.

use super::{Output, OutputLimits, StoredOutput};

const LIMITS: OutputLimits = OutputLimits { threshold: Some(600), preview: 10 };

#[test]
fn a_text_up_to_the_threshold_passes_through() {
    assert_eq!(Output::of(&"ä".repeat(600), None, LIMITS), None);
    assert!(Output::of(&"ä".repeat(601), None, LIMITS).is_some());
    assert_eq!(Output::of(&"x".repeat(9_999), None, OutputLimits { threshold: None, preview: 1 }), None);
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
    let output = Output::of("", Some(&stored), LIMITS).expect("an output");
    assert_eq!((output.reference.as_deref(), output.bytes, output.chars), (Some("abc"), 5_000, 4_000));
    assert!(
        output.text.starts_with("Tool response too large (4000 characters). Full output saved to: abc\n")
    );
    assert!(output.text.ends_with("Preview (first 10 chars):\n0123456789..."), "{}", output.text);
}

#[test]
fn an_output_that_nobody_stores_is_cut_and_says_so_within_the_threshold() {
    let output = Output::of(&"y".repeat(1_000), None, LIMITS).expect("an output");
    assert_eq!(output.reference, None);
    assert!(
        output.text.contains("[TRUNCATED: Response was 1000 characters, showing first 200]"),
        "{}",
        output.text
    );
    assert!(output.text.chars().count() <= 600);
}
