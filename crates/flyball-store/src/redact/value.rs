//! Decides whether a value next to a name such as `password` is a secret, or a word, a reference or a placeholder.

/// How the value is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueContext {
    /// In quotes of any kind.
    pub(super) quoted: bool,
    /// A member of the event's own JSON, not of nested text.
    pub(super) event_member: bool,
    /// In a form that only values have: `--password=…`, `?password=…`, `DB_PASSWORD=…`.
    pub(super) explicit: bool,
    /// Next to a name that is only `token` or `key`.
    pub(super) token: bool,
    /// Next to a user name.
    pub(super) beside_user: bool,
}

/// Words that are placeholders, types or states.
const PLACEHOLDER_WORDS: [&str; 42] = [
    "apikey",
    "boolean",
    "bytes",
    "change",
    "changeme",
    "default",
    "disabled",
    "dummy",
    "enabled",
    "example",
    "fake",
    "false",
    "hidden",
    "input",
    "insert",
    "integer",
    "invalid",
    "key",
    "mock",
    "nil",
    "none",
    "null",
    "object",
    "optional",
    "pass",
    "passwd",
    "password",
    "placeholder",
    "pwd",
    "redacted",
    "required",
    "sample",
    "secret",
    "string",
    "text",
    "todo",
    "token",
    "true",
    "undefined",
    "unknown",
    "value",
    "your",
];
/// Prefixes of references to secrets.
const REFERENCE_PREFIXES: [&str; 22] = [
    "arn:",
    "base64:",
    "env.",
    "env:",
    "file:",
    "gcp:",
    "http://",
    "https://",
    "import.meta",
    "kms:",
    "keyvault",
    "op://",
    "os.",
    "process.env",
    "projects/",
    "ref:",
    "req.",
    "secretsmanager",
    "settings.",
    "ssm:",
    "this.",
    "vault:",
];

/// Whether the value is a secret.
pub(super) fn is_secret(value: &[u8], context: ValueContext) -> bool {
    if value.len() < 6 || is_reference(value) || is_path(value) || is_placeholder(value) {
        return false;
    }
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    if context.token {
        let least = if context.explicit { 8 } else { 16 };
        let random =
            digit && letter && !value.contains(&b' ') && !is_identifier(value) && !contains_line_break(value);
        return value.len() >= least && random;
    }
    if context.event_member {
        return true;
    }
    if value.contains(&b' ') || contains_line_break(value) {
        // Words of a sentence, unless one of them is not a word.
        let odd = |word: &[u8]| {
            let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
            word.len() >= 6
                && digits > 0
                && digits < word.len()
                && word.iter().all(|byte| byte.is_ascii_graphic())
        };
        return context.quoted && !contains_line_break(value) && value.split(|byte| *byte == b' ').any(odd);
    }
    let symbol = value.iter().any(|byte| b"!@#$%^&*+=?~/".contains(byte));
    if !digit && !symbol {
        return is_plain_secret(value, context);
    }
    if context.quoted || context.explicit {
        return !is_identifier(value);
    }
    // A bare word in a text: it must not be one that a person or a program would plausibly write there.
    let mixed = digit || (symbol && letter && value.len() >= 8);
    mixed && !is_identifier(value) && value.is_ascii()
}

/// Judges a value without digits and symbols: letters, dashes, underscores, dots.
fn is_plain_secret(value: &[u8], context: ValueContext) -> bool {
    let parts = value.split(|byte| !byte.is_ascii_alphabetic()).count();
    let inner_capital = value
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    let label = value.first().is_some_and(u8::is_ascii_uppercase) && !inner_capital && value.len() <= 16;
    if !value.is_ascii() || value.iter().any(|byte| b"_.:/()[]{}<>,;\\".contains(byte)) {
        return false;
    }
    if context.explicit || context.beside_user {
        return !has_placeholder_word(value);
    }
    context.quoted && (parts == 1 || parts >= 4) && !label && !has_placeholder_word(value)
}

fn contains_line_break(value: &[u8]) -> bool {
    value.windows(2).any(|pair| pair == b"\\n" || pair == b"\\r")
        || value.iter().any(|byte| b"\n\r".contains(byte))
}

