//! Webhook signatures: prove the sender and the time of a request to receivers that know the secret.

use ring::hmac;

/// Header that carries the signature.
pub(super) const SIGNATURE_HEADER: &str = "Flyball-Signature";

/// Returns `t=SECONDS,v1=HEX`: HMAC-SHA256 over the Unix time in seconds, a dot, and the body.
pub(super) fn sign(secret: &str, seconds: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(seconds.to_string().as_bytes());
    context.update(b".");
    context.update(body.as_bytes());
    let digits: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={digits}")
}

/// Reads a secret from an environment variable.
///
/// # Errors
/// If it is unset or empty: an empty secret would authenticate nothing.
pub(super) fn secret_from_env(name: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(secret) if !secret.trim().is_empty() => Ok(secret.trim().to_owned()),
        _ => Err(format!("the environment variable {name} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::sign;

    #[test]
    fn signature_is_openssl_compatible_hmac_sha256() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec
        let expected = "t=1700000000,v1=8ad37ba156048ae0e0a5533c75cdf26fee88b07f93cb57ee4c80adb053012032";
        assert_eq!(sign("whsec", 1_700_000_000, r#"{"a":1}"#), expected);
    }
}
