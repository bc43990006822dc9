//! Policy files and hook command lines the user trusts.
//!
//! A project's policy file and hook entries are untrusted input: they may only tighten until the user trusts that exact
//! content. A file is identified by its canonical path and digest, a command line by its words and the project. The
//! list is in the user's state folder, readable only by the user.

use crate::error::CliError;
use crate::store;
use flyball_integrations::hook::settings::{HandlerCommand, HookHandler};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Environment variable with the digests that continuous integration trusts, separated by commas.
pub(crate) const TRUST_VARIABLE: &str = "FLYBALL_TRUST";
/// Maximum size of the trust list.
const MAX_LIST_BYTES: u64 = 4 * 1024 * 1024;
/// Scope of command lines from the user's settings, which are trusted in every project.
const ANY_PROJECT: &str = "*";

/// Trust level of this process's flags and environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller<'a> {
    /// A person's command: flags and environment are the caller's own.
    Person,
    /// A hook: its command line and environment may come from the settings of the project with this root.
    HookEntry(&'a Path),
}

impl Caller<'_> {
    /// Whether flags and environment are the caller's own.
    pub(crate) fn is_person(self) -> bool {
        self == Caller::Person
    }

    /// Whether a file or folder counts as the user's. A hook's environment may come from the project, and must not turn
    /// a folder of the project into the user's.
    pub(crate) fn is_user_owned(self, path: &Path) -> bool {
        let Caller::HookEntry(root) = self else { return true };
        let (path, root) = (real_path(path), real_path(&repository_root(root)));
        !path.starts_with(&root) || home_dir().is_some_and(|home| home.starts_with(&root))
    }
}

fn real_path(path: &Path) -> PathBuf {
    // A path that does not exist yet is resolved through its nearest existing ancestor.
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return found.join(path.strip_prefix(above).unwrap_or(Path::new("")));
        }
    }
    path.to_path_buf()
}

fn repository_root(root: &Path) -> PathBuf {
    root.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(root).to_path_buf()
}

/// The user's home folder according to the system, ignoring the environment.
fn home_dir() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let all = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = all.lines().find(|line| line.split(':').nth(2) == Some(&user))?;
    PathBuf::from(line.split(':').nth(5)?).canonicalize().ok()
}

/// The trusted files and command lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrustList {
    /// Digests of the trusted contents, by canonical path.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, BTreeSet<String>>,
    /// Digests of hook command lines.
    #[serde(default)]
    commands: BTreeSet<String>,
}

impl TrustList {
    /// The user's list; empty if there is none. A list that others could have written is ignored.
    pub(crate) fn read(caller: Caller<'_>) -> TrustList {
        let list = list_path().filter(|path| caller.is_user_owned(path)).and_then(|path| {
            let meta = std::fs::metadata(&path).ok()?;
            let own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
            let text = (own && meta.len() <= MAX_LIST_BYTES).then(|| std::fs::read(&path).ok())??;
            serde_json::from_slice(&text).ok()
        });
        list.unwrap_or_default()
    }

    /// Whether a file with this content is trusted.
    pub(crate) fn has_file(&self, path: &Path, digest: &str) -> bool {
        let known = self.files.get(&path.to_string_lossy().into_owned());
        known.is_some_and(|digests| digests.contains(digest))
    }

    fn write(&self) -> Result<(), CliError> {
        let Some(path) = list_path() else {
            return Err(CliError::new(
                "trust_home",
                "",
                "neither XDG_STATE_HOME nor HOME is set, so your state folder is unknown",
                "set HOME; in continuous integration set FLYBALL_TRUST=DIGEST instead",
            ));
        };
        let wrong = |error: std::io::Error| {
            let what = format!("cannot be written: {error}");
            CliError::new("trust_list", path.display().to_string(), what, "check the folder's permissions")
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        let beside = path.with_extension(format!("json.{}", std::process::id()));
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let written = (|| {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)
        })();
        written.map_err(|error| {
            // Do not leave the temporary file behind.
            let _ = std::fs::remove_file(&beside);
            wrong(error)
        })
    }
}

fn list_path() -> Option<PathBuf> {
    Some(store::state_folder()?.join("flyball").join("trust.json"))
}

/// The digest of a file's content.
pub(crate) fn digest(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Whether a project's policy file may loosen the policy.
pub(crate) fn is_trusted(path: &Path, content: &[u8], caller: Caller<'_>) -> bool {
    let digest = digest(content);
    if is_trusted_by_environment(&digest, caller) {
        return true;
    }
    let Ok(path) = path.canonicalize() else { return false };
    TrustList::read(caller).has_file(&path, &digest)
}

/// Whether the environment trusts a digest. In a hook the project's settings may have set the variable, so it counts
/// only if the host itself was started with it.
fn is_trusted_by_environment(digest: &str, caller: Caller<'_>) -> bool {
    let names = |value: &str| value.split(',').any(|part| part.trim() == digest);
    let Some(value) = std::env::var(TRUST_VARIABLE).ok().filter(|value| names(value)) else { return false };
    caller.is_person()
        || host_environment().is_some_and(|host| host.contains(&format!("{TRUST_VARIABLE}={value}")))
}

/// The environment the host was started with: that of the nearest ancestor process that is not a shell and was not
/// started by the host.
fn host_environment() -> Option<BTreeSet<String>> {
    const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "env"];
    const HOST_VARIABLES: [&str; 3] = ["CLAUDE_PROJECT_DIR=", "GEMINI_PROJECT_DIR=", "CURSOR_PROJECT_DIR="];
    let mut pid = std::process::id();
    for _ in 0..64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; the parent is the second field after it.
        pid = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid > 0)?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let entries: BTreeSet<String> = environ
            .split(|byte| *byte == 0)
            .map(|entry| String::from_utf8_lossy(entry).into_owned())
            .collect();
        let below_host =
            entries.iter().any(|entry| HOST_VARIABLES.iter().any(|mark| entry.starts_with(mark)));
        if !below_host && !SHELLS.contains(&name.trim()) {
            return Some(entries);
        }
    }
    None
}

