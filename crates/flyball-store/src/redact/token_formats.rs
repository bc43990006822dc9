//! Secrets recognized by their own format: tokens with a prefix, JSON Web Tokens, private keys, passwords in URLs.

use super::SecretSpan;
use super::anchors::Anchor;
use super::byte_scan::{byte_at, is_word_start, run_end, starts_with_at};

/// A token with a prefix.
#[derive(Debug)]
pub(super) struct TokenFormat {
    pub(super) prefix: &'static str,
    kind: &'static str,
    is_token_byte: fn(u8) -> bool,
    min_len: usize,
    max_len: usize,
    must_be_random: bool,
}

const fn token(prefix: &'static str, kind: &'static str, bytes: fn(u8) -> bool, least: usize) -> TokenFormat {
    TokenFormat {
        prefix,
        kind,
        is_token_byte: bytes,
        min_len: least,
        max_len: usize::MAX,
        must_be_random: false,
    }
}

/// A token that must contain a random run of 16 mixed letters and digits.
const fn random_token(
    prefix: &'static str,
    kind: &'static str,
    bytes: fn(u8) -> bool,
    least: usize,
) -> TokenFormat {
    TokenFormat {
        prefix,
        kind,
        is_token_byte: bytes,
        min_len: least,
        max_len: usize::MAX,
        must_be_random: true,
    }
}

