//! Coverage: where Flyball is armed, and which of these places are missing, as the dashboard shows them.

use crate::app_state::SharedState;
use maud::{Markup, html};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Interval between coverage checks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A place where Flyball is armed: a hook, a policy or a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageItem {
    /// Kind of place.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why Flyball is no longer armed there.
    pub missing_reason: Option<String>,
}

impl CoverageItem {
    /// An armed item.
    pub fn armed(kind: impl Into<String>, name: impl Into<String>) -> Self {
        CoverageItem { kind: kind.into(), name: name.into(), missing_reason: None }
    }

    /// A missing item.
    pub fn missing(kind: impl Into<String>, name: impl Into<String>, why: impl Into<String>) -> Self {
        CoverageItem { missing_reason: Some(why.into()), ..Self::armed(kind, name) }
    }
}

/// Checks all places and returns their state.
pub type CoverageProbe = Box<dyn Fn() -> Vec<CoverageItem> + Send + Sync>;

/// The last known coverage.
#[derive(Default)]
pub(crate) struct CoverageMonitor {
    probe: Option<CoverageProbe>,
    last: Mutex<Vec<CoverageItem>>,
}

impl CoverageMonitor {
    /// Creates a monitor that uses this probe.
    pub(crate) fn new(probe: Option<CoverageProbe>) -> Self {
        CoverageMonitor { probe, last: Mutex::default() }
    }

    /// All items, as last checked.
    pub(crate) fn all(&self) -> Vec<CoverageItem> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of missing items.
    pub(crate) fn missing_count(&self) -> usize {
        self.all().iter().filter(|item| item.missing_reason.is_some()).count()
    }

    /// Banner on every page while an item is missing.
    pub(crate) fn banner(&self) -> Markup {
        let items = self.all();
        let missing: Vec<&CoverageItem> = items.iter().filter(|item| item.missing_reason.is_some()).collect();
        html! {
            div #alarm data-live {
                @if let [first, others @ ..] = missing.as_slice() {
                    p.alarm role="alert" {
                        strong { "Coverage lost: " }
                        span.untrusted { (first.kind) ", " (first.name) }
                        ". "
                        @if !others.is_empty() { (others.len()) " more. " }
                        a href="/health#coverage" { "Details" }
                    }
                }
            }
        }
    }

    /// Checks again and returns the items that are newly missing.
    fn refresh(&self) -> Vec<CoverageItem> {
        let Some(probe) = &self.probe else { return Vec::new() };
        let now = probe();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let newly_missing = now
            .iter()
            .filter(|item| item.missing_reason.is_some() && !last.contains(item))
            .cloned()
            .collect();
        *last = now;
        newly_missing
    }
}

/// Checks coverage for as long as the server runs.
pub(crate) async fn monitor_coverage(app: SharedState) {
    loop {
        let state = SharedState::clone(&app);
        let missing = tokio::task::spawn_blocking(move || state.coverage.refresh()).await.unwrap_or_default();
        for item in missing {
            let message =
                format!("{}, {}: {}", item.kind, item.name, item.missing_reason.unwrap_or_default());
            app.telemetry.log.error("posts", "coverage_lost", &message);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn missing_coverage_is_reported_once_and_shown_until_restored() {
        let seen = Arc::new(Mutex::new(vec![CoverageItem::armed("hook", "one")]));
        let coverage = CoverageMonitor::new(Some(Box::new({
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().clone()
        })));
        let alarm = || coverage.banner().into_string().contains("Coverage lost");
        assert_eq!((coverage.refresh(), alarm()), (Vec::new(), false));
        *seen.lock().unwrap() = vec![CoverageItem::missing("hook", "<b>one", "gone")];
        assert_eq!((coverage.refresh().len(), coverage.refresh().len(), alarm()), (1, 0, true));
        assert!(!coverage.banner().into_string().contains("<b>"));
        *seen.lock().unwrap() = vec![CoverageItem::armed("hook", "one")];
        assert_eq!((coverage.refresh().len(), coverage.missing_count(), alarm()), (0, 0, false));
    }
}