/// Trusts a file with this content.
pub(crate) fn trust_file(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let mut list = TrustList::read(Caller::Person);
    list.files.entry(path.to_string_lossy().into_owned()).or_default().insert(digest(content));
    list.write()
}

/// Revokes trust in a file for any content. Returns whether it was trusted.
pub(crate) fn revoke_file(path: &Path) -> Result<bool, CliError> {
    let mut list = TrustList::read(Caller::Person);
    let found = list.files.remove(&path.to_string_lossy().into_owned()).is_some();
    if found {
        list.write()?;
    }
    Ok(found)
}

/// Whether this process's command line was trusted when the hook was installed, for this project or all projects.
pub(crate) fn own_command_is_trusted(root: &Path) -> bool {
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    let Some(words) = words else { return false };
    let list = TrustList::read(Caller::HookEntry(root));
    let root = real_path(root);
    let above = root.ancestors().map(|folder| folder.to_string_lossy().into_owned());
    let mut scopes = std::iter::once(ANY_PROJECT.to_owned()).chain(above);
    scopes.any(|scope| list.commands.contains(&command_digest(&scope, &words)))
}

/// Trusts the command lines written into the settings of a project or of the user.
pub(crate) fn trust_commands(project: Option<&Path>, handlers: &[HookHandler]) -> Result<(), CliError> {
    let scope =
        project.map_or_else(|| ANY_PROJECT.to_owned(), |root| real_path(root).to_string_lossy().into_owned());
    let lines = handlers.iter().filter_map(|handler| match &handler.command {
        HandlerCommand::Exec(words) => Some(words.clone()),
        HandlerCommand::Shell(line) => shell_words(line),
    });
    let mut list = TrustList::read(Caller::Person);
    let before = list.commands.len();
    for words in lines {
        let words = words.get(1..).unwrap_or_default();
        // A command line without flags needs no trust.
        if without_event(words).count() > 2 {
            list.commands.insert(command_digest(&scope, words));
        }
    }
    if list.commands.len() > before { list.write() } else { Ok(()) }
}

/// The words of a command line without the event, so that one digest covers all events.
fn without_event(words: &[String]) -> impl Iterator<Item = &str> {
    let mut skip = false;
    words.iter().map(String::as_str).filter(move |word| {
        let value = std::mem::replace(&mut skip, *word == "--event");
        !(value || *word == "--event" || word.starts_with("--event="))
    })
}

fn command_digest(scope: &str, words: &[String]) -> String {
    let mut text = scope.to_owned();
    for word in without_event(words) {
        text.push('\0');
        text.push_str(word);
    }
    digest(text.as_bytes())
}

/// Splits a simple command like a shell. `None` if it is not a simple command.
fn shell_words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('"'), '\\') => {
                let next = chars.next()?;
                let escaped = matches!(next, '"' | '\\' | '$' | '`');
                let word = word.get_or_insert_default();
                if !escaped {
                    word.push('\\');
                }
                word.push(next);
            }
            (Some('"') | None, '$' | '`') => return None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '\n' | '*' | '?' | '[' | '#' | '~') => {
                return None;
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(line: &str) -> Option<Vec<String>> {
        shell_words(line)
    }

    #[test]
    fn simple_command_is_split_like_a_shell() {
        let split = |line: &str| split_words(line).unwrap();
        assert_eq!(split("flyball hook codex --event Stop"), ["flyball", "hook", "codex", "--event", "Stop"]);
        assert_eq!(
            split(r#""/a b/flyball"  hook 'x y' "q\"\\n" a\ b"#),
            ["/a b/flyball", "hook", "x y", "q\"\\n", "a b"]
        );
        assert_eq!(split("a ''"), ["a", ""]);
        for more in ["a; b", "a $(b)", "a `b`", "\"$a\"", "'open", "a > b", "a && b", "a *"] {
            assert_eq!(split_words(more), None, "{more}");
        }
    }

    #[test]
    fn digest_ignores_the_event_argument() {
        let of = |line: &str| command_digest("*", &split_words(line).unwrap());
        let first = of("hook codex --event Stop --preset off");
        assert_eq!(first, of("hook codex --event=PreToolUse --preset off"));
        assert_eq!(first, of("hook codex --preset off"));
        for other in [
            "hook codex --preset strict",
            "hook codex",
            "hook codex --preset off --set a=1",
            "hook codex --preset --event off",
        ] {
            assert_ne!(first, of(other), "{other}");
        }
        assert_ne!(command_digest("/p", &[]), command_digest("*", &[]));
    }

    #[test]
    fn project_folder_is_never_user_owned_in_a_hook() {
        let base = std::env::temp_dir().join(format!("flyball-trust-{}", std::process::id()));
        let root = base.join("project");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir_all(root.join("sub")).unwrap();
        let hook = root.join("sub");
        let caller = Caller::HookEntry(&hook);
        assert!(!caller.is_user_owned(&root.join(".config/flyball/flyball.yaml")));
        assert!(caller.is_user_owned(&base.join("state/flyball/trust.json")));
        assert!(Caller::Person.is_user_owned(&root));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
