//! A conversation with restarts equals the uninterrupted one byte for byte, and every transition in the table is
//! covered.

use crate::chat_harness::{ChatHarness, SESSION};
use crate::scenarios::{ScenarioEnd, all_scenarios};
use flyball::EventKind;
use flyball_runner::dialogue::TRANSITIONS;
use flyball_runner::engine::{RunEnd, RunStop};
use flyball_store::SessionFilter;
use std::collections::BTreeSet;

fn scenario_end(end: &RunEnd) -> ScenarioEnd {
    match end {
        RunEnd::Done => ScenarioEnd::Done,
        RunEnd::Failed => ScenarioEnd::Failed,
        RunEnd::Stopped(RunStop::AwaitingInput(_)) => ScenarioEnd::AwaitingInput,
        other => panic!("{other:?}"),
    }
}

fn sessions(chat: &ChatHarness) -> Vec<String> {
    let mut names: Vec<String> = chat
        .admin_store()
        .list_sessions(SessionFilter::All, 100)
        .expect("heads")
        .into_iter()
        .map(|head| head.session)
        .collect();
    names.sort();
    names
}

#[test]
fn resume_after_every_message_gives_the_same_history() {
    for scene in all_scenarios() {
        let (whole, pieces) = ((scene.chat)(), (scene.chat)());
        let end = whole.run(scene.says);
        let other = pieces.run_per_message(scene.says);
        assert_eq!(scenario_end(&end), scene.ends, "{}: {:#?}", scene.name, whole.said());
        assert_eq!(end, other, "{}", scene.name);
        assert_eq!(sessions(&whole), sessions(&pieces), "{}", scene.name);
        assert!(sessions(&whole).len() >= 2, "{}: the states have a separate session", scene.name);
        for session in sessions(&whole) {
            assert_eq!(whole.decisions(&session), pieces.decisions(&session), "{}: {session}", scene.name);
        }
        assert_eq!(whole.said(), pieces.said(), "{}", scene.name);
        for chat in [&whole, &pieces] {
            assert_eq!(chat.file("bookings.csv"), scene.booked, "{}: {:#?}", scene.name, chat.said());
        }
    }
}

#[test]
fn kill_after_any_event_gives_the_same_history() {
    let says = ["from Madrid to Paris on 2026-12-09 for 12", "2", "Lisbon instead of Paris", "yes"];
    let whole = ChatHarness::example("booking");
    assert_eq!(whole.run(&says), RunEnd::Done);
    let states = ChatHarness::states_of("book");
    let mut killed_at = 0;
    // Kill in each message, after each of its events.
    for message in 0..=says.len() {
        for events in 1.. {
            let chat = ChatHarness::example("booking");
            let mut was_killed = false;
            let mut end = None;
            for (at, text) in [""].iter().chain(&says).enumerate() {
                if at > 0 {
                    chat.send(text);
                }
                end = Some(if at == message {
                    let (end, killed) = chat.run_with_kill(events);
                    was_killed = killed;
                    end
                } else {
                    chat.run(&[])
                });
            }
            assert_eq!(end, Some(RunEnd::Done), "message {message}, event {events}");
            for session in [SESSION, &states] {
                let same = whole.decisions(session) == chat.decisions(session);
                assert!(same, "message {message}, event {events}: {session}");
            }
            assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
            if !was_killed {
                break;
            }
            killed_at += 1;
        }
    }
    assert!(killed_at > 40, "{killed_at}");
}

#[test]
fn finished_run_ignores_further_messages() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&["from Madrid to Lisbon on 2026-12-09 for 1", "yes"]);
    assert_eq!(end, RunEnd::Done);
    let before = chat.decisions(SESSION).len();
    assert_eq!(chat.run_per_message(&["yes", "yes"]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,1\n");
    assert_eq!(chat.decisions(SESSION).len(), before + 2, "only the two messages themselves");
}

#[test]
fn all_and_only_listed_transitions_occur() {
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    let mut note = |chat: &ChatHarness| {
        for session in sessions(chat).iter().filter(|session| session.contains(".dialogue.")) {
            for event in chat.events(session) {
                if let EventKind::TransitionRequested { from, to, .. } = event.kind {
                    taken.insert((from, to));
                }
            }
        }
    };
    for scene in all_scenarios() {
        let chat = (scene.chat)();
        chat.run(scene.says);
        note(&chat);
    }
    // The transition that needs an external release.
    let chat = crate::guards::halted_chat();
    chat.release(SESSION, "stall");
    chat.run(&[]);
    note(&chat);
    // A question before any message.
    let chat = ChatHarness::new(&crate::scenarios::two_slot_workflow("next: done"));
    chat.run(&[]);
    note(&chat);
    let table: BTreeSet<(String, String)> =
        TRANSITIONS.iter().map(|(from, to, _)| (from.as_str().to_owned(), to.as_str().to_owned())).collect();
    let missing: Vec<_> = table.difference(&taken).collect();
    let extra: Vec<_> = taken.difference(&table).collect();
    assert!(missing.is_empty() && extra.is_empty(), "never taken: {missing:?}; not in the table: {extra:?}");
}
