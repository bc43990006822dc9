//! Words put into a JSON text, with every other byte as it was.

use super::{add, field, last};
use serde_json::{Value, json};

fn added(body: &str, list: &str) -> Option<String> {
    let message = last(field(body, list)?)?;
    let part = json!({"type": "text", "text": "a \"note\""});
    add(body, field(message, "content")?, "a \"note\"", &part)
        .map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

#[test]
fn a_text_gets_the_words_at_its_end_and_nothing_else_changes() {
    let body = r#"{"z": 1.50, "messages" : [ {"content":"first"}, {"role":"user","content":"h\u00e9\"y"} ] , "a":1e2}"#;
    let want = r#"{"z": 1.50, "messages" : [ {"content":"first"}, {"role":"user","content":"h\u00e9\"y\n\na \"note\""} ] , "a":1e2}"#;
    assert_eq!(added(body, "messages").as_deref(), Some(want));
}

#[test]
fn a_list_gets_one_more_part() {
    let body = r#"{"messages":[{"content":[ {"b":1,"a":2} ]}]}"#;
    let want = r#"{"messages":[{"content":[ {"b":1,"a":2} ,{"text":"a \"note\"","type":"text"}]}]}"#;
    assert_eq!(added(body, "messages").as_deref(), Some(want));
    let empty = added(r#"{"messages":[{"content":[ ]}]}"#, "messages").expect("a place");
    assert!(serde_json::from_str::<Value>(&empty).is_ok(), "{empty}");
}

#[test]
fn where_there_is_no_place_nothing_is_added() {
    assert_eq!(added(r#"{"messages":[{"content":null}]}"#, "messages"), None);
    assert_eq!(added(r#"{"messages":[]}"#, "messages"), None);
    assert_eq!(added(r#"{"other":1}"#, "messages"), None);
    assert_eq!(added("not json", "messages"), None);
}
