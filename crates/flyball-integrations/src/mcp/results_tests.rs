//! Tests of tool results: recorded text, replaced parts and appended notes.

use super::{LargeText, ReplaceOptions, edit_result, result_text};
use crate::json_patch::field;
use serde_json::{Value, json};

fn edit_with(line: &str, note: Option<&str>, threshold: usize, has_schema: bool) -> Option<String> {
    let store = |text: &str| {
        let text = (text.chars().count() > threshold).then(|| text.chars().take(3).collect::<String>())?;
        Some(LargeText { output: json!({"ref": "r", "preview": text}), text: format!("{text}…") })
    };
    edit_result(line, field(line, "result")?, note, &ReplaceOptions { threshold, has_schema, store: &store })
}

fn edit(line: &str, note: Option<&str>) -> Option<String> {
    edit_with(line, note, 10, true)
}

fn result(line: &str) -> Value {
    serde_json::from_str::<Value>(line).expect("JSON")["result"].clone()
}

#[test]
fn large_text_gets_structured_content_unless_the_tool_has_a_schema() {
    let line = r#"{"id":1,"result":{"content":[{"type":"text","text":"a long text is here"}]}}"#;
    let got = edit_with(line, None, 10, false).expect("edited");
    assert_eq!(result(&got)["structuredContent"], json!({"output": {"ref": "r", "preview": "a l"}}));
    assert_eq!(result(&edit(line, None).expect("edited")).get("structuredContent"), None);
    let resource = r#"{"id":1,"result":{"content":[{"type":"resource","resource":{"uri":"x:y","text":"a long text is here"}}]}}"#;
    let got = edit_with(resource, None, 10, false).expect("edited");
    assert_eq!(result(&got)["content"][0]["resource"], json!({"uri": "x:y", "text": "a l…"}));
}

#[test]
fn large_structured_content_is_replaced_or_shortened() {
    let rows: Vec<Value> = (0..400).map(|n| json!({"id": n, "name": "x".repeat(50)})).collect();
    let line = json!({"id": 1, "result": {"structuredContent": {"rows": rows, "total": 400}, "content": [{"type": "text", "text": "400 rows"}]}}).to_string();
    let got = edit_with(&line, Some("n"), 5_000, false).expect("edited");
    assert_eq!(result(&got)["structuredContent"]["output"]["ref"], "r");
    assert_eq!(result(&got)["content"][1]["text"], "n");
    let got = edit_with(&line, None, 5_000, true).expect("edited");
    let structured = &result(&got)["structuredContent"];
    assert_eq!((&structured["total"], structured["rows"][0]["id"].as_u64()), (&json!(400), Some(0)));
    assert!(structured.to_string().len() <= 5_000);
    assert!(result(&got)["content"][1]["text"].as_str().is_some_and(|text| text.contains("shortened")));
    let bare = json!({"id": 1, "result": {"structuredContent": {"text": "y".repeat(9_000)}}}).to_string();
    assert_eq!(
        result(&edit_with(&bare, None, 5_000, false).expect("edited"))["structuredContent"]["output"]["ref"],
        "r"
    );
    let small = json!({"id": 1, "result": {"structuredContent": {"text": "y"}, "content": []}}).to_string();
    assert_eq!(edit_with(&small, None, 5_000, false), None);
}

#[test]
fn editing_changes_only_long_texts_and_the_note() {
    let line = r#"{"result" : {"z":1.0,"content":[{"type":"text","text":"short"}, {"text":"a long text \u00e9","type":"text","_meta":{}}],"isError":false},"id":"x","jsonrpc":"2.0"}"#;
    let want = r#"{"result" : {"z":1.0,"content":[{"type":"text","text":"short"}, {"text":"a l…","type":"text","_meta":{}},{"text":"n","type":"text"}],"isError":false},"id":"x","jsonrpc":"2.0"}"#;
    assert_eq!(edit(line, Some("n")).as_deref(), Some(want));
    assert_eq!(edit(r#"{"id":1,"result":{"content":[{"type":"text","text":"short"}]}}"#, None), None);
}

#[test]
fn result_without_content_is_unchanged() {
    assert_eq!(edit(r#"{"id":1,"result":{"structuredContent":{"a":1}}}"#, Some("n")), None);
    assert_eq!(edit(r#"{"id":1,"result":null}"#, Some("n")), None);
}

#[test]
fn recorded_result_text_is_bounded() {
    assert_eq!(
        result_text(Some(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#), None),
        (true, "a\nb".into())
    );
    assert_eq!(
        result_text(Some(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#), None),
        (false, "no".into())
    );
    assert_eq!(
        result_text(None, Some(r#"{"code":-32602,"message":"Unknown tool"}"#)),
        (false, "Unknown tool".into())
    );
    let long = serde_json::json!({"content": [{"type": "text", "text": "é".repeat(1_000_000)}]}).to_string();
    let other = serde_json::json!({"content": [{"type": "text", "text": "é".repeat(1_000_001)}]}).to_string();
    let (long, other) = (result_text(Some(&long), None).1, result_text(Some(&other), None).1);
    assert!(long.len() < 300_000);
    assert_ne!(long, other, "two long results must stay distinguishable");
}
