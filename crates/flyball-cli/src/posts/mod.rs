//! Posts: where Flyball stands guard beside a store, and whether it still does.
//!
//! An agent that means to run away takes its guard down first: it swaps the hook, loosens the policy, kills the proxy.
//! What once stood is noted in the store, so that a restart forgets nothing, and looked at again every second by
//! whoever serves the dashboard. What has fallen stays in sight until it stands again or a person says that it may.

mod folders;
mod processes;

pub(crate) use processes::RegistrationSlot;

use flyball_journal::{Desk, If, Note, StoreError};
use flyball_serve::Post;
use std::path::PathBuf;
use std::sync::Arc;

/// The shelf of the notes.
const SHELF: &str = "posts";
/// How many notes are looked at.
const MOST: usize = 1_000;

/// Looks after the posts of a store.
pub(crate) struct Lookout {
    desk: Arc<dyn Desk>,
    /// The projects whose hooks and policies are watched.
    folders: Vec<PathBuf>,
    /// What stands and was never seen before is noted.
    notes: bool,
}

impl Lookout {
    /// One that notes what it sees.
    pub(crate) fn new(desk: Arc<dyn Desk>, folders: Vec<PathBuf>) -> Self {
        Lookout { desk, folders, notes: true }
    }

    /// One that only compares with what was noted.
    pub(crate) fn glance(desk: Arc<dyn Desk>, folders: Vec<PathBuf>) -> Self {
        Lookout { notes: false, ..Self::new(desk, folders) }
    }

    /// All posts, as they are now.
    pub(crate) fn look(&self) -> Vec<Post> {
        let noted = match self.desk.notes(SHELF, "", MOST) {
            Ok(noted) => noted,
            Err(error) => return vec![Post::fallen("store", self.desk.address(), error.what)],
        };
        if self.notes {
            processes::renew(self.desk.as_ref(), &noted);
        }
        let mut posts: Vec<Post> = processes::look(&noted);
        for mut standing in folders::look(&self.folders, &noted) {
            // Who only compares has looked at the hooks by other means.
            standing.broken &= self.notes;
            let before = noted.iter().find(|note| note.key == standing.key).map(|note| note.text.as_str());
            if let (None, Ok(print), true) = (before, &standing.print, self.notes) {
                // If it cannot be noted now it is seen again in a second.
                let _ = self.desk.put(&note(&standing.key, print.clone()), If::New);
            }
            posts.extend(standing.compared(before));
        }
        posts
    }

    /// What stands now is as it should be: everything that was noted before is forgotten, but for who is at work.
    pub(crate) fn accept(&self) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for old in self.desk.notes(SHELF, "", MOST)? {
            if !processes::is_alive(&old) && self.desk.take(SHELF, &old.key)?.is_some() {
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }
}

fn note(key: &str, text: String) -> Note {
    Note { shelf: SHELF.to_owned(), key: key.to_owned(), text, until: None }
}

/// A post that is told by what it looks like.
struct Standing {
    key: String,
    kind: &'static str,
    name: String,
    /// What it looks like; or why it does not stand.
    print: Result<String, String>,
    /// It is in place and does not work: that is shown even if it was never seen working.
    broken: bool,
    /// What to say if it looks different.
    changed: String,
}

impl Standing {
    /// The post, compared with what was noted; none if it never stood.
    fn compared(self, before: Option<&str>) -> Option<Post> {
        let Standing { kind, name, print, changed, broken, .. } = self;
        Some(match (before, print) {
            (None, Err(why)) if broken => Post::fallen(kind, name, why),
            (None, Err(_)) => return None,
            (Some(before), Ok(now)) if before != now => Post::fallen(kind, name, changed),
            (_, Ok(_)) => Post::standing(kind, name),
            (Some(_), Err(why)) => Post::fallen(kind, name, why),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(print: Result<&str, &str>) -> Standing {
        let print = print.map(str::to_owned).map_err(str::to_owned);
        let (key, name, changed) = ("k".to_owned(), "n".to_owned(), "changed".to_owned());
        Standing { key, kind: "hook", name, print, changed, broken: false }
    }

    #[test]
    fn what_stood_and_is_gone_or_different_has_fallen() {
        let fallen = |print, before| standing(print).compared(before).map(|post| post.fallen);
        assert_eq!(fallen(Ok("a"), None), Some(None));
        assert_eq!(fallen(Ok("a"), Some("a")), Some(None));
        assert_eq!(fallen(Ok("b"), Some("a")), Some(Some("changed".to_owned())));
        assert_eq!(fallen(Err("gone"), Some("a")), Some(Some("gone".to_owned())));
        assert_eq!(fallen(Err("gone"), None), None);
        let broken = Standing { broken: true, ..standing(Err("disabled")) };
        assert_eq!(broken.compared(None).unwrap().fallen, Some("disabled".to_owned()));
    }
}
