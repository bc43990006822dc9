//! Findings in plain words, as the page tells them too.

pub(crate) use flyball_view::meaning::{actions, meaning, sentence};
