//! Invented secrets are removed, ordinary texts are unchanged, and the result is valid JSON.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Redactor;

#[path = "benign_tests.rs"]
mod benign;

fn redactor() -> Redactor {
    Redactor::new(true, &[]).unwrap()
}

/// Invented secrets, each with a text that contains it. They are assembled from parts, so that secret scanners ignore
/// this file.
fn secret_samples() -> Vec<(String, String)> {
    let a36 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let hex32 = "0123456789abcdef0123456789abcdef";
    let mut list: Vec<(String, String)> = Vec::new();
    let mut add = |secret: String, text: &str| {
        list.push((secret.clone(), text.replace("@@", &secret)));
    };
    for prefix in ["ghp", "gho", "ghu", "ghs", "ghr"] {
        add(format!("{prefix}_{a36}"), "git push https://@@@github.com/a/b");
        add(format!("{prefix}_{a36}"), "token was\n@@\nhere");
    }
    add(format!("github_{}_{a36}_{a36}", "pat"), "remote: use @@ instead.");
    add(format!("gl{}-{}", "pat", "abcDEF123456ghiJKL78"), "PRIVATE-TOKEN: @@");
    add(format!("AK{}{}", "IA", "Z7QWERTYUIOP2345"), "aws configure set aws_access_key_id @@");
    add(format!("AS{}{}", "IA", "Z7QWERTYUIOP2345"), "[\"@@\"]");
    add(
        ["wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYzzMADEUPKEYx"].join("/"),
        "aws_secret_access_key = @@\nregion = x",
    );
    add(["wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYzzMADEUPKEYx"].join("+"), "AWS_SECRET_ACCESS_KEY=@@");
    add(["wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYzzMADEUPKEYx"].join("+"), r#"{"SecretAccessKey": "@@"}"#);
    add(format!("{}-{a36}{a36}", "sk"), "openai.api_base, @@, x");
    add(format!("{}-proj-{a36}_{a36}-x", "sk"), "export OPENAI=@@");
    add(format!("{}-ant-api03-{a36}-{a36}AA", "sk"), "x-key: @@");
    add(format!("AI{}{}", "za", "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6q"), "maps?key=@@&v=3");
    for kind in ["a", "b", "o", "p", "r", "s"] {
        let parts = ["123456789012", "234567890123", "aBcDeFgHiJkLmNoPqRsTuVwX"];
        add(format!("xox{kind}-{}", parts.join("-")), "slack says @@!");
    }
    add(
        ["T0AB12CD3", "B0EF45GH6", "a1B2c3D4e5F6g7H8i9J0k1L2"].join("/"),
        "https://hooks.slack.com/services/@@",
    );
    add(format!("sk_{}_{}", "live", "4eC39HqLyjWDarjtT1zdp7dc"), "stripe.api = '@@'");
    add(format!("rk_{}_{}", "live", "4eC39HqLyjWDarjtT1zdp7dc"), "curl -u @@:");
    add(format!("{}_{a36}", "npm"), "//registry.npmjs.org/:_authToken=@@");
    add(
        format!("{}-AgEI{}", "pypi", "cHlwaS5vcmcCJDEyMzQ1Njc4LWFiY2QtZWYwMS0yMzQ1LTY3ODlhYmNkZWYwMQ"),
        "twine @@",
    );
    add(format!("{}_{}", "hf", "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"), "login(@@)");
    add(
        format!("SG.{}.{}", "aBcDeFgHiJkLmNoPqRsTuV", "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789-_abcde"),
        "key @@",
    );
    add(format!("S{}{hex32}", "K"), "twilio @@ sid");
    add(hex32.to_owned(), "TWILIO_AUTH_TOKEN=@@");
    add(format!("123456789:A{}", "AHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"), "bot token @@");
    add(
        format!("123456789:A{}", "AHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"),
        "https://api.telegram.org/bot@@/getMe",
    );
    let jwt = [
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    ];
    add(jwt.join("."), "cookie: session=@@; path=/");
    add(jwt.join("."), "Authorization: Bearer @@");
    let body = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaU4oGKnE5jz4xzF\n".repeat(3);
    for label in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY"] {
        add(body.clone(), &format!("-----BEGIN {label}-----\n@@-----END {label}-----\nnext"));
    }
    add(body.clone(), "cat id_rsa: -----BEGIN RSA PRIVATE KEY-----\n@@");
    add("c2VjcmV0LXZhbHVlOjEyMzQ1Ng==".to_owned(), "-H 'Authorization: Basic @@'");
    add("dXNlcjpwYXNzd29yZA==".to_owned(), "authorization=Basic @@");
    add("9f86d081884c7d659a2feaa0c55ad015".to_owned(), "{'Authorization': 'Bearer @@'}");
    add("9f86d081884c7d659a2feaa0c55ad015".to_owned(), "curl -H \"Authorization: token @@\" x");
    add("tr0ub4dor&3".to_owned(), "postgres://app:@@@db.example.org:5432/x");
    add("n0t-so-secret".to_owned(), "clone https://user:@@@git.example.org/r.git");
    add("p@ss:w0rd".to_owned(), "amqp://guest:@@@mq:5672");
    for (secret, text) in [
        ("hunter22", "password=@@"),
        ("hunter22", "DB_PASSWORD=@@\nX=1"),
        ("correcthorse", "DB_PASSWORD=@@"),
        ("correcthorse", "mysql --password=@@ -h x"),
        ("hunter22", "mysql --password @@ -h x"),
        ("hunter22", "password: @@"),
        ("s3cr3tvalue", "  client_secret: \"@@\""),
        ("S3cr3t!value", "PGPASSWORD='@@' psql"),
        ("hunter22", r#"{"password":"@@"}"#),
        ("hunter22", r#"{"user": "x", "passwd" : "@@"}"#),
        ("correcthorse", "{'password': '@@'}"),
        ("hunter22", "config['password'] = '@@'"),
        ("hunter22x", "os.environ[\"DB_PASSWORD\"] = \"@@\""),
        ("aBc123dEf456", "api_key: str = \"@@\""),
        ("aBc123dEf456", "let apiKey = \"@@\";"),
        ("aBc123dEf456", "X-Api-Key: @@"),
        ("aBc123dEf456", "https://x.example.org/?api_key=@@&y=1"),
        ("abcdefghij", "https://x/?access_token=@@"),
        ("aBc123dEf456", "\"auth_token\" => \"@@\""),
        ("0xabc123def4567890", "private_key = '@@'"),
        ("hunter22", "<password>@@</password>"),
        ("h!nter#2", "dbPassword := \"@@\""),
        ("Sup3rS3cret!", "password = b\"@@\""),
        ("a1b2c3d4e5f6a7b8c9d0", "SLACK_TOKEN=@@"),
        ("a1b2c3d4e5f6a7b8c9d0", "export CI_JOB_TOKEN=\"@@\""),
        ("kJ8sdf7sdf+sd8f/7sd==", "AccountKey=@@;EndpointSuffix=x"),
        ("12345678", "password: @@"),
        ("hünter22ß", "PASSWORD=@@ x"),
        ("hunter\"22", r#"{"password":"hunter\"22"}"#),
        ("hunter22", "server=x;user=y;password=@@;"),
        ("hunter22", "-----\npassword2 = \"@@\""),
    ] {
        add(secret.to_owned(), text);
    }
    list
}

/// Event lines with the text in every position where an agent may put it.
fn lines(text: &str) -> Vec<String> {
    let once = json!({ "content": text, "n": 1 }).to_string();
    let twice = json!({ "body": once }).to_string();
    let ascii = json!({"type": "assistant.message", "text": text}).to_string().replace('/', "\\/");
    vec![
        json!({"type": "tool.requested", "call": "c", "tool": "bash", "args": {"command": text}}).to_string(),
        json!({"type": "tool.requested", "call": "c", "tool": "bash", "args": ["-c", text, 3]}).to_string(),
        json!({"type": "tool.finished", "call": "c", "ok": true, "output": text}).to_string(),
        json!({"type": "tool.finished", "call": "c", "ok": false, "error": format!("failed:\n{text}")})
            .to_string(),
        json!({"type": "question.asked", "text": format!("May I use this?\t{text}")}).to_string(),
        json!({"type": "tool.requested", "call": "c", "tool": "http", "args": once}).to_string(),
        json!({"type": "tool.finished", "call": "c", "ok": true, "output": twice}).to_string(),
        ascii,
    ]
}

/// All texts of a value, concatenated, with nested JSON unescaped.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner) if inner.is_object() || inner.is_array() => texts(&inner),
            _ => format!("{text}\u{1}"),
        },
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(map) => map.values().map(texts).collect(),
        _ => String::new(),
    }
}

