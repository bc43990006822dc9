//! The large outputs of one session, for a runner that works in it: held as long as it works, read by path.

use super::folder::{self, Folder, find, make};
use flyball::output::{Hints, OutputLimits, cut_text, preview_text};
use flyball::policy::LargeResponse;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// When an output is large, what is shown of it, and how much may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// When it is large, and what is shown of it.
    pub limits: OutputLimits,
    /// How many bytes of large outputs one session may have on the disk.
    pub session_bytes: u64,
}

impl Default for OutputOptions {
    fn default() -> Self {
        OutputOptions::from(&LargeResponse::default())
    }
}

impl From<&LargeResponse> for OutputOptions {
    /// What a policy's `guards.large_response` wants.
    fn from(policy: &LargeResponse) -> Self {
        OutputOptions { limits: OutputLimits::from(policy), session_bytes: super::SESSION_BYTES }
    }
}

/// How the tools of a runner read a file.
const READ_HINTS: [&str; 2] = [
    "Use read tool to view the file (page through it with offset and limit)",
    "Use search tool to search within the file",
];

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
pub struct SessionOutputs {
    base: PathBuf,
    /// The session, and the name of its folder.
    name: String,
    session: String,
    options: OutputOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// There is no folder as far as we know.
    None,
    Open(Folder),
    Ended,
}

impl SessionOutputs {
    /// The large outputs of a session, in a folder of its own below `base`. If it has such a folder from an earlier
    /// run, that is kept from being swept away from now on.
    ///
    /// # Errors
    /// If `base` is relative and the current folder is not known.
    pub fn open(base: &Path, session: &str, options: OutputOptions) -> io::Result<Self> {
        let base = std::path::absolute(base)?;
        let (name, session) = (session.to_owned(), folder::session_name(session));
        // Trouble with what is there is told when something is to be written or read.
        let state = find(&base, &session).ok().flatten().map_or(State::None, State::Open);
        Ok(SessionOutputs { base, name, session, options, state: Mutex::new(state) })
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
    pub fn options(&self) -> &OutputOptions {
        &self.options
    }

    /// The text itself if it is not large; otherwise it goes to a file and its preview comes back.
    #[must_use]
    pub fn fit(&self, text: String) -> Fitted {
        self.fit_within(text, &self.options.limits)
    }

    /// The same with other limits, for a tool or node that has its own.
    #[must_use]
    pub fn fit_within(&self, text: String, limits: &OutputLimits) -> Fitted {
        let Some(chars) = limits.exceeded_by(&text) else { return Fitted { text, outcome: Outcome::Whole } };
        match self.save(text.as_bytes()) {
            Ok(path) => {
                let hints = Hints {
                    place: path.display().to_string(),
                    lines: READ_HINTS.map(str::to_owned).to_vec(),
                };
                let text = preview_text(&limits.preview_of(&text), chars as u64, &hints);
                Fitted { text, outcome: Outcome::Saved { path, chars } }
            }
            Err(why) => {
                let text = cut_text(&limits.cut(&text), chars as u64, &why);
                Fitted { text, outcome: Outcome::Cut { chars, why } }
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
    /// If it could not be removed; [`super::sweep`] will try again later.
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
        folder.write(&self.name, bytes).map(|name| path.join(name)).map_err(|error| error.to_string())
    }

    /// Nobody panics while holding the lock; if somebody did, the state would still be whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
