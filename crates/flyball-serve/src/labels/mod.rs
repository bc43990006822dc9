//! Labels that come back from an issue tracker: a webhook or a program reports them, and what they mean for a session.
//!
//! The label that calls a person stands for the block of one guard. Taking it off in the tracker releases that block,
//! bounded as every release, and wakes the worker of a run; it never lifts a halt or a person's stop. Putting it on there
//! means nothing, or a stop if the policy says so (`journal.labels.on_added`).

mod payload;
mod sync;

pub(crate) use payload::read;
pub(crate) use sync::follow;

use crate::acts::{self, Act};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Peer, Principal, Role, Scope, Via};
use flyball::Decision;
use flyball::policy::OnLabelAdded;
use flyball_journal::{If, Note, StoreError, Trouble};
use flyball_view::words::line;
use serde::{Deserialize, Serialize};

/// Where it is kept what the tracker was last known to show.
const SHELF: &str = "labels";
/// The longest name of somebody in the tracker that is kept.
const NAME_CHARS: usize = 80;

/// A label that somebody put on or took off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelChange {
    pub(crate) session: String,
    pub(crate) label: String,
    pub(crate) added: bool,
    /// Who did it in the tracker.
    pub(crate) by: Option<String>,
    /// When, in milliseconds since 1970.
    pub(crate) at: Option<u64>,
    /// Why, in their own words.
    pub(crate) why: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The session was released, or the release was refused: the decision says.
    Released(Decision),
    /// The session was stopped.
    Stopped(Decision),
    /// It is known now that the tracker shows the label.
    Seen,
    /// It means nothing, and why.
    Ignored(&'static str),
}

impl Outcome {
    /// The word for it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Outcome::Released(_) => "released",
            Outcome::Stopped(_) => "stopped",
            Outcome::Seen => "seen",
            Outcome::Ignored(_) => "ignored",
        }
    }
}

/// What the tracker was last known to show for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Shown {
    present: bool,
    /// The number of the event that was blocked when the label was seen.
    hold: Option<u64>,
}

impl Shown {
    fn of(office: &Office, session: &str) -> Result<Option<Shown>, StoreError> {
        let note = office.desk().note(SHELF, session)?;
        Ok(note.and_then(|note| serde_json::from_str(&note.text).ok()))
    }

    fn keep(self, office: &Office, session: &str) -> Result<(), StoreError> {
        let text =
            serde_json::to_string(&self).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))?;
        let note = Note { shelf: SHELF.to_owned(), key: session.to_owned(), text, until: None };
        office.desk().put(&note, If::Any).map(|_| ())
    }
}

/// What is to be done about a change.
enum Wanted {
    Release { guard: String },
    Stop,
    Nothing(Outcome),
}

/// Somebody of the tracker, as the record names them. `source` says how their act came here.
pub(crate) fn someone(source: &str, by: Option<&str>, from: Peer) -> Principal {
    let name = match by {
        Some(by) => format!("{source}:{}", line(by, NAME_CHARS)),
        None => source.to_owned(),
    };
    Principal { name, role: Role::Operator, scope: Scope::All, via: Via::Key, from }
}

/// Does what a change means. `key` makes a repetition harmless.
///
/// # Errors
/// If the session cannot be read, or what it means was not taken.
pub(crate) async fn apply(
    office: &Shared,
    principal: &Principal,
    change: LabelChange,
    key: Option<&str>,
) -> Result<Outcome, Problem> {
    principal.may_touch(&change.session)?;
    let own = change.clone();
    let wanted = office.look(move |office| means(office, &own)).await?;
    let who = change.by.as_deref().map_or_else(String::new, |by| format!(" by {}", line(by, NAME_CHARS)));
    let done = if change.added { "put on" } else { "taken off" };
    let why = match &change.why {
        Some(why) => format!("the label was {done}{who}: {}", line(why, 500)),
        None => format!("the label was {done}{who} in the tracker"),
    };
    let (act, stop) = match wanted {
        Wanted::Nothing(outcome) => return Ok(outcome),
        Wanted::Release { guard } => (Act::Unlabel { guard }, false),
        Wanted::Stop => (Act::Stop, true),
    };
    let decision = acts::act(office, principal, &change.session, act, Some(&why), key).await?;
    Ok(if stop { Outcome::Stopped(decision) } else { Outcome::Released(decision) })
}

/// What a change means for its session.
fn means(office: &Office, change: &LabelChange) -> Result<Wanted, Problem> {
    let ignored = |why| Ok(Wanted::Nothing(Outcome::Ignored(why)));
    let settings = &office.recorder.policy().journal.labels;
    if change.by.as_ref().is_some_and(|by| settings.own_accounts.contains(by)) {
        return ignored("it is an account of Flyball's own (own_accounts)");
    }
    let session = &change.session;
    if office.desk().load(session)?.is_none_or(|loaded| loaded.head.seq == 0) {
        return ignored("there is no such session");
    }
    let (state, policy) = office.session(session)?;
    if change.label != policy.hitl_label(state.rules_version()) {
        return ignored("it is another label");
    }
    let hold = state.label_hold();
    let before = Shown::of(office, session)?;
    let shown = Shown { present: change.added, hold: hold.filter(|_| change.added).map(|hold| hold.seq) };
    shown.keep(office, session)?;
    let Some(hold) = hold else {
        let known = before.is_some_and(|before| before.present);
        let free = state.operator_stops().next().is_none();
        let stops = change.added && !known && free && settings.on_added == OnLabelAdded::Stop;
        return if stops { Ok(Wanted::Stop) } else { ignored("no label is set in this session") };
    };
    if change.added {
        return Ok(Wanted::Nothing(Outcome::Seen));
    }
    let blocked_at = office.desk().records(session, hold.seq, hold.seq)?.pop().and_then(|record| record.at);
    if change.at.zip(blocked_at).is_some_and(|(removed, blocked)| removed < blocked) {
        return ignored("it is older than the block");
    }
    Ok(Wanted::Release { guard: hold.guard.to_owned() })
}
