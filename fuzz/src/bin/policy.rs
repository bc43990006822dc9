//! The fuzz target `policy`; what it checks is in `flyball_fuzz::policies`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flyball_fuzz::policies::check(bytes));
