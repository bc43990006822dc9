//! The prepared lines have the intended sizes and are valid events.

use super::{call_pair, test_output};
use flyball::Event;
use serde_json::Value;

#[test]
fn arguments_have_about_200_bytes_and_results_about_1_kb() {
    for content in [0, 1, 500, 9_999] {
        let [requested, finished] = call_pair(content, content, content);
        let requested: Value = serde_json::from_str(&requested).unwrap();
        assert!((180..=240).contains(&requested["args"].to_string().len()), "{}", requested["args"]);
        assert!((950..=1_250).contains(&test_output(content).len()), "{}", test_output(content).len());
        assert!(finished.len() > 1_000);
    }
}

#[test]
fn event_lines_parse_as_events() {
    for line in call_pair(3, 3, 3) {
        assert_eq!(Event::from_json(&line).map(|event| event.session), Ok("bench".to_owned()));
    }
}