const fn aws_key(prefix: &'static str) -> TokenFormat {
    TokenFormat {
        prefix,
        kind: "aws-key",
        is_token_byte: is_upper_or_digit,
        min_len: 16,
        max_len: 16,
        must_be_random: false,
    }
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(super) fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_webhook_path_byte(byte: u8) -> bool {
    is_base64url(byte) || byte == b'/'
}

/// Tokens with a distinctive prefix.
pub(super) const TOKENS: &[TokenFormat] = &[
    aws_key("AKIA"),
    aws_key("ASIA"),
    aws_key("ABIA"),
    aws_key("ACCA"),
    token("ghp_", "github-token", is_alphanumeric, 30),
    token("gho_", "github-token", is_alphanumeric, 30),
    token("ghu_", "github-token", is_alphanumeric, 30),
    token("ghs_", "github-token", is_alphanumeric, 30),
    token("ghr_", "github-token", is_alphanumeric, 30),
    token("github_pat_", "github-token", is_word_byte, 22),
    token("glpat-", "gitlab-token", is_base64url, 20),
    token("gldt-", "gitlab-token", is_base64url, 20),
    token("glrt-", "gitlab-token", is_base64url, 20),
    random_token("sk-ant-", "anthropic-key", is_base64url, 20),
    random_token("sk-proj-", "openai-key", is_base64url, 20),
    random_token("sk-", "openai-key", is_base64url, 20),
    token("AIza", "google-key", is_base64url, 35),
    random_token("ya29.", "google-token", is_base64url, 20),
    random_token("GOCSPX-", "google-secret", is_base64url, 20),
    random_token("xoxa-", "slack-token", is_base64url, 10),
    random_token("xoxb-", "slack-token", is_base64url, 10),
    random_token("xoxp-", "slack-token", is_base64url, 10),
    random_token("xoxo-", "slack-token", is_base64url, 10),
    random_token("xoxs-", "slack-token", is_base64url, 10),
    random_token("xoxr-", "slack-token", is_base64url, 10),
    random_token("xapp-", "slack-token", is_base64url, 20),
    token("sk_live_", "stripe-key", is_alphanumeric, 16),
    token("sk_test_", "stripe-key", is_alphanumeric, 16),
    token("rk_live_", "stripe-key", is_alphanumeric, 16),
    token("rk_test_", "stripe-key", is_alphanumeric, 16),
    token("whsec_", "stripe-key", is_alphanumeric, 24),
    token("npm_", "npm-token", is_alphanumeric, 36),
    random_token("hf_", "huggingface-token", is_alphanumeric, 30),
    token("dop_v1_", "digitalocean-token", is_lower_hex, 64),
    token("shpat_", "shopify-token", is_lower_hex, 32),
    token("shpss_", "shopify-token", is_lower_hex, 32),
    random_token("hvs.", "vault-token", is_base64url, 20),
    random_token("gsk_", "groq-key", is_alphanumeric, 40),
    random_token("xai-", "xai-key", is_alphanumeric, 40),
    random_token("dckr_pat_", "docker-token", is_base64url, 20),
    random_token("lin_api_", "linear-key", is_alphanumeric, 30),
    random_token("glsa_", "grafana-token", is_word_byte, 32),
    token("AGE-SECRET-KEY-1", "age-key", is_upper_or_digit, 50),
    token("pypi-Ag", "pypi-token", is_base64url, 50),
    token("glcbt-", "gitlab-token", is_base64url, 20),
    token("glptt-", "gitlab-token", is_base64url, 20),
    token("glft-", "gitlab-token", is_base64url, 20),
    token("glsoat-", "gitlab-token", is_base64url, 20),
    token("glimt-", "gitlab-token", is_base64url, 20),
    token("glagent-", "gitlab-token", is_base64url, 20),
    random_token("GR1348941", "gitlab-token", is_base64url, 20),
    random_token("xoxc-", "slack-token", is_base64url, 10),
    random_token("xoxd-", "slack-token", is_base64url, 10),
    random_token("xoxe-", "slack-token", is_base64url, 10),
    random_token("xoxe.xox", "slack-token", is_base64url, 20),
    random_token("api_org_", "huggingface-token", is_alphanumeric, 30),
    random_token("1//0", "google-token", is_base64url, 40),
    token("doo_v1_", "digitalocean-token", is_lower_hex, 64),
    token("dor_v1_", "digitalocean-token", is_lower_hex, 64),
    token("shpca_", "shopify-token", is_lower_hex, 32),
    token("shppa_", "shopify-token", is_lower_hex, 32),
    random_token("hvb.", "vault-token", is_base64url, 20),
    token("dapi", "databricks-token", is_lower_hex, 32),
    random_token("ATATT3", "atlassian-token", is_base64url, 30),
    random_token("ATCTT3", "atlassian-token", is_base64url, 30),
    random_token("ATBB", "atlassian-token", is_alphanumeric, 28),
    random_token("r8_", "replicate-token", is_alphanumeric, 30),
    random_token("pplx-", "perplexity-key", is_alphanumeric, 30),
    random_token("sntrys_", "sentry-token", is_base64url, 30),
    random_token("sntryu_", "sentry-token", is_alphanumeric, 30),
    random_token("dckr_oat_", "docker-token", is_base64url, 20),
    random_token("lsv2_pt_", "langsmith-key", is_word_byte, 30),
    random_token("lsv2_sk_", "langsmith-key", is_word_byte, 30),
    random_token("PMAK-", "postman-key", is_base64url, 40),
    random_token("sq0atp-", "square-token", is_base64url, 20),
    random_token("sq0csp-", "square-token", is_base64url, 30),
    random_token("tskey-", "tailscale-key", is_base64url, 20),
    random_token("HRKU-", "heroku-key", is_base64url, 30),
    random_token("NRAK-", "newrelic-key", is_upper_or_digit, 20),
    random_token("nfp_", "netlify-token", is_alphanumeric, 30),
    random_token("ntn_", "notion-token", is_alphanumeric, 30),
    random_token("pul-", "pulumi-token", is_lower_hex, 40),
    random_token("pscale_tkn_", "planetscale-token", is_base64url, 30),
    random_token("pscale_pw_", "planetscale-password", is_base64url, 30),
    random_token("rubygems_", "rubygems-key", is_lower_hex, 40),
    random_token("sbp_", "supabase-token", is_lower_hex, 32),
    random_token("figd_", "figma-token", is_base64url, 30),
    random_token("glc_eyJ", "grafana-token", is_alphanumeric, 30),
    random_token("ops_eyJ", "1password-token", is_base64url, 60),
    random_token("bkua_", "buildkite-token", is_alphanumeric, 30),
    random_token("CCIPAT_", "circleci-token", is_word_byte, 30),
    random_token("cfut_", "cloudflare-token", is_alphanumeric, 30),
];

/// Maximum length of user and password in a URL.
const MAX_USER_INFO_BYTES: usize = 320;
/// Maximum length of a webhook path.
const MAX_WEBHOOK_PATH_BYTES: usize = 256;
/// How far a run of letters, digits and dashes was examined without a match, so that it is not examined again from
/// each of its parts.
#[derive(Default)]
pub(super) struct RejectedUpTo {
    random: usize,
    jwt: usize,
}

/// Examines an anchor hit between `start` and `end`.
pub(super) fn find(
    bytes: &[u8],
    anchor: Anchor,
    start: usize,
    end: usize,
    vain: &mut RejectedUpTo,
) -> Option<SecretSpan> {
    match anchor {
        Anchor::Token(token) => find_prefixed(bytes, start, token, vain),
        Anchor::Jwt => find_jwt(bytes, start, vain),
        Anchor::Pem => find_pem(bytes, start, end),
        Anchor::Url => find_url_credentials(bytes, start, end),
        Anchor::Telegram => find_telegram(bytes, start),
        Anchor::Twilio => find_twilio(bytes, start),
        Anchor::SendGrid => find_send_grid(bytes, start),
        Anchor::Webhook => find_webhook(bytes, end),
        _ => None,
    }
}

fn find_prefixed(
    bytes: &[u8],
    start: usize,
    token: &'static TokenFormat,
    vain: &mut RejectedUpTo,
) -> Option<SecretSpan> {
    if !is_word_start(bytes, start) || !starts_with_at(bytes, start, token.prefix.as_bytes()) {
        return None;
    }
    let from = start + token.prefix.len();
    if token.must_be_random && start < vain.random {
        return None;
    }
    let mut end = run_end(bytes, from, token.is_token_byte);
    // A trailing dash belongs to the sentence or the shell.
    while end > from && byte_at(bytes, end - 1) == b'-' {
        end -= 1;
    }
    let length = end - from;
    let fits = length >= token.min_len && length <= token.max_len;
    let random = !token.must_be_random || is_random(bytes.get(from..end).unwrap_or_default());
    if !random {
        vain.random = end;
    }
    (fits && random).then_some(SecretSpan { start, end, kind: token.kind })
}

/// Whether a part between dashes is long, and the whole mixes letters and digits.
pub(super) fn is_random(text: &[u8]) -> bool {
    let long = text.split(|byte| !byte.is_ascii_alphanumeric()).any(|part| part.len() >= 10);
    long && text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic)
}

