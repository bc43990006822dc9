//! Tests of the inherited environment.

use super::is_harmless;
use std::ffi::OsStr;

fn inherits(name: &str, value: &str) -> bool {
    is_harmless(OsStr::new(name), OsStr::new(value))
}

#[test]
fn ordinary_variables_are_inherited() {
    for name in [
        "PATH",
        "HOME",
        "LC_ALL",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "JAVA_HOME",
        "NODE_PATH",
        "GOPATH",
        "PYTHONPATH",
    ] {
        assert!(inherits(name, "/usr/lib"), "{name}");
    }
    assert!(inherits("HTTPS_PROXY", "http://proxy.example.org:3128"));
}

#[test]
fn secrets_are_never_inherited() {
    for name in [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN",
        "CARGO_REGISTRY_TOKEN",
        "NODE_AUTH_TOKEN",
        "NPM_CONFIG__AUTH",
        "FLYBALL_WEBHOOK_SECRET",
        "FLYBALL_SMTP_PASSWORD",
        "FLYBALL_TOKEN",
        "MY_MODEL",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
    ] {
        assert!(!inherits(name, "x"), "{name}");
    }
    assert!(!inherits("HTTPS_PROXY", "http://ann:fake@proxy.example.org:3128"));
}
