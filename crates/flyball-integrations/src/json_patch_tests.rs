//! Text is inserted into JSON and every other byte is kept.

use super::{append_text, field, last_element};
use serde_json::{Value, json};

fn added(body: &str, list: &str) -> Option<String> {
    let message = last_element(field(body, list)?)?;
    let part = json!({"type": "text", "text": "a \"note\""});
    append_text(body, field(message, "content")?, "a \"note\"", &part)
        .map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

#[test]
fn text_is_appended_and_other_bytes_are_unchanged() {
    let body = r#"{"z": 1.50, "messages" : [ {"content":"first"}, {"role":"user","content":"h\u00e9\"y"} ] , "a":1e2}"#;
    let want = r#"{"z": 1.50, "messages" : [ {"content":"first"}, {"role":"user","content":"h\u00e9\"y\n\na \"note\""} ] , "a":1e2}"#;
    assert_eq!(added(body, "messages").as_deref(), Some(want));
}

#[test]
fn list_gets_one_more_element() {
    let body = r#"{"messages":[{"content":[ {"b":1,"a":2} ]}]}"#;
    let want = r#"{"messages":[{"content":[ {"b":1,"a":2} ,{"text":"a \"note\"","type":"text"}]}]}"#;
    assert_eq!(added(body, "messages").as_deref(), Some(want));
    let empty = added(r#"{"messages":[{"content":[ ]}]}"#, "messages").expect("an insertion point");
    assert!(serde_json::from_str::<Value>(&empty).is_ok(), "{empty}");
}

#[test]
fn missing_content_is_left_unchanged() {
    assert_eq!(added(r#"{"messages":[{"content":null}]}"#, "messages"), None);
    assert_eq!(added(r#"{"messages":[]}"#, "messages"), None);
    assert_eq!(added(r#"{"other":1}"#, "messages"), None);
    assert_eq!(added("not json", "messages"), None);
}
