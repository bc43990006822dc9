//! Secrets that are known by their own shape: tokens with a prefix, JSON Web Tokens, private keys, passwords in URLs.

use super::Find;
use super::raw::{at, run, starts, word_begins};

/// What a hit of the scanner may be the beginning of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    /// A token of the table.
    Token(&'static Token),
    /// Three parts in base64url.
    Jwt,
    /// `-----BEGIN … PRIVATE KEY-----`.
    Pem,
    /// `scheme://`.
    Url,
    /// `12345678:AA…`.
    Telegram,
    /// `SK` and 32 hexadecimal digits.
    Twilio,
    /// `SG.….…`.
    SendGrid,
    /// The address of a webhook, which is a secret itself.
    Hook,
    /// A name such as `password`.
    Word,
}

/// A token with a prefix.
#[derive(Debug)]
pub(super) struct Token {
    prefix: &'static str,
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

fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn hook(byte: u8) -> bool {
    dashed(byte) || byte == b'/'
}

/// A longer prefix stands before a shorter one that it begins with.
static TOKENS: [Token; 44] = [
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
    token("pypi-AgEI", "pypi-token", dashed, 50),
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
];

/// The longest path of a webhook.
const HOOK_BYTES: usize = 256;
/// Names that may stand beside a secret; `keyed.rs` looks at the whole name.
const WORDS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "api_key",
    "apikey",
    "api-key",
    "token",
    "private_key",
    "privatekey",
    "private-key",
    "accountkey",
    "account_key",
    "sharedaccesskey",
    "authorization",
    "bearer ",
];

/// Everything that the scanner looks for.
pub(super) fn anchors() -> Vec<(String, Anchor)> {
    let mut anchors: Vec<(String, Anchor)> = Vec::new();
    for token in &TOKENS {
        // One anchor for all that begin alike; the longest that fits is found later.
        if !matches!(token.prefix, "sk-ant-" | "sk-proj-") {
            anchors.push((token.prefix.to_owned(), Anchor::Token(token)));
        }
    }
    anchors.extend("0123456789abcdef".chars().map(|digit| (format!("sk{digit}"), Anchor::Twilio)));
    let others = [
        ("eyJ", Anchor::Jwt),
        ("-----BEGIN ", Anchor::Pem),
        ("://", Anchor::Url),
        (":\\/\\/", Anchor::Url),
        (":AA", Anchor::Telegram),
        ("SG.", Anchor::SendGrid),
        ("hooks.slack.com", Anchor::Hook),
        ("api/webhooks/", Anchor::Hook),
    ];
    anchors.extend(others.into_iter().map(|(word, anchor)| (word.to_owned(), anchor)));
    anchors.extend(WORDS.into_iter().map(|word| (word.to_owned(), Anchor::Word)));
    anchors
}

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
        Anchor::Token(first) => prefixed(bytes, start, first, vain),
        Anchor::Jwt => jwt(bytes, start, vain),
        Anchor::Pem => pem(bytes, start, end),
        Anchor::Url => url(bytes, start, end),
        Anchor::Telegram => telegram(bytes, start),
        Anchor::Twilio => twilio(bytes, start),
        Anchor::SendGrid => send_grid(bytes, start),
        Anchor::Hook => webhook(bytes, end),
        Anchor::Word => None,
    }
}

fn prefixed(bytes: &[u8], start: usize, first: &'static Token, vain: &mut Vain) -> Option<Find> {
    if !word_begins(bytes, start) {
        return None;
    }
    let longer = TOKENS.iter().filter(|token| token.prefix.starts_with(first.prefix));
    let token = longer.into_iter().find(|token| starts(bytes, start, token.prefix.as_bytes()))?;
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
fn is_random(text: &[u8]) -> bool {
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

/// Line breaks are escapes here: `\n`, or `\\n` inside a text inside the text.
fn pem(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    let label = run(bytes, end, |byte| upper(byte) || byte == b' ');
    if !starts(bytes, label, b"-----") || !bytes.get(end..label)?.ends_with(b"PRIVATE KEY") {
        return None;
    }
    let kind = "private-key";
    let (mut place, mut line, mut longest, mut last) = (label + 5, 0, 0, 0);
    loop {
        match at(bytes, place) {
            b'-' if starts(bytes, place, b"-----END ") => {
                let close = run(bytes, place + 9, |byte| upper(byte) || byte == b' ');
                let end = if starts(bytes, close, b"-----") { close + 5 } else { close };
                return Some(Find { start, end, kind });
            }
            b'-' if starts(bytes, place, b"-----BEGIN ") => break,
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') => {
                (place, line) = (place + 1, line + 1);
                (last, longest) = (place, longest.max(line));
            }
            b' ' | b'-' | b':' | b',' | b'.' => (place, line) = (place + 1, 0),
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

/// `scheme://user:PASSWORD@host`: the password alone.
fn url(bytes: &[u8], start: usize, end: usize) -> Option<Find> {
    if !start.checked_sub(1).is_some_and(|place| at(bytes, place).is_ascii_alphanumeric()) {
        return None;
    }
    let user = run(bytes, end, |byte| dashed(byte) || matches!(byte, b'.' | b'~' | b'%' | b'+'));
    if at(bytes, user) != b':' {
        return None;
    }
    let from = user + 1;
    let mut to = run(bytes, from, in_password);
    if at(bytes, to) != b'@' || to - from > 256 {
        return None;
    }
    // A password with an `@` of its own: the last one before the host counts.
    loop {
        let next = run(bytes, to + 1, in_password);
        if at(bytes, next) != b'@' || next - from > 256 {
            break;
        }
        to = next;
    }
    let host = at(bytes, to + 1).is_ascii_alphanumeric() && !starts(bytes, to + 1, b"sha256:");
    let password = bytes.get(from..to)?;
    let real = password.len() >= 3 && !super::value::is_filler(password);
    (host && real).then_some(Find { start: from, end: to, kind: "url-password" })
}

fn in_password(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'\\/<>{}$[]()*`,?#|@".contains(&byte)
}
