//! Bytes as a policy file in one of three formats.

use flyball::Preset;
use flyball::policy::{Format, Resolved, parse, resolve};

/// Any text is a policy or an error; what a policy means can be written down and means the same again.
///
/// The first byte chooses the format: `Y`, `T` or `J`; anything else is guessed from the text.
pub fn check(bytes: &[u8]) {
    let (format, text) = match bytes.split_first() {
        Some((b'Y', rest)) => (Some(Format::Yaml), rest),
        Some((b'T', rest)) => (Some(Format::Toml), rest),
        Some((b'J', rest)) => (Some(Format::Json), rest),
        _ => (None, bytes),
    };
    let text = String::from_utf8_lossy(text);
    let format = format.unwrap_or_else(|| Format::guess("policy", &text));
    let layer = match parse(&text, format, "policy") {
        Ok(layer) => layer,
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal without a reason");
            return;
        }
    };
    match resolve(std::slice::from_ref(&layer), Preset::Agent) {
        Ok(resolved) => written_again(&resolved),
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty(), "a refusal without a reason")
        }
    }
}

fn written_again(resolved: &Resolved) {
    let text = resolved.effective.to_string();
    let again = parse(&text, Format::Json, "effective").and_then(|layer| resolve(&[layer], Preset::Agent));
    match again {
        Ok(again) => {
            assert_eq!(again.policy.digest, resolved.policy.digest, "the digest differs: {text}");
            assert_eq!(again.policy, resolved.policy, "the effective policy means something else: {text}");
            assert_eq!(again.effective, resolved.effective, "the effective policy is not a fixed point");
        }
        Err(errors) => panic!("the effective policy cannot be read: {errors}\n{text}"),
    }
}
