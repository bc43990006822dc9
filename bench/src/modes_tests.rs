//! Each mode does what it measures: nothing trips unexpectedly, and the loop is detected.

use super::{LOOP_PERIOD, LOOP_POLICY, NAMES, events, run, session};

#[test]
fn no_mode_is_blocked() {
    for mode in NAMES {
        assert_eq!(run(mode, 120, 100).unwrap(), 0, "{mode}");
    }
}

#[test]
fn loop_is_reported() {
    let mut session = session(LOOP_POLICY).unwrap();
    let mut trips = 0;
    for number in 0..60 {
        for event in events(number, (number % LOOP_PERIOD, number % LOOP_PERIOD)).unwrap() {
            trips += session.step(&event).unwrap().trips.len();
        }
    }
    assert!(trips > 40, "{trips}");
}

#[test]
fn unknown_mode_is_an_error() {
    assert!(run("nothing", 1, 1).is_err());
}
