//! The large outputs of one session, for a runner that works on it: locked while it works, read by path.

use super::session_dir::{self, SessionDir, open_existing, open_or_create};
use flyball::output::{OutputLimits, ReadHints, preview_text, truncated_text};
use flyball::policy::LargeResponsePolicy;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Size limits for large outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// When an output is large, and how much of it is shown.
    pub limits: OutputLimits,
    /// Maximum bytes of large outputs per session on disk.
    pub session_bytes: u64,
}

impl Default for OutputOptions {
    fn default() -> Self {
        OutputOptions::from(&LargeResponsePolicy::default())
    }
}

impl From<&LargeResponsePolicy> for OutputOptions {
    /// The limits of a policy's `guards.large_response`.
    fn from(policy: &LargeResponsePolicy) -> Self {
        OutputOptions { limits: OutputLimits::from(policy), session_bytes: super::MAX_SESSION_BYTES }
    }
}

/// How a runner's tools read a file.
const READ_HINTS: [&str; 2] = [
    "Use read tool to view the file (page through it with offset and limit)",
    "Use search tool to search within the file",
];

/// Outcome of fitting an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FitOutcome {
    /// Small enough; unchanged.
    Unchanged,
    /// Saved to a file; the text is a preview.
    Saved {
        /// The file.
        path: PathBuf,
        /// Length of the whole output in characters.
        chars: usize,
    },
    /// Not saved; the text is its beginning, and the rest is lost.
    Truncated {
        /// Length of the whole output in characters.
        chars: usize,
        /// Why it could not be saved.
        why: String,
    },
}

/// A text that is short enough for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedText {
    /// The text.
    pub text: String,
    /// Outcome.
    pub outcome: FitOutcome,
}

impl FittedText {
    /// Log line for a saved or truncated output; `None` if it is unchanged.
    #[must_use]
    pub fn log_line(&self, tool: &str) -> Option<String> {
        match &self.outcome {
            FitOutcome::Unchanged => None,
            FitOutcome::Saved { chars, .. } => {
                Some(format!("large response from {tool} ({chars} chars) written to temp file"))
            }
            FitOutcome::Truncated { chars, why } => {
                Some(format!("large response from {tool} ({chars} chars) truncated: {why}"))
            }
        }
    }
}

/// The large outputs of one session. Creates nothing on disk before the first one.
#[derive(Debug)]
pub struct SessionOutputs {
    base: PathBuf,
    /// Name of the session's directory.
    name: String,
    session: String,
    options: OutputOptions,
    state: Mutex<SessionDirState>,
}

#[derive(Debug)]
enum SessionDirState {
    /// No known directory.
    None,
    Open(SessionDir),
    Ended,
}

impl SessionOutputs {
    /// Opens the large outputs of a session, in a separate directory under `base`. A directory from an earlier run
    /// is protected from orphan cleanup from now on.
    ///
    /// # Errors
    /// If `base` is relative and the current directory is unknown.
    pub fn open(base: &Path, session: &str, options: OutputOptions) -> io::Result<Self> {
        let base = std::path::absolute(base)?;
        let (name, session) = (session.to_owned(), session_dir::session_dir_name(session));
        // Problems with an existing directory are reported on the first write or read.
        let state = open_existing(&base, &session)
            .ok()
            .flatten()
            .map_or(SessionDirState::None, SessionDirState::Open);
        Ok(SessionOutputs { base, name, session, options, state: Mutex::new(state) })
    }

    /// Directory of this session's files.
    #[must_use]
    pub fn session_dir(&self) -> PathBuf {
        self.base.join(&self.session)
    }

    /// Directory that contains the directories of all sessions.
    #[must_use]
    pub fn base_dir(&self) -> &Path {
        &self.base
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &OutputOptions {
        &self.options
    }

    /// Returns a small text unchanged; saves a large one to a file and returns its preview.
    #[must_use]
    pub fn save_if_large(&self, text: String) -> FittedText {
        self.save_if_over(text, &self.options.limits)
    }

    /// Like `save_if_large`, with the limits of a tool or node.
    #[must_use]
    pub fn save_if_over(&self, text: String, limits: &OutputLimits) -> FittedText {
        let Some(chars) = limits.large_char_count(&text) else {
            return FittedText { text, outcome: FitOutcome::Unchanged };
        };
        match self.write_file(text.as_bytes()) {
            Ok(path) => {
                let hints = ReadHints {
                    location: path.display().to_string(),
                    lines: READ_HINTS.map(str::to_owned).to_vec(),
                };
                let text = preview_text(&limits.preview_of(&text), chars as u64, &hints);
                FittedText { text, outcome: FitOutcome::Saved { path, chars } }
            }
            Err(why) => {
                let text = truncated_text(&limits.truncate(&text), chars as u64, &why);
                FittedText { text, outcome: FitOutcome::Truncated { chars, why } }
            }
        }
    }

    /// Whether a path names one of this session's files.
    #[must_use]
    pub fn owns(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        path.parent() == Some(&self.session_dir()) && name.is_some_and(session_dir::is_file_name)
    }

    /// Opens one of this session's files for reading.
    ///
    /// # Errors
    /// If it is not one of them, or cannot be read.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        let name = path.file_name().filter(|_| self.owns(path)).ok_or(io::ErrorKind::PermissionDenied)?;
        let mut state = self.lock();
        if matches!(*state, SessionDirState::None)
            && let Some(found) = open_existing(&self.base, &self.session)?
        {
            *state = SessionDirState::Open(found);
        }
        match &*state {
            SessionDirState::Open(folder) => folder.open_file(name),
            SessionDirState::None | SessionDirState::Ended => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Removes the session's directory and all its files. Later outputs are truncated and not saved.
    ///
    /// # Errors
    /// If it could not be removed; [`super::remove_orphans`] will retry.
    pub fn end_session(&self) -> io::Result<()> {
        let mut state = self.lock();
        *state = SessionDirState::Ended;
        match std::fs::remove_dir_all(self.session_dir()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes an output to a new file.
    fn write_file(&self, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.session_dir();
        let mut state = self.lock();
        // Another process may have removed the directory. A new one is created then.
        let lost = matches!(&*state, SessionDirState::Open(folder) if !folder.is_still_at(&path));
        if lost || matches!(*state, SessionDirState::None) {
            *state = SessionDirState::Open(
                open_or_create(&self.base, &self.session).map_err(|error| error.to_string())?,
            );
        }
        let SessionDirState::Open(folder) = &mut *state else {
            return Err("the session has ended".to_owned());
        };
        let size = bytes.len() as u64;
        if folder.used_bytes.saturating_add(size) > self.options.session_bytes {
            let limit = self.options.session_bytes;
            return Err(format!("the session reached its limit of {limit} bytes for large outputs"));
        }
        folder.write_output(&self.name, bytes).map(|name| path.join(name)).map_err(|error| error.to_string())
    }

    /// Ignores poisoning: no code panics while holding the lock, and the state is always consistent.
    fn lock(&self) -> MutexGuard<'_, SessionDirState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
