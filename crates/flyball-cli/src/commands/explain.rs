//! Placeholder until written below.
use crate::fail::{Exit, Failure};
pub(crate) fn run(_args: &crate::args::Explain) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
