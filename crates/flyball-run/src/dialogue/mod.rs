//! Conversations that find something out: their states, what a message means, what is said. Nothing here waits,
//! stores or runs anything; that is the node's to do.

mod dates;
mod extract;
mod phrases;
mod read;
mod slot;
mod state;
mod texts;
mod words;

pub use extract::Found;
pub use read::{Act, Expecting, Heard, Known, Reader};
pub use slot::{Form, show};
pub use state::{State, TABLE};
pub(crate) use texts::clean;
pub use texts::{Line, Speech, known_keys};
