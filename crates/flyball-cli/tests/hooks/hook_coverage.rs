//! "armed" means that the host will call the hook: `hook test` and `doctor` read what the host reads, and a hook that
//! ran before and is missing is detected without a server.

use crate::command_harness::{self, CommandOutput};
use crate::scripted_host::{ScriptedHost, install_hook, settings_file};
use flyball_integrations::hook::Host;
use flyball_integrations::hook::settings::HookCommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A project with a hook, and a separate home directory.
struct HookProject {
    host: Host,
    folder: PathBuf,
    home: PathBuf,
}

impl HookProject {
    fn new(host: Host, name: &str) -> Self {
        let folder = install_hook(host, &format!("coverage-{name}"));
        let home = folder.join("home");
        std::fs::create_dir_all(&home).unwrap();
        HookProject { host, folder, home }
    }

    fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
        self.run_in(&self.folder, args, b"", env)
    }

    fn run_in(&self, folder: &Path, args: &[&str], input: &[u8], env: &[(&str, &str)]) -> CommandOutput {
        let path = std::env::var("PATH").unwrap();
        let all = [&[("PATH", path.as_str()), ("HOME", self.home.to_str().unwrap())], env].concat();
        command_harness::run_flyball(folder, args, input, &all)
    }

    fn run_hook_test(&self) -> CommandOutput {
        self.run_with(&["hook", self.host.as_str(), "test"], &[])
    }

    fn run_doctor(&self) -> (i32, Vec<Value>) {
        let run = self.run_with(&["doctor", "--json"], &[]);
        let output: Value =
            serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
        (run.code, output["checks"].as_array().unwrap().clone())
    }

    /// The problems that the doctor reports, as one text.
    fn doctor_errors(&self) -> String {
        let (_, checks) = self.run_doctor();
        let wrong = checks.iter().filter(|check| check["ok"] == false);
        wrong.map(|check| format!("{}: {}\n", check["check"], check["what"])).collect()
    }

    fn write_settings(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// One call of the hook, as the host makes it.
    fn call_hook(&self, folder: &Path) -> CommandOutput {
        let input = json!({"session_id": "s1", "cwd": folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "ls"}, "tool_use_id": "t1"});
        let args = ["hook", self.host.as_str(), "--event", "PreToolUse"];
        self.run_in(folder, &args, input.to_string().as_bytes(), &[])
    }

    #[track_caller]
    fn assert_not_armed(&self, parts: &[&str]) {
        let run = self.run_hook_test();
        assert_eq!(run.code, 1, "{}{}", run.out, run.err);
        let wrong = self.doctor_errors();
        for part in [&["NOT ARMED"], parts].concat() {
            assert!(run.out.contains(part), "hook test lacks {part:?}: {}{}", run.out, run.err);
            assert!(wrong.contains(part), "doctor lacks {part:?}: {wrong}");
        }
    }

    #[track_caller]
    fn assert_armed(&self) {
        let run = self.run_hook_test();
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    }
}

#[test]
fn claude_code_hooks_that_any_settings_file_disables_are_not_armed() {
    let project = HookProject::new(Host::ClaudeCode, "disabled");
    project.assert_armed();
    let off = "{\n  \"disableAllHooks\": true\n}\n";
    for path in [".claude/settings.local.json", "home/.claude/settings.json"] {
        project.write_settings(path, off);
        project.assert_not_armed(&["disableAllHooks", &format!("{path}:2")]);
        std::fs::remove_file(project.folder.join(path)).unwrap();
        project.assert_armed();
    }
    // A file with higher precedence decides.
    project.write_settings("home/.claude/settings.json", off);
    project.write_settings(".claude/settings.local.json", "{\"disableAllHooks\": false}");
    project.assert_armed();
    // A file that the host cannot read is ignored.
    project.write_settings("home/.claude/settings.json", "{}");
    project.write_settings(".claude/settings.local.json", "{\"disableAllHooks\": true,}");
    project.assert_armed();
}

#[test]
fn a_hook_in_the_local_settings_is_found() {
    let project = HookProject::new(Host::ClaudeCode, "local");
    let main = settings_file(Host::ClaudeCode, &project.folder);
    std::fs::rename(&main, project.folder.join(".claude/settings.local.json")).unwrap();
    project.assert_armed();
}

