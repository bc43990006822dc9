//! Registrations of running `flyball` processes. A process registers when it starts and unregisters on a clean exit, so
//! a killed process leaves its registration behind and is reported.

use super::{COVERAGE_NAMESPACE, MAX_ENTRIES, kv_entry};
use crate::formatting::single_line;
use flyball_server::CoverageItem;
use flyball_store::{AdminStore, KvEntry, Precondition};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Key prefix of process records.
const KEY_PREFIX: &str = "process ";

/// Lifetime of a record in milliseconds of store time. A probe that sees the process running renews it; records of dead
/// processes and of machines that no longer exist expire.
const ENTRY_TTL_MS: u64 = 24 * 60 * 60 * 1_000;

/// The stored record of a process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProcessRecord {
    kind: String,
    #[serde(rename = "what")]
    purpose: String,
    /// Scope in which the process ID is valid.
    machine: String,
    pid: u32,
    /// Start time according to the system, because process IDs are reused.
    #[serde(rename = "began")]
    started_at: String,
}

/// State of a registered process.
#[derive(Debug, PartialEq, Eq)]
enum ProcessState {
    Running,
    /// Stopped by a signal; it can be resumed.
    Suspended,
    Gone,
    /// Runs on another machine, so its state is unknown.
    OtherMachine,
}

/// The entry of a running process, removed on drop.
struct ProcessRegistration {
    store: Arc<dyn AdminStore>,
    key: String,
}

impl ProcessRegistration {
    /// Registers this process until the value is dropped. Entries of dead processes with the same kind and purpose are
    /// replaced.
    fn register(store: &Arc<dyn AdminStore>, kind: &str, what: &str) -> Option<Self> {
        let pid = std::process::id();
        let record = ProcessRecord {
            kind: kind.to_owned(),
            purpose: single_line(what, 200),
            machine: machine_id()?,
            pid,
            started_at: process_stat(pid)?.1,
        };
        let key = format!("{KEY_PREFIX}{kind} {} {pid} {}", record.machine, record.started_at);
        for old in store.kv_list(COVERAGE_NAMESPACE, KEY_PREFIX, MAX_ENTRIES).ok()? {
            let same = parse_record(&old)
                .is_some_and(|old| (&old.kind, &old.purpose) == (&record.kind, &record.purpose));
            if same && process_state(&old) == ProcessState::Gone {
                let _ = store.kv_take(COVERAGE_NAMESPACE, &old.key);
            }
        }
        let text = serde_json::to_string(&record).ok()?;
        let until = store.now().ok()?.saturating_add(ENTRY_TTL_MS);
        store.kv_put(&KvEntry { expires_at: Some(until), ..kv_entry(&key, text) }, Precondition::Any).ok()?;
        Some(ProcessRegistration { store: Arc::clone(store), key })
    }
}

/// Keeps a registration from the moment the process is ready until this is dropped.
#[derive(Clone, Default)]
pub(crate) struct RegistrationSlot(Arc<Mutex<Option<ProcessRegistration>>>);

impl RegistrationSlot {
    /// The callback that registers the process. Call it once signals are handled: a process that registers earlier and
    /// is stopped at once dies without removing its entry, and is reported as killed.
    pub(crate) fn on_ready(
        &self,
        store: &Arc<dyn AdminStore>,
        kind: &'static str,
        purpose: String,
    ) -> Box<dyn FnOnce() + Send> {
        let (slot, store) = (self.clone(), Arc::clone(store));
        Box::new(move || {
            *slot.0.lock().unwrap_or_else(PoisonError::into_inner) =
                ProcessRegistration::register(&store, kind, &purpose);
        })
    }
}

impl Drop for ProcessRegistration {
    fn drop(&mut self) {
        // If this fails, the process is reported as missing, which errs on the safe side.
        let _ = self.store.kv_take(COVERAGE_NAMESPACE, &self.key);
    }
}

