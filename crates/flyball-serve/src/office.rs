//! What all handlers share: the recorder, the line in front of it, and who is who.

use crate::audit::Refusals;
use crate::connections::{ConnectionLimits, Connections};
use crate::intake::Intake;
use crate::live::Live;
use crate::otlp::Collector;
use crate::page::{Figures, Tickets};
use crate::posts::{Lookout, Posts};
use crate::problem::Problem;
use crate::runs::{Runs, Workshop};
use crate::serve::Presence;
use crate::signals::Signals;
use crate::signals::log::{Log, LogStyle, Scribe};
use crate::usage::{KeyLimits, Usage};
use crate::who::{self, Hosts, Keys, Owners, Principal, Scope, Uids};
use axum::http::StatusCode;
use flyball::policy::Policy;
use flyball::{Decision, Error, PolicySource, State};
use flyball_journal::{Claims, Committers, Desk, Door, Incoming, Recorder, RecorderOptions, StoreError};
use flyball_run::engine::holder_is_gone;
use flyball_view::ActivityReader;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How many requests may read the store at the same time.
const READERS: usize = 16;
/// How long notes that are void may lie around, in milliseconds.
const TIDY_MS: u64 = 10 * 60 * 1000;
/// How many more may wait for their turn.
const READERS_WAITING: usize = 256;

/// What the command hands over.
pub struct Setting {
    /// Decides and records.
    pub recorder: Arc<Recorder>,
    /// What time it is, in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// How many events may wait for the store.
    pub queue: usize,
    /// Names under which the server may be asked, beside the names of this machine: a guard against pages that
    /// point a name of theirs here.
    pub hosts: Vec<String>,
    /// Who is who on the socket.
    pub uids: Uids,
    /// What is written to stderr.
    pub log: LogStyle,
    /// Where traces go.
    pub otlp: Option<Collector>,
    /// The workflows that may be run, and by how many workers.
    pub workshop: Workshop,
    /// Looks at the places where Flyball stands guard.
    pub lookout: Option<Lookout>,
    /// How long ago a person may have entered their key when they approve, release or answer in a browser.
    pub proof_max_age: Duration,
    /// How many connections may be open before anybody has authenticated on them.
    pub connections: ConnectionLimits,
    /// What one key may use.
    pub key_limits: KeyLimits,
    /// Plain HTTP beyond this machine is meant to be, for example behind a proxy that speaks TLS.
    pub insecure_http: bool,
}

/// What all handlers share.
pub struct Office {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) door: Door,
    pub(crate) clock: fn() -> Option<u64>,
    pub(crate) intake: Intake,
    pub(crate) keys: Keys,
    pub(crate) owners: Owners,
    pub(crate) hosts: Hosts,
    pub(crate) uids: Uids,
    pub(crate) signals: Arc<Signals>,
    pub(crate) live: Live,
    pub(crate) otlp: Option<Collector>,
    pub(crate) refusals: Refusals,
    /// When notes that are void were last thrown away.
    tidied: AtomicU64,
    pub(crate) runs: Arc<Runs>,
    pub(crate) presence: Presence,
    pub(crate) figures: Figures,
    pub(crate) tickets: Tickets,
    pub(crate) posts: Posts,
    pub(crate) proof_max_age: Duration,
    /// The server itself speaks TLS.
    pub(crate) tls: bool,
    /// It speaks plain HTTP beyond this machine, which nobody has said is meant to be.
    pub(crate) exposed: bool,
    pub(crate) connections: Arc<Connections>,
    pub(crate) usage: Arc<Usage>,
    readers: Arc<Semaphore>,
    readers_waiting: Arc<Semaphore>,
}

/// The office as handlers get it.
pub(crate) type Shared = Arc<Office>;

