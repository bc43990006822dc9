//! Each mode does what it measures: nothing trips where nothing should, and the loop is seen.

use super::{LOOP, LOOP_PERIOD, NAMES, events, run, session};

#[test]
fn no_mode_is_stopped() {
    for mode in NAMES {
        assert_eq!(run(mode, 120, 100).unwrap(), 0, "{mode}");
    }
}

#[test]
fn the_loop_is_reported() {
    let mut session = session(LOOP).unwrap();
    let mut trips = 0;
    for number in 0..60 {
        for event in events(number, (number % LOOP_PERIOD, number % LOOP_PERIOD)).unwrap() {
            trips += session.step(&event).unwrap().trips.len();
        }
    }
    assert!(trips > 40, "{trips}");
}

#[test]
fn an_unknown_mode_is_an_error() {
    assert!(run("nothing", 1, 1).is_err());
}
