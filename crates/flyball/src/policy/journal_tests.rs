//! The `journal:` section: read in every format, checked with its place, and never taken from a session.

use serde_json::{Value, json};

use super::super::{
    Code, Format, Layer, Origin, Policy, PolicyErrors, Preset, Resolved, from_environment, from_set,
    json_schema, parse, resolve,
};
use super::super::{Email, LabelSync, OnLabelAdded, Webhook, WebhookFormat};
use super::{Delivery, JournalPolicy, Target};

const FULL: &str = r#"
journal:
  payload: 4096
  preview: 200
  redact: false
  patterns: ["corp-[0-9a-f]{32}"]
  retention: 7d
  deliver:
    - {effects: [label.added, label.removed], command: ["./label.sh"]}
    - {effects: [loop.halted, notify], webhook: "https://hooks.example.org/flyball", attempts: 3, timeout: 2s}
    - {effects: ["*"], webhook: "https://chat.example.org/x", format: slack, secret_env: HOOK_SECRET, page: "https://fly.example.org"}
    - {effects: [notify], email: {to: [a@example.org], from: f@example.org, relay: "smtp://mail.example.org:587", user: f, password_env: MAIL_PASSWORD}}
  labels: {command: ["./labels.sh"], every: 5s, session: "issue-{issue.number}", secret_env: HOOK_SECRET, own_accounts: [bot], on_added: stop}
"#;

fn yaml(text: &str) -> Result<Resolved, PolicyErrors> {
    resolve(&[parse(text, Format::Yaml, "flyball.yaml")?], Preset::Agent)
}

fn full() -> JournalPolicy {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    JournalPolicy {
        payload: Some(4096),
        preview: 200,
        redact: false,
        patterns: names(&["corp-[0-9a-f]{32}"]),
        labels: LabelSync {
            command: names(&["./labels.sh"]),
            every_ms: 5_000,
            session: "issue-{issue.number}".to_owned(),
            secret_env: "HOOK_SECRET".to_owned(),
            own_accounts: names(&["bot"]),
            on_added: OnLabelAdded::Stop,
        },
        retention_ms: Some(7 * 24 * 3_600_000),
        deliver: vec![
            Delivery {
                effects: names(&["label.added", "label.removed"]),
                target: Target::Command(names(&["./label.sh"])),
                page: None,
                attempts: 8,
                timeout_ms: 10_000,
            },
            Delivery {
                effects: names(&["loop.halted", "notify"]),
                target: Target::Webhook(Webhook {
                    address: "https://hooks.example.org/flyball".to_owned(),
                    format: WebhookFormat::Json,
                    secret_env: None,
                }),
                page: None,
                attempts: 3,
                timeout_ms: 2_000,
            },
            Delivery {
                effects: names(&["*"]),
                target: Target::Webhook(Webhook {
                    address: "https://chat.example.org/x".to_owned(),
                    format: WebhookFormat::Slack,
                    secret_env: Some("HOOK_SECRET".to_owned()),
                }),
                page: Some("https://fly.example.org".to_owned()),
                attempts: 8,
                timeout_ms: 10_000,
            },
            Delivery {
                effects: names(&["notify"]),
                target: Target::Email(Email {
                    to: names(&["a@example.org"]),
                    from: "f@example.org".to_owned(),
                    relay: "smtp://mail.example.org:587".to_owned(),
                    user: Some("f".to_owned()),
                    password_env: Some("MAIL_PASSWORD".to_owned()),
                }),
                page: None,
                attempts: 8,
                timeout_ms: 10_000,
            },
        ],
    }
}

#[test]
fn the_section_is_read_alike_in_every_format() {
    let read = yaml(FULL).unwrap();
    assert_eq!(read.policy.journal, full());
    let toml = r#"
[journal]
payload = 4096
preview = 200
redact = false
patterns = ["corp-[0-9a-f]{32}"]
retention = "7d"
[[journal.deliver]]
effects = ["label.added", "label.removed"]
command = ["./label.sh"]
[[journal.deliver]]
effects = ["loop.halted", "notify"]
webhook = "https://hooks.example.org/flyball"
attempts = 3
timeout = "2s"
[[journal.deliver]]
effects = ["*"]
webhook = "https://chat.example.org/x"
format = "slack"
secret_env = "HOOK_SECRET"
page = "https://fly.example.org"
[[journal.deliver]]
effects = ["notify"]
[journal.deliver.email]
to = ["a@example.org"]
from = "f@example.org"
relay = "smtp://mail.example.org:587"
user = "f"
password_env = "MAIL_PASSWORD"
[journal.labels]
command = ["./labels.sh"]
every = "5s"
session = "issue-{issue.number}"
secret_env = "HOOK_SECRET"
own_accounts = ["bot"]
on_added = "stop"
"#;
    let layer = parse(toml, Format::Toml, "flyball.toml").unwrap();
    assert_eq!(resolve(&[layer], Preset::Agent).unwrap().policy.journal, full());
    // The effective policy says the same again.
    let text = read.effective.to_string();
    let layer = parse(&text, Format::Json, "effective.json").unwrap();
    let again = resolve(&[layer], Preset::Agent).unwrap();
    assert_eq!((again.policy, again.effective), (read.policy, read.effective));
}

