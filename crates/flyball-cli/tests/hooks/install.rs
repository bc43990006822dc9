//! Installing preserves existing settings: every comment, line ending and byte.

use crate::command_harness::{self, CommandOutput};
use crate::scripted_host::{install_hook, settings_file};
use flyball_integrations::hook::Host;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn run_hook_command(folder: &Path, host: Host, args: &[&str]) -> CommandOutput {
    let path = std::env::var("PATH").unwrap();
    command_harness::run_flyball(folder, &[&["hook", host.as_str()], args].concat(), b"", &[("PATH", &path)])
}

/// Hosts whose settings file is shared with other tools.
const SHARED_SETTINGS_HOSTS: [Host; 4] = [Host::ClaudeCode, Host::Codex, Host::Gemini, Host::Cursor];

fn settings_with(host: Host, name: &str, text: &str) -> (PathBuf, PathBuf) {
    let folder = command_harness::test_dir(&format!("install-{}-{name}", host.as_str()));
    let file = settings_file(host, &folder);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

fn read_settings(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// A user's settings file with custom order, spacing and hooks.
const USER_SETTINGS: &str = r#"{
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

/// The same file in the syntax of the host: Gemini CLI allows comments, and Codex only its own keys.
fn user_settings(host: Host) -> String {
    match host {
        Host::Gemini => {
            USER_SETTINGS.replace("\"opus\",", "\"opus\",   /* do not change */\n  // my favorites")
        }
        Host::Codex => USER_SETTINGS.replace("},\n\t\"env\": {\"A\": \"1\"}", "}"),
        _ => USER_SETTINGS.to_owned(),
    }
}

fn settings_variants(host: Host) -> Vec<(&'static str, String)> {
    let own = user_settings(host);
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
fn existing_settings_are_kept_and_restored_byte_for_byte() {
    for host in SHARED_SETTINGS_HOSTS {
        for (name, text) in settings_variants(host) {
            let (folder, file) = settings_with(host, name, &text);
            let at = format!("{} {name}", host.as_str());
            assert_eq!(run_hook_command(&folder, host, &["install"]).code, 0, "{at}");
            let with = read_settings(&file);
            assert_ne!(with, text, "{at}");
            // Everything is still there, in the same order, with comments on their lines.
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
            assert_eq!(
                read_settings(&file.with_file_name(format!("{}.before-flyball", backup_text(&file)))),
                text,
                "{at}"
            );
            assert_eq!(run_hook_command(&folder, host, &["install"]).code, 0);
            assert_eq!(read_settings(&file), with, "{at}: installing twice changes nothing");
            if matches!(name, "mark" | "crlf") {
                assert_eq!(run_hook_command(&folder, host, &["test"]).code, 0, "{at}");
            }
            assert_eq!(run_hook_command(&folder, host, &["uninstall"]).code, 0);
            assert_eq!(read_settings(&file), text, "{at}");
            let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
            assert_eq!(left.len(), 1, "{at}: no other file is left");
        }
    }
}

fn backup_text(file: &Path) -> String {
    file.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn later_changes_survive_uninstall() {
    for host in SHARED_SETTINGS_HOSTS {
        let (folder, file) = settings_with(host, "since", &user_settings(host));
        run_hook_command(&folder, host, &["install"]);
        let changed = read_settings(&file).replace("\"opus\"", "\"haiku\"");
        std::fs::write(&file, &changed).unwrap();
        assert_eq!(run_hook_command(&folder, host, &["uninstall"]).code, 0);
        let after = read_settings(&file);
        assert!(after.contains("\"haiku\""), "{after}");
        assert_eq!(after.contains("// my favorites"), host == Host::Gemini, "{after}");
        assert!(!after.contains("flyball"), "{after}");
        assert_eq!(after.matches("./mine.sh").count(), 3, "{after}");
        assert_ne!(run_hook_command(&folder, host, &["test"]).code, 0);
    }
}

#[test]
fn other_handlers_survive_uninstall() {
    let (folder, file) = settings_with(Host::ClaudeCode, "beside", "{}\n");
    run_hook_command(&folder, Host::ClaudeCode, &["install"]);
    let mine = r#"{"type": "command", "command": "./mine.sh"}, {"type": "command", "command""#;
    let changed = read_settings(&file).replacen(
        r#"{
            "type": "command",
            "command""#,
        mine,
        1,
    );
    assert!(changed.contains("./mine.sh"), "{changed}");
    std::fs::write(&file, &changed).unwrap();
    run_hook_command(&folder, Host::ClaudeCode, &["uninstall"]);
    let after = read_settings(&file);
    assert!(after.contains("./mine.sh") && !after.contains("flyball"), "{after}");
    serde_json::from_str::<Value>(&after).unwrap();
}

#[test]
fn settings_file_is_created_and_removed() {
    for host in Host::ALL {
        let folder = install_hook(host, "own-file");
        let file = settings_file(host, &folder);
        assert!(file.is_file(), "{}", host.as_str());
        assert_eq!(run_hook_command(&folder, host, &["uninstall"]).code, 0);
        assert!(!file.exists(), "{}", host.as_str());
        let again = run_hook_command(&folder, host, &["uninstall"]);
        assert!(again.code == 0 && again.out.contains("nothing was changed"), "{}", again.out);
    }
}

#[test]
fn broken_settings_are_reported_with_their_location_and_unchanged() {
    for host in SHARED_SETTINGS_HOSTS {
        for (name, text, place) in [
            ("cut", "{\n  \"hooks\": {", ":2:12"),
            ("word", "{\n  \"a\": nonsense\n}", ":2:8"),
            ("list", "[]", ""),
            ("hooks", "{\"hooks\": 3}", ""),
        ] {
            let (folder, file) = settings_with(host, name, text);
            for action in ["install", "uninstall"] {
                let output = run_hook_command(&folder, host, &[action]);
                if action == "uninstall" && matches!(name, "list" | "hooks") {
                    assert!(output.out.contains("nothing was changed"), "{}", output.out);
                    continue;
                }
                assert_eq!(output.code, 1, "{name} {action}");
                assert!(output.err.contains("error[hook_settings]"), "{}", output.err);
                assert!(output.err.contains(place) && output.err.contains("help:"), "{}", output.err);
            }
            assert_eq!(read_settings(&file), text);
            assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        }
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    for host in Host::ALL {
        let folder = command_harness::test_dir(&format!("install-{}-dry", host.as_str()));
        let output = run_hook_command(&folder, host, &["install", "--dry-run"]);
        assert!(output.code == 0 && output.out.contains("would be written"), "{}", output.out);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{}: only .git", host.as_str());
    }
}

#[test]
fn symlink_and_file_mode_are_preserved() {
    let folder = command_harness::test_dir("install-link");
    let real = folder.join("dotfiles.json");
    std::fs::write(&real, USER_SETTINGS).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::create_dir_all(folder.join(".claude")).unwrap();
    let link = folder.join(".claude/settings.json");
    symlink("../dotfiles.json", &link).unwrap();
    assert_eq!(run_hook_command(&folder, Host::ClaudeCode, &["install"]).code, 0);
    assert!(link.symlink_metadata().unwrap().file_type().is_symlink());
    assert!(read_settings(&real).contains("flyball"));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run_hook_command(&folder, Host::ClaudeCode, &["uninstall"]).code, 0);
    assert_eq!(read_settings(&link), USER_SETTINGS);
    std::fs::remove_file(&real).unwrap();
    let nowhere = run_hook_command(&folder, Host::ClaudeCode, &["install"]);
    assert!(nowhere.code == 1 && nowhere.err.contains("error[hook_file]"), "{}", nowhere.err);
}

#[test]
fn user_settings_are_in_the_home_folder() {
    let folder = command_harness::test_dir("install-user");
    let home = folder.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let env = [("HOME", home.to_str().unwrap())];
    for host in Host::ALL {
        let output = command_harness::run_flyball(
            &folder,
            &["hook", host.as_str(), "install", "--user", "--json"],
            b"",
            &env,
        );
        let output: Value = serde_json::from_str(&output.out).unwrap();
        let file = output["files"][0].as_str().unwrap();
        assert!(file.starts_with(home.to_str().unwrap()) && Path::new(file).is_file(), "{output}");
    }
    assert!(home.join(".claude/settings.json").is_file() && home.join(".codex/hooks.json").is_file());
    let moved = folder.join("moved");
    let env = [("HOME", home.to_str().unwrap()), ("CLAUDE_CONFIG_DIR", moved.to_str().unwrap())];
    command_harness::run_flyball(&folder, &["hook", "claude-code", "install", "--user"], b"", &env);
    assert!(moved.join("settings.json").is_file());
    let homeless = command_harness::run_flyball(&folder, &["hook", "gemini", "install", "--user"], b"", &[]);
    assert!(homeless.code == 1 && homeless.err.contains("error[hook_home]"), "{}", homeless.err);
}

#[test]
fn hook_that_cannot_block_is_not_armed() {
    let host = Host::ClaudeCode;
    let folder = install_hook(host, "not-armed");
    let file = settings_file(host, &folder);
    let good = read_settings(&file);
    let own = env!("CARGO_BIN_EXE_flyball");
    for (name, text) in [
        ("absent", "{}".to_owned()),
        ("switched off", good.replacen('{', "{\"disableAllHooks\": true,", 1)),
        ("another tool", good.replacen("\"*\"", "\"Edit|Write\"", 1)),
        ("no program", good.replace(own, "/nowhere/flyball")),
        ("another program", good.replace(own, "true flyball")),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = run_hook_command(&folder, host, &["test"]);
        assert!(output.code == 1 && output.out.contains("NOT ARMED"), "{name}: {}", output.out);
    }
    std::fs::write(&file, &good).unwrap();
    assert_eq!(run_hook_command(&folder, host, &["test"]).code, 0);
    std::fs::write(folder.join("flyball.yaml"), "preset: off\n").unwrap();
    assert_eq!(run_hook_command(&folder, host, &["test"]).code, 0, "a project cannot disable the guards");
    command_harness::trust_policy(&folder);
    let output = run_hook_command(&folder, host, &["test"]);
    assert!(output.code == 1 && output.out.contains("all allowed"), "{}", output.out);
    let folder = install_hook(Host::Codex, "off");
    std::fs::write(folder.join(".codex/config.toml"), "[features]\nhooks = false\n").unwrap();
    assert_eq!(run_hook_command(&folder, Host::Codex, &["test"]).code, 1);
}

#[test]
fn exec_form_runs_without_a_shell() {
    let host = Host::ClaudeCode;
    let (folder, file) = settings_with(host, "exec", "{}");
    let own = env!("CARGO_BIN_EXE_flyball");
    let entry = |event: &str| {
        serde_json::json!([{"hooks": [{"type": "command", "command": own,
            "args": ["hook", "claude-code", "--event", event]}]}])
    };
    let text = serde_json::json!({"hooks": {"PreToolUse": entry("PreToolUse"), "PostToolUse": entry("PostToolUse")}});
    std::fs::write(&file, text.to_string()).unwrap();
    let output = run_hook_command(&folder, host, &["test"]);
    assert_eq!(output.code, 0, "{}", output.out);
}

#[test]
fn policy_decides_whether_an_unavailable_hook_blocks_the_agent() {
    for (host, key) in [
        (Host::ClaudeCode, "\"onFailure\": \"block\""),
        (Host::Cursor, "\"failClosed\": true"),
        (Host::Goose, "\"on_failure\": \"block\""),
        (Host::Opencode, "const STRICT = true"),
    ] {
        let folder = command_harness::test_dir(&format!("install-{}-strict", host.as_str()));
        std::fs::write(folder.join("flyball.yaml"), "on_error: block\n").unwrap();
        assert_eq!(run_hook_command(&folder, host, &["install"]).code, 0);
        assert_eq!(read_settings(&settings_file(host, &folder)).matches(key).count(), 1, "{}", host.as_str());
        std::fs::remove_file(folder.join("flyball.yaml")).unwrap();
        assert_eq!(run_hook_command(&folder, host, &["install"]).code, 0);
        assert!(!read_settings(&settings_file(host, &folder)).contains(key), "{}", host.as_str());
    }
}

#[test]
fn doctor_shows_which_hooks_respond() {
    let folder = install_hook(Host::Gemini, "doctor");
    let path = std::env::var("PATH").unwrap();
    let output = command_harness::run_flyball(&folder, &["doctor", "--json"], b"", &[("PATH", &path)]);
    let output: Value = serde_json::from_str(&output.out).unwrap();
    let hook = |output: &Value| {
        output["checks"].as_array().unwrap().iter().find(|check| check["check"] == "hook").unwrap().clone()
    };
    assert!(
        hook(&output)["ok"] == true
            && hook(&output)["what"].as_str().unwrap().contains("Gemini CLI is armed")
    );
    let file = settings_file(Host::Gemini, &folder);
    let broken = read_settings(&file).replace(env!("CARGO_BIN_EXE_flyball"), "/nowhere/flyball");
    std::fs::write(&file, broken).unwrap();
    let output = command_harness::run_flyball(&folder, &["doctor", "--json"], b"", &[("PATH", &path)]);
    let output: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(hook(&output)["ok"], false);
}
