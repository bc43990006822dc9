//! Whether a value beside a name such as `password` is a secret, or a word, a reference or a gap to fill in.

/// How the value was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// In quotes of any kind.
    pub(super) quoted: bool,
    /// A member of the event's own JSON, not of a text inside it.
    pub(super) member: bool,
    /// Written as only values are: `--password=…`, `?password=…`, `DB_PASSWORD=…`.
    pub(super) loud: bool,
    /// Beside a name that only says `token` or `key`.
    pub(super) token: bool,
    /// Beside the name of a user.
    pub(super) login: bool,
}

/// Words that stand for a value, or are a type or a state.
const FILLERS: [&str; 42] = [
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
/// What a reference to a secret begins with.
const REFERENCES: [&str; 22] = [
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
pub(super) fn is_secret(value: &[u8], context: Context) -> bool {
    if value.len() < 6 || is_reference(value) || is_path(value) || is_filler(value) {
        return false;
    }
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    if context.token {
        let least = if context.loud { 8 } else { 16 };
        let random =
            digit && letter && !value.contains(&b' ') && !is_identifier(value) && !holds_break(value);
        return value.len() >= least && random;
    }
    if context.member {
        return true;
    }
    if value.contains(&b' ') || holds_break(value) {
        // Words of a sentence, unless one of them is not a word.
        let odd = |word: &[u8]| {
            let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
            word.len() >= 6
                && digits > 0
                && digits < word.len()
                && word.iter().all(|byte| byte.is_ascii_graphic())
        };
        return context.quoted && !holds_break(value) && value.split(|byte| *byte == b' ').any(odd);
    }
    let symbol = value.iter().any(|byte| b"!@#$%^&*+=?~/".contains(byte));
    if !digit && !symbol {
        return is_plain_secret(value, context);
    }
    if context.quoted || context.loud {
        return !is_identifier(value);
    }
    // A bare word in a text: it must not be one that a person or a program would write there.
    let mixed = digit || (symbol && letter && value.len() >= 8);
    mixed && !is_identifier(value) && value.is_ascii()
}

/// A value without digits and symbols: letters, dashes, underscores, dots.
fn is_plain_secret(value: &[u8], context: Context) -> bool {
    let parts = value.split(|byte| !byte.is_ascii_alphabetic()).count();
    let inner_capital = value
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    let label = value.first().is_some_and(u8::is_ascii_uppercase) && !inner_capital && value.len() <= 16;
    if !value.is_ascii() || value.iter().any(|byte| b"_.:/()[]{}<>,;\\".contains(byte)) {
        return false;
    }
    if context.loud || context.login {
        return !has_filler_part(value);
    }
    context.quoted && (parts == 1 || parts >= 4) && !label && !has_filler_part(value)
}

fn holds_break(value: &[u8]) -> bool {
    value.windows(2).any(|pair| pair == b"\\n" || pair == b"\\r")
        || value.iter().any(|byte| b"\n\r".contains(byte))
}

/// `db-credentials-v2`, `config.api_key2`: several parts, each a word, a small number or a word with a digit or two.
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
    begins || gap || braces || REFERENCES.iter().any(|word| lower.starts_with(word.as_bytes()))
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

/// A gap to fill in: one sign over and over, or a word that stands for a value.
pub(super) fn is_filler(value: &[u8]) -> bool {
    let first = value.first().copied().unwrap_or(0);
    let same = value.iter().all(|byte| *byte == first);
    let dots = value.iter().all(|byte| b"*xX.-_ #".contains(byte) || *byte >= 0x80)
        && !value.iter().any(u8::is_ascii_digit);
    let lower = value.to_ascii_lowercase();
    let gap = lower.starts_with(b"your") || lower.starts_with(b"changeme") || lower.starts_with(b"xxxx");
    same || (dots && value.is_ascii()) || gap || FILLERS.iter().any(|word| lower == word.as_bytes())
}

/// Whether one of the words in it stands for a value: `my-password`, `yourApiKey`.
fn has_filler_part(value: &[u8]) -> bool {
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
    words.iter().any(|word| FILLERS.iter().any(|filler| word == filler.as_bytes()))
}

/// Whether what stands behind `Bearer` or `Basic` is not a word.
pub(super) fn is_credential(value: &[u8]) -> bool {
    let digit = value.iter().any(u8::is_ascii_digit);
    let upper = value.iter().skip(1).any(u8::is_ascii_uppercase);
    let lower = value.iter().any(u8::is_ascii_lowercase);
    (digit || (upper && lower))
        && !is_filler(value)
        && !is_reference(value)
        && !is_identifier(value)
        && !is_path(value)
}
