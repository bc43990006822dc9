//! Fuzz target `governor`: see `flyball_fuzz::history`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flyball_fuzz::history::check(bytes));