/// `db-credentials-v2`, `config.api_key2`: several parts, each a word, a small number, or a word with one or two
/// digits.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> =
        value.split(|byte| b"-_./:|,".contains(byte)).filter(|part| !part.is_empty()).collect();
    let simple = |part: &&[u8]| {
        let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let digits = part.iter().skip(letters).take_while(|byte| byte.is_ascii_digit()).count();
        let whole = letters + digits == part.len();
        whole && (digits == 0 || digits <= 2 || (letters == 0 && digits <= 4))
    };
    parts.len() >= 2 && parts.iter().all(simple)
}

/// `$VAR`, `${…}`, `<…>`, `{{…}}`, `%(x)s`, `!Ref`, `os.environ[…]`, an address.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let second = value.get(1).copied().unwrap_or(0);
    let begins = match value.first() {
        Some(b'$') => second.is_ascii_alphabetic() || matches!(second, b'_' | b'{' | b'(' | b'$'),
        Some(b'%') => second.is_ascii_alphabetic() || second == b'(',
        Some(b'{' | b'<' | b'[' | b'(' | b'*' | b':' | b'?') => true,
        Some(b'!' | b'@' | b'&') => {
            value.iter().skip(1).all(|byte| byte.is_ascii_alphabetic() || b"_-. ".contains(byte))
        }
        _ => false,
    };
    let holds = |text: &[u8]| value.windows(text.len()).any(|part| part == text);
    let gap = holds(b"${") || holds(b"#{") || holds(b"%(") || holds(b"$(") || holds(b"[redacted:");
    let braces = value.contains(&b'{') && value.contains(&b'}');
    let plain = value.iter().filter(|byte| **byte != b'\\').take(16);
    let lower: Vec<u8> = plain.map(u8::to_ascii_lowercase).collect();
    begins || gap || braces || REFERENCE_PREFIXES.iter().any(|word| lower.starts_with(word.as_bytes()))
}

pub(super) fn is_path(value: &[u8]) -> bool {
    let starts = [&b"/"[..], b"./", b"../", b"~/", b"\\/"].iter().any(|start| value.starts_with(start));
    let drive = matches!(value, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    let ending = [
        &b".pem"[..],
        b".key",
        b".json",
        b".txt",
        b".yaml",
        b".yml",
        b".py",
        b".js",
        b".ts",
        b".md",
        b".html",
    ];
    (starts && value.len() != 40) || drive || ending.iter().any(|end| value.ends_with(end))
}

/// A placeholder: one character repeated, or a placeholder word.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let first = value.first().copied().unwrap_or(0);
    let same = value.iter().all(|byte| *byte == first);
    let dots = value.iter().all(|byte| b"*xX.-_ #".contains(byte) || *byte >= 0x80)
        && !value.iter().any(u8::is_ascii_digit);
    let lower = value.to_ascii_lowercase();
    let gap = lower.starts_with(b"your") || lower.starts_with(b"changeme") || lower.starts_with(b"xxxx");
    same || (dots && value.is_ascii()) || gap || PLACEHOLDER_WORDS.iter().any(|word| lower == word.as_bytes())
}

/// Whether one of its words is a placeholder: `my-password`, `yourApiKey`.
fn has_placeholder_word(value: &[u8]) -> bool {
    let mut words: Vec<Vec<u8>> = vec![Vec::new()];
    let mut before = b'A';
    for byte in value {
        let new = !byte.is_ascii_alphabetic() || (byte.is_ascii_uppercase() && before.is_ascii_lowercase());
        if new {
            words.push(Vec::new());
        }
        if let (true, Some(word)) = (byte.is_ascii_alphabetic(), words.last_mut()) {
            word.push(byte.to_ascii_lowercase());
        }
        before = *byte;
    }
    words.iter().any(|word| PLACEHOLDER_WORDS.iter().any(|filler| word == filler.as_bytes()))
}

/// Whether the text after `Bearer` or `Basic` is not a word.
pub(super) fn is_credential(value: &[u8]) -> bool {
    let digit = value.iter().any(u8::is_ascii_digit);
    let upper = value.iter().skip(1).any(u8::is_ascii_uppercase);
    let lower = value.iter().any(u8::is_ascii_lowercase);
    (digit || (upper && lower))
        && !is_placeholder(value)
        && !is_reference(value)
        && !is_identifier(value)
        && !is_path(value)
}
