//! Secrets that are known by their own shape: tokens with a prefix, JSON Web Tokens, private keys, passwords in URLs.

use super::Find;
use super::anchors::Anchor;
use super::raw::{at, run, starts, word_begins};

/// A token with a prefix.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) prefix: &'static str,
    kind: &'static str,
    bytes: fn(u8) -> bool,
    least: usize,
    most: usize,
    mixed: bool,
}

const fn token(prefix: &'static str, kind: &'static str, bytes: fn(u8) -> bool, least: usize) -> Token {
    Token { prefix, kind, bytes, least, most: usize::MAX, mixed: false }
}

/// A token of which a run of 16 letters and digits, both among them, must be random.
const fn mixed(prefix: &'static str, kind: &'static str, bytes: fn(u8) -> bool, least: usize) -> Token {
    Token { prefix, kind, bytes, least, most: usize::MAX, mixed: true }
}

const fn aws(prefix: &'static str) -> Token {
    Token { prefix, kind: "aws-key", bytes: upper, least: 16, most: 16, mixed: false }
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn letters(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(super) fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn hook(byte: u8) -> bool {
    dashed(byte) || byte == b'/'
}

/// Tokens that begin with a prefix of their own.
pub(super) const TOKENS: &[Token] = &[
    aws("AKIA"),
    aws("ASIA"),
    aws("ABIA"),
    aws("ACCA"),
    token("ghp_", "github-token", letters, 30),
    token("gho_", "github-token", letters, 30),
    token("ghu_", "github-token", letters, 30),
    token("ghs_", "github-token", letters, 30),
    token("ghr_", "github-token", letters, 30),
    token("github_pat_", "github-token", word, 22),
    token("glpat-", "gitlab-token", dashed, 20),
    token("gldt-", "gitlab-token", dashed, 20),
    token("glrt-", "gitlab-token", dashed, 20),
    mixed("sk-ant-", "anthropic-key", dashed, 20),
    mixed("sk-proj-", "openai-key", dashed, 20),
    mixed("sk-", "openai-key", dashed, 20),
    token("AIza", "google-key", dashed, 35),
    mixed("ya29.", "google-token", dashed, 20),
    mixed("GOCSPX-", "google-secret", dashed, 20),
    mixed("xoxa-", "slack-token", dashed, 10),
    mixed("xoxb-", "slack-token", dashed, 10),
    mixed("xoxp-", "slack-token", dashed, 10),
    mixed("xoxo-", "slack-token", dashed, 10),
    mixed("xoxs-", "slack-token", dashed, 10),
    mixed("xoxr-", "slack-token", dashed, 10),
    mixed("xapp-", "slack-token", dashed, 20),
    token("sk_live_", "stripe-key", letters, 16),
    token("sk_test_", "stripe-key", letters, 16),
    token("rk_live_", "stripe-key", letters, 16),
    token("rk_test_", "stripe-key", letters, 16),
    token("whsec_", "stripe-key", letters, 24),
    token("npm_", "npm-token", letters, 36),
    mixed("hf_", "huggingface-token", letters, 30),
    token("dop_v1_", "digitalocean-token", hex, 64),
    token("shpat_", "shopify-token", hex, 32),
    token("shpss_", "shopify-token", hex, 32),
    mixed("hvs.", "vault-token", dashed, 20),
    mixed("gsk_", "groq-key", letters, 40),
    mixed("xai-", "xai-key", letters, 40),
    mixed("dckr_pat_", "docker-token", dashed, 20),
    mixed("lin_api_", "linear-key", letters, 30),
    mixed("glsa_", "grafana-token", word, 32),
    token("AGE-SECRET-KEY-1", "age-key", upper, 50),
    token("pypi-Ag", "pypi-token", dashed, 50),
    token("glcbt-", "gitlab-token", dashed, 20),
    token("glptt-", "gitlab-token", dashed, 20),
    token("glft-", "gitlab-token", dashed, 20),
    token("glsoat-", "gitlab-token", dashed, 20),
    token("glimt-", "gitlab-token", dashed, 20),
    token("glagent-", "gitlab-token", dashed, 20),
    mixed("GR1348941", "gitlab-token", dashed, 20),
    mixed("xoxc-", "slack-token", dashed, 10),
    mixed("xoxd-", "slack-token", dashed, 10),
    mixed("xoxe-", "slack-token", dashed, 10),
    mixed("xoxe.xox", "slack-token", dashed, 20),
    mixed("api_org_", "huggingface-token", letters, 30),
    mixed("1//0", "google-token", dashed, 40),
    token("doo_v1_", "digitalocean-token", hex, 64),
    token("dor_v1_", "digitalocean-token", hex, 64),
    token("shpca_", "shopify-token", hex, 32),
    token("shppa_", "shopify-token", hex, 32),
    mixed("hvb.", "vault-token", dashed, 20),
    token("dapi", "databricks-token", hex, 32),
    mixed("ATATT3", "atlassian-token", dashed, 30),
    mixed("ATCTT3", "atlassian-token", dashed, 30),
    mixed("ATBB", "atlassian-token", letters, 28),
    mixed("r8_", "replicate-token", letters, 30),
    mixed("pplx-", "perplexity-key", letters, 30),
    mixed("sntrys_", "sentry-token", dashed, 30),
    mixed("sntryu_", "sentry-token", letters, 30),
    mixed("dckr_oat_", "docker-token", dashed, 20),
    mixed("lsv2_pt_", "langsmith-key", word, 30),
    mixed("lsv2_sk_", "langsmith-key", word, 30),
    mixed("PMAK-", "postman-key", dashed, 40),
    mixed("sq0atp-", "square-token", dashed, 20),
    mixed("sq0csp-", "square-token", dashed, 30),
    mixed("tskey-", "tailscale-key", dashed, 20),
    mixed("HRKU-", "heroku-key", dashed, 30),
    mixed("NRAK-", "newrelic-key", upper, 20),
    mixed("nfp_", "netlify-token", letters, 30),
    mixed("ntn_", "notion-token", letters, 30),
    mixed("pul-", "pulumi-token", hex, 40),
    mixed("pscale_tkn_", "planetscale-token", dashed, 30),
    mixed("pscale_pw_", "planetscale-password", dashed, 30),
    mixed("rubygems_", "rubygems-key", hex, 40),
    mixed("sbp_", "supabase-token", hex, 32),
    mixed("figd_", "figma-token", dashed, 30),
    mixed("glc_eyJ", "grafana-token", letters, 30),
    mixed("ops_eyJ", "1password-token", dashed, 60),
    mixed("bkua_", "buildkite-token", letters, 30),
    mixed("CCIPAT_", "circleci-token", word, 30),
    mixed("cfut_", "cloudflare-token", letters, 30),
];

/// The longest user and password of a URL.
const USER_INFO_BYTES: usize = 320;
/// The longest path of a webhook.
const HOOK_BYTES: usize = 256;
/// How far a run of letters, digits and dashes was looked at in vain, so that it is not looked at again from each of
/// its parts.
#[derive(Default)]
pub(super) struct Vain {
    random: usize,
    jwt: usize,
}

/// Looks closely at a hit between `start` and `end`.
pub(super) fn find(bytes: &[u8], anchor: Anchor, start: usize, end: usize, vain: &mut Vain) -> Option<Find> {
    match anchor {
        Anchor::Token(token) => prefixed(bytes, start, token, vain),
        Anchor::Jwt => jwt(bytes, start, vain),
        Anchor::Pem => pem(bytes, start, end),
        Anchor::Url => url(bytes, start, end),
        Anchor::Telegram => telegram(bytes, start),
        Anchor::Twilio => twilio(bytes, start),
        Anchor::SendGrid => send_grid(bytes, start),
        Anchor::Hook => webhook(bytes, end),
        _ => None,
    }
}

fn prefixed(bytes: &[u8], start: usize, token: &'static Token, vain: &mut Vain) -> Option<Find> {
    if !word_begins(bytes, start) || !starts(bytes, start, token.prefix.as_bytes()) {
        return None;
    }
    let from = start + token.prefix.len();
    if token.mixed && start < vain.random {
        return None;
    }
    let mut end = run(bytes, from, token.bytes);
    // What follows a sentence's or a shell's dash is not part of it.
    while end > from && at(bytes, end - 1) == b'-' {
        end -= 1;
    }
    let length = end - from;
    let fits = length >= token.least && length <= token.most;
    let random = !token.mixed || is_random(bytes.get(from..end).unwrap_or_default());
    if !random {
        vain.random = end;
    }
    (fits && random).then_some(Find { start, end, kind: token.kind })
}

/// Whether some part between dashes is long, and letters and digits are mixed in the whole.
pub(super) fn is_random(text: &[u8]) -> bool {
    let long = text.split(|byte| !byte.is_ascii_alphanumeric()).any(|part| part.len() >= 10);
    long && text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic)
}

fn jwt(bytes: &[u8], start: usize, vain: &mut Vain) -> Option<Find> {
    if start < vain.jwt || !starts(bytes, start, b"eyJ") || !word_begins(bytes, start) {
        return None;
    }
    let first = run(bytes, start, dashed);
    let second = run(bytes, first + 1, dashed);
    let third = run(bytes, second + 1, dashed);
    let parts = first - start >= 10 && second > first + 10 && third > second + 10;
    let dots = at(bytes, first) == b'.' && at(bytes, second) == b'.';
    if !dots {
        vain.jwt = first;
    }
    (parts && dots).then_some(Find { start, end: third, kind: "jwt" })
}

/// Line breaks may be escapes: `\n`, or `\\n` inside a text inside the text.
fn pem(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let label = run(bytes, end, |byte| upper(byte) || byte == b' ');
    let name = bytes.get(end..label)?.trim_ascii_end();
    let private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    // SSH2 keys have four dashes, the others five.
    if !private || !starts(bytes, label, b"----") {
        return None;
    }
    let kind = "private-key";
    let (mut place, mut line, mut longest, mut last) = (label + 4, 0, 0, 0);
    loop {
        match at(bytes, place) {
            b'-' if starts(bytes, place, b"-----END ") || starts(bytes, place, b"---- END ") => {
                let close = run(bytes, place + 9, |byte| upper(byte) || byte == b' ');
                return Some(Find { start, end: run(bytes, close, |byte| byte == b'-'), kind });
            }
            b'-' if starts(bytes, place, b"-----BEGIN ") || starts(bytes, place, b"---- BEGIN ") => break,
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') => {
                (place, line) = (place + 1, line + 1);
                (last, longest) = (place, longest.max(line));
            }
            b' ' | b'-' | b':' | b',' | b'.' | b'\n' | b'\r' | b'\t' | b'(' | b')' | b'@' => {
                (place, line) = (place + 1, 0)
            }
            b'\\' if at(bytes, place + 1) == b'/' => (place, line) = (place + 2, line + 1),
            b'\\' if matches!(at(bytes, place + 1), b'n' | b'r' | b't' | b'\\') => {
                (place, line) = (place + 2, 0)
            }
            _ => break,
        }
    }
    // Cut short: a key without its end is a key all the same, if it has a line of one.
    (longest >= 40).then_some(Find { start, end: last, kind })
}

