//! Settings that are already there lose nothing: not a comment, not a line end, not a byte.

use crate::agent::{installed, settings};
use crate::kit::{self, Run};
use flyball_adapt::hook::Host;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn run(folder: &Path, host: Host, args: &[&str]) -> Run {
    let path = std::env::var("PATH").unwrap();
    kit::flyball(folder, &[&["hook", host.as_str()], args].concat(), b"", &[("PATH", &path)])
}

/// The hosts whose settings are shared with others.
const SHARED: [Host; 4] = [Host::ClaudeCode, Host::Codex, Host::Gemini, Host::Cursor];

fn written(host: Host, name: &str, text: &str) -> (PathBuf, PathBuf) {
    let folder = kit::folder(&format!("install-{}-{name}", host.as_str()));
    let file = settings(host, &folder);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// A file as people have it: an order and spaces of their own, their own hooks.
const OWN: &str = r#"{
  "description": "opus",
  "hooks": {
    "PreToolUse": [
      { "matcher": "Edit", "hooks": [{ "type": "command", "command": "./mine.sh" }] }
    ],
    "preToolUse": [{ "command": "./mine.sh" }],
    "BeforeTool": [{ "hooks": [{ "type": "command", "command": "./mine.sh" }] }]
  },
	"env": {"A": "1"}
}
"#;

/// The same file in the syntax of the host: Gemini CLI takes comments, and Codex no keys but its own.
fn own(host: Host) -> String {
    match host {
        Host::Gemini => OWN.replace("\"opus\",", "\"opus\",   /* do not change */\n  // my favorites"),
        Host::Codex => OWN.replace("},\n\t\"env\": {\"A\": \"1\"}", "}"),
        _ => OWN.to_owned(),
    }
}

