//! Policy keys that affect no decision: storage, delivery of effects, failures of Flyball itself, and large outputs.
//! They are proven by the contents of the store, the deliveries and the host's reactions.

use crate::command_harness::{CommandOutput, run_flyball, state_dir, test_dir};
use crate::difference::{Difference, assert_no_errors};
use crate::receivers::{http_receiver, smtp_receiver};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The keys proven here.
pub(crate) const STORAGE_KEYS: [&str; 26] = [
    "$schema",
    "guards.large_response",
    "guards.large_response.mode",
    "guards.large_response.preview",
    "guards.large_response.threshold",
    "journal.deliver",
    "journal.deliver[].attempts",
    "journal.deliver[].command",
    "journal.deliver[].effects",
    "journal.deliver[].email.from",
    "journal.deliver[].email.password_env",
    "journal.deliver[].email.relay",
    "journal.deliver[].email.to",
    "journal.deliver[].email.user",
    "journal.deliver[].format",
    "journal.deliver[].page",
    "journal.deliver[].secret_env",
    "journal.deliver[].timeout",
    "journal.deliver[].webhook",
    "journal.patterns",
    "journal.payload",
    "journal.preview",
    "journal.redact",
    "journal.retention",
    "on_error",
    "resilience.large_response_threshold",
];

/// A project whose user has a policy. The project's own files are not trusted; the user's folder is.
struct UserPolicyProject {
    folder: PathBuf,
    config: String,
}

impl UserPolicyProject {
    fn new(name: &str, policy: &Value) -> Self {
        let folder = test_dir(&format!("wired-journal-{name}"));
        let mut config = folder.as_os_str().to_owned();
        config.push(".config");
        let config = PathBuf::from(config);
        std::fs::create_dir_all(config.join("flyball")).unwrap();
        std::fs::write(config.join("flyball/flyball.json"), policy.to_string()).unwrap();
        UserPolicyProject { folder, config: config.to_str().unwrap().to_owned() }
    }

    fn run(&self, args: &[&str], input: &str) -> CommandOutput {
        let path = std::env::var("PATH").unwrap();
        let state = state_dir(&self.folder);
        let env = [
            ("PATH", path.as_str()),
            ("XDG_CONFIG_HOME", &self.config),
            ("XDG_STATE_HOME", state.to_str().unwrap()),
            ("WIRED_SECRET", "whsec-1"),
            ("WIRED_PASSWORD", "letmein"),
        ];
        run_flyball(&self.folder, args, input.as_bytes(), &env)
    }

    /// Records events and returns the stored rows.
    fn observe(&self, events: &[Value]) -> String {
        let input: Vec<String> = events.iter().map(Value::to_string).collect();
        let run = self.run(&["observe", "--store", "sqlite:events.db"], &input.join("\n"));
        assert_eq!(run.err, "", "{}", run.out);
        store_rows(&self.folder.join("events.db"))
    }
}

/// All events and outbox rows of a store, as text.
fn store_rows(store: &Path) -> String {
    let sql = rusqlite::Connection::open(store).unwrap();
    let mut text = String::new();
    for query in [
        "SELECT text FROM flyball_events ORDER BY pos",
        "SELECT effect || ' ' || state || ' ' || attempts || ' ' || coalesce(error, '') FROM flyball_outbox",
    ] {
        let mut statement = sql.prepare(query).unwrap();
        let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        found.for_each(|row| text.push_str(&format!("{}\n", row.unwrap())));
    }
    text
}

fn user_message(text: &str) -> Value {
    json!({"type": "assistant.message", "session": "s1", "text": text})
}

/// A session stopped by a person: one `loop.halted`.
fn halt_events() -> Vec<Value> {
    vec![json!({"type": "human.stopped", "session": "s1", "by": "anna", "why": "enough"})]
}

/// The stored rows with a policy and without one of its keys.
fn stored_with_and_without(
    key: &str,
    with: Value,
    without: Value,
    events: &[Value],
    difference: Difference,
) -> Option<String> {
    let text = |name: &str, journal: Value| {
        UserPolicyProject::new(
            &format!("{}-{name}", key.replace(['.', '[', ']'], "")),
            &json!({"journal": journal}),
        )
        .observe(events)
    };
    difference
        .error(&text("with", with), &text("without", without))
        .map(|problem| format!("{key}: {problem}"))
}

