//! `flyball init`, `flyball completions` and `flyball man`, in the shells and pagers that read them.

use crate::command_harness::{run_flyball, test_dir};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;

fn success(folder: &Path, args: &[&str]) -> String {
    let run = run_flyball(folder, args, b"", &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{args:?}: {}", run.out);
    run.out
}

/// The commands that `flyball help` lists.
fn listed_commands(folder: &Path) -> BTreeSet<String> {
    let help = success(folder, &["help"]);
    let rows = help.lines().take_while(|line| *line != "Options:").filter_map(|line| line.strip_prefix("  "));
    let names: BTreeSet<String> = rows.filter_map(|row| row.split(' ').next().map(str::to_owned)).collect();
    assert!(names.contains("init") && names.len() > 35, "{names:?}");
    names
}

/// The template with every commented setting switched on.
fn uncommented(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase()) => setting,
        Some(setting) if setting.starts_with("  ") => setting,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn init_writes_a_policy_that_check_accepts_and_that_changes_nothing() {
    let folder = test_dir("init-new");
    let before = success(&folder, &["config"]);
    let out = success(&folder, &["init"]);
    assert!(out.contains("flyball.yaml") && out.contains("Next: flyball check flyball.yaml"), "{out}");
    let checked = success(&folder, &["check", "flyball.yaml"]);
    assert!(checked.contains("no warnings"), "{checked}");
    assert_eq!(success(&folder, &["config"]), before);
}

#[test]
fn commented_settings_of_the_template_are_the_defaults() {
    let folder = test_dir("init-defaults");
    let defaults: Value = serde_json::from_str(&success(&folder, &["config", "--json"])).unwrap();
    success(&folder, &["init"]);
    let path = folder.join("flyball.yaml");
    let template = std::fs::read_to_string(&path).unwrap();
    let all = uncommented(&template);
    let settings = |text: &str| text.lines().filter(|line| !line.trim_start().starts_with('#')).count();
    assert!(settings(&all) > settings(&template) + 30, "{all}");
    std::fs::write(&path, &all).unwrap();
    success(&folder, &["check", "flyball.yaml"]);
    let run = run_flyball(&folder, &["config", "--json"], b"", &[]);
    let mut written: Value = serde_json::from_str(&run.out).unwrap();
    // The tools are examples: a tool has no default.
    assert!(written.as_object_mut().unwrap().remove("tools").is_some(), "{written}");
    assert_eq!(written, defaults);
}

#[test]
fn schema_named_in_the_modeline_is_beside_the_policy_and_needs_no_network() {
    let folder = test_dir("init-schema");
    success(&folder, &["init"]);
    let policy = std::fs::read_to_string(folder.join("flyball.yaml")).unwrap();
    let modeline = policy.lines().next().unwrap();
    let schema = modeline.strip_prefix("# yaml-language-server: $schema=").unwrap();
    let schema = std::fs::read_to_string(folder.join(schema)).unwrap();
    let printed: Value = serde_json::from_str(&success(&folder, &["schema", "policy"])).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&schema).unwrap(), printed);
    let references = schema.split("\"$ref\": \"").skip(1).filter(|rest| !rest.starts_with('#')).count();
    assert_eq!(references, 0, "every reference is inside the file");
}

#[test]
fn init_overwrites_only_with_force_and_never_shadows_another_policy() {
    let folder = test_dir("init-force");
    for name in ["flyball.yaml", "flyball.schema.json"] {
        let path = folder.join(name);
        std::fs::write(&path, "version: 1 # mine\n").unwrap();
        let run = run_flyball(&folder, &["init"], b"", &[]);
        assert!(
            run.code == 1 && run.err.contains("error[file_exists]: ") && run.err.contains(name),
            "{}",
            run.err
        );
        assert!(run.err.contains("flyball init --force"), "{}", run.err);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "version: 1 # mine\n");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "only .git and {name}");
        success(&folder, &["init", "--force"]);
        assert!(!std::fs::read_to_string(&path).unwrap().contains("mine"));
        for written in ["flyball.yaml", "flyball.schema.json"] {
            std::fs::remove_file(folder.join(written)).unwrap();
        }
    }
    std::fs::write(folder.join("flyball.toml"), "version = 1\n").unwrap();
    let run = run_flyball(&folder, &["init", "--force"], b"", &[]);
    assert!(run.code == 1 && run.err.contains("flyball.toml"), "{}", run.err);
    assert!(!folder.join("flyball.yaml").exists());
}

