//! Running is shown only while something runs.

#![allow(clippy::unwrap_used, reason = "a test may stop where it finds something missing")]

use super::{ActivityReader, SessionStatus};
use flyball::{PolicySource, Preset};
use flyball_journal::{Address, Desk, Incoming, Recorder, RecorderOptions};
use std::sync::Arc;

/// A store in a file of its own: its clock is the time of day.
fn store(name: &str) -> Arc<dyn Desk> {
    let folder = std::env::temp_dir().join(format!("flyball-view-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    Address::read("sqlite:test.db", &folder).unwrap().open().unwrap()
}

fn send(desk: &Arc<dyn Desk>, lines: &[String]) {
    let source = PolicySource::preset(Preset::Agent);
    let recorder = Recorder::new(Arc::clone(desk), source, RecorderOptions::default());
    for line in lines {
        let event = Incoming::read(line.as_str(), Some(1)).unwrap();
        recorder.submit(event).unwrap();
    }
}

fn status(desk: &Arc<dyn Desk>, session: &str, is_gone: bool) -> (SessionStatus, String) {
    let reader = ActivityReader::new(desk.as_ref(), Box::new(move |_, _| is_gone)).unwrap();
    let head = desk.load(session).unwrap().unwrap().head;
    let activity = reader.activity(&head).unwrap();
    (activity.status, activity.label())
}

fn message(session: &str, age_ms: u64, now: u64) -> String {
    let at = now - age_ms;
    format!(r#"{{"type":"user.message","session":"{session}","text":"hello","at":{at}}}"#)
}

#[test]
fn a_session_without_events_is_idle() {
    let desk = store("idle");
    let now = desk.now().unwrap();
    send(&desk, &[message("fresh", 1_000, now), message("old", 13 * 60_000 + 500, now)]);
    assert_eq!(status(&desk, "fresh", false).0, SessionStatus::Running);
    assert_eq!(status(&desk, "old", false), (SessionStatus::Idle, "idle 13m".to_owned()));
}

#[test]
fn a_run_is_lost_when_its_lease_is_free_expired_or_held_by_a_dead_process() {
    let desk = store("lost");
    let now = desk.now().unwrap();
    let lease = desk.lease("run", "worker", 60_000).unwrap().unwrap();
    let child = format!(r#"{{"type":"session.started","session":"run/b.1","parent":"run","at":{now}}}"#);
    send(&desk, &[message("run", 10 * 60_000, now), child]);
    for session in ["run", "run/b.1"] {
        assert_eq!(status(&desk, session, false).0, SessionStatus::Running, "{session}: the lease is held");
        assert_eq!(status(&desk, session, true).0, SessionStatus::Lost, "{session}: the process is gone");
    }
    desk.free(&lease).unwrap();
    for session in ["run", "run/b.1"] {
        assert_eq!(status(&desk, session, false).0, SessionStatus::Lost, "{session}");
    }
    send(&desk, &[r#"{"type":"session.ended","session":"run"}"#.to_owned()]);
    assert_eq!(status(&desk, "run/b.1", false).0, SessionStatus::Ended);
}

#[test]
fn an_open_question_waits_for_a_person_however_old_it_is() {
    let desk = store("question");
    let now = desk.now().unwrap();
    let asked = |session: &str| {
        format!(
            r#"{{"type":"question.asked","session":"{session}","text":"Which day?","at":{}}}"#,
            now - 3_600_000
        )
    };
    desk.lease("run", "worker", 0).unwrap().unwrap();
    send(&desk, &[asked("run"), asked("hook")]);
    for session in ["run", "hook"] {
        assert_eq!(status(&desk, session, true).0, SessionStatus::AwaitingAnswer, "{session}");
    }
    let reader = ActivityReader::new(desk.as_ref(), Box::new(|_, _| false)).unwrap();
    assert_eq!(reader.awaiting_answer(10).unwrap().len(), 2);
    send(&desk, &[message("hook", 0, now)]);
    assert_eq!(status(&desk, "hook", false).0, SessionStatus::Running);
}
