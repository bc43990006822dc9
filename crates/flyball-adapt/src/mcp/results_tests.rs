//! Results of tools: what is recorded, what is replaced, what is added.

use super::{edited, said};
use crate::mcp::Spill;
use crate::splice::field;

struct Cut;

impl Spill for Cut {
    fn threshold(&self) -> usize {
        10
    }

    fn fit(&self, text: String) -> Option<String> {
        (text.chars().count() > 10).then(|| format!("{}…", text.chars().take(3).collect::<String>()))
    }
}

fn edit(line: &str, note: Option<&str>) -> Option<String> {
    edited(line, field(line, "result")?, note, &Cut)
}

#[test]
fn only_the_long_text_and_the_note_change() {
    let line = r#"{"result" : {"z":1.0,"content":[{"type":"text","text":"short"}, {"text":"a long text \u00e9","type":"text","_meta":{}}],"isError":false},"id":"x","jsonrpc":"2.0"}"#;
    let want = r#"{"result" : {"z":1.0,"content":[{"type":"text","text":"short"}, {"text":"a l…","type":"text","_meta":{}},{"text":"n","type":"text"}],"isError":false},"id":"x","jsonrpc":"2.0"}"#;
    assert_eq!(edit(line, Some("n")).as_deref(), Some(want));
    assert_eq!(edit(r#"{"id":1,"result":{"content":[{"type":"text","text":"short"}]}}"#, None), None);
}

#[test]
fn a_result_without_content_stays_as_it_is() {
    assert_eq!(edit(r#"{"id":1,"result":{"structuredContent":{"a":1}}}"#, Some("n")), None);
    assert_eq!(edit(r#"{"id":1,"result":null}"#, Some("n")), None);
}

#[test]
fn what_was_said_is_recorded_within_bounds() {
    assert_eq!(
        said(Some(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#), None),
        (true, "a\nb".into())
    );
    assert_eq!(
        said(Some(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#), None),
        (false, "no".into())
    );
    assert_eq!(
        said(None, Some(r#"{"code":-32602,"message":"Unknown tool"}"#)),
        (false, "Unknown tool".into())
    );
    let long = serde_json::json!({"content": [{"type": "text", "text": "é".repeat(1_000_000)}]}).to_string();
    let other = serde_json::json!({"content": [{"type": "text", "text": "é".repeat(1_000_001)}]}).to_string();
    let (long, other) = (said(Some(&long), None).1, said(Some(&other), None).1);
    assert!(long.len() < 300_000);
    assert_ne!(long, other, "two long results are told apart");
}
