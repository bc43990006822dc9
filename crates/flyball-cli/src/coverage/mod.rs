//! Coverage: the hooks, policies and processes through which Flyball is armed for a store, and whether they still work.
//!
//! An agent that tries to escape supervision disables it first: it replaces the hook, loosens the policy or kills the
//! proxy. Everything that was once armed is recorded in the store, so a restart forgets nothing, and the server
//! probes it every second. A missing item stays visible until it is restored or a person accepts the change.

mod processes;
mod projects;

pub(crate) use processes::RegistrationSlot;

use flyball_server::CoverageItem;
use flyball_store::{AdminStore, KvEntry, Precondition, StoreError};
use std::path::PathBuf;
use std::sync::Arc;

/// The key-value namespace of the coverage records.
const COVERAGE_NAMESPACE: &str = "posts";
/// Maximum number of records read.
const MAX_ENTRIES: usize = 1_000;

/// Probes the coverage of a store.
pub(crate) struct StoreCoverageProbe {
    store: Arc<dyn AdminStore>,
    /// The projects whose hooks and policies are watched.
    folders: Vec<PathBuf>,
    /// Whether new items are recorded.
    records: bool,
}

impl StoreCoverageProbe {
    /// A probe that records new items.
    pub(crate) fn recording(store: Arc<dyn AdminStore>, folders: Vec<PathBuf>) -> Self {
        StoreCoverageProbe { store, folders, records: true }
    }

    /// A probe that only compares with the records.
    pub(crate) fn read_only(store: Arc<dyn AdminStore>, folders: Vec<PathBuf>) -> Self {
        StoreCoverageProbe { records: false, ..Self::recording(store, folders) }
    }

    /// All coverage items in their current state.
    pub(crate) fn probe(&self) -> Vec<CoverageItem> {
        let entries = match self.store.kv_list(COVERAGE_NAMESPACE, "", MAX_ENTRIES) {
            Ok(entries) => entries,
            Err(error) => return vec![CoverageItem::missing("store", self.store.address(), error.message)],
        };
        if self.records {
            processes::renew_entries(self.store.as_ref(), &entries);
        }
        let mut items: Vec<CoverageItem> = processes::probe_processes(&entries);
        for mut observed in projects::probe_projects(&self.folders, &entries) {
            // A read-only caller (`flyball doctor`) has already checked the hooks.
            observed.broken &= self.records;
            let before = entries.iter().find(|note| note.key == observed.key).map(|note| note.value.as_str());
            if let (None, Ok(print), true) = (before, &observed.fingerprint, self.records) {
                // If it cannot be noted now it is seen again in a second.
                let _ = self.store.kv_put(&kv_entry(&observed.key, print.clone()), Precondition::Absent);
            }
            items.extend(observed.compare(before));
        }
        items
    }

    /// Accepts the current state: deletes all records except those of running processes.
    pub(crate) fn accept(&self) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for old in self.store.kv_list(COVERAGE_NAMESPACE, "", MAX_ENTRIES)? {
            if !processes::is_alive(&old) && self.store.kv_take(COVERAGE_NAMESPACE, &old.key)?.is_some() {
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }
}

fn kv_entry(key: &str, text: String) -> KvEntry {
    KvEntry { namespace: COVERAGE_NAMESPACE.to_owned(), key: key.to_owned(), value: text, expires_at: None }
}

/// A hook or policy identified by its fingerprint.
struct ObservedItem {
    key: String,
    kind: &'static str,
    name: String,
    /// Its fingerprint, or why it is missing.
    fingerprint: Result<String, String>,
    /// It is installed but does not work; reported even if it was never seen working.
    broken: bool,
    /// The message when the fingerprint has changed.
    changed_text: String,
}

impl ObservedItem {
    /// Compares the item with its record; `None` if it was never armed.
    fn compare(self, before: Option<&str>) -> Option<CoverageItem> {
        let ObservedItem { kind, name, fingerprint: print, changed_text: changed, broken, .. } = self;
        Some(match (before, print) {
            (None, Err(why)) if broken => CoverageItem::missing(kind, name, why),
            (None, Err(_)) => return None,
            (Some(before), Ok(now)) if before != now => CoverageItem::missing(kind, name, changed),
            (_, Ok(_)) => CoverageItem::armed(kind, name),
            (Some(_), Err(why)) => CoverageItem::missing(kind, name, why),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(print: Result<&str, &str>) -> ObservedItem {
        let print = print.map(str::to_owned).map_err(str::to_owned);
        let (key, name, changed) = ("k".to_owned(), "n".to_owned(), "changed".to_owned());
        ObservedItem { key, kind: "hook", name, fingerprint: print, changed_text: changed, broken: false }
    }

    #[test]
    fn missing_or_changed_items_are_reported() {
        let missing = |print, before| observed(print).compare(before).map(|item| item.missing_reason);
        assert_eq!(missing(Ok("a"), None), Some(None));
        assert_eq!(missing(Ok("a"), Some("a")), Some(None));
        assert_eq!(missing(Ok("b"), Some("a")), Some(Some("changed".to_owned())));
        assert_eq!(missing(Err("gone"), Some("a")), Some(Some("gone".to_owned())));
        assert_eq!(missing(Err("gone"), None), None);
        let broken = ObservedItem { broken: true, ..observed(Err("disabled")) };
        assert_eq!(broken.compare(None).unwrap().missing_reason, Some("disabled".to_owned()));
    }
}
