//! What the fuzz targets check, one function each. They live here and not in the targets, so that a stored input can
//! be put to them by any program.
//!
//! Each function panics if a promise of the core is broken; a panic is how a fuzz target reports.

pub mod events;
pub mod history;
pub mod policies;
