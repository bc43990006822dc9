//! Environment of the programs that a run starts: a safe list of variables, never keys.
//!
//! A tool runs code that a model wrote, so it must not see the secrets that the runner needs for models, webhooks and
//! mail servers. Only variables known to be harmless are inherited; others must be listed in `pass_env`.

use std::ffi::{OsStr, OsString};

/// Inherited variables.
const INHERITED_VARS: &[&str] = &[
    // The user and the machine.
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    // Language and output.
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "EDITOR",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NO_COLOR",
    "PAGER",
    "SOURCE_DATE_EPOCH",
    // Compilers and libraries.
    "AR",
    "AS",
    "CC",
    "CFLAGS",
    "CPATH",
    "CPP",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "LD",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "SDKROOT",
    // Tool directories.
    "BUN_INSTALL",
    "COMPOSER_HOME",
    "DENO_DIR",
    "GEM_HOME",
    "GEM_PATH",
    "HEX_HOME",
    "M2_HOME",
    "MIX_HOME",
    "NUGET_PACKAGES",
    "PNPM_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    // Git, except variables that may contain a header or password.
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_EDITOR",
    "GIT_PAGER",
    "GIT_TERMINAL_PROMPT",
    // Certificates and proxies.
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    // Agent markers: commands reserved for people must detect that an agent runs them.
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "COPILOT_AGENT_SESSION_ID",
    "CURSOR_AGENT",
    "FLYBALL_RUN",
    "GEMINI_CLI",
    "OPENCODE",
];
/// Name prefixes of other harmless variables.
const INHERITED_PREFIXES: &[&str] = &[
    "ANDROID_",
    "ASDF_",
    "CARGO_",
    "CMAKE_",
    "CONDA_",
    "DOTNET_",
    "ERL_",
    "GHCUP_",
    "GO",
    "GRADLE_",
    "JAVA_",
    "JDK_",
    "LC_",
    "LLVM_",
    "MAVEN_",
    "MISE_",
    "NIX_",
    "NODE_",
    "NPM_CONFIG_",
    "NVM_",
    "OPAM",
    "PERL",
    "PHP_",
    "PYENV_",
    "PYTHON",
    "RBENV_",
    "RUBY",
    "RUST",
    "XDG_",
    "YARN_",
    "npm_config_",
];
/// Words in the names of variables that contain secrets.
const SECRET_WORDS: &[&str] = &[
    "AUTH",
    "AUTHTOKEN",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PW",
    "PWD",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];

/// Variables that a program inherits.
pub(super) fn inherited_vars() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, value)| is_harmless(name, value))
}

fn is_harmless(name: &OsStr, value: &OsStr) -> bool {
    let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { return false };
    if contains_credentials(value) {
        return false;
    }
    if INHERITED_VARS.contains(&name) {
        return true;
    }
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric());
    let secret = words().any(|word| SECRET_WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)));
    INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !secret
}

/// Whether a value is a URL that contains a user name or password.
fn contains_credentials(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '?', '#', ',', ' ']).next().unwrap_or_default();
        host.contains('@')
    })
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
