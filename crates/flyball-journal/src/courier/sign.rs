//! The signature of a webhook: who knows the secret can tell that the body is ours, and when it was sent.

use ring::hmac;

/// The header that it goes into.
pub(super) const HEADER: &str = "Flyball-Signature";

/// `t=SECONDS,v1=HEX`: the HMAC-SHA256 over the seconds since 1970, a dot, and the body.
pub(super) fn signature(secret: &str, seconds: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(seconds.to_string().as_bytes());
    context.update(b".");
    context.update(body.as_bytes());
    let digits: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={digits}")
}

/// What a variable holds.
///
/// # Errors
/// If it is not set, or empty: a signature with nothing is none.
pub(super) fn secret(name: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(secret) if !secret.trim().is_empty() => Ok(secret.trim().to_owned()),
        _ => Err(format!("the environment variable {name} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn it_is_the_hmac_that_every_language_computes() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec
        let expected = "t=1700000000,v1=8ad37ba156048ae0e0a5533c75cdf26fee88b07f93cb57ee4c80adb053012032";
        assert_eq!(signature("whsec", 1_700_000_000, r#"{"a":1}"#), expected);
    }
}