fn telegram(bytes: &[u8], start: usize) -> Option<Find> {
    let digits =
        (1..=11).take_while(|n| start.checked_sub(*n).is_some_and(|p| at(bytes, p).is_ascii_digit()));
    let digits = digits.count();
    let end = run(bytes, start + 1, dashed);
    let begin = start - digits;
    let fits = (8..=10).contains(&digits) && end - start == 36 && starts(bytes, start, b":AA");
    // In the address of an API call the number stands behind `bot`.
    let free = word_begins(bytes, begin) || begin.checked_sub(3).is_some_and(|p| starts(bytes, p, b"bot"));
    (fits && free).then_some(Find { start: begin, end, kind: "telegram-token" })
}

fn twilio(bytes: &[u8], start: usize) -> Option<Find> {
    let end = run(bytes, start + 2, hex);
    let fits = end - start == 34 && starts(bytes, start, b"SK") && word_begins(bytes, start);
    (fits && !word(at(bytes, end))).then_some(Find { start, end, kind: "twilio-key" })
}

fn send_grid(bytes: &[u8], start: usize) -> Option<Find> {
    if !starts(bytes, start, b"SG.") || !word_begins(bytes, start) {
        return None;
    }
    let first = run(bytes, start + 3, dashed);
    let second = run(bytes, first + 1, dashed);
    let fits = (16..=32).contains(&(first - start - 3)) && at(bytes, first) == b'.' && second > first + 30;
    fits.then_some(Find { start, end: second, kind: "sendgrid-key" })
}

