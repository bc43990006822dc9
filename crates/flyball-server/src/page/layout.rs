//! Page layout: head, navigation, notice, keyboard help.

use crate::auth::{AuthMethod, Principal, SessionScope};
use maud::{DOCTYPE, Markup, html};

/// The section highlighted in the navigation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NavSection {
    #[default]
    None,
    Inbox,
    Sessions,
    Health,
}

/// Layout of a page.
#[derive(Debug, Default)]
pub(super) struct PageLayout<'a> {
    pub(super) title: &'a str,
    pub(super) section: NavSection,
    pub(super) principal: Option<&'a Principal>,
    /// Number of waiting sessions, if known.
    pub(super) waiting: Option<usize>,
    /// Result of the last action.
    pub(super) notice: Option<Markup>,
    /// Warnings, for example about missing coverage.
    pub(super) alarm: Option<Markup>,
}

/// Keyboard shortcuts and their effects.
const KEYBOARD_SHORTCUTS: [(&str, &str); 10] = [
    ("j, k", "next, previous"),
    ("Enter", "open"),
    ("a", "approve: focuses the reason; Enter submits"),
    ("d", "deny"),
    ("r", "release 3 more"),
    ("l", "lift a stop"),
    ("s", "stop"),
    ("/", "search"),
    ("g i, g s, g h", "inbox, sessions, health"),
    ("?", "this help"),
];

/// Renders a whole page.
pub(super) fn render_page(frame: &PageLayout<'_>, body: Markup) -> Markup {
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
                a.skip href="#main" { "Skip to content" }
                (page_header(frame))
                main #main tabindex="-1" {
                    @if let Some(alarm) = &frame.alarm { (alarm) }
                    @if let Some(notice) = &frame.notice { p.notice role="status" { (notice) } }
                    (body)
                }
                (shortcuts_dialog())
                footer {
                    p { "Flyball " (env!("CARGO_PKG_VERSION")) ". Press " kbd { "?" } " for keyboard shortcuts." }
                }
            }
        }
    }
}

fn page_header(frame: &PageLayout<'_>) -> Markup {
    let logged_in = frame.principal.is_some();
    let store_wide = frame.principal.is_some_and(|who| who.scope == SessionScope::All);
    html! {
        header.top {
            a.brand href="/" { (logo()) span { "Flyball" } }
            @if logged_in {
                nav aria-label="Pages" {
                    (tab("/", "Inbox", frame.section == NavSection::Inbox, frame.waiting))
                    (tab("/sessions", "Sessions", frame.section == NavSection::Sessions, None))
                    @if store_wide { (tab("/health", "Health", frame.section == NavSection::Health, None)) }
                }
            }
            div.tools {
                span #live-state .live { }
                button #theme type="button" hidden aria-label="Toggle dark mode" { "◐" }
                @if let Some(who) = frame.principal { (account_menu(who)) }
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

fn account_menu(who: &Principal) -> Markup {
    html! {
        span.me.untrusted title=(who.role.as_str()) { (super::text::single_line(&who.name, 40)) }
        @if let AuthMethod::Login { csrf_token, .. } = &who.via {
            form method="post" action="/logout" {
                input type="hidden" name="csrf_token" value=(csrf_token);
                button.quiet type="submit" { "Log out" }
            }
        }
    }
}

/// The logo: two balls on swung-out arms.
fn logo() -> Markup {
    html! {
        svg viewBox="0 0 24 24" aria-hidden="true" {
            path d="M12 3v18M12 5 5 14M12 5l7 9M8 17h8" {}
            circle cx="5" cy="14" r="2.4" {}
            circle cx="19" cy="14" r="2.4" {}
        }
    }
}

fn shortcuts_dialog() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keyboard shortcuts" }
            dl.keys { @for (key, effect) in KEYBOARD_SHORTCUTS { dt { kbd { (key) } } dd { (effect) } } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}