#[test]
fn every_secret_is_redacted_and_every_line_stays_an_event() {
    let redactor = redactor();
    let canaries = secret_samples();
    assert!(canaries.len() >= 60, "{}", canaries.len());
    let mut left = Vec::new();
    for (secret, text) in &canaries {
        assert!(text.contains(secret.as_str()) || text.contains("hunter"), "{text}");
        for line in lines(text) {
            let clean = redactor.redact(&line);
            let event = flyball::Event::from_json(&clean);
            assert!(event.is_ok(), "{line}\n{clean}\n{event:?}");
            let value: Value = serde_json::from_str(&clean).unwrap();
            let bare = clean.replace("\\/", "/");
            if bare.contains(secret.as_str())
                || texts(&value).contains(secret.as_str())
                || !clean.contains("[redacted:")
            {
                left.push(format!("{line}\n    {clean}"));
            }
            assert_eq!(redactor.redact(&clean), clean, "again");
        }
    }
    assert!(left.is_empty(), "{} left:\n{}", left.len(), left.join("\n"));
}

#[test]
fn members_of_the_event_are_redacted() {
    let redactor = redactor();
    let line = r#"{"type":"tool.requested","call":"c","tool":"login","args":{"user":"ann","password":"correct horse battery","pin":123456,"nested":{"apiKey":"abcdefgh"},"list":["--password","hunter22"]}}"#;
    let value: Value = serde_json::from_str(&redactor.redact(line)).unwrap();
    let args = &value["args"];
    assert_eq!(args["user"], "ann");
    assert_eq!(args["password"], "[redacted:password]");
    assert_eq!(args["pin"], 123_456);
    assert_eq!(args["nested"]["apiKey"], "[redacted:api-key]");
    assert_eq!(args["list"], json!(["--password", "[redacted:password]"]));
    // Numbers and other types are unchanged: a replacement would not be valid JSON.
    for line in [r#"{"password":12345678}"#, r#"{"password":null,"secret":[1],"token":{}}"#] {
        assert!(matches!(redactor.redact(line), Cow::Borrowed(_)), "{line}");
    }
}

