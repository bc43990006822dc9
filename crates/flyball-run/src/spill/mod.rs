//! Large outputs go to a private file, and the model gets a preview, the path and a way to page through it.
//!
//! One session, one folder (0700), below a base that the caller chooses; one output, one file (0600) with a name that
//! is made up here. A session that comes back after a stop finds its folder again, because the folder is called by a
//! hash of the session's name; nobody else's files can be read through it. If the disk refuses, the output is cut and
//! the text says so: an output never ends a session.
//!
//! The text of a large output: [`Spill::fit`] -> `folder.rs` opens or makes the folder -> a new file -> the preview.

mod folder;
mod sweep;

pub(crate) use folder::unique_name;
pub use sweep::{ORPHAN_AGE, Swept, sweep};

use flyball::policy::{LargeResponse, Mode};
use folder::{Folder, find, make};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Characters that the words about a cut take at most.
const NOTICE: usize = 400;

/// When an output is large, and what is shown of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillOptions {
    /// Outputs of up to this many characters stay as they are. `None` = all do.
    pub threshold: Option<usize>,
    /// How many characters of a large output are shown.
    pub preview: usize,
    /// How many bytes of large outputs one session may have on the disk.
    pub session_bytes: u64,
}

impl Default for SpillOptions {
    fn default() -> Self {
        SpillOptions { threshold: Some(200_000), preview: 1_000, session_bytes: 1024 * 1024 * 1024 }
    }
}

impl From<&LargeResponse> for SpillOptions {
    /// What a policy's `guards.large_response` wants.
    fn from(policy: &LargeResponse) -> Self {
        let size = |chars: u64| usize::try_from(chars).unwrap_or(usize::MAX);
        let threshold = policy.threshold.filter(|_| policy.mode != Mode::Off).map(size);
        SpillOptions { threshold, preview: size(policy.preview), ..SpillOptions::default() }
    }
}

/// What became of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was small enough and is unchanged.
    Whole,
    /// It is in a file, and the text is a preview.
    Saved {
        /// The file.
        path: PathBuf,
        /// The length of the whole output in characters.
        chars: usize,
    },
    /// It could not be saved; the text is its beginning, and the rest is lost.
    Cut {
        /// The length of the whole output in characters.
        chars: usize,
        /// Why it could not be saved.
        why: String,
    },
}

/// A text that is short enough for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// The text.
    pub text: String,
    /// How it came about.
    pub outcome: Outcome,
}

impl Fitted {
    /// A line for the log that says what really happened; `None` if nothing did.
    #[must_use]
    pub fn log(&self, tool: &str) -> Option<String> {
        match &self.outcome {
            Outcome::Whole => None,
            Outcome::Saved { chars, .. } => {
                Some(format!("large response from {tool} ({chars} chars) written to temp file"))
            }
            Outcome::Cut { chars, why } => {
                Some(format!("large response from {tool} ({chars} chars) truncated: {why}"))
            }
        }
    }
}

/// The large outputs of one session. Nothing is made on the disk before the first of them.
#[derive(Debug)]
pub struct Spill {
    base: PathBuf,
    session: String,
    options: SpillOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// There is no folder as far as we know.
    None,
    Open(Folder),
    Ended,
}

impl Spill {
    /// The large outputs of a session, in a folder of its own below `base`. If it has such a folder from an earlier
    /// run, that is kept from being swept away from now on.
    ///
    /// # Errors
    /// If `base` is relative and the current folder is not known.
    pub fn open(base: &Path, session: &str, options: SpillOptions) -> io::Result<Spill> {
        let base = std::path::absolute(base)?;
        let session = folder::session_name(session);
        // Trouble with what is there is told when something is to be written or read.
        let state = find(&base, &session).ok().flatten().map_or(State::None, State::Open);
        Ok(Spill { base, session, options, state: Mutex::new(state) })
    }

