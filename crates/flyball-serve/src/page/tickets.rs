//! Tickets for plans that are shown: one is made when a plan is first shown to somebody, and shown again to the same
//! person until it is used or old, so that a page that refreshes itself does not make a new one each time.

use crate::acts;
use crate::office::Shared;
use crate::problem::Problem;
use crate::who::Principal;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a ticket is shown again; it holds longer than that.
const SHOWN: Duration = Duration::from_secs(5 * 60);
/// How many are remembered.
const REMEMBERED: usize = 4_096;

/// Who is shown what: name, session, digest of the plan.
type For = (String, String, String);

/// The tickets that are on pages.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<BTreeMap<For, (String, Instant)>>);

impl Tickets {
    /// The ticket for a plan.
    ///
    /// # Errors
    /// If they may not answer it.
    pub(super) async fn of(
        &self,
        office: &Shared,
        principal: &Principal,
        session: &str,
        digest: &str,
    ) -> Result<String, Problem> {
        let shown_to = (principal.name.clone(), session.to_owned(), digest.to_owned());
        if let Some((word, at)) = self.lock().get(&shown_to)
            && at.elapsed() < SHOWN
        {
            return Ok(word.clone());
        }
        let word = acts::ticket(office, principal, session).await?;
        let mut known = self.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(shown_to, (word.clone(), Instant::now()));
        Ok(word)
    }

    /// A ticket is used, whatever comes of it: it is not shown again.
    pub(super) fn used(&self, word: &str) {
        self.lock().retain(|_, (shown, _)| shown != word);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<For, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