#[test]
fn the_environment_and_set_reach_it_and_origins_say_so() {
    let file = parse(FULL, Format::Yaml, "flyball.yaml").unwrap();
    let variables = [
        ("FLYBALL_JOURNAL__PAYLOAD", "off"),
        ("FLYBALL_JOURNAL__PATTERNS", r#"["x{9}"]"#),
        ("FLYBALL_JOURNAL__DELIVER", r#"[{"effects": ["*"], "command": ["tell", "me"]}]"#),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = from_environment(variables.into_iter()).unwrap().unwrap();
    let set = from_set(&["journal.retention=off".to_owned()]).unwrap();
    let read = resolve(&[file, environment, set], Preset::Agent).unwrap();
    let journal = &read.policy.journal;
    assert_eq!((journal.payload, journal.retention_ms), (None, None));
    assert_eq!(journal.patterns, ["x{9}"]);
    assert_eq!(journal.deliver.len(), 1);
    assert!(journal.deliver.iter().all(|d| d.wants("say") && d.wants("loop.halted")));
    let origin = |key: &str| read.origins[key].origin.to_string();
    assert_eq!(origin("journal.payload"), "FLYBALL_JOURNAL__PAYLOAD");
    assert_eq!(origin("journal.deliver"), "FLYBALL_JOURNAL__DELIVER");
    assert_eq!(origin("journal.retention"), "--set");
    assert_eq!(origin("journal.preview"), "flyball.yaml");
    let plain = yaml("preset: agent").unwrap();
    assert_eq!(plain.policy.journal, JournalPolicy::default());
    assert_eq!(plain.origins["journal.redact"].origin, Origin::Default);
}

#[test]
fn a_session_cannot_bring_it() {
    for written in [json!({"deliver": []}), json!({}), json!("off"), json!({"redact": false})] {
        let layer = Layer::from_value(Origin::Inline, json!({ "journal": written }));
        let errors = resolve(&[layer], Preset::Agent).unwrap_err();
        let error = errors.iter().next().unwrap();
        assert_eq!((error.code, error.path.as_str()), (Code::Forbidden, "journal"), "{errors}");
        assert!(error.what.contains("session cannot bring a journal"), "{error}");
    }
    let file = parse(FULL, Format::Yaml, "flyball.yaml").unwrap();
    let inline = Layer::from_value(Origin::Inline, json!({"preset": "off", "journal": null}));
    assert_eq!(resolve(&[file, inline], Preset::Agent).unwrap().policy.journal, full());
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    type Case = (&'static str, Code, u32, &'static str, &'static str);
    let cases: &[Case] = &[
        ("payloads: 3", Code::UnknownKey, 11, "'payloads' in journal", "'payload'"),
        ("payload: 511", Code::Range, 11, "outside 512", "off"),
        ("payload: much", Code::Type, 11, "'much'", "whole number"),
        ("preview: off", Code::Type, 11, "preview", "whole number"),
        ("redact: perhaps", Code::Type, 11, "'perhaps'", "true or false"),
        ("patterns: x", Code::Type, 11, "a list of texts", "list"),
        ("patterns: [a, '']", Code::Range, 25, "1 to 1024 bytes", "shorter"),
        ("retention: soon", Code::Type, 11, "'soon'", "4h"),
        ("deliver: [x]", Code::Type, 21, "'x'", "key: value"),
        ("deliver: {}", Code::Type, 11, "a list of maps", "list"),
        ("deliver: [{command: [x]}]", Code::Type, 21, "needs the names", "loop.halted"),
        ("deliver: [{effects: [], command: [x]}]", Code::Range, 22, "empty", "*"),
        (
            "deliver: [{effects: [lable.added], command: [x]}]",
            Code::Type,
            32,
            "'lable.added'",
            "'label.added'",
        ),
        ("deliver: [{effects: [xyz], command: [x]}]", Code::Type, 32, "'xyz'", "loop.halted, say"),
        ("deliver: [{effects: ['*', say], command: [x]}]", Code::Contradiction, 32, "all effects", "alone"),
        ("deliver: [{effects: [say]}]", Code::Type, 21, "goes nowhere", "webhook"),
        ("deliver: [{effects: [say], command: []}]", Code::Range, 38, "name a program", "label.sh"),
        ("deliver: [{effects: [say], webhook: 'ftp://x'}]", Code::Type, 38, "https://", "hooks"),
        ("deliver: [{effects: [say], webhook: 'https:// x'}]", Code::Type, 38, "https://", "hooks"),
        (
            "deliver: [{effects: [say], command: [x], webhook: 'http://x'}]",
            Code::Contradiction,
            52,
            "and",
            "either",
        ),
        ("deliver: [{effects: [say], command: [x], attempts: 0}]", Code::Range, 52, "1 to 100", "1 to 100"),
        ("deliver: [{effects: [say], command: [x], timeout: 0}]", Code::Range, 52, "1ms", "10s"),
        (
            "deliver: [{effects: [say], command: [x], format: slack}]",
            Code::Contradiction,
            52,
            "'format'",
            "webhook",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', format: slak}]",
            Code::Type,
            59,
            "'slak'",
            "'slack'",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', secret_env: 'my secret!'}]",
            Code::Type,
            59,
            "name of an environment variable",
            "never the secret",
        ),
        (
            "deliver: [{effects: [say], command: [x], page: here}]",
            Code::Type,
            52,
            "'page'",
            "flyball.example",
        ),
        (
            "deliver: [{effects: [say], email: {from: a@b.c, relay: 'smtp://x'}}]",
            Code::Type,
            38,
            "'to'",
            "oncall",
        ),
        (
            r#"deliver: [{effects: [say], email: {to: ["a@b.c\nBcc: x@y.z"], from: a@b.c, relay: 'smtp://x'}}]"#,
            Code::Type,
            46,
            "'to'",
            "oncall",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a b, relay: 'smtp://x'}}]",
            Code::Type,
            59,
            "'from'",
            "flyball@",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a@b.c, relay: 'smtp://me:pw@x'}}]",
            Code::Type,
            72,
            "'relay'",
            "password_env",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a@b.c, relay: 'smtp://x', user: me}}]",
            Code::Contradiction,
            91,
            "belong together",
            "both",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', email: {to: [a@b.c], from: a@b.c, relay: 'smtp://x'}}]",
            Code::Contradiction,
            59,
            "a webhook and an email",
            "either",
        ),
        ("deliver: [{effects: [say], comand: [x]}]", Code::UnknownKey, 38, "'comand'", "'command'"),
    ];
    for (inside, code, column, what, help) in cases {
        let text = format!("journal: {{{inside}}}");
        let errors = yaml(&text).expect_err(&text);
        let found = errors.iter().any(|error| {
            let place = (error.line, error.column) == (Some(1), Some(*column));
            error.code == *code && place && error.what.contains(what) && error.help.contains(help)
        });
        assert!(found, "{text}\n{errors:#?}");
    }
    let long = format!("journal: {{patterns: [\"{}\"]}}", "a".repeat(1025));
    assert_eq!(yaml(&long).unwrap_err().iter().next().unwrap().code, Code::Range);
    let many = json!({"journal": {"patterns": vec!["a"; 101]}}).to_string();
    assert_eq!(yaml(&many).unwrap_err().iter().next().unwrap().code, Code::Range);
}

#[test]
fn no_decision_and_no_digest_depends_on_it() {
    let plain = Policy::preset(Preset::Agent);
    let other = yaml(FULL).unwrap().policy;
    assert_eq!(plain.digest, other.digest);
    assert_eq!(Policy { journal: JournalPolicy::default(), ..other }, plain);
}

#[test]
fn the_schema_knows_the_same_keys_and_effects() {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    let keys = |definition: &str| -> Vec<String> {
        schema["$defs"][definition]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let mut read: Vec<&str> =
        vec!["attempts", "command", "effects", "email", "format", "page", "secret_env", "timeout", "webhook"];
    assert_eq!(keys("DeliveryFile"), read);
    assert_eq!(keys("EmailFile"), ["from", "password_env", "relay", "to", "user"]);
    read = Delivery::EFFECTS.to_vec();
    read.push("*");
    let named = schema["$defs"]["EffectName"]["oneOf"].as_array().unwrap().iter();
    let named: Vec<&str> = named.filter_map(|one| one["const"].as_str()).collect();
    assert_eq!(named, read);
}
