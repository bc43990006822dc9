//! A strict reader of our pages: every tag and every attribute must be one that our templates use, every address must
//! be ours, and whatever is between is text. What a browser would forgive is refused here.

const TAGS: &str = "html head meta title link script body a header nav span div main p section article h1 h2 h3 \
    form label input button select option table caption thead tbody tr th td ul ol li dl dt dd code pre b kbd time \
    details summary del ins img footer dialog svg path circle rect polyline";
const ATTRIBUTES: &str = "lang charset name content rel href type src id class title role aria-label aria-labelledby \
    aria-live aria-hidden aria-current tabindex hidden method action formaction formnovalidate value for required \
    autofocus autocomplete placeholder maxlength disabled selected scope open alt viewBox d cx cy r x y width height \
    points preserveAspectRatio data-live data-keyed data-keyed-rows data-item data-open data-key data-name";
const ENTITIES: [&str; 4] = ["&amp;", "&lt;", "&gt;", "&quot;"];

/// Reads a page; stops the test at the first thing that is not ours.
pub(crate) fn check(page: &str) {
    let Some(mut rest) = page.strip_prefix("<!DOCTYPE html>") else { panic!("no page: {page}") };
    let mut open: Vec<&str> = Vec::new();
    while let Some(at) = rest.find('<') {
        text(&rest[..at], page);
        let after = &rest[at + 1..];
        let end = after.find('>').unwrap_or_else(|| panic!("a tag without an end in {page}"));
        let inside = &after[..end];
        rest = &after[end + 1..];
        match inside.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "what is closed was opened: {page}"),
            None => {
                let name = tag(inside, page);
                if !["meta", "link", "input", "img"].contains(&name) {
                    open.push(name);
                }
            }
        }
        if open.last() == Some(&"script") {
            assert!(rest.starts_with("</script>"), "a script with contents: {page}");
        }
    }
    text(rest, page);
    assert!(open.is_empty(), "{open:?} was not closed in {page}");
}

/// The letters of a text, whatever signs are between them.
pub(crate) fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// A page as it is read by a person: signs as signs.
pub(crate) fn read(page: &str) -> String {
    page.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Text: no control character, nothing that turns writing around, no sign that stands for markup.
fn text(text: &str, page: &str) {
    let tricky = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(tricky), "{text:?} in {page}");
    assert!(!text.contains('>'), "{text:?} in {page}");
    for (at, _) in text.match_indices('&') {
        assert!(ENTITIES.iter().any(|known| text[at..].starts_with(known)), "{text:?} in {page}");
    }
}

/// A tag with its attributes; gives its name.
fn tag<'a>(inside: &'a str, page: &str) -> &'a str {
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    assert!(TAGS.split_whitespace().any(|known| known == name), "<{inside}> in {page}");
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let attribute = &rest[..end];
        assert!(
            ATTRIBUTES.split_whitespace().any(|known| known == attribute),
            "{attribute:?} of <{inside}> in {page}"
        );
        rest = &rest[end..];
        let Some(after) = rest.strip_prefix("=\"") else { continue };
        let end = after.find('"').unwrap_or_else(|| panic!("<{inside}> in {page}"));
        let value = &after[..end];
        text(value, page);
        if ["href", "src", "action", "formaction"].contains(&attribute) {
            let ours = (value.starts_with('/') && !value.starts_with("//")) || value.starts_with('#');
            assert!(ours, "<{inside}> leads away");
        }
        rest = &after[end + 1..];
    }
    name
}

/// Reads a drawing: well formed, and only shapes and text in it.
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