/// Extends the records of processes running on this machine.
pub(super) fn renew_entries(store: &dyn AdminStore, entries: &[KvEntry]) {
    let Ok(now) = store.now() else { return };
    let old =
        |entry: &&KvEntry| entry.expires_at.is_some_and(|until| until < now.saturating_add(ENTRY_TTL_MS / 2));
    for old in entries
        .iter()
        .filter(old)
        .filter(|entry| parse_record(entry).is_some() && process_state(entry) == ProcessState::Running)
    {
        // If it cannot be done now it is done in a second.
        let _ = store.kv_put(
            &KvEntry { expires_at: Some(now.saturating_add(ENTRY_TTL_MS)), ..old.clone() },
            Precondition::Equals(&old.value),
        );
    }
}

/// The coverage items of all registered processes.
pub(super) fn probe_processes(entries: &[KvEntry]) -> Vec<CoverageItem> {
    let known = entries.iter().filter_map(|entry| Some((parse_record(entry)?, process_state(entry))));
    known
        .map(|(record, state)| {
            let (kind, name) = (format!("flyball {}", record.kind), record.purpose);
            match state {
                ProcessState::Running => CoverageItem::armed(kind, name),
                ProcessState::OtherMachine => {
                    CoverageItem::armed(kind, format!("{name} (on another machine)"))
                }
                ProcessState::Suspended => CoverageItem::missing(kind, name, "it is suspended"),
                ProcessState::Gone => {
                    CoverageItem::missing(kind, name, "it exited without unregistering, as if killed")
                }
            }
        })
        .collect()
}

/// Whether a record belongs to a process that is running, as far as is known.
pub(super) fn is_alive(entry: &KvEntry) -> bool {
    parse_record(entry).is_some()
        && matches!(process_state(entry), ProcessState::Running | ProcessState::OtherMachine)
}

fn parse_record(entry: &KvEntry) -> Option<ProcessRecord> {
    entry.key.strip_prefix(KEY_PREFIX)?;
    serde_json::from_str(&entry.value).ok()
}

fn process_state(entry: &KvEntry) -> ProcessState {
    let Some(record) = parse_record(entry) else { return ProcessState::OtherMachine };
    if machine_id().as_ref() != Some(&record.machine) {
        return ProcessState::OtherMachine;
    }
    match process_stat(record.pid) {
        Some((state, began)) if began == record.started_at => match state.as_str() {
            "T" | "t" => ProcessState::Suspended,
            "Z" | "X" => ProcessState::Gone,
            _ => ProcessState::Running,
        },
        _ => ProcessState::Gone,
    }
}

/// Scope in which a process ID is valid: this boot of the system and the PID namespace.
fn machine_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), space.display()))
}

/// A process's state and start time.
fn process_stat(pid: u32) -> Option<(String, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.to_owned();
    Some((state, words.nth(18)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_store::MemoryStore;

    fn entries(store: &dyn AdminStore) -> Vec<KvEntry> {
        store.kv_list(COVERAGE_NAMESPACE, KEY_PREFIX, MAX_ENTRIES).unwrap()
    }

    #[test]
    fn registration_is_removed_on_drop_and_renewed_while_running() {
        let store: Arc<dyn AdminStore> = Arc::new(MemoryStore::default());
        let guard = ProcessRegistration::register(&store, "proxy", "here -> there").unwrap();
        let all = entries(store.as_ref());
        assert_eq!(
            (all.len(), probe_processes(&all)[0].missing_reason.clone(), is_alive(&all[0])),
            (1, None, true)
        );
        let old = KvEntry { expires_at: Some(store.now().unwrap() + 60_000), ..all[0].clone() };
        store.kv_put(&old, Precondition::Any).unwrap();
        renew_entries(store.as_ref(), &entries(store.as_ref()));
        assert!(entries(store.as_ref())[0].expires_at > old.expires_at);
        drop(guard);
        assert_eq!(entries(store.as_ref()), Vec::new());
    }

    #[test]
    fn reused_pid_is_a_different_process() {
        let store: Arc<dyn AdminStore> = Arc::new(MemoryStore::default());
        let _guard = ProcessRegistration::register(&store, "proxy", "here -> there").unwrap();
        let mut all = entries(store.as_ref());
        all[0].value = all[0].value.replace("\"began\":\"", "\"began\":\"9");
        assert!(probe_processes(&all)[0].missing_reason.is_some());
        all[0].value = all[0].value.replace("\"machine\":\"", "\"machine\":\"other");
        assert!(probe_processes(&all)[0].name.contains("another machine"));
    }
}