#[test]
fn unparsable_settings_are_not_armed_and_reported_with_their_line() {
    for (host, comments) in [
        (Host::ClaudeCode, false),
        (Host::Codex, false),
        (Host::Copilot, false),
        (Host::Cursor, false),
        (Host::Goose, false),
        (Host::Gemini, true),
    ] {
        let folder = install_hook(host, "coverage-syntax");
        let file = settings_file(host, &folder);
        let good = std::fs::read_to_string(&file).unwrap();
        let path = std::env::var("PATH").unwrap();
        let test = || {
            command_harness::run_flyball(&folder, &["hook", host.as_str(), "test"], b"", &[("PATH", &path)])
        };
        assert_eq!(test().code, 0, "{}: {}", host.as_str(), test().out);
        let name = file.file_name().unwrap().to_str().unwrap();
        std::fs::write(&file, good.replacen('{', "{\n  // mine", 1)).unwrap();
        let run = test();
        assert_eq!(run.code, i32::from(!comments), "{}: {}", host.as_str(), run.out);
        if !comments {
            assert!(run.out.contains("NOT ARMED") && run.out.contains(&format!("{name}:2")), "{}", run.out);
        }
        let at = good.trim_end().len() - 1;
        std::fs::write(&file, format!("{},\n}}\n", good[..at].trim_end())).unwrap();
        let run = test();
        assert!(run.code == 1 && run.out.contains("railing comma"), "{}: {}", host.as_str(), run.out);
        // `install` never writes a file that the host cannot read.
        let run = command_harness::run_flyball(
            &folder,
            &["hook", host.as_str(), "install"],
            b"",
            &[("PATH", &path)],
        );
        assert!(run.code == 1 && run.err.contains("error[hook_settings]"), "{}: {}", host.as_str(), run.err);
    }
}

#[test]
fn codex_runs_only_hooks_of_trusted_projects_that_were_reviewed() {
    let project = HookProject::new(Host::Codex, "trust");
    project.assert_not_armed(&["Codex does not trust"]);
    let root = project.folder.canonicalize().unwrap();
    let trusted = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", root.to_str().unwrap());
    project.write_settings("home/.codex/config.toml", &trusted);
    project.assert_not_armed(&["the PreToolUse hook is not trusted in Codex yet"]);
    let command = HookCommand::new(env!("CARGO_BIN_EXE_flyball"));
    let states = |command: &HookCommand| -> String {
        let events =
            Host::Codex.events().iter().map(|(event, _)| *event).filter(|event| *event != "SessionEnd");
        let state = events.map(|event| {
            let mut label = String::new();
            for c in event.chars() {
                if c.is_ascii_uppercase() && !label.is_empty() {
                    label.push('_');
                }
                label.push(c.to_ascii_lowercase());
            }
            let identity = format!(
                "{{\"event_name\":\"{label}\",\"hooks\":[{{\"async\":false,\"command\":{},\"timeout\":10,\"type\":\"command\"}}]}}",
                json!(command.command_line(Host::Codex, event))
            );
            let sum = std::process::Command::new("sha256sum").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn();
            let mut sum = sum.unwrap();
            std::io::Write::write_all(sum.stdin.as_mut().unwrap(), identity.as_bytes()).unwrap();
            let sum = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
            let key = format!("{}:{label}:0:0", root.join(".codex/hooks.json").display());
            format!("[hooks.state.{key:?}]\ntrusted_hash = \"sha256:{}\"\n", &sum[..64])
        });
        state.collect()
    };
    let reviewed = format!("{trusted}{}", states(&command));
    project.write_settings("home/.codex/config.toml", &reviewed);
    project.assert_armed();
    project.write_settings("home/.codex/config.toml", &format!("[features]\nhooks = false\n{reviewed}"));
    project.assert_not_armed(&["features.hooks", "config.toml:2"]);
    project.write_settings(
        "home/.codex/config.toml",
        &reviewed.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1),
    );
    project.assert_not_armed(&["disabled"]);
    // A different command than the reviewed one.
    project.write_settings("home/.codex/config.toml", &reviewed);
    let run = project.run_with(&["hook", "--preset", "strict", "codex", "install"], &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    project.assert_not_armed(&["differs from the one that was trusted in Codex"]);
}

