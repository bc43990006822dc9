//! The audit of a transcript: which loops are in it, where Flyball would have stopped them, and what that would have
//! saved.
//!
//! [`Auditor`] takes the events of one file as they come and keeps no more than findings. [`Survey`] adds the files
//! up; the sum is the same in whatever order they come. [`fit`] writes a policy that fits what was seen. Nothing here
//! reads a file or the clock.

mod auditor;
mod episode;
mod finding;
mod fit;
mod preview;
mod spend;
mod survey;
mod top;
mod track;
mod watched;

pub use auditor::{Auditor, Bench, Findings};
pub use finding::{End, Habit, Loop, Run, Stop};
pub use fit::{Fit, fit};
pub use spend::Spend;
pub use survey::{Day, FileTotals, Line, Survey, ToolLine, Unread};
pub use top::Top;
