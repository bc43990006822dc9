//! A plan awaiting approval, as stored and as displayed.

use flyball::SessionState;
use flyball_store::{AdminStore, ConfirmationRow, StoreError};
use serde_json::{Value, json};

/// A plan awaiting approval.
#[derive(Debug)]
pub struct PlanView {
    /// The question put to the requester.
    pub question: String,
    /// Who requested the plan; only they may approve it.
    pub requester: Option<String>,
    /// The digest that an approval is bound to.
    pub digest: String,
    /// When the plan expires.
    pub expires_at: Option<u64>,
    /// The steps of the plan.
    pub steps: Vec<Value>,
    /// Why the stored row does not match the recorded plan, if it was modified or removed.
    pub tampered: Option<&'static str>,
}

impl PlanView {
    /// Loads the plan that is pending in a session, if any.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(
        store: &dyn AdminStore,
        session: &str,
        state: &SessionState,
    ) -> Result<Option<Self>, StoreError> {
        let Some(waiting) = state.pending_plan() else { return Ok(None) };
        let believed = store.load(session)?.and_then(|loaded| loaded.head.pending);
        let row = store.pending(session)?;
        let tampered = match &row {
            None => Some("the stored plan is missing"),
            Some(row) if Some(row.sum()) != believed => Some("the stored plan was modified outside Flyball"),
            Some(_) => None,
        };
        let steps =
            row.as_ref().and_then(|row: &ConfirmationRow| serde_json::from_str(&row.pending_plan).ok());
        Ok(Some(PlanView {
            question: waiting.question.to_owned(),
            requester: waiting.requester.map(str::to_owned),
            digest: waiting.digest.to_owned(),
            expires_at: waiting.expires,
            steps: steps.unwrap_or_default(),
            tampered,
        }))
    }

    /// The plan as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        json!({"question": self.question, "plan": self.steps, "requester": self.requester, "digest": self.digest,
            "expires": self.expires_at, "set_aside": self.tampered})
    }

    /// Whether the plan has expired.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|expires| now >= expires)
    }
}
