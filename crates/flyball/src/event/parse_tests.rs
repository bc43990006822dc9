//! Two ways to read an event, and whether they agree.

use super::super::value_fingerprint;
use super::*;

/// What both ways make of an event, and what they leave over.
fn both(line: &str) -> [Option<(Kind, Fields<'_>)>; 2] {
    let Ok(mut quick) = fields(line) else { return [None, None] };
    let Some(Value::String(name)) = quick.remove("type") else { return [None, None] };
    let mut slow = quick.clone();
    let first = super::super::quick::take(&name, &mut quick);
    let second = slowly(&name, &mut slow, fields_of(&name).unwrap_or_default()).ok();
    [first.map(|kind| (kind, quick)), second.map(|kind| (kind, slow))]
}

/// A line with so many fields besides its own.
fn with_more(count: usize) -> String {
    let more: Vec<String> = (0..count).map(|at| format!("\"x{}\":{at}", (at * 7919) % count)).collect();
    format!("{{\"type\":\"compaction\",{},\"id\":\"e1\",\"at\":7}}", more.join(","))
}

#[test]
fn fields_are_those_of_the_map_however_many_there_are() {
    for count in [1, 8, 29, 30, 31, 100, 1_000] {
        let line = with_more(count);
        let Ok(Value::Object(mut map)) = checked(&line) else { panic!("{line}") };
        assert_eq!(fields(&line).unwrap().into_map(), map);
        let read = event(&line).unwrap();
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
fn a_key_that_stands_twice_is_found_however_many_there_are() {
    for count in [1, 40, 1_000] {
        for twice in ["x0", "type", "\\u0078\\u0030"] {
            let line = with_more(count).replace("\"id\"", &format!("\"{twice}\""));
            assert_eq!(event(&line).unwrap_err().code, Code::DuplicateKey, "{line}");
        }
    }
}

#[test]
fn the_quick_way_gives_what_the_long_way_gives_or_nothing() {
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
                    let [first, second] = both(&line);
                    quick += usize::from(first.is_some());
                    assert!(first.is_none() || first == second, "{line}: {first:?} and {second:?}");
                }
            }
        }
    }
    assert!(quick > 150, "the quick way was taken {quick} times");
}
