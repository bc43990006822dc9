//! Tests of the `journal:` section: every format, errors with positions, and rejection in an inline policy.

use serde_json::{Value, json};

use super::super::{EmailTarget, LabelSync, OnLabelAdded, WebhookFormat, WebhookTarget};
use super::super::{
    Policy, PolicyErrorCode, PolicyErrors, PolicyFormat, PolicyLayer, Preset, ResolvedPolicy, ValueOrigin,
    from_environment, from_set, json_schema, parse, resolve,
};
use super::{Delivery, DeliveryTarget, JournalPolicy};

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

fn resolve_yaml(text: &str) -> Result<ResolvedPolicy, PolicyErrors> {
    resolve(&[parse(text, PolicyFormat::Yaml, "flyball.yaml")?], Preset::Agent)
}

fn full_journal_policy() -> JournalPolicy {
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
                target: DeliveryTarget::Command(names(&["./label.sh"])),
                page: None,
                attempts: 8,
                timeout_ms: 10_000,
            },
            Delivery {
                effects: names(&["loop.halted", "notify"]),
                target: DeliveryTarget::Webhook(WebhookTarget {
                    url: "https://hooks.example.org/flyball".to_owned(),
                    format: WebhookFormat::Json,
                    secret_env: None,
                }),
                page: None,
                attempts: 3,
                timeout_ms: 2_000,
            },
            Delivery {
                effects: names(&["*"]),
                target: DeliveryTarget::Webhook(WebhookTarget {
                    url: "https://chat.example.org/x".to_owned(),
                    format: WebhookFormat::Slack,
                    secret_env: Some("HOOK_SECRET".to_owned()),
                }),
                page: Some("https://fly.example.org".to_owned()),
                attempts: 8,
                timeout_ms: 10_000,
            },
            Delivery {
                effects: names(&["notify"]),
                target: DeliveryTarget::Email(EmailTarget {
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
fn journal_section_reads_the_same_in_every_format() {
    let read = resolve_yaml(FULL).unwrap();
    assert_eq!(read.policy.journal, full_journal_policy());
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
    let layer = parse(toml, PolicyFormat::Toml, "flyball.toml").unwrap();
    assert_eq!(resolve(&[layer], Preset::Agent).unwrap().policy.journal, full_journal_policy());
    // Reading the effective policy again gives the same values.
    let text = read.effective.to_string();
    let layer = parse(&text, PolicyFormat::Json, "effective.json").unwrap();
    let again = resolve(&[layer], Preset::Agent).unwrap();
    assert_eq!((again.policy, again.effective), (read.policy, read.effective));
}

#[test]
fn environment_and_set_override_journal_keys_with_their_origin() {
    let file = parse(FULL, PolicyFormat::Yaml, "flyball.yaml").unwrap();
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
    assert!(journal.deliver.iter().all(|d| d.matches("say") && d.matches("loop.halted")));
    let origin = |key: &str| read.origins[key].origin.to_string();
    assert_eq!(origin("journal.payload"), "FLYBALL_JOURNAL__PAYLOAD");
    assert_eq!(origin("journal.deliver"), "FLYBALL_JOURNAL__DELIVER");
    assert_eq!(origin("journal.retention"), "--set");
    assert_eq!(origin("journal.preview"), "flyball.yaml");
    let plain = resolve_yaml("preset: agent").unwrap();
    assert_eq!(plain.policy.journal, JournalPolicy::default());
    assert_eq!(plain.origins["journal.redact"].origin, ValueOrigin::Default);
}

#[test]
fn inline_policy_cannot_set_journal() {
    for written in [json!({"deliver": []}), json!({}), json!("off"), json!({"redact": false})] {
        let layer = PolicyLayer::from_value(ValueOrigin::Inline, json!({ "journal": written }));
        let errors = resolve(&[layer], Preset::Agent).unwrap_err();
        let error = errors.iter().next().unwrap();
        assert_eq!((error.code, error.path.as_str()), (PolicyErrorCode::Forbidden, "journal"), "{errors}");
        assert!(error.message.contains("session cannot set 'journal'"), "{error}");
    }
    let file = parse(FULL, PolicyFormat::Yaml, "flyball.yaml").unwrap();
    let inline = PolicyLayer::from_value(ValueOrigin::Inline, json!({"preset": "off", "journal": null}));
    assert_eq!(resolve(&[file, inline], Preset::Agent).unwrap().policy.journal, full_journal_policy());
}

#[test]
fn journal_errors_report_position_and_help() {
    type JournalErrorCase = (&'static str, PolicyErrorCode, u32, &'static str, &'static str);
    let cases: &[JournalErrorCase] = &[
        ("payloads: 3", PolicyErrorCode::UnknownKey, 11, "'payloads' in journal", "'payload'"),
        ("payload: 511", PolicyErrorCode::Range, 11, "between 512", "off"),
        ("payload: much", PolicyErrorCode::Type, 11, "\"much\"", "whole number"),
        ("preview: off", PolicyErrorCode::Type, 11, "preview", "whole number"),
        ("redact: perhaps", PolicyErrorCode::Type, 11, "\"perhaps\"", "true or false"),
        ("patterns: x", PolicyErrorCode::Type, 11, "a list of strings", "list"),
        ("patterns: [a, '']", PolicyErrorCode::Range, 25, "1 to 1024 bytes", "shorter"),
        ("retention: soon", PolicyErrorCode::Type, 11, "invalid duration \"soon\"", "4h"),
        ("deliver: [x]", PolicyErrorCode::Type, 21, "\"x\"", "key: value"),
        ("deliver: {}", PolicyErrorCode::Type, 11, "a list of maps", "list"),
        ("deliver: [{command: [x]}]", PolicyErrorCode::Type, 21, "requires 'effects'", "loop.halted"),
        ("deliver: [{effects: [], command: [x]}]", PolicyErrorCode::Range, 22, "empty", "*"),
        (
            "deliver: [{effects: [lable.added], command: [x]}]",
            PolicyErrorCode::Type,
            32,
            "'lable.added'",
            "'label.added'",
        ),
        ("deliver: [{effects: [xyz], command: [x]}]", PolicyErrorCode::Type, 32, "'xyz'", "loop.halted, say"),
        (
            "deliver: [{effects: ['*', say], command: [x]}]",
            PolicyErrorCode::Contradiction,
            32,
            "all effects",
            "write only [\"*\"]",
        ),
        ("deliver: [{effects: [say]}]", PolicyErrorCode::Type, 21, "no target", "webhook"),
        (
            "deliver: [{effects: [say], command: []}]",
            PolicyErrorCode::Range,
            38,
            "name a program",
            "label.sh",
        ),
        ("deliver: [{effects: [say], webhook: 'ftp://x'}]", PolicyErrorCode::Type, 38, "https://", "hooks"),
        (
            "deliver: [{effects: [say], webhook: 'https:// x'}]",
            PolicyErrorCode::Type,
            38,
            "https://",
            "hooks",
        ),
        (
            "deliver: [{effects: [say], command: [x], webhook: 'http://x'}]",
            PolicyErrorCode::Contradiction,
            52,
            "and",
            "keep only one",
        ),
        (
            "deliver: [{effects: [say], command: [x], attempts: 0}]",
            PolicyErrorCode::Range,
            52,
            "between 1 and 100",
            "1 to 100",
        ),
        ("deliver: [{effects: [say], command: [x], timeout: 0}]", PolicyErrorCode::Range, 52, "1ms", "10s"),
        (
            "deliver: [{effects: [say], command: [x], format: slack}]",
            PolicyErrorCode::Contradiction,
            52,
            "'format'",
            "webhook",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', format: slak}]",
            PolicyErrorCode::Type,
            59,
            "\"slak\"",
            "'slack'",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', secret_env: 'my secret!'}]",
            PolicyErrorCode::Type,
            59,
            "name of an environment variable",
            "never the secret",
        ),
        (
            "deliver: [{effects: [say], command: [x], page: here}]",
            PolicyErrorCode::Type,
            52,
            "'page'",
            "flyball.example",
        ),
        (
            "deliver: [{effects: [say], email: {from: a@b.c, relay: 'smtp://x'}}]",
            PolicyErrorCode::Type,
            38,
            "'to'",
            "oncall",
        ),
        (
            r#"deliver: [{effects: [say], email: {to: ["a@b.c\nBcc: x@y.z"], from: a@b.c, relay: 'smtp://x'}}]"#,
            PolicyErrorCode::Type,
            46,
            "'to'",
            "oncall",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a b, relay: 'smtp://x'}}]",
            PolicyErrorCode::Type,
            59,
            "'from'",
            "flyball@",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a@b.c, relay: 'smtp://me:pw@x'}}]",
            PolicyErrorCode::Type,
            72,
            "'relay'",
            "password_env",
        ),
        (
            "deliver: [{effects: [say], email: {to: [a@b.c], from: a@b.c, relay: 'smtp://x', user: me}}]",
            PolicyErrorCode::Contradiction,
            91,
            "set together",
            "both",
        ),
        (
            "deliver: [{effects: [say], webhook: 'http://x', email: {to: [a@b.c], from: a@b.c, relay: 'smtp://x'}}]",
            PolicyErrorCode::Contradiction,
            59,
            "a webhook and an email",
            "keep only one",
        ),
        (
            "deliver: [{effects: [say], comand: [x]}]",
            PolicyErrorCode::UnknownKey,
            38,
            "'comand'",
            "'command'",
        ),
    ];
    for (inside, code, column, what, help) in cases {
        let text = format!("journal: {{{inside}}}");
        let errors = resolve_yaml(&text).expect_err(&text);
        let found = errors.iter().any(|error| {
            let place = (error.line, error.column) == (Some(1), Some(*column));
            error.code == *code && place && error.message.contains(what) && error.help.contains(help)
        });
        assert!(found, "{text}\n{errors:#?}");
    }
    let long = format!("journal: {{patterns: [\"{}\"]}}", "a".repeat(1025));
    assert_eq!(resolve_yaml(&long).unwrap_err().iter().next().unwrap().code, PolicyErrorCode::Range);
    let many = json!({"journal": {"patterns": vec!["a"; 101]}}).to_string();
    assert_eq!(resolve_yaml(&many).unwrap_err().iter().next().unwrap().code, PolicyErrorCode::Range);
}

#[test]
fn journal_does_not_change_decisions_or_digest() {
    let plain = Policy::preset(Preset::Agent);
    let other = resolve_yaml(FULL).unwrap().policy;
    assert_eq!(plain.digest, other.digest);
    assert_eq!(Policy { journal: JournalPolicy::default(), ..other }, plain);
}

#[test]
fn journal_schema_matches_the_reader() {
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
