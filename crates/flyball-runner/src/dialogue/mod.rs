//! Slot-filling conversations: states, interpretation of messages, and texts. Pure logic; the `collect` node waits,
//! stores and runs.

mod dates;
mod dialogue_state;
mod extract;
mod message_reader;
mod phrases;
mod slot_matcher;
mod texts;
mod tokens;

pub use dialogue_state::{DialogueState, TRANSITIONS};
pub use extract::SlotValue;
pub use message_reader::{ExpectedReply, MessageContext, MessageMeaning, MessageReader, SlotEdit};
pub use slot_matcher::{SlotMatcher, value_text};
pub(crate) use texts::single_line;
pub use texts::{DialogueLine, DialogueTexts, known_text_keys};
