//! Interprets bytes as a policy file in one of three formats.

use flyball::Preset;
use flyball::policy::{PolicyFormat, ResolvedPolicy, parse, resolve};

/// Any text is a policy or an error, and the effective policy survives a round trip.
///
/// The first byte selects the format: `Y`, `T` or `J`; otherwise it is guessed from the text.
pub fn check(bytes: &[u8]) {
    let (format, text) = match bytes.split_first() {
        Some((b'Y', rest)) => (Some(PolicyFormat::Yaml), rest),
        Some((b'T', rest)) => (Some(PolicyFormat::Toml), rest),
        Some((b'J', rest)) => (Some(PolicyFormat::Json), rest),
        _ => (None, bytes),
    };
    let text = String::from_utf8_lossy(text);
    let format = format.unwrap_or_else(|| PolicyFormat::guess("policy", &text));
    let layer = match parse(&text, format, "policy") {
        Ok(layer) => layer,
        Err(errors) => {
            assert!(!errors.is_empty(), "an error without a reason");
            return;
        }
    };
    match resolve(std::slice::from_ref(&layer), Preset::Agent) {
        Ok(resolved) => round_trip(&resolved),
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty(), "an error without a reason")
        }
    }
}

fn round_trip(resolved: &ResolvedPolicy) {
    let text = resolved.effective.to_string();
    let again =
        parse(&text, PolicyFormat::Json, "effective").and_then(|layer| resolve(&[layer], Preset::Agent));
    match again {
        Ok(again) => {
            assert_eq!(again.policy.digest, resolved.policy.digest, "the digest differs: {text}");
            assert_eq!(again.policy, resolved.policy, "the effective policy has another meaning: {text}");
            assert_eq!(again.effective, resolved.effective, "the effective policy is not a fixed point");
        }
        Err(errors) => panic!("the effective policy cannot be read: {errors}\n{text}"),
    }
}
