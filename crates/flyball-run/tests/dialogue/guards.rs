//! What the guards count in a conversation, and that their word is obeyed.

use crate::kit::{Chat, SESSION, question};
use flyball::Kind;
use flyball_run::engine::{End, Stop};

const REQUEST: &str = "Book a flight from Madrid to Lisbon on 2026-12-09 for 2 people";

/// A chat that asks about the price so often that the guard calls a person.
pub(crate) fn stuck() -> Chat {
    let chat = Chat::example("booking");
    let mut says = vec!["from Madrid"];
    says.extend(["what does it cost?"; 11]);
    let end = chat.in_pieces(&says);
    assert!(matches!(end, End::Stopped(Stop::Blocked { .. })), "{end:?}");
    chat
}

#[test]
fn three_unclear_answers_are_asked_again_and_the_fourth_gives_up_in_the_seeds_words() {
    let chat = Chat::example("booking");
    let mut end = chat.in_pieces(&[REQUEST]);
    let what = "origin: Madrid, destination: Lisbon, day: 2026-12-09, seats: 2";
    assert_eq!(question(&end), format!("{what}. Is this information correct? (yes/no)"));
    for unclear in ["the aisle", "hm", "aisle, as always"] {
        chat.send(unclear);
        end = chat.go(&[]);
        let again = format!("I didn't understand. Is this information correct? (yes/no) {what}");
        assert_eq!(question(&end), again);
        assert_eq!(chat.states("book").last().map(String::as_str), Some("confirming"));
    }
    chat.send("the aisle");
    end = chat.go(&[]);
    assert_eq!(
        question(&end),
        "I'm having trouble understanding your confirmation. Let's start over. What would you like to do?"
    );
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    assert_eq!(chat.operations().iter().filter(|told| *told == "confirmation -").count(), 4);
    let said = chat.said();
    assert_eq!(said.iter().filter(|text| text.starts_with("I'm having trouble")).count(), 1, "{said:#?}");
    assert_eq!(chat.file("bookings.csv"), "");
    // The next message starts from the beginning; what was said before is dropped.
    chat.send("to Porto");
    assert_eq!(question(&chat.go(&[])), "Where do you fly from?");
}

#[test]
fn a_clear_answer_counts_however_many_unclear_ones_came_before_and_clears_the_counter() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&[REQUEST, "hm", "hm", "hm", "no"]);
    assert_eq!(question(&end), "What would you like to change?");
    assert_eq!(chat.states("book").last().map(String::as_str), Some("understanding"));
    // Three more are asked again: the denial has cleared the counter.
    let end = chat.in_pieces(&["make it 3", "hm", "hm", "hm", "yes"]);
    assert_eq!(end, End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,3\n");
}

#[test]
fn a_yes_with_a_change_is_one_turn_and_covers_what_is_shown_then() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&[REQUEST, "yes, but make it 3"]);
    let asked = question(&end);
    assert!(asked.starts_with("Done, I've changed seats to 3. origin: Madrid"), "{asked}");
    assert!(asked.contains("seats: 3. Is this information correct? (yes/no)"), "{asked}");
    assert_eq!(chat.file("bookings.csv"), "");
    let operations = chat.operations();
    assert!(operations.contains(&"modification +".to_owned()), "{operations:?}");
    assert!(operations.ends_with(&["confirmation +".to_owned()]), "{operations:?}");
}

#[test]
fn a_correction_is_acknowledged_and_the_open_question_stays() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&["from Madrid to Paris", "no, I meant Lisbon"]);
    assert_eq!(question(&end), "Got it, I've updated destination to Lisbon. On which day?");
    assert_eq!(chat.operations().last().map(String::as_str), Some("correction +"));
    let end = chat.in_pieces(&["Нет, я имел в виду Порту"]);
    assert_eq!(question(&end), "Принято, «куда»: теперь Порту. В какой день?");
}

#[test]
fn values_that_never_fit_are_given_up_and_it_starts_over() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&["from Madrid to Lisbon on 2026-12-09", "12", "13", "14"]);
    assert_eq!(question(&end), "I can book 1 to 9 seats. How many seats?");
    chat.send("15");
    let end = chat.go(&[]);
    let expected = "I'm having trouble processing this. Let's start over. Where do you fly from?";
    assert_eq!(question(&end), expected);
    let failed = chat.operations().iter().filter(|told| *told == "validation -").count();
    assert_eq!(failed, 4);
    // It is in the state `error` until the next message, which starts from `idle` and is read as the answer.
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    let end = chat.in_pieces(&["Porto"]);
    assert_eq!(question(&end), "Where do you fly to?");
    let states = chat.states("book");
    let error = states.iter().position(|state| state == "error").expect("the abort");
    assert_eq!(states[error + 1..error + 3], ["idle", "understanding"], "{states:?}");
}