impl Office {
    /// Opens the office.
    ///
    /// # Errors
    /// If the policy cannot be used.
    pub(crate) fn open(
        setting: Setting,
        tls: bool,
        exposed: bool,
    ) -> Result<(Shared, Committers, Scribe), Error> {
        let connections = Arc::new(Connections::new(setting.connections));
        let usage = Arc::new(Usage::new(setting.key_limits));
        let Setting {
            recorder, clock, queue, hosts, uids, workshop, log, otlp, lookout, proof_max_age, ..
        } = setting;
        let door = Door::new(&recorder.policy().journal)?;
        let (log, scribe) = Log::open(log, clock);
        let signals = Arc::new(Signals::new(log));
        let (intake, committers) = Intake::open(&recorder, queue, Arc::clone(&signals));
        let keys = Keys::new(Arc::clone(recorder.journal()));
        let office = Office {
            door,
            clock,
            intake,
            keys,
            owners: Owners::new(Arc::clone(recorder.journal())),
            hosts: Hosts::new(hosts, tls),
            uids,
            signals,
            live: Live::default(),
            otlp,
            refusals: Refusals::default(),
            tidied: AtomicU64::new(0),
            runs: Arc::new(Runs::new(workshop, recorder.journal())),
            presence: Presence::default(),
            figures: Figures::default(),
            tickets: Tickets::default(),
            posts: Posts::new(lookout),
            proof_max_age,
            tls,
            exposed,
            connections,
            usage,
            recorder,
            readers: Arc::new(Semaphore::new(READERS)),
            readers_waiting: Arc::new(Semaphore::new(READERS_WAITING)),
        };
        Ok((Arc::new(office), committers, scribe))
    }

