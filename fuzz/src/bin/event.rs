//! Fuzz target `event`: see `flyball_fuzz::events`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flyball_fuzz::events::check(bytes));
