//! Store selection: the flag, the environment variable or the project's store.
//!
//! Read-only commands never create a store; they report that it does not exist.

use crate::args::{CommonArgs, PolicyArgs, StoreArgs};
use crate::caller_check;
use crate::clock;
use crate::error::CliError;
use crate::formatting::{single_line, typed};
use crate::policy_loader;
use flyball::policy::Policy;
use flyball::{PolicySource, Preset, SessionState};
use flyball_store::{
    AdminStore, LargeOutputs, PolicyChangeMode, RecordError, Recorder, RecorderOptions, SessionFilter,
    StoreAddress, StoreError, StoreErrorKind,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum number of session names searched for suggestions.
const MAX_NAMES_SEARCHED: usize = 10_000;
/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 3;

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let help = error.help().to_owned();
        CliError::new(error.kind.as_str(), "", error.message, help)
    }
}

impl From<RecordError> for CliError {
    fn from(refusal: RecordError) -> Self {
        match refusal {
            RecordError::Event(error) => CliError::from_core("", &error),
            RecordError::Store(error) => error.into(),
        }
    }
}

fn current_dir() -> Result<PathBuf, CliError> {
    Ok(std::env::current_dir()?)
}

/// The store named by the flag or the environment.
pub(crate) fn named_store(flag: Option<&str>) -> Result<Option<StoreAddress>, CliError> {
    let text = match flag {
        Some(flag) => Some(flag.to_owned()),
        None => match std::env::var_os("FLYBALL_STORE").map(OsString::into_string).transpose() {
            Ok(text) => text.filter(|text| !text.trim().is_empty()),
            // Falling back to another store would lose events.
            Err(_) => {
                return Err(StoreError::new(StoreErrorKind::BadAddress, "FLYBALL_STORE is not UTF-8").into());
            }
        },
    };
    text.map(|text| Ok(StoreAddress::parse(&text, &current_dir()?)?)).transpose()
}

/// The named store, or the project's.
pub(crate) fn store_address(args: &StoreArgs) -> Result<StoreAddress, CliError> {
    match named_store(args.store.as_deref())? {
        Some(address) => Ok(address),
        None => Ok(StoreAddress::find_project(&current_dir()?)),
    }
}

/// The store of an agent that works in a folder: the named one or the project's. Outside a project it is in the user's
/// state folder, because an agent may work anywhere.
pub(crate) fn agent_store(flag: Option<&str>, folder: &Path) -> Result<StoreAddress, CliError> {
    if let Some(address) = named_store(flag)? {
        return Ok(address);
    }
    let own = StoreAddress::find_project(folder);
    let project = folder.ancestors().any(|above| above.join(".git").exists());
    if project || own.exists() {
        return Ok(own);
    }
    let Some(state) = state_folder() else { return Ok(own) };
    // If this fails, opening the store reports it.
    let _ = std::fs::create_dir_all(&state);
    Ok(StoreAddress::Project(state.join("flyball").join("flyball.db")))
}

/// This user's state folder.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local").join("state")))
}

/// Removes orphaned large outputs older than a day. Errors are ignored; the next process tries again.
pub(crate) fn remove_orphaned_outputs(outputs: &LargeOutputs) {
    if let Some(now) = clock::now() {
        let _ = outputs.remove_orphans(UNIX_EPOCH + Duration::from_millis(now));
    }
}

/// Opens a store that must exist.
pub(crate) fn open_existing(address: &StoreAddress) -> Result<Arc<dyn AdminStore>, CliError> {
    if address.exists() {
        return Ok(address.open_existing()?);
    }
    address.check_not_removed()?;
    let (what, help) = match address {
        StoreAddress::File(path) | StoreAddress::Project(path) => {
            let own = matches!(address, StoreAddress::Project(_));
            let flag =
                if own { String::new() } else { format!(" sqlite:{}", typed(&path.to_string_lossy())) };
            (
                format!("{}: no such store", path.display()),
                format!(
                    "record something first: `flyball observe --store{flag} < events.jsonl`; or name another with --store"
                ),
            )
        }
        _ => (
            "an in-memory store is gone when its process ends".to_owned(),
            "name a persistent store: --store sqlite:PATH".to_owned(),
        ),
    };
    Err(CliError::new(StoreErrorKind::NotFound.as_str(), "", what, help))
}

/// Opens the named store or the project's, which must exist.
pub(crate) fn open(args: &StoreArgs) -> Result<Arc<dyn AdminStore>, CliError> {
    open_existing(&store_address(args)?)
}