#[test]
fn journal_keys_change_what_is_stored() {
    let long = [user_message(&"x".repeat(2_000))];
    let secret = [user_message("the token is ghp_0123456789abcdefghijABCDEFGHIJ012345 and corp-1234")];
    let hides = |text: &str| Difference::hides(text);
    assert_no_errors(
        [
            stored_with_and_without(
                "journal.payload",
                json!({"payload": 512}),
                json!({}),
                &long,
                hides(&"x".repeat(1_500)),
            ),
            stored_with_and_without(
                "journal.preview",
                json!({"payload": 512, "preview": 10}),
                json!({"payload": 512}),
                &long,
                hides(&"x".repeat(500)),
            ),
            stored_with_and_without(
                "journal.redact",
                json!({"redact": false}),
                json!({}),
                &secret,
                Difference::shows("ghp_0123456789"),
            ),
            stored_with_and_without(
                "journal.patterns",
                json!({"patterns": ["corp-[0-9]{4}"]}),
                json!({}),
                &secret,
                hides("corp-1234"),
            ),
        ]
        .into_iter()
        .flatten()
        .collect(),
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the session must be older than the retention of one millisecond"
)]
fn retention_decides_what_is_pruned() {
    let pruned = |name: &str, journal: Value| {
        let project = UserPolicyProject::new(name, &json!({"journal": journal}));
        project.observe(&[
            json!({"type": "session.started", "session": "s1"}),
            json!({"type": "session.ended", "session": "s1"}),
        ]);
        std::thread::sleep(Duration::from_millis(20));
        project.run(&["prune", "--dry-run", "--store", "sqlite:events.db"], "").out
    };
    let (with, without) =
        (pruned("retention", json!({"retention": "1ms"})), pruned("no-retention", json!({})));
    assert_no_errors(
        Difference::shows(": 1 session that had ended").error(&with, &without).into_iter().collect(),
    );
}

/// The deliveries of a halt: a file written by a command, HTTP posts, emails, and the outbox rows.
fn deliver_halt(name: &str, delivery: Value) -> String {
    let (hook, posts) = http_receiver(&[]);
    let (refusing, _refused) = http_receiver(&[500; 100]);
    let (relay, letters) = smtp_receiver();
    let (other, others) = smtp_receiver();
    let text = delivery.to_string();
    let places = [("$hook", &hook), ("$refusing", &refusing), ("$relay", &relay), ("$other", &other)];
    let text = places.iter().fold(text, |text, (name, place)| text.replace(name, place));
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let project = UserPolicyProject::new(name, &json!({"journal": {"deliver": list}}));
    let mut found = project.observe(&halt_events());
    found.push_str(&std::fs::read_to_string(project.folder.join("delivered")).unwrap_or_default());
    for post in posts.try_iter() {
        found.push_str(&format!("{} {:?} {}\n", post.path, post.headers, post.body));
    }
    for (name, letters) in [("relay", letters), ("other", others)] {
        letters.try_iter().for_each(|letter| found.push_str(&format!("{name}: {letter:?}\n")));
    }
    found
}

#[test]
fn delivery_keys_change_what_is_delivered() {
    let command = |line: &str| json!(["sh", "-c", line]);
    let delivered = command("cat > delivered; echo >> delivered");
    let mail = json!({"to": ["a@example.org"], "from": "fly@example.org", "relay": "$relay"});
    let mailed = |key: &str, value: Value| {
        let mut mail = mail.clone();
        mail["user"] = json!("fly");
        mail["password_env"] = json!("WIRED_PASSWORD");
        mail[key] = value;
        json!([{"effects": ["loop.halted"], "email": mail}])
    };
    let plain = json!([{"effects": ["loop.halted"], "email": mail}]);
    let signed = mailed("user", json!("fly"));
    let hook = |more: Value| {
        let mut delivery = json!({"effects": ["loop.halted"], "webhook": "$hook/in"});
        delivery.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([delivery])
    };
    let halted = |more: Value| json!([{"effects": ["loop.halted"], "command": more}]);
    let slow = |more: Value| {
        let mut delivery = json!({"effects": ["loop.halted"], "command": command("sleep 0.3")});
        delivery.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([delivery])
    };
    let failing = |more: Value| {
        let mut delivery = json!({"effects": ["loop.halted"], "webhook": "$refusing/in"});
        delivery.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([delivery])
    };
    let slack = |more: Value| {
        let mut own = json!({"format": "slack"});
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hook(own)
    };
    let shows = Difference::shows;
    let cases = [
        ("deliver", halted(delivered.clone()), json!([]), shows("\"haltReason\"")),
        (
            "deliver.effects",
            halted(delivered.clone()),
            json!([{"effects": ["notify"], "command": delivered}]),
            shows("\"haltReason\""),
        ),
        (
            "deliver.command",
            halted(command("echo by another > delivered")),
            halted(delivered),
            shows("by another"),
        ),
        ("deliver.webhook", hook(json!({})), hook(json!({"webhook": "$hook/elsewhere"})), shows("/in ")),
        ("deliver.format", slack(json!({})), hook(json!({})), shows("\"blocks\"")),
        (
            "deliver.secret_env",
            hook(json!({"secret_env": "WIRED_SECRET"})),
            hook(json!({})),
            shows("flyball-signature"),
        ),
        (
            "deliver.page",
            slack(json!({"page": "https://fly.example.org"})),
            slack(json!({})),
            shows("fly.example.org"),
        ),
        ("deliver.attempts", failing(json!({"attempts": 1})), failing(json!({})), shows("loop.halted dead")),
        (
            "deliver.timeout",
            slow(json!({"timeout": "50ms"})),
            slow(json!({})),
            Difference::hides("loop.halted done"),
        ),
        ("deliver.email.to", mailed("to", json!(["b@example.org"])), signed.clone(), shows("b@example.org")),
        (
            "deliver.email.from",
            mailed("from", json!("x@example.org")),
            signed.clone(),
            shows("x@example.org"),
        ),
        ("deliver.email.relay", mailed("relay", json!("$other")), signed.clone(), shows("other: ")),
        ("deliver.email.user", mailed("user", json!("bird")), plain.clone(), shows("AUTH PLAIN")),
        ("deliver.email.password_env", signed, plain, shows("AUTH PLAIN")),
    ];
    let problem = |(key, with, without, difference): (&str, Value, Value, Difference)| {
        let text = |name: &str, delivery: Value| {
            deliver_halt(&format!("{}-{name}", key.replace('.', "-")), delivery)
        };
        let (with, without) = (text("with", with), text("without", without));
        difference.error(&with, &without).map(|problem| format!("{key}: {problem}\n{with}"))
    };
    assert_no_errors(cases.into_iter().filter_map(problem).collect());
}