#[test]
fn only_the_secret_is_replaced() {
    let redactor = redactor();
    for (line, clean) in [
        (
            r#"{"t":"postgres://app:tr0ub4dor@db/x?y=1"}"#,
            r#"{"t":"postgres://app:[redacted:url-password]@db/x?y=1"}"#,
        ),
        (r#"{"t":"a\nDB_PASSWORD=hunter22\nb"}"#, r#"{"t":"a\nDB_PASSWORD=[redacted:password]\nb"}"#),
        (
            r#"{"t":"{\"password\":\"a\\\"bcdef1\",\"x\":1}"}"#,
            r#"{"t":"{\"password\":\"[redacted:password]\",\"x\":1}"}"#,
        ),
        (r#"{"password":"abcdef\\"}"#, r#"{"password":"[redacted:password]"}"#),
        (r#"{"t":"Enter password:","answer":"hunter22"}"#, r#"{"t":"Enter password:","answer":"hunter22"}"#),
    ] {
        assert_eq!(redactor.redact(line), clean);
    }
}

#[test]
fn benign_texts_are_unchanged() {
    let redactor = redactor();
    let texts = benign::texts();
    assert!(texts.len() >= 150, "{}", texts.len());
    let mut changed = Vec::new();
    for text in texts {
        for line in lines(text) {
            if let Cow::Owned(clean) = redactor.redact(&line) {
                changed.push(clean);
            }
        }
    }
    assert!(changed.is_empty(), "{} changed:\n{}", changed.len(), changed.join("\n"));
}

#[test]
fn policy_patterns_are_redacted() {
    let patterns = ["corp-[0-9a-f]{8}".to_owned(), "(?i)project x".to_owned()];
    let redactor = Redactor::new(false, &patterns).unwrap();
    let line = r#"{"type":"x","corp-01234567":"a corp-01234567, Project X","password":"hunter22"}"#;
    let clean =
        r#"{"type":"x","corp-01234567":"a [redacted:custom], [redacted:custom]","password":"hunter22"}"#;
    assert_eq!(redactor.redact(line), clean);
    assert_eq!(redactor.redact(clean), clean);
    // A greedy pattern stays within its string and never splits an escape.
    for pattern in ["b.*", "n", r"\\", "[a-z]+", ".", "u00", "\"", "^.", "a|\\bc"] {
        let redactor = Redactor::new(true, &[pattern.to_owned()]).unwrap();
        let line = r#"{"type":"xab\n\u00e4c\\","n":[1,"b\"c",true],"z":"ü ghp"}"#;
        let clean = redactor.redact(line);
        let value: Value = serde_json::from_str(&clean).unwrap_or_else(|e| panic!("{pattern}: {clean}: {e}"));
        assert_eq!(value["n"][2], true);
        assert_eq!(redactor.redact(&clean), clean, "{pattern}");
    }
    let error = Redactor::new(true, &["ok".to_owned(), "(".to_owned()]).unwrap_err();
    assert!(error.starts_with("cannot use pattern 2: ") && !error.contains('\n'), "{error}");
    assert!(Redactor::new(true, &["(a{1000}){1000}".to_owned()]).is_err());
    let nothing = Redactor::new(false, &[]).unwrap();
    assert!(matches!(nothing.redact(r#"{"password":"hunter22"}"#), Cow::Borrowed(_)));
}

struct RedactTestRng(u64);

impl RedactTestRng {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }
}

/// Fragments of secrets, quotes and escapes.
const TEXT_PIECES: [&str; 48] = [
    "password",
    "secret",
    "=",
    ":",
    "\"",
    "'",
    "\\",
    "\n",
    " ",
    "hunter22",
    "abcdef1",
    "://",
    "user",
    "@",
    "host",
    "api_key",
    "Authorization",
    "Bearer ",
    "eyJhbGciOiJI",
    ".",
    "ghp_",
    "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "-----BEGIN ",
    "RSA PRIVATE KEY-----",
    "-----END ",
    "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfnygWyF8PbnGy0AHB7",
    "--",
    "_TOKEN",
    "ä",
    "\u{1f600}",
    "\t",
    "[",
    "]",
    "{",
    "}",
    ",",
    "<",
    ">",
    "/",
    "sk-",
    "SG.",
    "12345678",
    ":AA",
    "\u{2028}",
    "\\n",
    "\\\"",
    "[redacted:x]",
    "$",
];

fn random_text(rng: &mut RedactTestRng) -> String {
    (0..rng.below(12)).map(|_| TEXT_PIECES[rng.below(TEXT_PIECES.len())]).collect()
}

fn random_value(rng: &mut RedactTestRng, depth: usize) -> Value {
    match rng.below(if depth > 3 { 4 } else { 7 }) {
        0 => json!(rng.below(1_000)),
        1 => json!(null),
        2 | 3 => json!(random_text(rng)),
        4 => json!(random_value(rng, depth + 1).to_string()),
        5 => (0..rng.below(4)).map(|_| random_value(rng, depth + 1)).collect(),
        _ => Value::Object(
            (0..rng.below(4)).map(|_| (random_text(rng), random_value(rng, depth + 1))).collect(),
        ),
    }
}

/// Whether two values have the same structure: equal except for texts and keys.
fn same_shape(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(_), Value::String(_)) => true,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b))
        }
        // Two keys may become equal.
        (Value::Object(a), Value::Object(b)) => b.len() <= a.len(),
        (a, b) => a == b,
    }
}

