//! What is around every page: the head, the places to go, the notice of what was done, the help.

use crate::who::{Principal, Scope, Via};
use maud::{DOCTYPE, Markup, html};

/// Which of the places is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    None,
    Inbox,
    Sessions,
    Health,
}

/// What is around a page.
#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) place: Place,
    pub(super) who: Option<&'a Principal>,
    /// How many wait for a person, if that was looked up.
    pub(super) waiting: Option<usize>,
    /// What was done a moment ago.
    pub(super) notice: Option<Markup>,
    /// Which guards are down.
    pub(super) alarm: Option<Markup>,
}

/// The keys, and what they do.
const KEYS: [(&str, &str); 10] = [
    ("j, k", "next, previous"),
    ("Enter", "open"),
    ("a", "approve: to its reason; Enter does it"),
    ("d", "deny"),
    ("r", "release 3 more"),
    ("l", "lift a stop"),
    ("s", "stop"),
    ("/", "search"),
    ("g i, g s, g h", "inbox, sessions, health"),
    ("?", "this help"),
];

/// The whole page.
pub(super) fn page(frame: &Frame<'_>, body: Markup) -> Markup {
    let count = frame.waiting.filter(|count| *count > 0).map(|count| format!("({count}) "));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (count.unwrap_or_default()) (frame.title) " · Flyball" }
                link rel="icon" href="/assets/mark.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/app.js" {}
            }
            body {
                a.skip href="#main" { "To the contents" }
                (top(frame))
                main #main tabindex="-1" {
                    @if let Some(alarm) = &frame.alarm { (alarm) }
                    @if let Some(notice) = &frame.notice { p.notice role="status" { (notice) } }
                    (body)
                }
                (help())
                footer {
                    p { "Flyball " (env!("CARGO_PKG_VERSION")) ". Press " kbd { "?" } " for the keys." }
                }
            }
        }
    }
}

fn top(frame: &Frame<'_>) -> Markup {
    let inside = frame.who.is_some();
    let whole = frame.who.is_some_and(|who| who.scope == Scope::All);
    html! {
        header.top {
            a.brand href="/" { (mark()) span { "Flyball" } }
            @if inside {
                nav aria-label="Pages" {
                    (tab("/", "Inbox", frame.place == Place::Inbox, frame.waiting))
                    (tab("/sessions", "Sessions", frame.place == Place::Sessions, None))
                    @if whole { (tab("/health", "Health", frame.place == Place::Health, None)) }
                }
            }
            div.tools {
                span #live-state .live { }
                button #theme type="button" hidden aria-label="Dark or light" { "◐" }
                @if let Some(who) = frame.who { (me(who)) }
            }
        }
    }
}

fn tab(href: &str, name: &str, here: bool, count: Option<usize>) -> Markup {
    html! {
        a href=(href) aria-current=[here.then_some("page")] {
            (name)
            @if let Some(count) = count {
                " " span #waiting .count.none[count == 0] { (count) }
            }
        }
    }
}

fn me(who: &Principal) -> Markup {
    html! {
        span.me.untrusted title=(who.role.as_str()) { (super::text::line(&who.name, 40)) }
        @if let Via::Login { word, .. } = &who.via {
            form method="post" action="/logout" {
                input type="hidden" name="word" value=(word);
                button.quiet type="submit" { "Log out" }
            }
        }
    }
}

/// The mark: two balls on their arms, swung out.
fn mark() -> Markup {
    html! {
        svg viewBox="0 0 24 24" aria-hidden="true" {
            path d="M12 3v18M12 5 5 14M12 5l7 9M8 17h8" {}
            circle cx="5" cy="14" r="2.4" {}
            circle cx="19" cy="14" r="2.4" {}
        }
    }
}

fn help() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}
