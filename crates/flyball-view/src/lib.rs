//! Read-only views of sessions: the texts shared by the terminal, the dashboard and the HTTP API.
//!
//! Nothing here renders output; the modules read the store and produce text and JSON.

pub mod decision_history;
pub mod evidence;
pub mod explanations;
pub mod formatting;
mod next_commands;
mod number_format;
mod plan_view;
pub mod run_status;
pub mod session_list;
mod session_status;
pub mod trend;
pub mod workflow_view;

pub use next_commands::next_commands;
pub use plan_view::PlanView;
pub use session_status::{ActivityReader, IDLE_AFTER_MS, SessionActivity, SessionStatus};
