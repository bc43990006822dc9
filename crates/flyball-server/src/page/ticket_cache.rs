//! Cache of approval tickets. A ticket issued for a displayed plan is shown to the same user again until it is used
//! or old, so that a page that refreshes does not issue a new one each time.

use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::Principal;
use crate::operator_actions;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a ticket is reused; shorter than its lifetime.
const REUSE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// Maximum number of cached tickets.
const MAX_TICKETS: usize = 4_096;

/// Name of the user, session, and digest of the plan.
type TicketKey = (String, String, String);

/// Tickets that are shown on pages.
#[derive(Debug, Default)]
pub(crate) struct TicketCache(Mutex<BTreeMap<TicketKey, (String, Instant)>>);

impl TicketCache {
    /// Returns the ticket for a plan, issuing one if necessary.
    ///
    /// # Errors
    /// If the user may not approve the plan.
    pub(super) async fn ticket_for(
        &self,
        app: &SharedState,
        principal: &Principal,
        session: &str,
        digest: &str,
    ) -> Result<String, ApiError> {
        let shown_to = (principal.name.clone(), session.to_owned(), digest.to_owned());
        if let Some((ticket, at)) = self.lock().get(&shown_to)
            && at.elapsed() < REUSE_PERIOD
        {
            return Ok(ticket.clone());
        }
        let ticket = operator_actions::issue_ticket(app, principal, session).await?;
        let mut known = self.lock();
        if known.len() >= MAX_TICKETS {
            known.clear();
        }
        known.insert(shown_to, (ticket.clone(), Instant::now()));
        Ok(ticket)
    }

    /// Removes a ticket once it is submitted, regardless of the result.
    pub(super) fn forget(&self, ticket: &str) {
        self.lock().retain(|_, (shown, _)| shown != ticket);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TicketKey, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
