//! Posts: where Flyball stands guard, and which of them have fallen, as the page shows them.

use crate::office::Shared;
use maud::{Markup, html};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the posts are looked at.
const GLANCE: Duration = Duration::from_secs(1);

/// A place where Flyball stands guard: a hook, a policy, a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// What it is.
    pub kind: String,
    /// Which one.
    pub name: String,
    /// Why it does not stand any more.
    pub fallen: Option<String>,
}

impl Post {
    /// One that stands.
    pub fn standing(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Post { kind: kind.into(), name: name.into(), fallen: None }
    }

    /// One that has fallen.
    pub fn fallen(kind: impl Into<String>, name: impl Into<String>, why: impl Into<String>) -> Self {
        Post { fallen: Some(why.into()), ..Self::standing(kind, name) }
    }
}

/// Looks at all posts.
pub type Lookout = Box<dyn Fn() -> Vec<Post> + Send + Sync>;

/// The posts, as they were seen last.
#[derive(Default)]
pub(crate) struct Posts {
    lookout: Option<Lookout>,
    last: Mutex<Vec<Post>>,
}

impl Posts {
    /// With somebody who looks at them.
    pub(crate) fn new(lookout: Option<Lookout>) -> Self {
        Posts { lookout, last: Mutex::default() }
    }

    /// All of them, as they were seen last.
    pub(crate) fn all(&self) -> Vec<Post> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many have fallen.
    pub(crate) fn fallen(&self) -> usize {
        self.all().iter().filter(|post| post.fallen.is_some()).count()
    }

    /// What every page says as long as one has fallen.
    pub(crate) fn alarm(&self) -> Markup {
        let posts = self.all();
        let fallen: Vec<&Post> = posts.iter().filter(|post| post.fallen.is_some()).collect();
        html! {
            div #alarm data-live {
                @if let [first, others @ ..] = fallen.as_slice() {
                    p.alarm role="alert" {
                        strong { "A guard is down: " }
                        span.untrusted { (first.kind) ", " (first.name) }
                        ". "
                        @if !others.is_empty() { (others.len()) " more. " }
                        a href="/health#posts" { "Look" }
                    }
                }
            }
        }
    }

    /// Looks again; gives those that have fallen since.
    fn look(&self) -> Vec<Post> {
        let Some(lookout) = &self.lookout else { return Vec::new() };
        let now = lookout();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let news = now.iter().filter(|post| post.fallen.is_some() && !last.contains(post)).cloned().collect();
        *last = now;
        news
    }
}

/// Looks after the posts for as long as the server runs.
pub(crate) async fn watch(office: Shared) {
    loop {
        let looker = Shared::clone(&office);
        let fallen = tokio::task::spawn_blocking(move || looker.posts.look()).await.unwrap_or_default();
        for post in fallen {
            let what = format!("{}, {}: {}", post.kind, post.name, post.fallen.unwrap_or_default());
            office.signals.log.trouble("posts", "post_fallen", &what);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_post_that_falls_is_news_once_and_an_alarm_until_it_stands() {
        let seen = Arc::new(Mutex::new(vec![Post::standing("hook", "one")]));
        let posts = Posts::new(Some(Box::new({
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().clone()
        })));
        let alarm = || posts.alarm().into_string().contains("A guard is down");
        assert_eq!((posts.look(), alarm()), (Vec::new(), false));
        *seen.lock().unwrap() = vec![Post::fallen("hook", "<b>one", "gone")];
        assert_eq!((posts.look().len(), posts.look().len(), alarm()), (1, 0, true));
        assert!(!posts.alarm().into_string().contains("<b>"));
        *seen.lock().unwrap() = vec![Post::standing("hook", "one")];
        assert_eq!((posts.look().len(), posts.fallen(), alarm()), (0, 0, false));
    }
}