/// What bash offers for the last of these words.
fn bash_completions(folder: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let script = format!(
        "source completions.bash; complete -p flyball >/dev/null || exit 9; COMP_WORDS=({}); COMP_CWORD={}; \
         _flyball flyball '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
    );
    let run = Command::new("bash").args(["--norc", "-c", &script]).current_dir(folder).output().unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && err.is_empty(), "{words:?}: {err}");
    String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let folder = test_dir("completions-bash");
    std::fs::write(folder.join("completions.bash"), success(&folder, &["completions", "bash"])).unwrap();
    assert_eq!(bash_completions(&folder, &["flyball", "rel"]), ["release"]);
    assert_eq!(bash_completions(&folder, &["flyball", "token", "cr"]), ["create"]);
    assert_eq!(bash_completions(&folder, &["flyball", "list", "--blo"]), ["--blocked"]);
    assert_eq!(bash_completions(&folder, &["flyball", "release", "--mode", "g"]), ["grant"]);
    assert_eq!(bash_completions(&folder, &["flyball", "completions", "po"]), ["powershell"]);
    let offered: BTreeSet<String> = bash_completions(&folder, &["flyball", ""]).into_iter().collect();
    let missing: Vec<String> = listed_commands(&folder).difference(&offered).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!offered.contains("doctor-step"), "a hidden command is offered");
}

#[test]
fn completions_of_every_shell_name_every_command() {
    let folder = test_dir("completions-all");
    let commands = listed_commands(&folder);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = success(&folder, &["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(!script.contains('\u{1b}'), "{shell}: color in the script");
        assert!(!script.contains("doctor-step"), "{shell}: a hidden command");
    }
    let run = run_flyball(&folder, &["completions", "cmd.exe"], b"", &[]);
    assert!(run.code == 2 && run.err.contains("powershell"), "{}", run.err);
}

fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A page as a terminal shows it, if groff is installed.
fn rendered(page: &Path) -> Option<String> {
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=200n"]).arg(page);
    let run = match groff.output() {
        Ok(run) => run,
        Err(error) => {
            skip(&format!("groff: {error}"));
            return None;
        }
    };
    let err = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && err.is_empty(), "{}: {err}", page.display());
    Some(String::from_utf8(run.stdout).unwrap())
}

#[test]
fn man_writes_one_page_per_command_that_renders_without_warnings() {
    let folder = test_dir("man-pages");
    let out = success(&folder, &["man", "--out", "share/man1"]);
    let pages = folder.join("share/man1");
    let files: BTreeSet<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(out.contains(&format!("Wrote {} pages", files.len())), "{out}");
    for command in listed_commands(&folder) {
        assert!(files.contains(&format!("flyball-{command}.1")), "{command}: {files:?}");
    }
    assert!(
        files.contains("flyball-token-create.1") && !files.iter().any(|file| file.contains("help")),
        "{files:?}"
    );
    let main = std::fs::read_to_string(pages.join("flyball.1")).unwrap();
    assert_eq!(success(&folder, &["man"]), main);
    for file in &files {
        let Some(shown) = rendered(&pages.join(file)) else { return };
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(shown.lines().any(|line| line == section), "{file}: no {section}\n{shown}");
        }
        for page in shown.split_whitespace().filter_map(|word| word.strip_suffix("(1)")) {
            assert!(files.contains(&format!("{}.1", page.to_lowercase())), "{file} refers to {page}");
        }
    }
    let shown = rendered(&pages.join("flyball-release.1")).unwrap();
    assert!(shown.contains("flyball release build-1 --why 'fixed the failing test'\n"), "{shown}");
    let run = run_flyball(&folder, &["man", "--out", "share/man1/flyball.1"], b"", &[]);
    assert!(run.code == 1 && run.err.contains("error[cannot_write]"), "{}", run.err);
}

#[test]
fn man_shows_the_main_page() {
    let folder = test_dir("man-main");
    std::fs::write(folder.join("flyball.1"), success(&folder, &["man"])).unwrap();
    let mut man = Command::new("man");
    man.args(["-l", "flyball.1"]).env("MANWIDTH", "100").env("MANPAGER", "cat").current_dir(&folder);
    let Ok(run) = man.output() else { return skip("there is no man") };
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && shown.contains("flyball-release(1)"), "{shown}");
}
