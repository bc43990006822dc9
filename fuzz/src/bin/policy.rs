//! Fuzz target `policy`: see `flyball_fuzz::policies`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flyball_fuzz::policies::check(bytes));