fn find_jwt(bytes: &[u8], start: usize, vain: &mut RejectedUpTo) -> Option<SecretSpan> {
    if start < vain.jwt || !starts_with_at(bytes, start, b"eyJ") || !is_word_start(bytes, start) {
        return None;
    }
    let first = run_end(bytes, start, is_base64url);
    let second = run_end(bytes, first + 1, is_base64url);
    let third = run_end(bytes, second + 1, is_base64url);
    let parts = first - start >= 10 && second > first + 10 && third > second + 10;
    let dots = byte_at(bytes, first) == b'.' && byte_at(bytes, second) == b'.';
    if !dots {
        vain.jwt = first;
    }
    (parts && dots).then_some(SecretSpan { start, end: third, kind: "jwt" })
}

/// Line breaks may be escaped: `\n`, or `\\n` in nested text.
fn find_pem(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    let label = run_end(bytes, end, |byte| is_upper_or_digit(byte) || byte == b' ');
    let name = bytes.get(end..label)?.trim_ascii_end();
    let private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    // SSH2 keys have four dashes, the others five.
    if !private || !starts_with_at(bytes, label, b"----") {
        return None;
    }
    let kind = "private-key";
    let (mut place, mut line, mut longest, mut last) = (label + 4, 0, 0, 0);
    loop {
        match byte_at(bytes, place) {
            b'-' if starts_with_at(bytes, place, b"-----END ")
                || starts_with_at(bytes, place, b"---- END ") =>
            {
                let close = run_end(bytes, place + 9, |byte| is_upper_or_digit(byte) || byte == b' ');
                return Some(SecretSpan { start, end: run_end(bytes, close, |byte| byte == b'-'), kind });
            }
            b'-' if starts_with_at(bytes, place, b"-----BEGIN ")
                || starts_with_at(bytes, place, b"---- BEGIN ") =>
            {
                break;
            }
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') => {
                (place, line) = (place + 1, line + 1);
                (last, longest) = (place, longest.max(line));
            }
            b' ' | b'-' | b':' | b',' | b'.' | b'\n' | b'\r' | b'\t' | b'(' | b')' | b'@' => {
                (place, line) = (place + 1, 0)
            }
            b'\\' if byte_at(bytes, place + 1) == b'/' => (place, line) = (place + 2, line + 1),
            b'\\' if matches!(byte_at(bytes, place + 1), b'n' | b'r' | b't' | b'\\') => {
                (place, line) = (place + 2, 0)
            }
            _ => break,
        }
    }
    // Truncated: a key without its end still counts, if it has a line of key material.
    (longest >= 40).then_some(SecretSpan { start, end: last, kind })
}