fn variants(host: Host) -> Vec<(&'static str, String)> {
    let own = own(host);
    let mut all = vec![
        ("crlf", own.replace('\n', "\r\n")),
        ("no-end", own.trim_end().to_owned()),
        ("own", own.clone()),
        ("empty-object", "{}".to_owned()),
        ("one-line", r#"{"hooks":{"Stop":[]},"description":"1,2 , 3"}"#.to_owned()),
        ("four", "{\n    \"description\": \"a\"\n}\n\n\n".to_owned()),
        ("empty", String::new()),
    ];
    if host == Host::ClaudeCode {
        all.push(("mark", format!("\u{feff}{own}")));
    }
    all
}

#[test]
fn what_was_there_stays_and_comes_back_byte_for_byte() {
    for host in SHARED {
        for (name, text) in variants(host) {
            let (folder, file) = written(host, name, &text);
            let at = format!("{} {name}", host.as_str());
            assert_eq!(run(&folder, host, &["install"]).code, 0, "{at}");
            let with = read(&file);
            assert_ne!(with, text, "{at}");
            // Everything that was there is still there, in the same order, the comments on their lines.
            let mut now = with.chars();
            assert!(text.chars().filter(|c| !c.is_whitespace()).all(|c| now.any(|other| other == c)), "{at}");
            for line in text.lines().filter(|line| line.contains("//") || line.contains("/*")) {
                assert!(with.lines().any(|now| now == line), "{at}: {line}");
            }
            assert_eq!(with.starts_with('\u{feff}'), text.starts_with('\u{feff}'), "{at}");
            if name == "crlf" {
                assert_eq!(with.matches('\n').count(), with.matches("\r\n").count(), "{at}");
            }
            if !text.is_empty() {
                assert_eq!(with.ends_with("}\n"), text.ends_with("}\n"), "{at}");
            }
            assert_eq!(read(&file.with_file_name(format!("{}.before-flyball", base(&file)))), text, "{at}");
            assert_eq!(run(&folder, host, &["install"]).code, 0);
            assert_eq!(read(&file), with, "{at}: installing twice changes nothing");
            if matches!(name, "mark" | "crlf") {
                assert_eq!(run(&folder, host, &["test"]).code, 0, "{at}");
            }
            assert_eq!(run(&folder, host, &["uninstall"]).code, 0);
            assert_eq!(read(&file), text, "{at}");
            let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
            assert_eq!(left.len(), 1, "{at}: nothing is left lying about");
        }
    }
}

fn base(file: &Path) -> String {
    file.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn what_was_changed_since_stays_changed() {
    for host in SHARED {
        let (folder, file) = written(host, "since", &own(host));
        run(&folder, host, &["install"]);
        let changed = read(&file).replace("\"opus\"", "\"haiku\"");
        std::fs::write(&file, &changed).unwrap();
        assert_eq!(run(&folder, host, &["uninstall"]).code, 0);
        let after = read(&file);
        assert!(after.contains("\"haiku\""), "{after}");
        assert_eq!(after.contains("// my favorites"), host == Host::Gemini, "{after}");
        assert!(!after.contains("flyball"), "{after}");
        assert_eq!(after.matches("./mine.sh").count(), 3, "{after}");
        assert_ne!(run(&folder, host, &["test"]).code, 0);
    }
}

#[test]
fn a_handler_that_somebody_put_beside_ours_stays() {
    let (folder, file) = written(Host::ClaudeCode, "beside", "{}\n");
    run(&folder, Host::ClaudeCode, &["install"]);
    let mine = r#"{"type": "command", "command": "./mine.sh"}, {"type": "command", "command""#;
    let changed = read(&file).replacen(
        r#"{
            "type": "command",
            "command""#,
        mine,
        1,
    );
    assert!(changed.contains("./mine.sh"), "{changed}");
    std::fs::write(&file, &changed).unwrap();
    run(&folder, Host::ClaudeCode, &["uninstall"]);
    let after = read(&file);
    assert!(after.contains("./mine.sh") && !after.contains("flyball"), "{after}");
    serde_json::from_str::<Value>(&after).unwrap();
}

#[test]
fn a_file_of_our_own_is_made_and_taken_away() {
    for host in Host::ALL {
        let folder = installed(host, "own-file");
        let file = settings(host, &folder);
        assert!(file.is_file(), "{}", host.as_str());
        assert_eq!(run(&folder, host, &["uninstall"]).code, 0);
        assert!(!file.exists(), "{}", host.as_str());
        let again = run(&folder, host, &["uninstall"]);
        assert!(again.code == 0 && again.out.contains("nothing was changed"), "{}", again.out);
    }
}

#[test]
fn broken_settings_are_told_with_their_place_and_left_alone() {
    for host in SHARED {
        for (name, text, place) in [
            ("cut", "{\n  \"hooks\": {", ":2:12"),
            ("word", "{\n  \"a\": nonsense\n}", ":2:8"),
            ("list", "[]", ""),
            ("hooks", "{\"hooks\": 3}", ""),
        ] {
            let (folder, file) = written(host, name, text);
            for action in ["install", "uninstall"] {
                let told = run(&folder, host, &[action]);
                if action == "uninstall" && matches!(name, "list" | "hooks") {
                    assert!(told.out.contains("nothing was changed"), "{}", told.out);
                    continue;
                }
                assert_eq!(told.code, 1, "{name} {action}");
                assert!(told.err.contains("error[hook_settings]"), "{}", told.err);
                assert!(told.err.contains(place) && told.err.contains("help:"), "{}", told.err);
            }
            assert_eq!(read(&file), text);
            assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        }
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    for host in Host::ALL {
        let folder = kit::folder(&format!("install-{}-dry", host.as_str()));
        let told = run(&folder, host, &["install", "--dry-run"]);
        assert!(told.code == 0 && told.out.contains("would be written"), "{}", told.out);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{}: only .git", host.as_str());
    }
}

#[test]
fn a_link_stays_a_link_and_the_mode_stays() {
    let folder = kit::folder("install-link");
    let real = folder.join("dotfiles.json");
    std::fs::write(&real, OWN).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::create_dir_all(folder.join(".claude")).unwrap();
    let link = folder.join(".claude/settings.json");
    symlink("../dotfiles.json", &link).unwrap();
    assert_eq!(run(&folder, Host::ClaudeCode, &["install"]).code, 0);
    assert!(link.symlink_metadata().unwrap().file_type().is_symlink());
    assert!(read(&real).contains("flyball"));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run(&folder, Host::ClaudeCode, &["uninstall"]).code, 0);
    assert_eq!(read(&link), OWN);
    std::fs::remove_file(&real).unwrap();
    let nowhere = run(&folder, Host::ClaudeCode, &["install"]);
    assert!(nowhere.code == 1 && nowhere.err.contains("error[hook_file]"), "{}", nowhere.err);
}

#[test]
fn the_users_own_settings_are_below_their_home() {
    let folder = kit::folder("install-user");
    let home = folder.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let env = [("HOME", home.to_str().unwrap())];
    for host in Host::ALL {
        let told = kit::flyball(&folder, &["hook", host.as_str(), "install", "--user", "--json"], b"", &env);
        let told: Value = serde_json::from_str(&told.out).unwrap();
        let file = told["files"][0].as_str().unwrap();
        assert!(file.starts_with(home.to_str().unwrap()) && Path::new(file).is_file(), "{told}");
    }
    assert!(home.join(".claude/settings.json").is_file() && home.join(".codex/hooks.json").is_file());
    let moved = folder.join("moved");
    let env = [("HOME", home.to_str().unwrap()), ("CLAUDE_CONFIG_DIR", moved.to_str().unwrap())];
    kit::flyball(&folder, &["hook", "claude-code", "install", "--user"], b"", &env);
    assert!(moved.join("settings.json").is_file());
    let homeless = kit::flyball(&folder, &["hook", "gemini", "install", "--user"], b"", &[]);
    assert!(homeless.code == 1 && homeless.err.contains("error[hook_home]"), "{}", homeless.err);
}

#[test]
fn a_hook_that_cannot_stop_anything_is_not_armed() {
    let host = Host::ClaudeCode;
    let folder = installed(host, "not-armed");
    let file = settings(host, &folder);
    let good = read(&file);
    let own = env!("CARGO_BIN_EXE_flyball");
    for (name, text) in [
        ("absent", "{}".to_owned()),
        ("switched off", good.replacen('{', "{\"disableAllHooks\": true,", 1)),
        ("another tool", good.replacen("\"*\"", "\"Edit|Write\"", 1)),
        ("no program", good.replace(own, "/nowhere/flyball")),
        ("another program", good.replace(own, "true flyball")),
    ] {
        std::fs::write(&file, text).unwrap();
        let told = run(&folder, host, &["test"]);
        assert!(told.code == 1 && told.out.contains("NOT ARMED"), "{name}: {}", told.out);
    }
    std::fs::write(&file, &good).unwrap();
    assert_eq!(run(&folder, host, &["test"]).code, 0);
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    assert_eq!(run(&folder, host, &["test"]).code, 0, "a project cannot switch the guards off by itself");
    kit::trusted(&folder);
    let told = run(&folder, host, &["test"]);
    assert!(told.code == 1 && told.out.contains("let through"), "{}", told.out);
    let folder = installed(Host::Codex, "off");
    std::fs::write(folder.join(".codex/config.toml"), "[features]\nhooks = false\n").unwrap();
    assert_eq!(run(&folder, Host::Codex, &["test"]).code, 1);
}

#[test]
fn the_exec_form_is_run_without_a_shell() {
    let host = Host::ClaudeCode;
    let (folder, file) = written(host, "exec", "{}");
    let own = env!("CARGO_BIN_EXE_flyball");
    let entry = |event: &str| {
        serde_json::json!([{"hooks": [{"type": "command", "command": own,
            "args": ["hook", "claude-code", "--event", event]}]}])
    };
    let text = serde_json::json!({"hooks": {"PreToolUse": entry("PreToolUse"), "PostToolUse": entry("PostToolUse")}});
    std::fs::write(&file, text.to_string()).unwrap();
    let told = run(&folder, host, &["test"]);
    assert_eq!(told.code, 0, "{}", told.out);
}

#[test]
fn the_policy_says_whether_a_hook_that_cannot_run_stops_the_agent() {
    for (host, key) in [
        (Host::ClaudeCode, "\"onFailure\": \"block\""),
        (Host::Cursor, "\"failClosed\": true"),
        (Host::Goose, "\"on_failure\": \"block\""),
        (Host::Opencode, "const STRICT = true"),
    ] {
        let folder = kit::folder(&format!("install-{}-strict", host.as_str()));
        std::fs::write(folder.join("flyball.yaml"), "on_error: block\n").unwrap();
        assert_eq!(run(&folder, host, &["install"]).code, 0);
        assert_eq!(read(&settings(host, &folder)).matches(key).count(), 1, "{}", host.as_str());
        std::fs::remove_file(folder.join("flyball.yaml")).unwrap();
        assert_eq!(run(&folder, host, &["install"]).code, 0);
        assert!(!read(&settings(host, &folder)).contains(key), "{}", host.as_str());
    }
}

#[test]
fn the_doctor_shows_which_hooks_answer() {
    let folder = installed(Host::Gemini, "doctor");
    let path = std::env::var("PATH").unwrap();
    let told = kit::flyball(&folder, &["doctor", "--json"], b"", &[("PATH", &path)]);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let hook = |told: &Value| {
        told["checks"].as_array().unwrap().iter().find(|check| check["check"] == "hook").unwrap().clone()
    };
    assert!(
        hook(&told)["ok"] == true && hook(&told)["what"].as_str().unwrap().contains("Gemini CLI is armed")
    );
    let file = settings(Host::Gemini, &folder);
    let broken = read(&file).replace(env!("CARGO_BIN_EXE_flyball"), "/nowhere/flyball");
    std::fs::write(&file, broken).unwrap();
    let told = kit::flyball(&folder, &["doctor", "--json"], b"", &[("PATH", &path)]);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(hook(&told)["ok"], false);
}
