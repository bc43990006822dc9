//! The fuzz target `governor`; what it checks is in `flyball_fuzz::history`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flyball_fuzz::history::check(bytes));