fn find_telegram(bytes: &[u8], start: usize) -> Option<SecretSpan> {
    let digits =
        (1..=11).take_while(|n| start.checked_sub(*n).is_some_and(|p| byte_at(bytes, p).is_ascii_digit()));
    let digits = digits.count();
    let end = run_end(bytes, start + 1, is_base64url);
    let begin = start - digits;
    let fits = (8..=10).contains(&digits) && end - start == 36 && starts_with_at(bytes, start, b":AA");
    // In an API URL, `bot` precedes the number.
    let free =
        is_word_start(bytes, begin) || begin.checked_sub(3).is_some_and(|p| starts_with_at(bytes, p, b"bot"));
    (fits && free).then_some(SecretSpan { start: begin, end, kind: "telegram-token" })
}

fn find_twilio(bytes: &[u8], start: usize) -> Option<SecretSpan> {
    let end = run_end(bytes, start + 2, is_lower_hex);
    let fits = end - start == 34 && starts_with_at(bytes, start, b"SK") && is_word_start(bytes, start);
    (fits && !is_word_byte(byte_at(bytes, end))).then_some(SecretSpan { start, end, kind: "twilio-key" })
}

fn find_send_grid(bytes: &[u8], start: usize) -> Option<SecretSpan> {
    if !starts_with_at(bytes, start, b"SG.") || !is_word_start(bytes, start) {
        return None;
    }
    let first = run_end(bytes, start + 3, is_base64url);
    let second = run_end(bytes, first + 1, is_base64url);
    let fits =
        (16..=32).contains(&(first - start - 3)) && byte_at(bytes, first) == b'.' && second > first + 30;
    fits.then_some(SecretSpan { start, end: second, kind: "sendgrid-key" })
}

fn find_webhook(bytes: &[u8], host: usize) -> Option<SecretSpan> {
    let end =
        run_end(bytes.get(..bytes.len().min(host + MAX_WEBHOOK_PATH_BYTES))?, host, is_webhook_path_byte);
    let path = bytes.get(host..end)?;
    let services: &[u8] = b"services";
    let slack = path.windows(services.len()).position(|part| part == services).map(|n| host + n + 9);
    let (start, kind) = if slack.is_some_and(|start| start < host + 14) {
        (slack?, "slack-webhook")
    } else if path.first().is_some_and(u8::is_ascii_digit) {
        (host, "discord-webhook")
    } else {
        return None;
    };
    let start = if byte_at(bytes, start) == b'/' { start + 1 } else { start };
    (end >= start + 20 && is_random(bytes.get(start..end)?)).then_some(SecretSpan { start, end, kind })
}

/// `scheme://user:PASSWORD@host`: the password alone; `scheme://TOKEN@host`: a token in place of the user.
fn find_url_credentials(bytes: &[u8], start: usize, end: usize) -> Option<SecretSpan> {
    if !start.checked_sub(1).is_some_and(|place| byte_at(bytes, place).is_ascii_alphanumeric()) {
        return None;
    }
    let most = bytes.get(..bytes.len().min(end + MAX_USER_INFO_BYTES))?;
    let user = run_end(most, end, |byte| is_base64url(byte) || matches!(byte, b'.' | b'~' | b'%' | b'+'));
    if byte_at(bytes, user) == b'@' {
        let name = bytes.get(end..user)?;
        let random = name.len() >= 20 && is_random(name) && !super::value::is_identifier(name);
        return random.then_some(SecretSpan { start: end, end: user, kind: "url-token" });
    }
    if byte_at(bytes, user) != b':' {
        return None;
    }
    let from = user + 1;
    let mut to = run_end(most, from, is_password_byte);
    if byte_at(bytes, to) != b'@' {
        return None;
    }
    // The password may contain `@`: the last one before the host counts.
    loop {
        let next = run_end(most, to + 1, is_password_byte);
        if byte_at(bytes, next) != b'@' {
            break;
        }
        to = next;
    }
    let after = byte_at(bytes, to + 1);
    let host = (after.is_ascii_alphanumeric() || matches!(after, b'/' | b'['))
        && !starts_with_at(bytes, to + 1, b"sha256:");
    let password = bytes.get(from..to)?;
    let real = password.len() >= 3
        && !super::value::is_placeholder(password)
        && !super::value::is_reference(password);
    (host && real).then_some(SecretSpan { start: from, end: to, kind: "url-password" })
}

fn is_password_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'\\/<>{}[]`?#|@".contains(&byte)
}
