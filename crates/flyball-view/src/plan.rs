//! A plan that waits for a yes, as it is stored and as it is shown.

use flyball::State;
use flyball_journal::{Desk, PendingRow, StoreError};
use serde_json::{Value, json};

/// A plan that waits for a yes.
#[derive(Debug)]
pub struct Plan {
    /// The question that was put.
    pub question: String,
    /// Who asked for it; only they may say yes.
    pub requester: Option<String>,
    /// What an approval is bound to.
    pub digest: String,
    /// When a yes comes too late.
    pub expires: Option<u64>,
    /// What would be done.
    pub steps: Vec<Value>,
    /// What is wrong with the stored row, if somebody has changed it or taken it away.
    pub tampered: Option<&'static str>,
}

impl Plan {
    /// The plan that waits in a session, if one does.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(desk: &dyn Desk, session: &str, state: &State) -> Result<Option<Self>, StoreError> {
        let Some(waiting) = state.waiting() else { return Ok(None) };
        let believed = desk.load(session)?.and_then(|loaded| loaded.head.pending);
        let row = desk.pending(session)?;
        let tampered = match &row {
            None => Some("the stored plan was taken away"),
            Some(row) if Some(row.sum()) != believed => Some("the stored plan was changed by hand"),
            Some(_) => None,
        };
        let steps = row.as_ref().and_then(|row: &PendingRow| serde_json::from_str(&row.pending_plan).ok());
        Ok(Some(Plan {
            question: waiting.question.to_owned(),
            requester: waiting.requester.map(str::to_owned),
            digest: waiting.digest.to_owned(),
            expires: waiting.expires,
            steps: steps.unwrap_or_default(),
            tampered,
        }))
    }

    /// The plan as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        json!({"question": self.question, "plan": self.steps, "requester": self.requester, "digest": self.digest,
            "expires": self.expires, "set_aside": self.tampered})
    }

    /// Whether a yes would come too late.
    #[must_use]
    pub fn late(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}
