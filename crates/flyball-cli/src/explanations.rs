//! Plain-language explanations of findings, shared with the dashboard.

pub(crate) use flyball_view::explanations::{actions, explain_reason, sentence};