#[test]
fn on_error_decides_the_hook_reply_when_the_store_fails() {
    let payload = json!({"session_id": "s", "cwd": "/", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "touch x"}, "tool_use_id": "t1"});
    let heard = |name: &str, policy: Value| {
        let project = UserPolicyProject::new(name, &policy);
        let store = "sqlite:missing/folder/events.db";
        project.run(&["hook", "--store", store, "claude-code"], &payload.to_string()).out
    };
    let (with, without) = (heard("on-error", json!({"on_error": "allow"})), heard("no-on-error", json!({})));
    assert_no_errors(Difference::hides("\"deny\"").error(&with, &without).into_iter().collect());
}

/// Runs a tool that prints a long text; returns the stored rows.
fn run_with_large_output(name: &str, policy: &Value) -> String {
    let project = UserPolicyProject::new(name, &json!({}));
    let tool = json!({"description": "prints", "schema": {"type": "object"}, "risk": "safe",
        "argv": ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo a line of forty characters, again and again; done"]});
    let workflow = json!({"version": 1, "name": "large", "policy": policy, "tools": {"print": tool},
        "providers": {"main": {"kind": "script", "replies": [{"calls": [{"tool": "print"}]}, "done"]}},
        "nodes": [{"name": "work", "kind": "agent", "provider": "main", "tools": ["print"], "prompt": "go", "next": "done"}]});
    std::fs::write(project.folder.join("workflow.json"), workflow.to_string()).unwrap();
    let run = project.run(&["run", "workflow.json", "--store", "sqlite:events.db"], "");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    store_rows(&project.folder.join("events.db"))
}

#[test]
fn large_outputs_are_stored_as_the_policy_says() {
    let guard = |more: Value| json!({"guards": {"large_response": more}});
    let whole = run_with_large_output("large-whole", &json!({}));
    let cut = run_with_large_output("large-threshold", &guard(json!({"threshold": 100})));
    let of = |name: &str, policy: Value| run_with_large_output(name, &policy);
    let preview = of("large-preview", guard(json!({"threshold": 100, "preview": 7})));
    let off = of("large-off", guard(json!({"threshold": 100, "mode": "off"})));
    let word = of(
        "large-word",
        json!({"guards": {"large_response": "off"}, "resilience": {"large_response_threshold": 100}}),
    );
    let foreign = of("large-foreign", json!({"resilience": {"large_response_threshold": 100}}));
    let is_large = || Difference::shows("\"large\":true");
    let errors = [
        ("threshold", is_large().error(&cut, &whole)),
        ("preview", Difference::hides("a line of forty").error(&preview, &cut)),
        ("mode", is_large().error(&cut, &off)),
        ("large_response", is_large().error(&foreign, &word)),
        ("large_response_threshold", is_large().error(&foreign, &whole)),
    ];
    assert_no_errors(
        errors
            .into_iter()
            .filter_map(|(key, problem)| problem.map(|problem| format!("{key}: {problem}")))
            .collect(),
    );
}

/// `$schema` is only for editors; its description says so.
#[test]
fn schema_key_is_only_for_editors() {
    let schema: Value = serde_json::from_str(&flyball::policy::json_schema()).unwrap();
    let about = schema["properties"]["$schema"]["description"].as_str().unwrap();
    assert!(about.contains("for editors"), "{about}");
}
