//! A conversation in pieces is the conversation in one go, byte for byte; and every step of the table is taken.

use crate::kit::{Chat, SESSION};
use crate::scenes::{Ends, all};
use flyball::Kind;
use flyball_journal::Which;
use flyball_run::dialogue::TABLE;
use flyball_run::engine::{End, Stop};
use std::collections::BTreeSet;

fn ends(end: &End) -> Ends {
    match end {
        End::Done => Ends::Done,
        End::Failed => Ends::Failed,
        End::Stopped(Stop::Asks(_)) => Ends::Asks,
        other => panic!("{other:?}"),
    }
}

fn sessions(chat: &Chat) -> Vec<String> {
    let mut names: Vec<String> =
        chat.desk().heads(Which::All, 100).expect("heads").into_iter().map(|head| head.session).collect();
    names.sort();
    names
}

#[test]
fn a_process_may_end_after_every_message() {
    for scene in all() {
        let (whole, pieces) = ((scene.chat)(), (scene.chat)());
        let end = whole.go(scene.says);
        let other = pieces.in_pieces(scene.says);
        assert_eq!(ends(&end), scene.ends, "{}: {:#?}", scene.name, whole.said());
        assert_eq!(end, other, "{}", scene.name);
        assert_eq!(sessions(&whole), sessions(&pieces), "{}", scene.name);
        assert!(sessions(&whole).len() >= 2, "{}: the states have a session of their own", scene.name);
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
fn a_process_may_be_killed_after_any_event() {
    let says = ["from Madrid to Paris on 2026-12-09 for 12", "2", "Lisbon instead of Paris", "yes"];
    let whole = Chat::example("booking");
    assert_eq!(whole.go(&says), End::Done);
    let states = Chat::states_of("book");
    let mut killed_at = 0;
    // In each message in turn, after each of its events in turn.
    for message in 0..=says.len() {
        for events in 1.. {
            let chat = Chat::example("booking");
            let mut was_killed = false;
            let mut end = None;
            for (at, text) in [""].iter().chain(&says).enumerate() {
                if at > 0 {
                    chat.send(text);
                }
                end = Some(if at == message {
                    let (end, killed) = chat.go_killed(events);
                    was_killed = killed;
                    end
                } else {
                    chat.go(&[])
                });
            }
            assert_eq!(end, Some(End::Done), "message {message}, event {events}");
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
fn a_run_that_is_over_does_nothing_more_whatever_is_sent_to_it() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&["from Madrid to Lisbon on 2026-12-09 for 1", "yes"]);
    assert_eq!(end, End::Done);
    let before = chat.decisions(SESSION).len();
    assert_eq!(chat.in_pieces(&["yes", "yes"]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,1\n");
    assert_eq!(chat.decisions(SESSION).len(), before + 2, "only the two messages themselves");
}

#[test]
fn every_step_of_the_table_is_taken_and_no_other() {
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    let mut note = |chat: &Chat| {
        for session in sessions(chat).iter().filter(|session| session.contains(".dialogue.")) {
            for event in chat.events(session) {
                if let Kind::TransitionRequested { from, to, .. } = event.kind {
                    taken.insert((from, to));
                }
            }
        }
    };
    for scene in all() {
        let chat = (scene.chat)();
        chat.go(scene.says);
        note(&chat);
    }
    // The one step that needs somebody from outside.
    let chat = crate::guards::stuck();
    chat.release(SESSION, "stall");
    chat.go(&[]);
    note(&chat);
    // A question put without a word before it.
    let chat = Chat::new(&crate::scenes::small("next: done"));
    chat.go(&[]);
    note(&chat);
    let table: BTreeSet<(String, String)> =
        TABLE.iter().map(|(from, to, _)| (from.as_str().to_owned(), to.as_str().to_owned())).collect();
    let missing: Vec<_> = table.difference(&taken).collect();
    let extra: Vec<_> = taken.difference(&table).collect();
    assert!(missing.is_empty() && extra.is_empty(), "never taken: {missing:?}; not in the table: {extra:?}");
}