#[test]
fn random_json_stays_json_and_redaction_is_idempotent() {
    let redactor = Redactor::new(true, &["hunt.r".to_owned(), "[0-9]{3,}".to_owned()]).unwrap();
    let plain = self::redactor();
    let mut rng = RedactTestRng(7);
    let (mut changed, mut nested) = (0, 0);
    for _ in 0..15_000 {
        let value = json!({"type": "x", "v": random_value(&mut rng, 0)});
        let line = value.to_string();
        let line = if rng.below(4) == 0 { line.replace('/', "\\/") } else { line };
        for redactor in [&plain, &redactor] {
            let clean = redactor.redact(&line);
            let after: Value =
                serde_json::from_str(&clean).unwrap_or_else(|e| panic!("{e}\n{line}\n{clean}"));
            assert!(same_shape(&value, &after) && same_shape(&value["v"], &after["v"]), "{line}\n{clean}");
            assert_eq!(after["type"], "x");
            assert_eq!(redactor.redact(&clean), clean, "{line}");
            changed += usize::from(clean != line);
        }
        // Nested JSON stays valid.
        let inner = value["v"].as_str().filter(|text| serde_json::from_str::<Value>(text).is_ok());
        if inner.is_some() {
            let after: Value = serde_json::from_str(&plain.redact(&line)).unwrap();
            let text = after["v"].as_str().unwrap();
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{line}\n{text}");
            nested += 1;
        }
    }
    assert!(changed > 1_000 && nested > 500, "{changed} {nested}");
}

