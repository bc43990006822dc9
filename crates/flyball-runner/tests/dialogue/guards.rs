//! Guards in conversations: their counts, and that their decisions are enforced.

use crate::chat_harness::{ChatHarness, SESSION, question};
use flyball::EventKind;
use flyball_runner::engine::{RunEnd, RunStop};

const REQUEST: &str = "Book a flight from Madrid to Lisbon on 2026-12-09 for 2 people";

/// A chat that asks about the price until the guard requires a person.
pub(crate) fn halted_chat() -> ChatHarness {
    let chat = ChatHarness::example("booking");
    let mut says = vec!["from Madrid"];
    says.extend(["what does it cost?"; 11]);
    let end = chat.run_per_message(&says);
    assert!(matches!(end, RunEnd::Stopped(RunStop::Blocked { .. })), "{end:?}");
    chat
}

#[test]
fn fourth_unclear_answer_aborts_with_the_specified_message() {
    let chat = ChatHarness::example("booking");
    let mut end = chat.run_per_message(&[REQUEST]);
    let what = "origin: Madrid, destination: Lisbon, day: 2026-12-09, seats: 2";
    assert_eq!(question(&end), format!("{what}. Is this information correct? (yes/no)"));
    for unclear in ["the aisle", "hm", "aisle, as always"] {
        chat.send(unclear);
        end = chat.run(&[]);
        let again = format!("I didn't understand. Is this information correct? (yes/no) {what}");
        assert_eq!(question(&end), again);
        assert_eq!(chat.states("book").last().map(String::as_str), Some("confirming"));
    }
    chat.send("the aisle");
    end = chat.run(&[]);
    assert_eq!(
        question(&end),
        "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"
    );
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    assert_eq!(chat.operations().iter().filter(|operation| *operation == "confirmation -").count(), 4);
    let said = chat.said();
    assert_eq!(said.iter().filter(|text| text.starts_with("I'm having trouble")).count(), 1, "{said:#?}");
    assert_eq!(chat.file("bookings.csv"), "");
    // The next message starts from the beginning; earlier values are dropped.
    chat.send("to Porto");
    assert_eq!(question(&chat.run(&[])), "Where do you fly from?");
}

#[test]
fn clear_answer_resets_the_unclear_counter() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&[REQUEST, "hm", "hm", "hm", "no"]);
    assert_eq!(question(&end), "What would you like to change?");
    assert_eq!(chat.states("book").last().map(String::as_str), Some("understanding"));
    // Three more are asked again, because the denial cleared the counter.
    let end = chat.run_per_message(&["make it 3", "hm", "hm", "hm", "yes"]);
    assert_eq!(end, RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,3\n");
}

#[test]
fn yes_with_a_change_updates_and_asks_for_confirmation_again() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&[REQUEST, "yes, but make it 3"]);
    let asked = question(&end);
    assert!(asked.starts_with("Done, I've changed seats to 3. origin: Madrid"), "{asked}");
    assert!(asked.contains("seats: 3. Is this information correct? (yes/no)"), "{asked}");
    assert_eq!(chat.file("bookings.csv"), "");
    let operations = chat.operations();
    assert!(operations.contains(&"modification +".to_owned()), "{operations:?}");
    assert!(operations.ends_with(&["confirmation +".to_owned()]), "{operations:?}");
}

#[test]
fn correction_is_acknowledged_and_question_is_kept() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&["from Madrid to Paris", "no, I meant Lisbon"]);
    assert_eq!(question(&end), "Got it, I've updated destination to Lisbon. On which day?");
    assert_eq!(chat.operations().last().map(String::as_str), Some("correction +"));
    let end = chat.run_per_message(&["Нет, я имел в виду Порту"]);
    assert_eq!(question(&end), "Принято, «куда»: теперь Порту. В какой день?");
}

#[test]
fn repeated_invalid_values_abort_and_restart() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&["from Madrid to Lisbon on 2026-12-09", "12", "13", "14"]);
    assert_eq!(question(&end), "I can book 1 to 9 seats. How many seats?");
    chat.send("15");
    let end = chat.run(&[]);
    let expected = "I'm having trouble processing this. Let's start over. Where do you fly from?";
    assert_eq!(question(&end), expected);
    let failed = chat.operations().iter().filter(|operation| *operation == "validation -").count();
    assert_eq!(failed, 4);
    // It stays in state `error` until the next message, which starts from `idle` and is read as an answer.
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    let end = chat.run_per_message(&["Porto"]);
    assert_eq!(question(&end), "Where do you fly to?");
    let states = chat.states("book");
    let error = states.iter().position(|state| state == "error").expect("the abort");
    assert_eq!(states[error + 1..error + 3], ["idle", "understanding"], "{states:?}");
}

