//! `flyball trust` and the layers of a policy on the command line.

use crate::command_harness::{run_flyball, state_dir, test_dir, trust_policy};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

const LOOSE_POLICY: &str = "preset: off\nguards:\n  repetition: {limit: 2}\njournal: {redact: false}\n";

fn repeated_calls(n: u64) -> String {
    (1..=n)
        .map(|n| {
            let ask = format!(r#"{{"type":"tool.requested","session":"s","call":"c{n}","tool":"bash","args":{{"command":"ls"}}}}"#);
            let end = format!(r#"{{"type":"tool.finished","session":"s","call":"c{n}","ok":true,"output":"a"}}"#);
            format!("{ask}\n{end}\n")
        })
        .collect()
}

#[test]
fn every_command_reports_what_an_untrusted_file_loosens() {
    let dir = test_dir("trust-reports");
    std::fs::write(dir.join("flyball.yaml"), LOOSE_POLICY).unwrap();
    let config = run_flyball(&dir, &["config", "--origin"], b"", &[]);
    assert_eq!(config.code, 0, "{}", config.err);
    for part in [
        "ignored",
        "flyball.yaml:1: 'preset: off' is ignored",
        "journal.redact: false",
        "help: ",
        "flyball trust ",
    ] {
        assert!(config.out.contains(part), "{part}: {}", config.out);
    }
    assert!(config.out.contains("preset = agent") && config.out.contains("guards.repetition.limit = 2"));
    let json: Value =
        serde_json::from_str(&run_flyball(&dir, &["config", "--origin", "--json"], b"", &[]).out).unwrap();
    assert_eq!(json["ignored"][0]["path"], "preset");
    let check = run_flyball(&dir, &["check", "flyball.yaml"], b"", &[]);
    assert!(check.out.contains("policy_untrusted"), "{}", check.out);
    let doctor = run_flyball(&dir, &["doctor"], b"", &[]);
    assert!(doctor.out.contains("may only tighten: preset, journal.redact"), "{}", doctor.out);
    let observe = run_flyball(&dir, &["observe"], repeated_calls(3).as_bytes(), &[]);
    assert!(
        observe.err.contains("warning[policy_untrusted]: ") && observe.err.contains("flyball.yaml:1"),
        "{}",
        observe.err
    );
    assert!(observe.out.contains("\"block\""), "stricter values apply: {}", observe.out);
}

#[test]
fn a_file_is_trusted_by_its_exact_content_and_path() {
    let dir = test_dir("trust-exact");
    let file = dir.join("flyball.yaml");
    std::fs::write(&file, LOOSE_POLICY).unwrap();
    let preset = |env: &[(&str, &str)]| {
        let run = run_flyball(&dir, &["config", "--json"], b"", env);
        serde_json::from_str::<Value>(&run.out).unwrap()["preset"].as_str().unwrap().to_owned()
    };
    assert_eq!(preset(&[]), "agent");
    let dry = run_flyball(&dir, &["trust", "--dry-run", "--json"], b"", &[]);
    let dry: Value = serde_json::from_str(&dry.out).unwrap();
    assert_eq!((&dry["loosens"][0], preset(&[])), (&"preset".into(), "agent".to_owned()));
    let digest = dry["digest"].as_str().unwrap().to_owned();
    assert_eq!(preset(&[("FLYBALL_TRUST", &digest)]), "off", "CI names the digest");
    assert_eq!(preset(&[("FLYBALL_TRUST", &digest[1..])]), "agent");
    let run = run_flyball(&dir, &["trust"], b"", &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("line 1: preset: off") && run.out.contains(&digest), "{}", run.out);
    assert_eq!(preset(&[]), "off");
    let list = state_dir(&dir).join("flyball/trust.json");
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(run_flyball(&dir, &["trust", "--list"], b"", &[]).out.contains("  trusted"));
    // A copy elsewhere is another file, and one more byte is different content.
    let copy = test_dir("trust-copy");
    std::fs::write(copy.join("flyball.yaml"), LOOSE_POLICY).unwrap();
    let env = [("XDG_STATE_HOME", state_dir(&dir).to_str().unwrap().to_owned())];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let run = run_flyball(&copy, &["config", "--json"], b"", &env);
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap()["preset"], "agent");
    std::fs::write(&file, format!("{LOOSE_POLICY} ")).unwrap();
    assert_eq!(preset(&[]), "agent");
    assert!(run_flyball(&dir, &["trust", "--list"], b"", &[]).out.contains("changed since"));
    std::fs::write(&file, LOOSE_POLICY).unwrap();
    assert_eq!(preset(&[]), "off");
    assert_eq!(run_flyball(&dir, &["trust", "--revoke"], b"", &[]).code, 0);
    assert_eq!(preset(&[]), "agent");
    // A list that other users may write to does not count.
    trust_policy(&dir);
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(preset(&[]), "agent");
}

#[test]
fn explicit_policy_is_trusted_and_layers_are_ordered() {
    let dir = test_dir("trust-layers");
    let home = test_dir("trust-layers-home");
    std::fs::create_dir_all(home.join(".config/flyball")).unwrap();
    std::fs::write(
        dir.join("organization.yaml"),
        "guards: {repetition: {limit: 20}, recurrence: {limit: 20}}\n",
    )
    .unwrap();
    std::fs::write(
        home.join(".config/flyball/flyball.yaml"),
        "guards: {recurrence: {limit: 30}, validation: {limit: 30}}\n",
    )
    .unwrap();
    std::fs::write(dir.join("flyball.yaml"), "guards: {validation: {limit: 40}, visits: {limit: 4}}\n")
        .unwrap();
    let env = [("HOME", home.to_str().unwrap()), ("FLYBALL_ORG_POLICY", "organization.yaml")];
    let of = |args: &[&str], env: &[(&str, &str)], key: &str| {
        let run = run_flyball(&dir, &[&["config", "--origin", "--json"], args].concat(), b"", env);
        let all: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err));
        all[format!("guards.{key}.limit")]["value"].as_u64()
    };
    assert_eq!(of(&[], &env, "repetition"), Some(20), "the organization's value");
    assert_eq!(of(&[], &env, "recurrence"), Some(30), "the user overrides the organization");
    assert_eq!(of(&[], &env, "validation"), Some(30), "the project may only tighten");
    assert_eq!(of(&[], &env, "visits"), Some(4), "and does");
    assert_eq!(of(&["--policy", "flyball.yaml"], &env, "validation"), Some(40), "the caller names the file");
    assert_eq!(
        of(&["--set", "guards.validation.limit=50"], &env, "validation"),
        Some(50),
        "the command line"
    );
    let typed = [env[0], env[1], ("FLYBALL_GUARDS__VALIDATION__LIMIT", "60")];
    assert_eq!(of(&[], &typed, "validation"), Some(60), "the environment of an interactive command");
}

#[test]
fn policy_file_is_read_completely_or_rejected() {
    let dir = test_dir("trust-whole");
    for text in [
        "preset: agent\n\0preset: off\n",
        "preset: agent\n\u{7}guards: {}\n",
        "preset: agent\n---\npreset: off\n",
        "preset: agent\npreset: off\n",
        "preset: agent\n\u{feff}guards: {}\n",
    ] {
        std::fs::write(dir.join("flyball.yaml"), text).unwrap();
        for args in [&["config"] as &[&str], &["check", "flyball.yaml"], &["trust"]] {
            let run = run_flyball(&dir, args, b"", &[]);
            assert_eq!(run.code, 1, "{text:?} {args:?}: {}", run.out);
            assert!(
                run.err.contains("flyball.yaml:2:") && run.err.contains("error["),
                "{text:?}: {}",
                run.err
            );
        }
    }
}
