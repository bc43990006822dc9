//! Values larger than an event allows are truncated; they are never lost and never fatal.

use crate::fixture_files::read_as;
use flyball::limits::EVENT_BYTES;
use flyball::{Event, EventKind, PolicySource, Preset, Sessions, Verdict};
use flyball_integrations::transcript::TranscriptFormat;
use serde_json::json;

fn call(number: u32, args: &serde_json::Value, output: &str) -> String {
    let id = format!("toolu_{number}");
    let ask = json!({"type": "assistant", "sessionId": "s", "uuid": format!("a{number}"), "message": {
        "id": format!("msg_{number}"), "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": args}]}});
    let end = json!({"type": "user", "sessionId": "s", "uuid": format!("u{number}"), "message": {
        "role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}});
    format!("{ask}\n{end}\n")
}

fn decisions(text: &str) -> Vec<Verdict> {
    let (items, summary) = read_as(text.as_bytes(), Some(TranscriptFormat::ClaudeCode), 1 << 16).unwrap();
    assert_eq!(summary.broken, 0);
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    items
        .iter()
        .map(|item| {
            let line = item.event.to_json().to_string();
            assert!(line.len() <= EVENT_BYTES, "{} bytes", line.len());
            let event = Event::from_json(&line).expect("a serializable event");
            sessions.step(&event).expect("a decision").decision
        })
        .collect()
}

#[test]
fn huge_results_are_compared_by_their_whole_content() {
    let huge = "x".repeat(2200 * 1024);
    let same: String = (0..7).map(|number| call(number, &json!({"command": "make"}), &huge)).collect();
    assert!(decisions(&same).contains(&Verdict::Block));
    let differs: String = (0..7)
        .map(|number| {
            let tail = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"][number as usize];
            call(number, &json!({"command": "make"}), &format!("{huge}{tail}"))
        })
        .collect();
    assert!(decisions(&differs).iter().all(|verdict| *verdict == Verdict::Allow));
}

#[test]
fn result_that_grows_when_escaped_still_fits() {
    let huge = "\u{1}".repeat(2 * 1024 * 1024);
    assert_eq!(decisions(&call(1, &json!({"command": huge}), &huge)), [Verdict::Allow, Verdict::Allow]);
}

#[test]
fn oversized_arguments_are_kept_as_text() {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let large = json!({"content": "y".repeat(3 * 1024 * 1024)});
    for args in [deep, large] {
        let text = call(1, &args, "ok");
        decisions(&text);
        let (items, _) = read_as(text.as_bytes(), Some(TranscriptFormat::ClaudeCode), 1 << 16).unwrap();
        assert!(matches!(&items[0].event.kind, EventKind::ToolRequested { args, .. } if !args.is_null()));
    }
}

#[test]
fn long_names_are_truncated_and_stay_distinct() {
    let name = |tail: &str| format!("{}{tail}", "n".repeat(2000));
    let line = |tail: &str| {
        json!({"type": "assistant", "sessionId": name(tail), "uuid": "u", "message": {"id": "m", "content":
            [{"type": "tool_use", "id": name(tail), "name": name(tail), "input": {}}]}})
        .to_string()
    };
    let text = format!("{}\n{}\n", line("a"), line("b"));
    decisions(&text);
    let (items, _) = read_as(text.as_bytes(), Some(TranscriptFormat::ClaudeCode), 1 << 16).unwrap();
    assert_ne!(items[0].event.session, items[1].event.session);
    assert_ne!(items[0].event.kind, items[1].event.kind);
}

#[test]
fn overlong_line_is_skipped() {
    let mut text = call(1, &json!({"command": "ls"}), "ok").into_bytes();
    text.extend_from_slice(br#"{"type":"user","sessionId":"s","message":{"content":""#);
    text.resize(text.len() + 70 * 1024 * 1024, b'x');
    text.extend_from_slice(b"\"}}\n");
    text.extend_from_slice(call(2, &json!({"command": "pwd"}), "ok").as_bytes());
    let (items, summary) = read_as(&text, None, 1 << 16).unwrap();
    assert_eq!((items.len(), summary.broken, summary.lines), (4, 1, 5));
}
