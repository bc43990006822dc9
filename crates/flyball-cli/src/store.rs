//! The only place that picks a store: the flag, the environment, or the project's own.
//!
//! Commands that only look never make a store; what is not there is said.

use crate::args::{PolicyArgs, StoreArgs, Who};
use crate::clock;
use crate::fail::Failure;
use crate::load;
use crate::person;
use crate::words::{line, typed};
use flyball::policy::Policy;
use flyball::{PolicySource, Preset, State};
use flyball_journal::{
    Address, Desk, Outputs, PolicyChanges, Recorder, RecorderOptions, Refusal, StoreError, Trouble, Which,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How many names are looked at to find the one that was meant.
const KNOWN: usize = 10_000;
/// How many of them are suggested.
const SUGGESTED: usize = 3;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let help = error.advice().to_owned();
        Failure::new(error.trouble.as_str(), "", error.what, help)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Event(error) => Failure::at("", &error),
            Refusal::Store(error) => error.into(),
        }
    }
}

fn here() -> Result<PathBuf, Failure> {
    Ok(std::env::current_dir()?)
}

/// The store that is named by the flag or by the environment.
pub(crate) fn named(flag: Option<&str>) -> Result<Option<Address>, Failure> {
    let text = match flag {
        Some(flag) => Some(flag.to_owned()),
        None => match std::env::var_os("FLYBALL_STORE").map(OsString::into_string).transpose() {
            Ok(text) => text.filter(|text| !text.trim().is_empty()),
            // Taking no store instead would lose what was to be kept.
            Err(_) => return Err(StoreError::new(Trouble::BadAddress, "FLYBALL_STORE is not UTF-8").into()),
        },
    };
    text.map(|text| Ok(Address::read(&text, &here()?)?)).transpose()
}

/// The store that a person means: as named, else the project's own.
pub(crate) fn address(args: &StoreArgs) -> Result<Address, Failure> {
    match named(args.store.as_deref())? {
        Some(address) => Ok(address),
        None => Ok(Address::project(&here()?)),
    }
}

/// The store of an agent that works in a folder: as named, else the project's own; outside of any project, one in the
/// user's state folder, because an agent may work anywhere.
pub(crate) fn of_agent(flag: Option<&str>, folder: &Path) -> Result<Address, Failure> {
    if let Some(address) = named(flag)? {
        return Ok(address);
    }
    let own = Address::project(folder);
    let project = folder.ancestors().any(|above| above.join(".git").exists());
    if project || own.exists() {
        return Ok(own);
    }
    let Some(state) = state_folder() else { return Ok(own) };
    // If it cannot be made, opening the store says so.
    let _ = std::fs::create_dir_all(&state);
    Ok(Address::Project(state.join("flyball").join("flyball.db")))
}

/// Where programs keep what outlives them, for this user.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local").join("state")))
}

/// Removes large outputs that were left behind more than a day ago. What cannot be removed is tried again by the next
/// process.
pub(crate) fn sweep_outputs(outputs: &Outputs) {
    if let Some(now) = clock::now() {
        let _ = outputs.sweep(UNIX_EPOCH + Duration::from_millis(now));
    }
}

/// Opens a store that must be there already.
pub(crate) fn existing(address: &Address) -> Result<Arc<dyn Desk>, Failure> {
    if address.exists() {
        return Ok(address.open_existing()?);
    }
    address.check_removed()?;
    let (what, advice) = match address {
        Address::File(path) | Address::Project(path) => {
            let own = matches!(address, Address::Project(_));
            let flag =
                if own { String::new() } else { format!(" sqlite:{}", typed(&path.to_string_lossy())) };
            (
                format!("{}: there is no store", path.display()),
                format!(
                    "record something first: `flyball observe --store{flag} < events.jsonl`; or name another with --store"
                ),
            )
        }
        _ => (
            "a store in memory is gone when its process ends".to_owned(),
            "name a store that stays: --store sqlite:PATH".to_owned(),
        ),
    };
    Err(Failure::new(Trouble::Missing.as_str(), "", what, advice))
}