#[test]
fn copilot_and_gemini_run_no_hooks_in_untrusted_folders() {
    let project = HookProject::new(Host::Copilot, "trust");
    project.assert_not_armed(&["does not trust", "config.json"]);
    let trust = |key: &str| {
        format!("// managed automatically\n{{{key:?}: [{:?}]}}\n", project.folder.to_str().unwrap())
    };
    for key in ["trustedFolders", "trusted_folders"] {
        project.write_settings("home/.copilot/config.json", &trust(key));
        project.assert_armed();
    }
    project.write_settings(".github/copilot/settings.json", "{\"disableAllHooks\": true}");
    project.assert_not_armed(&["disableAllHooks", ".github/copilot/settings.json:1"]);
    let project = HookProject::new(Host::Gemini, "trust");
    project.assert_not_armed(&["does not trust"]);
    let folders = |level: &str| json!({ project.folder.to_str().unwrap(): level }).to_string();
    project.write_settings("home/.gemini/trustedFolders.json", &folders("DO_NOT_TRUST"));
    project.assert_not_armed(&["refused"]);
    project.write_settings("home/.gemini/trustedFolders.json", &folders("TRUST_FOLDER"));
    project.assert_armed();
    project
        .write_settings("home/.gemini/settings.json", "{\"hooksConfig\": {\n\"disabled\": [\"flyball\"]}}");
    project.assert_not_armed(&["hooksConfig.disabled", "settings.json:2"]);
    project.write_settings(
        "home/.gemini/settings.json",
        "{\"security\": {\"folderTrust\": {\"enabled\": false}}}",
    );
    project.write_settings("home/.gemini/trustedFolders.json", "{}");
    project.assert_armed();
}

#[test]
fn removed_hook_is_detected_without_a_server() {
    let project = HookProject::new(Host::ClaudeCode, "gone");
    assert_eq!(project.call_hook(&project.folder).code, 0);
    assert_eq!(project.doctor_errors(), "");
    let file = settings_file(Host::ClaudeCode, &project.folder);
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "{}").unwrap();
    let wrong = project.doctor_errors();
    assert!(wrong.contains("last ran Flyball's hook at ") && wrong.contains("settings.json"), "{wrong}");
    assert_eq!(project.run_doctor().0, 1);
    // The store remembers it even if the record in the state directory is gone.
    std::fs::remove_dir_all(project.home.join(".local")).unwrap();
    assert!(project.doctor_errors().contains("last ran Flyball's hook at "));
    // An agent cannot accept it; an operator can.
    let run = project.run_with(&["doctor", "--accept"], &[("CLAUDECODE", "1")]);
    assert!(run.code == 1 && run.err.contains("agent_not_allowed"), "{}", run.err);
    assert!(project.doctor_errors().contains("last ran Flyball's hook at "));
    project.run_with(&["doctor", "--accept"], &[]);
    assert_eq!(project.doctor_errors(), "");
    // A hook that an operator uninstalls is not reported as missing.
    std::fs::write(&file, &good).unwrap();
    assert_eq!(project.run_with(&["hook", "claude-code", "uninstall"], &[]).code, 0);
    assert_eq!(project.doctor_errors(), "");
}

#[test]
fn removed_hook_is_detected_before_its_first_run() {
    let project = HookProject::new(Host::ClaudeCode, "never-ran");
    assert_eq!(project.run_with(&["hook", "claude-code", "install"], &[]).code, 0);
    std::fs::write(settings_file(Host::ClaudeCode, &project.folder), "{}").unwrap();
    assert!(project.doctor_errors().contains("was installed in "), "{}", project.doctor_errors());
}

#[test]
fn settings_that_redirect_the_store_or_policy_are_reported() {
    let project = HookProject::new(Host::ClaudeCode, "redirect");
    project.call_hook(&project.folder);
    let file = settings_file(Host::ClaudeCode, &project.folder);
    let good = std::fs::read_to_string(&file).unwrap();
    for (variable, value) in
        [("FLYBALL_STORE", "sqlite:elsewhere.db"), ("FLYBALL_GUARDS__REPETITION__LIMIT", "500")]
    {
        let env = format!("{{\n  \"env\": {{\n    \"{variable}\": \"{value}\"\n  }},");
        std::fs::write(&file, good.replacen('{', &env, 1)).unwrap();
        let wrong = project.doctor_errors();
        assert!(wrong.contains(&format!("settings.json:3 sets {variable}")), "{wrong}");
    }
    let own = env!("CARGO_BIN_EXE_flyball");
    let other = project.home.join("other.db");
    let prefixed = format!("FLYBALL_STORE=sqlite:{} {own}", other.display());
    std::fs::write(&file, good.replace(own, &prefixed)).unwrap();
    assert!(project.doctor_errors().contains("sets FLYBALL_STORE"), "{}", project.doctor_errors());
    std::fs::write(&file, &good).unwrap();
    assert_eq!(project.doctor_errors(), "");
}

