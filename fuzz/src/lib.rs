//! The checks of the fuzz targets, one function each. They are in a library, so that any program can run them on a
//! stored input.
//!
//! Each function panics if an invariant of the core is broken, which is how a fuzz target reports a failure.

pub mod events;
pub mod history;
pub mod policies;