#[test]
fn unclear_answer_is_reported_once() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&[REQUEST, "hm"]);
    assert!(question(&end).starts_with("I didn't understand."), "{end:?}");
    let count_said = |words: &str| chat.said().iter().filter(|text| text.contains(words)).count();
    assert_eq!(count_said("I didn't understand"), 1);
    chat.run_per_message(&["hm", "hm", "hm"]);
    assert_eq!(count_said("I'm having trouble understanding"), 1);
}

#[test]
fn change_without_effect_is_counted() {
    let chat = ChatHarness::example("booking");
    let end = chat.run_per_message(&[REQUEST, "change the date to 2026-12-09"]);
    assert_eq!(question(&end), "What would you like to change day to?");
    assert_eq!(chat.operations().last().map(String::as_str), Some("modification -"));
    let end = chat.run_per_message(&["no"]);
    assert!(question(&end).starts_with("origin: Madrid"), "{end:?}");
}

#[test]
fn side_questions_use_no_attempt_but_are_bounded() {
    let chat = halted_chat();
    assert!(!chat.operations().iter().any(|operation| operation.ends_with('-')), "{:?}", chat.operations());
    assert!(chat.said().iter().any(|text| text == "A seat costs 84 euros. Where do you fly to?"));
    let last = chat.said().pop();
    let expected = "We are not getting anywhere. I am handing you over to a person.";
    assert_eq!(last.as_deref(), Some(expected));
    let head = chat.admin_store().load(SESSION).expect("the session").expect("it is there").head;
    assert!(head.summary.label.is_some(), "a person is requested");
    // Nothing happens before a release; then the waiting message is read.
    assert!(matches!(chat.run(&[]), RunEnd::Stopped(RunStop::Blocked { .. })));
    chat.release(SESSION, "stall");
    assert_eq!(question(&chat.run(&[])), "A seat costs 84 euros. Where do you fly to?");
    assert_eq!(chat.run_per_message(&["Lisbon", "2026-12-09", "2", "yes"]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn node_limit_can_be_stricter_than_the_policy() {
    let chat = ChatHarness::example("booking")
        .with("confirm: true", "confirm: true\n    max_turns_without_progress: 2");
    let end = chat.run_per_message(&["from Madrid", "what does it cost?", "luggage?", "price?"]);
    assert_eq!(question(&end), "A clerk takes over (no_progress). What was done?");
    let (outcome, about) = chat.outcome("book");
    assert_eq!(outcome, "unclear");
    assert_eq!(about["why"], "no_progress");
    assert_eq!(about["state"], "fallback");
    assert_eq!(about["slots"]["origin"], "Madrid");
}

#[test]
fn third_circuit_break_halts_until_released() {
    let chat = ChatHarness::example("booking").with("confirm: true", "confirm: true\n    max_aborts: 9");
    let request = "Book a flight from Madrid to Lisbon on 2026-12-09";
    let mut end = chat.run_per_message(&[request, "2", "hm", "hm", "hm", "hm"]);
    for _ in 0..2 {
        assert!(question(&end).starts_with("I'm having trouble understanding"), "{end:?}");
        // After the breaker's open period: one more attempt, then it opens again.
        chat.advance_clock(20 * 60_000);
        end = chat.run_per_message(&[request, "2", "hm", "hm"]);
    }
    let RunEnd::Stopped(RunStop::Blocked { decision, .. }) = &end else { panic!("{end:?}") };
    assert_eq!(decision.trips[0].guard, "retry");
    assert_eq!(chat.said().last().map(String::as_str), Some("I am handing you over to a person."));
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    chat.release(SESSION, "retry");
    end = chat.run(&[]);
    assert!(question(&end).starts_with("I'm having trouble understanding"), "{end:?}");
    assert_eq!(chat.run_per_message(&[request, "2", "yes"]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn too_many_aborts_take_the_unclear_edge() {
    let chat = ChatHarness::example("booking").with("confirm: true", "confirm: true\n    max_aborts: 1");
    let end = chat.run_per_message(&[REQUEST, "hm", "hm", "hm", "hm"]);
    assert_eq!(question(&end), "A clerk takes over (aborted). What was done?");
    assert_eq!(chat.outcome("book").1["why"], "aborted");
}

#[test]
fn endless_denial_without_changes_is_stopped() {
    let chat = ChatHarness::example("booking");
    chat.run_per_message(&[REQUEST]);
    let mut end = chat.run_per_message(&["no", "nothing"]);
    for _ in 0..3 {
        if !matches!(end, RunEnd::Stopped(RunStop::AwaitingInput(_))) {
            break;
        }
        end = chat.run_per_message(&["no", "nothing"]);
    }
    let RunEnd::Stopped(RunStop::Halted(decision)) = end else { panic!("{end:?}") };
    assert_eq!(decision.trips[0].reason, "repeated_question");
}

#[test]
fn state_transitions_count_against_the_message_budget() {
    let policy = "policy: {budgets: {message: {transitions: 3}}}\ngoal: book a flight";
    let chat = ChatHarness::example("booking").with("goal: book a flight", policy);
    let end = chat.run_per_message(&[REQUEST]);
    let RunEnd::Stopped(RunStop::Blocked { decision, .. }) = &end else { panic!("{end:?}") };
    assert_eq!(decision.session, ChatHarness::states_of("book"));
    assert_eq!(decision.trips[0].reason, "max_steps");
    let words = "I'm having trouble processing this. Let's start over.";
    assert_eq!(chat.said().last().map(String::as_str), Some(words), "the person is informed");
    assert!(matches!(chat.run(&[]), RunEnd::Stopped(RunStop::Blocked { .. })), "it stays where it is");
    // Another message gets a new budget.
    assert!(question(&chat.run_per_message(&["go on"])).contains("Is this information correct?"));
    // The stop follows the booking; continuing must not book again.
    assert!(matches!(chat.run_per_message(&["yes"]), RunEnd::Stopped(RunStop::Blocked { .. })));
    assert_eq!(chat.run_per_message(&["go on"]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn state_cycle_without_user_input_trips_the_cycle_guard() {
    let chat = ChatHarness::example("booking");
    chat.run_per_message(&["hello"]);
    let states = ChatHarness::states_of("book");
    // A bug in the runner would look like this in the state session.
    let mut last = None;
    for at in 0..6 {
        let (from, to) =
            if at % 2 == 0 { ("understanding", "confirming") } else { ("confirming", "understanding") };
        let (from, to) = (from.to_owned(), to.to_owned());
        last = Some(chat.record(&states, EventKind::TransitionRequested { from, to, edge: None }));
    }
    let last = last.expect("a decision");
    assert_eq!(last.trips.first().map(|trip| trip.reason.as_str()), Some("cycle_detected"), "{last:?}");
}

#[test]
fn stopped_conversation_resumes_after_release() {
    let chat = ChatHarness::example("booking");
    chat.run_per_message(&["from Madrid to Lisbon"]);
    let stop = EventKind::HumanStopped { by: Some("somebody".to_owned()), why: Some("wait".to_owned()) };
    chat.record(SESSION, stop);
    for _ in 0..2 {
        let end = chat.run_per_message(&["2026-12-09"]);
        assert!(matches!(end, RunEnd::Stopped(RunStop::Halted(_))), "{end:?}");
    }
    chat.release(SESSION, "human");
    let end = chat.run(&[]);
    // Both messages are read: the day, and the same day again.
    assert_eq!(question(&end), "How many seats?");
    assert!(!chat.said().iter().any(|text| text.contains("start over")), "{:#?}", chat.said());
    assert_eq!(chat.run_per_message(&["2", "yes"]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn answer_after_a_day_is_accepted() {
    let chat = ChatHarness::example("booking");
    chat.run_per_message(&["from Madrid to Lisbon"]);
    chat.advance_clock(24 * 3_600_000);
    let end = chat.run_per_message(&["2026-12-09"]);
    assert_eq!(question(&end), "How many seats?");
    chat.advance_clock(24 * 3_600_000);
    assert_eq!(chat.run_per_message(&["2", "yes"]), RunEnd::Done);
}

#[test]
fn many_messages_are_not_a_loop() {
    let chat = ChatHarness::example("booking");
    let mut says = vec!["from Madrid to Lisbon on 2026-12-09 for 1"];
    let changes = ["make it 2", "make it 3", "make it 4", "make it 5", "make it 6", "make it 7", "make it 8"];
    says.extend(changes);
    says.extend([
        "change the date to 2026-12-10",
        "change the date to 2026-12-11",
        "to Porto",
        "from Paris",
        "yes",
    ]);
    assert_eq!(chat.run_per_message(&says), RunEnd::Done, "{:#?}", chat.said());
    assert_eq!(chat.file("bookings.csv"), "Paris,Porto,2026-12-11,8\n");
}
