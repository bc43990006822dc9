//! The HTML report: well-formed, self-contained, and safe against hostile transcript content.

use crate::audit_harness::{HistoryBuilder, flyball, mixed_histories, test_dir};
use roxmltree::{Document, ParsingOptions};
use std::fs;
use std::path::Path;

fn html_page(folder: &Path) -> String {
    let ran = flyball(folder, &["audit", "runs", "--html", "report.html"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs::read_to_string(folder.join("report.html")).unwrap()
}

fn parse_html(text: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn tag_texts(document: &Document<'_>, tag: &str) -> Vec<String> {
    let all = document.descendants().filter(|node| node.has_tag_name(tag));
    all.map(|node| node.descendants().filter_map(|inner| inner.text().filter(|_| inner.is_text())).collect())
        .collect()
}

/// Tags that the report may contain.
const ALLOWED_TAGS: [&str; 48] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "section",
    "div",
    "p",
    "h1",
    "h2",
    "b",
    "i",
    "span",
    "ul",
    "li",
    "dl",
    "dt",
    "dd",
    "code",
    "pre",
    "details",
    "summary",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "svg",
    "g",
    "rect",
    "circle",
    "path",
    "text",
    "title",
    "br",
    "em",
    "strong",
    "ol",
    "small",
    "hr",
    "figure",
    "figcaption",
];

/// Checks that the report contains no scripts and loads nothing.
fn assert_no_active_content(text: &str) {
    let document = parse_html(text);
    for node in document.descendants().filter(|node| node.is_element()) {
        assert!(ALLOWED_TAGS.contains(&node.tag_name().name()), "{}", node.tag_name().name());
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(
                !name.starts_with("on") && !["href", "src", "style", "action"].contains(&name),
                "{name}={value}"
            );
        }
    }
    for away in ["http://", "https://", "url(", "@import", "javascript:", "<script", "<iframe", "<img"] {
        assert!(!text.contains(away), "{away}");
    }
    assert!(text.contains("default-src 'none'"), "the browser enforces it too");
}

#[test]
fn page_is_well_formed_and_self_contained() {
    let text = html_page(&mixed_histories("page"));
    assert_no_active_content(&text);
    let document = parse_html(&text);
    let [headline] = &tag_texts(&document, "h1")[..] else { panic!("one headline") };
    assert_eq!(headline, "2 of 5 agent runs went in circles. Stopping them in time would have saved $0.16.");
    let sections = tag_texts(&document, "h2");
    assert_eq!(
        sections,
        [
            "Waste by tool",
            "Day by day",
            "The 2 worst loops",
            "Kinds of loops",
            "Possible false alarms",
            "Turn it on",
            "How this was counted"
        ]
    );
    assert!(tag_texts(&document, "dd").iter().any(|text| text == "runs/a/long.jsonl:17"));
    assert!(text.contains("prefers-color-scheme: dark") && text.contains("@media print"));
    // Every chart has its numbers next to it as text.
    for svg in document.descendants().filter(|node| node.has_tag_name("svg")) {
        let hidden = svg.attribute("aria-hidden") == Some("true");
        assert!(hidden || svg.attribute("role") == Some("img") && svg.has_attribute("aria-label"));
    }
    for table in document.descendants().filter(|node| node.has_tag_name("table")) {
        assert!(table.descendants().any(|node| node.has_tag_name("caption")));
        assert!(
            table
                .descendants()
                .filter(|node| node.has_tag_name("th"))
                .all(|node| node.has_attribute("scope"))
        );
    }
}

#[test]
fn transcript_text_is_escaped() {
    let folder = test_dir("injection");
    let payloads = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</style><script>alert(2)</script>",
        "]]><x/>&amp;&lt;&#60;script&#62;",
        "' onmouseover='alert(3)",
        "<!-- --><svg onload=alert(4)>\u{0}\u{1b}[31m\u{202e}gnp.exe",
    ];
    for (at, payload) in payloads.iter().enumerate() {
        let mut history = HistoryBuilder::new(&format!("{payload} {at}"), 0);
        for _ in 0..9 {
            history.call(payload, payload, "no");
        }
        history.save(&folder, &format!("<b>{at}&.jsonl"));
    }
    let text = html_page(&folder);
    assert_no_active_content(&text);
    let document = parse_html(&text);
    let shown = tag_texts(&document, "summary");
    let script =
        shown.iter().find(|text| text.contains("<script>alert(1)</script>")).expect("it is shown verbatim");
    assert!(script.contains("alert(1)"));
    assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}') && !text.contains('\u{0}'));
    assert!(tag_texts(&document, "dd").iter().any(|text| text.contains("<b>0&.jsonl:")));
}

#[test]
fn page_overwrites_only_an_older_page() {
    let folder = mixed_histories("replaced");
    html_page(&folder);
    html_page(&folder);
    let transcript = folder.join("runs/waits.jsonl");
    let before = fs::read(&transcript).unwrap();
    let ran = flyball(&folder, &["audit", "runs", "--html", "runs/waits.jsonl"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("error[file_exists]: runs/waits.jsonl"), "{}", ran.err);
    assert_eq!(fs::read(&transcript).unwrap(), before);
    let ran = flyball(&folder, &["audit", "runs", "--html", "no/such/folder.html"], &[]);
    assert!(ran.code == 1 && ran.err.contains("error[cannot_write]"), "{}", ran.err);
}

#[test]
fn empty_and_healthy_histories_produce_a_page() {
    let folder = test_dir("empty-page");
    let text = html_page(&folder);
    assert_no_active_content(&text);
    assert_eq!(tag_texts(&parse_html(&text), "h1"), ["No transcripts found."]);
    HistoryBuilder::new("fine", 0).useful_calls(5).save(&folder, "fine.jsonl");
    let text = html_page(&folder);
    assert_no_active_content(&text);
    assert_eq!(tag_texts(&parse_html(&text), "h1"), ["The only run did not loop."]);
}