    /// The folder of this session's files.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.base.join(&self.session)
    }

    /// The folder that holds the folders of all sessions.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// What was asked for.
    #[must_use]
    pub fn options(&self) -> &SpillOptions {
        &self.options
    }

    /// The text itself if it is not large; otherwise it goes to a file and its preview comes back.
    #[must_use]
    pub fn fit(&self, text: String) -> Fitted {
        let Some(threshold) = self.options.threshold else { return whole(text) };
        // A text has no more characters than bytes, so most are not counted.
        if text.len() <= threshold {
            return whole(text);
        }
        let chars = text.chars().count();
        if chars <= threshold {
            return whole(text);
        }
        let shown = |most: usize| text.chars().take(most).collect::<String>();
        match self.save(text.as_bytes()) {
            Ok(path) => {
                let shown = shown(self.options.preview.min(threshold));
                Fitted { text: preview(&shown, chars, &path), outcome: Outcome::Saved { path, chars } }
            }
            Err(why) => {
                // As much as fits; the words about it fit too.
                let shown = shown(threshold.saturating_sub(NOTICE).max(self.options.preview.min(threshold)));
                Fitted { text: cut(&shown, chars, &why), outcome: Outcome::Cut { chars, why } }
            }
        }
    }

    /// Whether a path is one of this session's files, by its name.
    #[must_use]
    pub fn owns(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        path.parent() == Some(&self.folder()) && name.is_some_and(folder::is_file_name)
    }

    /// Opens one of this session's files to read it.
    ///
    /// # Errors
    /// If it is none of them, or cannot be read.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let name = path.file_name().filter(|_| self.owns(path)).ok_or(io::ErrorKind::PermissionDenied)?;
        let mut state = self.lock();
        if matches!(*state, State::None)
            && let Some(found) = find(&self.base, &self.session)?
        {
            *state = State::Open(found);
        }
        match &*state {
            State::Open(folder) => folder.read(name),
            State::None | State::Ended => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Removes the session's folder with everything in it. What comes later is cut and not saved.
    ///
    /// # Errors
    /// If it could not be removed; [`sweep`] will try again later.
    pub fn end_session(&self) -> io::Result<()> {
        let mut state = self.lock();
        *state = State::Ended;
        match std::fs::remove_dir_all(self.folder()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes an output to a new file.
    fn save(&self, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.folder();
        let mut state = self.lock();
        // Somebody may have removed the folder under us; then there is a new one.
        let lost = matches!(&*state, State::Open(folder) if !folder.is_there(&path));
        if lost || matches!(*state, State::None) {
            *state = State::Open(make(&self.base, &self.session).map_err(|error| error.to_string())?);
        }
        let State::Open(folder) = &mut *state else { return Err("the session has ended".to_owned()) };
        let size = bytes.len() as u64;
        if folder.used.saturating_add(size) > self.options.session_bytes {
            let limit = self.options.session_bytes;
            return Err(format!("the session has used up its {limit} bytes for large outputs"));
        }
        folder.write(bytes).map(|name| path.join(name)).map_err(|error| error.to_string())
    }

    /// Nobody panics while holding the lock; if somebody did, the state would still be whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(text: String) -> Fitted {
    Fitted { text, outcome: Outcome::Whole }
}

/// The text for an output that is in a file.
fn preview(shown: &str, chars: usize, path: &Path) -> String {
    let mut text = format!(
        "Tool response too large ({chars} characters). Full output saved to: {}\n\nTo examine the output:\n",
        path.display()
    );
    text.push_str("- Use read tool to view the file (page through it with offset and limit)\n");
    text.push_str("- Use search tool to search within the file\n");
    text.push_str("- The file will be cleaned up when the session ends\n\n");
    let _ = write!(text, "Preview (first {} chars):\n{shown}...", shown.chars().count());
    text
}

/// The text for an output that could not be saved.
fn cut(shown: &str, chars: usize, why: &str) -> String {
    let length = shown.chars().count();
    format!(
        "{shown}\n\n[TRUNCATED: Response was {chars} characters, showing first {length}]\n\
         [The rest is lost, it could not be saved: {why}]"
    )
}