#[test]
fn an_unclear_answer_is_told_to_the_person_once() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&[REQUEST, "hm"]);
    assert!(question(&end).starts_with("I didn't understand."), "{end:?}");
    let told = |words: &str| chat.said().iter().filter(|text| text.contains(words)).count();
    assert_eq!(told("I didn't understand"), 1);
    chat.in_pieces(&["hm", "hm", "hm"]);
    assert_eq!(told("I'm having trouble understanding"), 1);
}

#[test]
fn a_change_that_changes_nothing_is_counted_as_well() {
    let chat = Chat::example("booking");
    let end = chat.in_pieces(&[REQUEST, "change the date to 2026-12-09"]);
    assert_eq!(question(&end), "What would you like to change day to?");
    assert_eq!(chat.operations().last().map(String::as_str), Some("modification -"));
    let end = chat.in_pieces(&["no"]);
    assert!(question(&end).starts_with("origin: Madrid"), "{end:?}");
}

#[test]
fn questions_on_the_side_use_up_no_attempt_but_cannot_go_on_for_ever() {
    let chat = stuck();
    assert!(!chat.operations().iter().any(|told| told.ends_with('-')), "{:?}", chat.operations());
    assert!(chat.said().iter().any(|text| text == "A seat costs 84 euros. Where do you fly to?"));
    let last = chat.said().pop();
    let told = "We are not getting anywhere. I am handing you over to a person.";
    assert_eq!(last.as_deref(), Some(told));
    let head = chat.desk().load(SESSION).expect("the session").expect("it is there").head;
    assert!(head.glance.label.is_some(), "a person is called");
    // Nothing moves until somebody lets it; then the message is read that was waiting.
    assert!(matches!(chat.go(&[]), End::Stopped(Stop::Blocked { .. })));
    chat.release(SESSION, "stall");
    assert_eq!(question(&chat.go(&[])), "A seat costs 84 euros. Where do you fly to?");
    assert_eq!(chat.in_pieces(&["Lisbon", "2026-12-09", "2", "yes"]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn a_node_may_have_less_patience_than_the_policy() {
    let chat =
        Chat::example("booking").with("confirm: true", "confirm: true\n    max_turns_without_progress: 2");
    let end = chat.in_pieces(&["from Madrid", "what does it cost?", "luggage?", "price?"]);
    assert_eq!(question(&end), "A clerk takes over (no_progress). What was done?");
    let (outcome, about) = chat.outcome("book");
    assert_eq!(outcome, "unclear");
    assert_eq!(about["why"], "no_progress");
    assert_eq!(about["state"], "fallback");
    assert_eq!(about["slots"]["origin"], "Madrid");
}

#[test]
fn the_third_time_that_the_breaker_opens_a_person_is_called_and_a_release_lets_it_go_on() {
    let chat = Chat::example("booking").with("confirm: true", "confirm: true\n    max_aborts: 9");
    let request = "Book a flight from Madrid to Lisbon on 2026-12-09";
    let mut end = chat.in_pieces(&[request, "2", "hm", "hm", "hm", "hm"]);
    for _ in 0..2 {
        assert!(question(&end).starts_with("I'm having trouble understanding"), "{end:?}");
        // Longer than the breaker stays open: one more try, and then it opens again.
        chat.wait(20 * 60_000);
        end = chat.in_pieces(&[request, "2", "hm", "hm"]);
    }
    let End::Stopped(Stop::Blocked { decision, .. }) = &end else { panic!("{end:?}") };
    assert_eq!(decision.trips[0].guard, "retry");
    assert_eq!(chat.said().last().map(String::as_str), Some("I am handing you over to a person."));
    assert_eq!(chat.states("book").last().map(String::as_str), Some("error"));
    chat.release(SESSION, "retry");
    end = chat.go(&[]);
    assert!(question(&end).starts_with("I'm having trouble understanding"), "{end:?}");
    assert_eq!(chat.in_pieces(&[request, "2", "yes"]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn too_many_aborts_hand_it_over_by_the_edge_of_the_workflow() {
    let chat = Chat::example("booking").with("confirm: true", "confirm: true\n    max_aborts: 1");
    let end = chat.in_pieces(&[REQUEST, "hm", "hm", "hm", "hm"]);
    assert_eq!(question(&end), "A clerk takes over (aborted). What was done?");
    assert_eq!(chat.outcome("book").1["why"], "aborted");
}

#[test]
fn to_deny_and_change_nothing_for_ever_ends_at_a_guard() {
    let chat = Chat::example("booking");
    chat.in_pieces(&[REQUEST]);
    let mut end = chat.in_pieces(&["no", "nothing"]);
    for _ in 0..3 {
        if !matches!(end, End::Stopped(Stop::Asks(_))) {
            break;
        }
        end = chat.in_pieces(&["no", "nothing"]);
    }
    let End::Stopped(Stop::Halted(decision)) = end else { panic!("{end:?}") };
    assert_eq!(decision.trips[0].reason, "repeated_question");
}

#[test]
fn the_steps_of_one_message_draw_on_the_budget_of_a_message() {
    let policy = "policy: {budgets: {message: {transitions: 3}}}\ngoal: book a flight";
    let chat = Chat::example("booking").with("goal: book a flight", policy);
    let end = chat.in_pieces(&[REQUEST]);
    let End::Stopped(Stop::Blocked { decision, .. }) = &end else { panic!("{end:?}") };
    assert_eq!(decision.session, Chat::states_of("book"));
    assert_eq!(decision.trips[0].reason, "max_steps");
    let words = "I'm having trouble processing this. Let's start over.";
    assert_eq!(chat.said().last().map(String::as_str), Some(words), "the person is told");
    assert!(matches!(chat.go(&[]), End::Stopped(Stop::Blocked { .. })), "it stays where it is");
    // Another message is another budget.
    assert!(question(&chat.in_pieces(&["go on"])).contains("Is this information correct?"));
    // The stop comes after the booking was made; whoever goes on does not book once more.
    assert!(matches!(chat.in_pieces(&["yes"]), End::Stopped(Stop::Blocked { .. })));
    assert_eq!(chat.in_pieces(&["go on"]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn states_that_go_round_without_a_person_are_seen_by_the_cycle_guard() {
    let chat = Chat::example("booking");
    chat.in_pieces(&["hello"]);
    let states = Chat::states_of("book");
    // A mistake in the runner would look like this in the session of the states.
    let mut last = None;
    for at in 0..6 {
        let (from, to) =
            if at % 2 == 0 { ("understanding", "confirming") } else { ("confirming", "understanding") };
        let (from, to) = (from.to_owned(), to.to_owned());
        last = Some(chat.record(&states, Kind::TransitionRequested { from, to, edge: None }));
    }
    let last = last.expect("a decision");
    assert_eq!(last.trips.first().map(|trip| trip.reason.as_str()), Some("cycle_detected"), "{last:?}");
}

#[test]
fn a_conversation_that_somebody_stopped_goes_on_after_the_release() {
    let chat = Chat::example("booking");
    chat.in_pieces(&["from Madrid to Lisbon"]);
    let stop = Kind::HumanStopped { by: Some("somebody".to_owned()), why: Some("wait".to_owned()) };
    chat.record(SESSION, stop);
    for _ in 0..2 {
        let end = chat.in_pieces(&["2026-12-09"]);
        assert!(matches!(end, End::Stopped(Stop::Halted(_))), "{end:?}");
    }
    chat.release(SESSION, "human");
    let end = chat.go(&[]);
    // Both messages are read: the day, and the same day once more.
    assert_eq!(question(&end), "How many seats?");
    assert!(!chat.said().iter().any(|text| text.contains("start over")), "{:#?}", chat.said());
    assert_eq!(chat.in_pieces(&["2", "yes"]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn a_person_may_take_a_day_to_answer() {
    let chat = Chat::example("booking");
    chat.in_pieces(&["from Madrid to Lisbon"]);
    chat.wait(24 * 3_600_000);
    let end = chat.in_pieces(&["2026-12-09"]);
    assert_eq!(question(&end), "How many seats?");
    chat.wait(24 * 3_600_000);
    assert_eq!(chat.in_pieces(&["2", "yes"]), End::Done);
}

#[test]
fn more_than_ten_messages_are_no_loop() {
    let chat = Chat::example("booking");
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
    assert_eq!(chat.in_pieces(&says), End::Done, "{:#?}", chat.said());
    assert_eq!(chat.file("bookings.csv"), "Paris,Porto,2026-12-11,8\n");
}