/// Opens the store for a name that is not a file. Fails with a file error if there is no store, or if the name has a
/// file's extension and no session has it.
pub(crate) fn open_for_name(args: &StoreArgs, name: &Path) -> Result<Arc<dyn AdminStore>, CliError> {
    let address = store_address(args)?;
    let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let file = ["jsonl", "json", "yaml", "yml", "toml"].contains(&ending);
    let shown = name.display().to_string();
    if !address.exists() {
        address.check_not_removed()?;
        let what = "no such file, and no store that could have a session of this name";
        return Err(CliError::new(
            "cannot_read",
            shown,
            what,
            "check the path, or name the store with --store",
        ));
    }
    let store = address.open_existing()?;
    if file && store.load(&shown)?.is_none() {
        let what = format!("no such file, and no session of this name in {}", store.address());
        return Err(CliError::new(
            "cannot_read",
            shown,
            what,
            "check the path, or list the sessions with `flyball list`",
        ));
    }
    Ok(store)
}

/// A recorder on the named store or the project's, for one of its sessions.
pub(crate) fn recorder(common: &CommonArgs, session: &str) -> Result<Recorder, CliError> {
    recorder_with_session_policy(open(&common.store)?, &common.policy, session)
}

/// A recorder that uses the policy of the session's last decision: an operator command must not change the rules, and
/// the display must match the decisions. Only a policy named on the command line replaces it.
pub(crate) fn recorder_with_session_policy(
    store: Arc<dyn AdminStore>,
    policy: &PolicyArgs,
    session: &str,
) -> Result<Recorder, CliError> {
    let own = policy_loader::source(policy, Preset::Agent)?;
    let named = policy.policy.is_some() || policy.preset.is_some() || !policy.set.is_empty();
    let kept = if named { None } else { session_policy(store.as_ref(), session)? };
    let source = kept.map_or_else(|| own.clone(), |kept| kept.with_journal(&own.base().journal));
    // A person who names a policy wants it for this session, even where it is looser.
    let accepts = named && caller_check::require_person(session).is_ok();
    let policy_changes = if accepts { PolicyChangeMode::Accept } else { PolicyChangeMode::TightenOnly };
    Ok(Recorder::new(store, source, RecorderOptions { policy_changes, ..RecorderOptions::default() }))
}

/// The policy of the session's last decision.
fn session_policy(store: &dyn AdminStore, session: &str) -> Result<Option<PolicySource>, CliError> {
    match store.load(session)? {
        Some(loaded) => policy_by_digest(store, &loaded.head.policy),
        None => Ok(None),
    }
}

/// The stored policy with this digest.
pub(crate) fn policy_by_digest(
    store: &dyn AdminStore,
    digest: &str,
) -> Result<Option<PolicySource>, CliError> {
    let Some(text) = store.policy(digest)? else { return Ok(None) };
    Ok(Some(PolicySource::from_json(&text).map_err(|error| CliError::from_core("", &error))?))
}

/// State and policy of a session that must exist.
pub(crate) fn load_session(recorder: &Recorder, name: &str) -> Result<(SessionState, Policy), CliError> {
    match recorder.session(name)? {
        Some(found) => Ok(found),
        None => Err(unknown_session(recorder.store().as_ref(), name)?),
    }
}

/// The error for an unknown session, with suggestions.
pub(crate) fn unknown_session(store: &dyn AdminStore, name: &str) -> Result<CliError, CliError> {
    let heads = store.list_sessions(SessionFilter::All, MAX_NAMES_SEARCHED)?;
    let mut known: Vec<(usize, &str)> =
        heads.iter().map(|head| (distance(name, &head.session), head.session.as_str())).collect();
    known.sort_by_key(|(distance, _)| *distance);
    let near: Vec<String> =
        known.iter().take(MAX_SUGGESTIONS).map(|(_, name)| typed(&single_line(name, 80))).collect();
    let help = if near.is_empty() {
        "the store has no sessions yet".to_owned()
    } else {
        format!("did you mean {}? List all sessions with `flyball list`", near.join(", "))
    };
    let what = format!("no session '{}' in {}", single_line(name, 80), store.address());
    Ok(CliError::new("session_unknown", "", what, help))
}

/// Edit distance of two names; 1 if one contains the other.
fn distance(a: &str, b: &str) -> usize {
    if !a.is_empty() && (b.contains(a) || a.contains(b)) {
        return 1;
    }
    let b: Vec<char> = b.to_lowercase().chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().take(64).enumerate() {
        let mut next = vec![i + 1];
        let mut left = i + 1;
        for (y, pair) in b.iter().zip(row.windows(2)) {
            let &[diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