#[test]
fn arbitrary_text_never_panics() {
    let redactor = Redactor::new(true, &["hunt.r".to_owned()]).unwrap();
    let mut rng = RedactTestRng(11);
    for _ in 0..15_000 {
        let text: String = (0..rng.below(16)).map(|_| TEXT_PIECES[rng.below(TEXT_PIECES.len())]).collect();
        let _ = redactor.redact(&text);
    }
}

#[test]
fn adversarial_text_takes_bounded_time() {
    let redactor = Redactor::new(true, &["a".to_owned(), "[x]+".to_owned(), r"\\\\".to_owned()]).unwrap();
    let pieces = [
        "password=",
        "password:",
        "PASSWORD",
        "TOKEN",
        "secreta",
        "sk-",
        "xoxb-",
        "eyJ-",
        "eyJa.",
        "a://b:c",
        "api/webhooks/",
        "authorization:",
        "-----BEGIN A PRIVATE KEY-----",
        "-----BEGIN A PRIVATE KEY----- x!",
        "password='",
        "password=\"",
        "password=`",
        "\\",
        "--password ",
        "bearer ",
        ":AA",
        "SG.a",
        "ghp_",
        "<password>",
        "secret:secret=",
        "a",
        "ax",
        "[redacted:x]",
        "\"password\":\"",
        "hooks.slack.com/services/",
        "password: str = ",
        "password = b",
        "\u{1}",
    ];
    let begin = std::time::Instant::now();
    for piece in pieces {
        let line = json!({"type": "x", "v": piece.repeat(60_000 / piece.len())}).to_string();
        let clean = redactor.redact(&line);
        assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{piece}");
        // Well above the usual time, well below quadratic time.
        let took = begin.elapsed();
        assert!(took.as_secs() < 90, "{piece}: {took:?}");
    }
}
