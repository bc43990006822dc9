//! A strict parser for our pages: every tag and attribute must be one that our templates use, every URL must be
//! local, and everything else is text. Unlike a browser, it rejects malformed markup.

const ALLOWED_TAGS: &str = "html head meta title link script body a header nav span div main p section article h1 h2 h3 \
    form label input button select option table caption thead tbody tr th td ul ol li dl dt dd code pre b kbd time \
    details summary del ins img footer dialog svg path circle rect polyline";
const ALLOWED_ATTRIBUTES: &str = "lang charset name content rel href type src id class title role aria-label aria-labelledby \
    aria-live aria-hidden aria-current tabindex hidden method action formaction formnovalidate value for required \
    autofocus autocomplete placeholder maxlength disabled selected scope open alt viewBox d cx cy r x y width height \
    points preserveAspectRatio data-at data-live data-keyed data-keyed-rows data-item data-open data-key data-name";
const ALLOWED_ENTITIES: [&str; 4] = ["&amp;", "&lt;", "&gt;", "&quot;"];

/// Parses a page; fails the test at the first unexpected construct.
pub(crate) fn assert_page_is_safe(page: &str) {
    let Some(mut rest) = page.strip_prefix("<!DOCTYPE html>") else { panic!("not a page: {page}") };
    let mut open: Vec<&str> = Vec::new();
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at], page);
        let after = &rest[at + 1..];
        let end = after.find('>').unwrap_or_else(|| panic!("a tag without an end in {page}"));
        let inside = &after[..end];
        rest = &after[end + 1..];
        match inside.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "closing tag does not match: {page}"),
            None => {
                let name = check_tag(inside, page);
                if !["meta", "link", "input", "img"].contains(&name) {
                    open.push(name);
                }
            }
        }
        if open.last() == Some(&"script") {
            assert!(rest.starts_with("</script>"), "a script with contents: {page}");
        }
    }
    check_text(rest, page);
    assert!(open.is_empty(), "{open:?} was not closed in {page}");
}

/// The ASCII letters and digits of a text.
pub(crate) fn letters_only(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// A page with decoded entities.
pub(crate) fn decode_entities(page: &str) -> String {
    page.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Text must not contain control characters, bidirectional overrides or markup characters.
fn check_text(text: &str, page: &str) {
    let tricky = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(tricky), "{text:?} in {page}");
    assert!(!text.contains('>'), "{text:?} in {page}");
    for (at, _) in text.match_indices('&') {
        assert!(ALLOWED_ENTITIES.iter().any(|known| text[at..].starts_with(known)), "{text:?} in {page}");
    }
}

/// Checks a tag with its attributes; returns its name.
fn check_tag<'a>(inside: &'a str, page: &str) -> &'a str {
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    assert!(ALLOWED_TAGS.split_whitespace().any(|known| known == name), "<{inside}> in {page}");
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let attribute = &rest[..end];
        assert!(
            ALLOWED_ATTRIBUTES.split_whitespace().any(|known| known == attribute),
            "{attribute:?} of <{inside}> in {page}"
        );
        rest = &rest[end..];
        let Some(after) = rest.strip_prefix("=\"") else { continue };
        let end = after.find('"').unwrap_or_else(|| panic!("<{inside}> in {page}"));
        let value = &after[..end];
        check_text(value, page);
        if ["href", "src", "action", "formaction"].contains(&attribute) {
            let ours = (value.starts_with('/') && !value.starts_with("//")) || value.starts_with('#');
            assert!(ours, "<{inside}> links to another site");
        }
        rest = &after[end + 1..];
    }
    name
}

/// Parses a drawing: well-formed, with only shapes and text.
pub(crate) fn check_drawing(drawing: &str) {
    let read = roxmltree::Document::parse(drawing).unwrap_or_else(|error| panic!("{error}: {drawing}"));
    for node in read.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            ["svg", "style", "rect", "g", "path", "text", "tspan", "title"].contains(&name),
            "{name} in {drawing}"
        );
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on") && attribute.name() != "href", "{drawing}");
        }
    }
}