#[test]
fn a_hook_that_used_another_store_or_policy_than_the_project_is_reported() {
    let project = HookProject::new(Host::ClaudeCode, "elsewhere");
    project.call_hook(&project.folder);
    assert_eq!(project.doctor_errors(), "");
    let url = format!("sqlite:{}", project.home.join("other.db").display());
    let input = json!({"session_id": "s2", "cwd": project.folder, "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "ls"}, "tool_use_id": "t1"});
    let args = ["hook", "claude-code", "--event", "PreToolUse"];
    let env = [("FLYBALL_STORE", url.as_str())];
    assert_eq!(project.run_in(&project.folder, &args, input.to_string().as_bytes(), &env).code, 0);
    assert!(project.doctor_errors().contains("other.db"), "{}", project.doctor_errors());
    project.write_settings("flyball.yaml", "version: 1\n");
    project.write_settings("sub/flyball.yaml", "version: 1\n");
    let run = project.run_in(&project.folder.join("sub"), &["doctor"], b"", &[]);
    assert!(run.code == 1 && run.out.contains("takes precedence over the project's"), "{}", run.out);
}

#[test]
fn install_writes_its_flags_and_the_hook_uses_them() {
    for host in Host::ALL {
        let folder = command_harness::test_dir(&format!("hooks-{}-coverage-flags", host.as_str()));
        std::fs::write(folder.join("my policy.yaml"), "guards: {repetition: {limit: 2}}\n").unwrap();
        let flags = ["--store", "sqlite:my store.db", "--policy", "my policy.yaml", "--preset", "strict"];
        let more = ["--set", "on_error=block", "--deadline", "5s", host.as_str(), "install"];
        let args = [&["hook"], &flags[..], &more[..]].concat();
        let path = std::env::var("PATH").unwrap();
        let run = command_harness::run_flyball(&folder, &args, b"", &[("PATH", &path)]);
        assert_eq!(run.code, 0, "{}: {}", host.as_str(), run.err);
        let text = std::fs::read_to_string(settings_file(host, &folder)).unwrap();
        let here = folder.canonicalize().unwrap();
        for part in
            ["my store.db", "my policy.yaml", "--preset", "on_error=block", "5000ms", here.to_str().unwrap()]
        {
            assert!(text.contains(part), "{} lacks {part}: {text}", host.as_str());
        }
        // The hook uses them from there.
        let agent = ScriptedHost::new(host, &folder);
        let (event, _) = host.events()[0];
        let page =
            command_harness::repo_root().join(format!("fixtures/hooks/{}/{event}.json", host.as_str()));
        let page: Value = serde_json::from_str(&std::fs::read_to_string(page).unwrap()).unwrap();
        agent.call_hook_with_bytes(event, page["input"].to_string().as_bytes());
        assert!(folder.join("my store.db").exists(), "{}: the store was not used", host.as_str());
        assert!(!folder.join(".flyball").exists(), "{}", host.as_str());
        let test =
            command_harness::run_flyball(&folder, &["hook", host.as_str(), "test"], b"", &[("PATH", &path)]);
        assert_eq!(test.code, 0, "{}: {}{}", host.as_str(), test.out, test.err);
        // Reinstalled without them, they are removed, and the output says so.
        let run = command_harness::run_flyball(
            &folder,
            &["hook", host.as_str(), "install"],
            b"",
            &[("PATH", &path)],
        );
        assert!(
            run.code == 0 && (host == Host::Opencode || run.out.contains("were replaced")),
            "{}",
            run.out
        );
        assert!(!std::fs::read_to_string(settings_file(host, &folder)).unwrap().contains("my store.db"));
    }
}

#[test]
fn install_rejects_flags_it_cannot_persist() {
    let folder = command_harness::test_dir("hooks-coverage-refused");
    for (flags, part) in [
        (&["--store", "memory:"][..], "error[hook_flags]"),
        (&["--store", "postgres://me:example-password@localhost/x"], "error[hook_flags]"),
        (&["--store", "nonsense:x"], "error[store_address]"),
        (&["--preset", "nonsense"], "nonsense"),
        (&["--policy", "nowhere.yaml"], "nowhere.yaml"),
        (&["--set", "nonsense.key=1"], "nonsense"),
        (&["--deadline", "20s"], "error[hook_flags]"),
    ] {
        let args = [&["hook"], flags, &["claude-code", "install"]].concat();
        let run = command_harness::run_flyball(&folder, &args, b"", &[]);
        assert!(run.code == 1 && run.err.contains(part), "{flags:?}: {}{}", run.out, run.err);
        assert!(!folder.join(".claude").exists(), "{flags:?}");
    }
}