/// Opens the store that a person means; it must be there already.
pub(crate) fn open(args: &StoreArgs) -> Result<Arc<dyn Desk>, Failure> {
    existing(&address(args)?)
}

/// The store for a name that is not a file. If there is no store either, or the name can only be a file's, that is
/// what is said.
pub(crate) fn for_name(args: &StoreArgs, name: &Path) -> Result<Arc<dyn Desk>, Failure> {
    let address = address(args)?;
    let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let file = ["jsonl", "json", "yaml", "yml", "toml"].contains(&ending);
    let shown = name.display().to_string();
    if !address.exists() {
        address.check_removed()?;
        let what = "there is no such file, and no store with a session of this name";
        return Err(Failure::new(
            "cannot_read",
            shown,
            what,
            "check the path, or name the store with --store",
        ));
    }
    let desk = address.open_existing()?;
    if file && desk.load(&shown)?.is_none() {
        let what = format!("there is no such file, and no session of this name in {}", desk.address());
        return Err(Failure::new(
            "cannot_read",
            shown,
            what,
            "check the path; flyball list has the sessions",
        ));
    }
    Ok(desk)
}

/// A recorder over the store that a person means, for a session of it.
pub(crate) fn recorder(who: &Who, session: &str) -> Result<Recorder, Failure> {
    under(open(&who.store)?, &who.policy, session)
}

/// A recorder under the policy that the session was last decided under: a person's word must not change the rules, and
/// what is shown is what was decided with. Only a policy named on the command line does.
pub(crate) fn under(desk: Arc<dyn Desk>, policy: &PolicyArgs, session: &str) -> Result<Recorder, Failure> {
    let own = load::source(policy, Preset::Agent)?;
    let named = policy.policy.is_some() || policy.preset.is_some() || !policy.set.is_empty();
    let kept = if named { None } else { kept(desk.as_ref(), session)? };
    let source = kept.map_or_else(|| own.clone(), |kept| kept.with_journal(&own.base().journal));
    // A person who names a policy wants it for this session, also where it is looser.
    let accepts = named && person::speaks(session).is_ok();
    let policy_changes = if accepts { PolicyChanges::Accept } else { PolicyChanges::TightenOnly };
    Ok(Recorder::new(desk, source, RecorderOptions { policy_changes, ..RecorderOptions::default() }))
}

/// The policy that a session was last decided under.
fn kept(desk: &dyn Desk, session: &str) -> Result<Option<PolicySource>, Failure> {
    match desk.load(session)? {
        Some(loaded) => policy(desk, &loaded.head.policy),
        None => Ok(None),
    }
}

/// The policy that is kept under a digest.
pub(crate) fn policy(desk: &dyn Desk, digest: &str) -> Result<Option<PolicySource>, Failure> {
    let Some(text) = desk.policy(digest)? else { return Ok(None) };
    Ok(Some(PolicySource::from_json(&text).map_err(|error| Failure::at("", &error))?))
}

/// A session that must be in the store: its state, and the policy that it is under.
pub(crate) fn session(recorder: &Recorder, name: &str) -> Result<(State, Policy), Failure> {
    match recorder.session(name)? {
        Some(found) => Ok(found),
        None => Err(unknown(recorder.journal().as_ref(), name)?),
    }
}

/// The error for a session that is not there, with the names that may have been meant.
pub(crate) fn unknown(desk: &dyn Desk, name: &str) -> Result<Failure, Failure> {
    let heads = desk.heads(Which::All, KNOWN)?;
    let mut known: Vec<(usize, &str)> =
        heads.iter().map(|head| (distance(name, &head.session), head.session.as_str())).collect();
    known.sort_by_key(|(distance, _)| *distance);
    let near: Vec<String> = known.iter().take(SUGGESTED).map(|(_, name)| typed(&line(name, 80))).collect();
    let advice = if near.is_empty() {
        "the store has no session yet".to_owned()
    } else {
        format!("the nearest names are {}; all of them: flyball list", near.join(", "))
    };
    let what = format!("there is no session '{}' in {}", line(name, 80), desk.address());
    Ok(Failure::new("session_unknown", "", what, advice))
}

/// How many letters two names differ by; a part of the other is near.
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