fn webhook(bytes: &[u8], host: usize) -> Option<Find> {
    let end = run(bytes.get(..bytes.len().min(host + HOOK_BYTES))?, host, hook);
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
    let start = if at(bytes, start) == b'/' { start + 1 } else { start };
    (end >= start + 20 && is_random(bytes.get(start..end)?)).then_some(Find { start, end, kind })
}

/// `scheme://user:PASSWORD@host`: the password alone; `scheme://TOKEN@host`: a token in the place of the user.
fn url(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if !start.checked_sub(1).is_some_and(|place| at(bytes, place).is_ascii_alphanumeric()) {
        return None;
    }
    let most = bytes.get(..bytes.len().min(end + USER_INFO_BYTES))?;
    let user = run(most, end, |byte| dashed(byte) || matches!(byte, b'.' | b'~' | b'%' | b'+'));
    if at(bytes, user) == b'@' {
        let name = bytes.get(end..user)?;
        let random = name.len() >= 20 && is_random(name) && !super::value::is_identifier(name);
        return random.then_some(Find { start: end, end: user, kind: "url-token" });
    }
    if at(bytes, user) != b':' {
        return None;
    }
    let from = user + 1;
    let mut to = run(most, from, in_password);
    if at(bytes, to) != b'@' {
        return None;
    }
    // A password with an `@` of its own: the last one before the host counts.
    loop {
        let next = run(most, to + 1, in_password);
        if at(bytes, next) != b'@' {
            break;
        }
        to = next;
    }
    let after = at(bytes, to + 1);
    let host =
        (after.is_ascii_alphanumeric() || matches!(after, b'/' | b'[')) && !starts(bytes, to + 1, b"sha256:");
    let password = bytes.get(from..to)?;
    let real =
        password.len() >= 3 && !super::value::is_filler(password) && !super::value::is_reference(password);
    (host && real).then_some(Find { start: from, end: to, kind: "url-password" })
}

fn in_password(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'\\/<>{}[]`?#|@".contains(&byte)
}
