//! The audit log: what people did, which keys were made, who logged in and who was refused.
//!
//! Its entries are notes on a shelf that all servers of a store share; their names sort by time. What a person does is
//! noted before it is done, and the outcome is added afterwards: if a server dies in between, the entry says that the
//! outcome is not known, and the session's own events say the rest.

use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Peer, Principal, Role, random};
use flyball::Decision;
use flyball_journal::{Desk, If, Note, StoreError, Trouble};
use flyball_view::words::line;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use utoipa::ToSchema;

/// Where entries are kept.
pub(crate) const SHELF: &str = "audit";
/// How long they are kept, in milliseconds: 400 days.
const KEPT_MS: u64 = 400 * 24 * 60 * 60 * 1000;
/// How many refusals of known keys, and of strangers, a server notes in a minute. The rest is counted.
const REFUSALS: [u32; 2] = [120, 60];
/// The longest words of somebody else in an entry, in characters.
const WORDS: usize = 500;

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Entry {
    /// When, in milliseconds since 1970, by the store's clock.
    pub(crate) at: u64,
    /// The name of the key, `uid:1000` on the socket, or nobody known.
    pub(crate) who: String,
    /// Their role, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    /// `approve`, `deny`, `release`, `stop`, `say`, `key.created`, `key.revoked`, `login`, `proof` or `refused`.
    pub(crate) what: String,
    /// More about it: what was asked for, or which key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) about: Option<String>,
    /// In which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Why, in the person's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// From where: an address, or `socket, uid 1000`.
    pub(crate) from: String,
    /// The decision, or the code of the error; `unknown` if the server ended before it knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
    /// The number of the event in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// How many refusals before this one were only counted, because there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<u64>,
}

impl Entry {
    /// Something that somebody does.
    pub(crate) fn by(principal: &Principal) -> Self {
        let Principal { name, role, from, .. } = principal.clone();
        Entry { who: name, role: Some(role), from: from.to_string(), ..Entry::default() }
    }

    /// What they do.
    pub(crate) fn doing(mut self, what: &str) -> Self {
        what.clone_into(&mut self.what);
        self
    }

    /// More about it.
    pub(crate) fn about(mut self, about: &str) -> Self {
        self.about = Some(line(about, WORDS));
        self
    }

    /// In which session, and why.
    pub(crate) fn inside(mut self, session: &str, why: Option<&str>) -> Self {
        self.session = Some(line(session, WORDS));
        self.why = why.map(|why| line(why, WORDS));
        self
    }
}

/// Notes an entry; gives its name.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn put(desk: &dyn Desk, mut entry: Entry) -> Result<(String, Entry), StoreError> {
    entry.at = desk.now()?;
    let word = random()?;
    let key = format!("{:016}-{}", entry.at, word.get(..12).unwrap_or(&word));
    desk.put(&note(&key, &entry)?, If::New)?;
    Ok((key, entry))
}

fn note(key: &str, entry: &Entry) -> Result<Note, StoreError> {
    let text =
        serde_json::to_string(entry).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))?;
    let until = Some(entry.at.saturating_add(KEPT_MS));
    Ok(Note { shelf: SHELF.to_owned(), key: key.to_owned(), text, until })
}

/// An entry whose outcome is not known yet.
#[derive(Debug)]
pub(crate) struct Open(String, Entry);

/// Notes what a person is about to do. If that cannot be noted, it is not done.
///
/// # Errors
/// If it cannot be written.
pub(crate) async fn begin(office: &Shared, mut entry: Entry) -> Result<Open, Problem> {
    entry.outcome = Some("unknown".to_owned());
    let written = move |office: &Office| {
        office.tidy()?;
        put(office.desk(), entry)
    };
    let (key, entry) = office.look(written).await?;
    Ok(Open(key, entry))
}

/// Adds what came of it.
pub(crate) async fn end(office: &Shared, open: Open, came: &Result<Decision, Problem>) {
    let Open(key, mut entry) = open;
    match came {
        Ok(decision) => {
            entry.outcome = Some(decision.decision.as_str().to_owned());
            entry.seq = Some(decision.seq);
        }
        Err(problem) => entry.outcome = Some(problem.code.clone()),
    }
    let written = move |office: &Office| office.desk().put(&note(&key, &entry)?, If::Any);
    // If that fails, the entry says that the outcome is not known, and that is so.
    let _ = office.look(written).await;
}

/// Notes that somebody was refused for who they are, unless there are too many of them.
pub(crate) async fn refused(
    office: &Shared,
    who: Option<&Principal>,
    peer: Peer,
    asked: &str,
    problem: &Problem,
) {
    let Some(left_out) = office.refusals.room(who.is_some(), office.now()) else { return };
    let entry = who.map_or_else(
        || Entry { who: "nobody known".to_owned(), from: peer.to_string(), ..Entry::default() },
        Entry::by,
    );
    let mut entry = entry.doing("refused").about(asked);
    entry.outcome = Some(problem.code.clone());
    entry.left_out = Some(left_out).filter(|count| *count > 0);
    if office.look(move |office| put(office.desk(), entry)).await.is_err() {
        office.refusals.left_out(who.is_some(), left_out.saturating_add(1));
    }
}

/// How many refusals were noted in this minute, and how many were not.
#[derive(Debug, Default)]
pub(crate) struct Refusals([Mutex<Count>; 2]);

#[derive(Debug, Default)]
struct Count {
    minute: u64,
    noted: u32,
    left_out: u64,
}

impl Refusals {
    /// Whether one more may be noted, and how many before it were not. Strangers use up only their own room.
    fn room(&self, known: bool, now: u64) -> Option<u64> {
        let [keys, strangers] = &self.0;
        let [most_keys, most_strangers] = REFUSALS;
        let (count, most) = if known { (keys, most_keys) } else { (strangers, most_strangers) };
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now / 60_000;
        if count.minute != minute {
            (count.minute, count.noted) = (minute, 0);
        }
        if count.noted >= most {
            count.left_out = count.left_out.saturating_add(1);
            return None;
        }
        count.noted += 1;
        Some(std::mem::take(&mut count.left_out))
    }

    /// Counts what could not be noted.
    fn left_out(&self, known: bool, more: u64) {
        let [keys, strangers] = &self.0;
        let count = if known { keys } else { strangers };
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        count.left_out = count.left_out.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    //! A flood of strangers hides nobody whose key is known.

    use super::{REFUSALS, Refusals};

    #[test]
    fn strangers_use_up_only_their_own_room_and_the_rest_is_counted() {
        let refusals = Refusals::default();
        let noted = (0..1_000).filter(|_| refusals.room(false, 5).is_some()).count();
        assert_eq!(noted, REFUSALS[1] as usize);
        assert_eq!(refusals.room(true, 5), Some(0));
        assert_eq!(refusals.room(false, 60_000), Some(1_000 - u64::from(REFUSALS[1])));
    }
}
