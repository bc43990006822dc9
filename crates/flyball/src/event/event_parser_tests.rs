//! Tests that the fast path and the general parser agree.

use super::super::value_fingerprint;
use super::*;

/// The results of both parsers, with the remaining fields.
fn parse_both_ways(line: &str) -> [Option<(EventKind, EventFields<'_>)>; 2] {
    let Ok(mut quick) = parse_fields(line) else { return [None, None] };
    let Some(Value::String(name)) = quick.remove("type") else { return [None, None] };
    let mut slow = quick.clone();
    let first = super::super::fast_path::parse_tool_event(&name, &mut quick);
    let second = parse_kind(&name, &mut slow, fields_of(&name).unwrap_or_default()).ok();
    [first.map(|kind| (kind, quick)), second.map(|kind| (kind, slow))]
}

/// A line with this many extra fields.
fn line_with_extra_fields(count: usize) -> String {
    let more: Vec<String> = (0..count).map(|at| format!("\"x{}\":{at}", (at * 7919) % count)).collect();
    format!("{{\"type\":\"compaction\",{},\"id\":\"e1\",\"at\":7}}", more.join(","))
}

#[test]
fn fields_match_the_json_map_for_any_count() {
    for count in [1, 8, 29, 30, 31, 100, 1_000] {
        let line = line_with_extra_fields(count);
        let Ok(Value::Object(mut map)) = parse_bounded_json(&line) else { panic!("{line}") };
        assert_eq!(parse_fields(&line).unwrap().into_map(), map);
        let read = parse_event(&line).unwrap();
        for own in ["id", "at"] {
            map.remove(own);
        }
        let id = EventId { id: "e1".to_owned(), body: value_fingerprint(&Value::Object(map.clone())) };
        assert_eq!((read.id, read.at), (Some(id), Some(7)));
        map.remove("type");
        assert_eq!(read.extra, map);
    }
}

#[test]
fn duplicate_key_is_found_for_any_field_count() {
    for count in [1, 40, 1_000] {
        for twice in ["x0", "type", "\\u0078\\u0030"] {
            let line = line_with_extra_fields(count).replace("\"id\"", &format!("\"{twice}\""));
            assert_eq!(parse_event(&line).unwrap_err().code, ErrorCode::DuplicateKey, "{line}");
        }
    }
}

#[test]
fn fast_path_matches_the_full_parser_or_declines() {
    let values = ["null", "true", "7", "7.0", "-7", "\"x\"", "\"\"", "[1]", "{\"a\":[null,1.5]}"];
    let long = format!("\"{}\"", "n".repeat(NAME_BYTES + 1));
    let mut quick = 0;
    for kind in ["tool.requested", "tool.finished"] {
        for field in ["call", "tool", "args", "ok", "output", "error", "duration_ms", "other"] {
            for value in values.iter().copied().chain([long.as_str()]) {
                for rest in [r#","call":"c1","tool":"bash""#, r#","call":"c1""#, r#","tool":"bash""#, ""] {
                    if rest.contains(&format!("\"{field}\"")) {
                        continue;
                    }
                    let line = format!("{{\"type\":\"{kind}\",\"{field}\":{value}{rest}}}");
                    let [first, second] = parse_both_ways(&line);
                    quick += usize::from(first.is_some());
                    assert!(first.is_none() || first == second, "{line}: {first:?} and {second:?}");
                }
            }
        }
    }
    assert!(quick > 150, "the fast path was taken {quick} times");
}
