//! A session is shown as running only while a process or client is active.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use super::{ActivityReader, SessionStatus};
use flyball::{PolicySource, Preset};
use flyball_store::{AdminStore, Recorder, RecorderOptions, StoreAddress, Submission};
use std::sync::Arc;

/// Opens a store in a separate file, with the system clock.
fn open_store(name: &str) -> Arc<dyn AdminStore> {
    let folder = std::env::temp_dir().join(format!("flyball-view-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    StoreAddress::parse("sqlite:test.db", &folder).unwrap().open().unwrap()
}

fn send(store: &Arc<dyn AdminStore>, lines: &[String]) {
    let source = PolicySource::preset(Preset::Agent);
    let recorder = Recorder::new(Arc::clone(store), source, RecorderOptions::default());
    for line in lines {
        let event = Submission::parse(line.as_str(), Some(1)).unwrap();
        recorder.submit(event).unwrap();
    }
}

fn status(store: &Arc<dyn AdminStore>, session: &str, is_gone: bool) -> (SessionStatus, String) {
    let reader = ActivityReader::new(store.as_ref(), Box::new(move |_, _| is_gone)).unwrap();
    let head = store.load(session).unwrap().unwrap().head;
    let activity = reader.activity(&head).unwrap();
    (activity.status, activity.label())
}

fn message(session: &str, age_ms: u64, now: u64) -> String {
    let at = now - age_ms;
    format!(r#"{{"type":"user.message","session":"{session}","text":"hello","at":{at}}}"#)
}

#[test]
fn session_without_recent_events_is_idle() {
    let store = open_store("idle");
    let now = store.now().unwrap();
    send(&store, &[message("fresh", 1_000, now), message("old", 13 * 60_000 + 500, now)]);
    assert_eq!(status(&store, "fresh", false).0, SessionStatus::Running);
    assert_eq!(status(&store, "old", false), (SessionStatus::Idle, "idle 13 min".to_owned()));
}

#[test]
fn run_is_lost_when_its_lease_is_free_expired_or_held_by_a_dead_process() {
    let store = open_store("lost");
    let now = store.now().unwrap();
    let lease = store.lease("run", "worker", 60_000).unwrap().unwrap();
    let child = format!(r#"{{"type":"session.started","session":"run/b.1","parent":"run","at":{now}}}"#);
    send(&store, &[message("run", 10 * 60_000, now), child]);
    for session in ["run", "run/b.1"] {
        assert_eq!(status(&store, session, false).0, SessionStatus::Running, "{session}: the lease is held");
        assert_eq!(status(&store, session, true).0, SessionStatus::Lost, "{session}: the process is gone");
    }
    store.release_lease(&lease).unwrap();
    for session in ["run", "run/b.1"] {
        assert_eq!(status(&store, session, false).0, SessionStatus::Lost, "{session}");
    }
    send(&store, &[r#"{"type":"session.ended","session":"run"}"#.to_owned()]);
    assert_eq!(status(&store, "run/b.1", false).0, SessionStatus::Ended);
}

#[test]
fn open_question_awaits_an_answer_at_any_age() {
    let store = open_store("question");
    let now = store.now().unwrap();
    let asked = |session: &str| {
        format!(
            r#"{{"type":"question.asked","session":"{session}","text":"Which day?","at":{}}}"#,
            now - 3_600_000
        )
    };
    store.lease("run", "worker", 0).unwrap().unwrap();
    send(&store, &[asked("run"), asked("hook")]);
    for session in ["run", "hook"] {
        assert_eq!(status(&store, session, true).0, SessionStatus::AwaitingAnswer, "{session}");
    }
    let reader = ActivityReader::new(store.as_ref(), Box::new(|_, _| false)).unwrap();
    assert_eq!(reader.awaiting_answer(10).unwrap().len(), 2);
    send(&store, &[message("hook", 0, now)]);
    assert_eq!(status(&store, "hook", false).0, SessionStatus::Running);
}