    /// What every page warns of: guards that are down, and plain HTTP beyond this machine.
    pub(crate) fn alarm(&self) -> Markup {
        html! {
            (self.posts.alarm())
            @if self.exposed {
                p #plain-http .alarm role="alert" {
                    strong { "Plain HTTP beyond this machine: " }
                    "keys and sessions can be read and changed on the way. Start the server with "
                    code { "--tls-cert" } " and " code { "--tls-key" } "."
                }
            }
        }
    }

    /// What time it is, in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)().unwrap_or_default()
    }

    /// Reads the store in a thread of its own, so that nobody else waits for the disk.
    ///
    /// # Errors
    /// If there are too many who read, or reading fails.
    pub(crate) async fn look<T: Send + 'static, E: Into<Problem> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Office) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem> {
        let waits = Arc::clone(&self.readers_waiting).try_acquire_owned().map_err(|_| Problem::busy())?;
        let turn = Arc::clone(&self.readers).acquire_owned().await.map_err(|_| Problem::stopping())?;
        let office = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _held = (waits, turn);
            work(&office)
        });
        match done.await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => {
                let what = "the request failed inside the server";
                Err(Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    what,
                    "look at the server's log",
                ))
            }
        }
    }

    /// The store, for people who look around.
    pub(crate) fn desk(&self) -> &dyn Desk {
        self.recorder.journal().as_ref()
    }

    /// Works out the status of sessions, as of now.
    ///
    /// # Errors
    /// If the leases cannot be read.
    pub(crate) fn activity_reader(&self) -> Result<ActivityReader<'_>, StoreError> {
        ActivityReader::new(self.desk(), holder_is_gone(self.desk()))
    }

    /// Whether somebody may see a session. Asks the store if need be.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn sees(&self, who: &Principal, session: &str) -> Result<bool, Problem> {
        match &who.scope {
            Scope::Own => Ok(self.owners.of(session)?.is_some_and(|owner| owner == who.name)),
            _ => Ok(who.may_touch(session).is_ok()),
        }
    }

    /// Refuses a session that somebody may not see. One of another key is as one that is not there.
    ///
    /// # Errors
    /// If they may not see it, or the store cannot be read.
    pub(crate) async fn may_see(self: &Arc<Self>, who: &Principal, session: &str) -> Result<(), Problem> {
        if who.scope != Scope::Own {
            return who.may_touch(session);
        }
        let (asking, name) = (who.clone(), session.to_owned());
        let (seen, there) = self
            .look(move |office| {
                let seen = office.sees(&asking, &name)?;
                Ok::<_, Problem>((seen, seen || office.desk().load(&name)?.is_some()))
            })
            .await?;
        if seen {
            return Ok(());
        }
        if there {
            let asked = "GET a session of another key";
            crate::audit::refused(self, Some(who), who.from, asked, &who::not_yours()).await;
        }
        Err(Problem::unknown_session(session))
    }

    /// Refuses a session that somebody may not write to. One that is new becomes theirs.
    ///
    /// # Errors
    /// If it belongs to another key, or the store cannot be used.
    pub(crate) async fn may_write(self: &Arc<Self>, who: &Principal, session: &str) -> Result<(), Problem> {
        let (name, session) = (who.name.clone(), session.to_owned());
        let owned = self.look(move |office| office.owners.claim(&session, &name)).await?;
        if owned { Ok(()) } else { Err(who::not_yours()) }
    }

    /// Throws away notes that are void, now and then: tickets that nobody used, entries that are too old.
    ///
    /// # Errors
    /// If they cannot be thrown away.
    pub(crate) fn tidy(&self) -> Result<(), StoreError> {
        let (now, last) = (self.now(), self.tidied.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= TIDY_MS;
        if due && self.tidied.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.desk().sweep()?;
        }
        Ok(())
    }

    /// Reads an event as it came, and notes who sent it: `principal` is ours, and whoever sends one is refused.
    ///
    /// # Errors
    /// If it is no event.
    pub(crate) fn read(&self, text: &str, principal: &str) -> Result<Incoming, Problem> {
        self.read_with(text, &[("principal", principal)], None)
    }

    /// Reads an event as it came, with more fields than came; whoever sends one of them too is refused. With `claims`
    /// the sender is not believed in everything.
    ///
    /// # Errors
    /// If it is no event.
    pub(crate) fn read_with(
        &self,
        text: &str,
        fields: &[(&str, &str)],
        claims: Option<&Claims<'_>>,
    ) -> Result<Incoming, Problem> {
        let Some(rest) = text.trim_start().strip_prefix('{') else {
            // The parser says what is wrong with it.
            return Ok(self.door.read(text, (self.clock)())?);
        };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        let mut whole = String::with_capacity(text.len() + 64 * fields.len());
        whole.push('{');
        for (place, (name, value)) in fields.iter().enumerate() {
            whole.push_str(if place == 0 { "" } else { "," });
            write_text(&mut whole, name);
            whole.push(':');
            write_text(&mut whole, value);
        }
        whole.push_str(comma);
        whole.push_str(rest);
        Ok(match claims {
            Some(claims) => self.door.read_claims(whole, (self.clock)(), claims)?,
            None => self.door.read_owned(whole, (self.clock)())?,
        })
    }

    /// A recorder under the policy that a session was last decided under: a person's word must not change the rules.
    ///
    /// # Errors
    /// If there is no such session, or it cannot be read.
    pub(crate) fn under(&self, session: &str) -> Result<Arc<Recorder>, Problem> {
        let desk = self.recorder.journal();
        let loaded = desk.load(session)?.filter(|loaded| loaded.head.seq > 0);
        let head = loaded.ok_or_else(|| Problem::unknown_session(session))?.head;
        if head.policy == self.recorder.digest() {
            return Ok(Arc::clone(&self.recorder));
        }
        let Some(text) = desk.policy(&head.policy)? else { return Ok(Arc::clone(&self.recorder)) };
        let kept = PolicySource::from_json(&text)?.with_journal(&self.recorder.policy().journal);
        Ok(Arc::new(Recorder::new(Arc::clone(desk), kept, RecorderOptions::default())))
    }

    /// A session's state, and the policy that it is under.
    ///
    /// # Errors
    /// If there is no such session, or it cannot be read.
    pub(crate) fn session(&self, name: &str) -> Result<(State, Policy), Problem> {
        self.under(name)?.session(name)?.ok_or_else(|| Problem::unknown_session(name))
    }

    /// Decides upon a person's act in a session that is there. `event` names the session.
    ///
    /// # Errors
    /// If there is no such session, or it was not taken.
    pub(crate) async fn act(self: &Arc<Self>, event: &Value, principal: &str) -> Result<Decision, Problem> {
        let began = std::time::Instant::now();
        let incoming = self.read(&event.to_string(), principal)?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let by = principal.to_owned();
        let decision = self.look(move |office| {
            let session = incoming.event.session.clone();
            let recorder = office.under(&session)?;
            let decision = recorder.submit(incoming).map_err(Problem::from)?;
            office.runs.heard(&session, &kind, decision.decision, &by);
            Ok::<_, Problem>(decision)
        });
        let decision = decision.await?;
        self.usage.acted(&decision);
        self.signals.decided(began.elapsed(), &[Ok(decision.clone())]);
        self.intake.stir();
        Ok(decision)
    }
}

/// Writes a text as JSON.
fn write_text(out: &mut String, text: &str) {
    let plain = text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'));
    if plain {
        out.extend(["\"", text, "\""]);
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_json_writes_it() {
        for text in ["", "a name", "é 日本", "a \"quote\"", "back\\slash", "line\nend", "\u{0}\u{1f} \u{7f}"]
        {
            let mut out = String::new();
            write_text(&mut out, text);
            assert_eq!(out, Value::from(text).to_string());
        }
    }
}
