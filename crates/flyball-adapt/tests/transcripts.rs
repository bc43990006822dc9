//! Transcripts of other tools: every fixture is known for what it is, and becomes exactly the events beside it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "transcripts/bounds.rs"]
mod bounds;
#[path = "transcripts/kit.rs"]
mod kit;
#[path = "transcripts/tails.rs"]
mod tails;

use flyball::Event;
use flyball_adapt::source::{Format, Transcript, detect, read};
use kit::{Fixture, fixtures, read_all, read_as};
use serde_json::{Value, json};
use std::io::BufReader;

/// An event with all that is known of it, as one line.
fn line(item: &flyball_adapt::source::Item) -> String {
    let mut whole = item.event.to_json();
    let map = whole.as_object_mut().unwrap();
    map.insert("line".into(), json!(item.line));
    if let Some(model) = &item.model {
        map.insert("model".into(), json!(&**model));
    }
    if item.cached != flyball_adapt::source::Cached::default() {
        map.insert("cached".into(), json!({"read": item.cached.read, "written": item.cached.written}));
    }
    whole.to_string()
}

#[test]
fn every_fixture_becomes_the_events_beside_it() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let (items, summary) = read_all(&fixture);
        let mut told: Vec<String> = items.iter().map(line).collect();
        told.push(String::new());
        let told = told.join("\n");
        let path = fixture.golden();
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(&path, &told).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != told {
            wrong.push(format!("{}: {summary:?}\n{told}", path.display()));
        }
        assert_eq!(summary.format, fixture.format, "{}", fixture.path.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_format_has_a_run_that_loops_and_is_seen_to() {
    for format in Format::ALL {
        let loops = fixtures()
            .into_iter()
            .filter(|fixture| fixture.format == format && fixture.path.to_string_lossy().contains("loop"));
        let mut any = false;
        for fixture in loops {
            any = true;
            let mut sessions = flyball::Sessions::new(flyball::PolicySource::preset(flyball::Preset::Agent));
            let (items, _) = read_all(&fixture);
            let worst = items.iter().map(|item| sessions.step(&item.event).unwrap().decision).max();
            assert!(worst >= Some(flyball::Verdict::Block), "{}: {worst:?}", fixture.path.display());
        }
        assert!(any, "{} has no looping run", format.name());
    }
}

#[test]
fn good_runs_are_let_through() {
    for fixture in fixtures().iter().filter(|fixture| fixture.path.to_string_lossy().contains("good")) {
        let mut sessions = flyball::Sessions::new(flyball::PolicySource::preset(flyball::Preset::Agent));
        for item in read_all(fixture).0 {
            let decision = sessions.step(&item.event).unwrap();
            assert_eq!(
                decision.decision,
                flyball::Verdict::Allow,
                "{}: {decision:?}",
                fixture.path.display()
            );
        }
    }
}

#[test]
fn every_fixture_is_known_for_what_it_is() {
    for fixture in fixtures() {
        let found = detect(&mut BufReader::with_capacity(1 << 16, fixture.bytes.as_slice()));
        assert_eq!(found, Ok(fixture.format), "{}", fixture.path.display());
    }
}

#[test]
fn what_is_no_transcript_is_told_with_the_way_out() {
    for text in [
        "hello\n",
        "{\"a\":1}\n",
        "[1,2,3]",
        "<html></html>",
        "{\"name\":\"x\",\"version\":\"1.0\",\"type\":\"module\"}",
        "{\"messages\":{\"hello\":\"Hallo\"}}",
        "{\"type\":\"vnd.something\",\"data\":[]}",
        "{\"info\":{\"title\":\"An API\"},\"paths\":{}}",
        "\u{0}\u{1}",
    ] {
        let found = read_as(text.as_bytes(), None, 64);
        let broken = found.expect_err(text);
        assert_eq!(broken.error.code.as_str(), "unknown_format", "{text}");
        assert!(
            broken.error.what.contains("claude-code") && broken.error.what.contains("codex"),
            "{broken:?}"
        );
        assert!(broken.error.advice.contains("--format"), "{broken:?}");
    }
}

#[test]
fn a_first_line_that_is_still_being_written_is_known_as_soon_as_it_shows() {
    for (start, format) in [
        (r#"{"parentUuid":null,"isSidechain":false,"userTy"#, Format::ClaudeCode),
        (r#"{"type":"summary","summary":"x","leafUuid":"1"#, Format::ClaudeCode),
        (r#"{"timestamp":"2026-10-06T09:00:01.500Z","type":"session_meta","payl"#, Format::Codex),
        (r#"{"sessionId":"b1","projectHash":"0f","start"#, Format::Gemini),
        (r#"{"schema_version":"ATIF-v1.6","session_id":"#, Format::Atif),
        (r#"{"resourceSpans":[{"reso"#, Format::OtlpJson),
        (r#"{"type":"tool.requested","cal"#, Format::Flyball),
        ("", Format::Flyball),
        (" \n\n", Format::Flyball),
    ] {
        let (items, summary) = read_as(start.as_bytes(), None, 64).expect(start);
        assert_eq!((items.len(), summary.format), (0, format), "{start}");
        assert_eq!(summary.unfinished, !start.trim().is_empty(), "{start}");
    }
}

#[test]
fn every_name_of_a_format_leads_back_to_it() {
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
        let folder = kit::root().join("fixtures/transcripts").join(format.name());
        assert!(folder.is_dir(), "{} has no fixtures", format.name());
    }
    assert_eq!(Format::from_name("nonsense"), None);
}

#[test]
fn every_event_can_be_written_down_and_read_back() {
    for fixture in fixtures() {
        for item in read_all(&fixture).0 {
            let text = item.event.to_json().to_string();
            let back = Event::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(back.kind, item.event.kind);
            assert_eq!(
                (back.at, back.round, back.usage),
                (item.event.at, item.event.round, item.event.usage)
            );
        }
    }
}

#[test]
fn what_looks_like_a_secret_never_leaves_the_reader() {
    let secret = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    let policy = flyball::Policy::preset(flyball::Preset::Agent);
    let door = flyball_journal::Door::new(&policy.journal).unwrap();
    let mut spoilt = std::collections::BTreeSet::new();
    for Fixture { format, path, bytes } in fixtures() {
        // Inside a text; a binary format has lengths that would no longer fit, and a test of its own.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if !text.contains(" the ") {
            continue;
        }
        let bytes = text.replace(" the ", &format!(" {secret} ")).into_bytes();
        let mut events = String::new();
        let mut input = bytes.as_slice();
        let transcript = Transcript { name: "x", format: Some(format), otherwise: None, input: &mut input };
        flyball_adapt::source::read_behind(transcript, &door, &mut |item| {
            events.push_str(&item.event.to_json().to_string());
            true
        })
        .unwrap();
        if events.contains("[redacted:") {
            spoilt.insert(format);
        }
        assert!(!events.contains(&secret), "{}", path.display());
    }
    assert!(spoilt.len() >= 8, "{spoilt:?}");
}

#[test]
fn what_looks_like_a_secret_is_taken_out_of_binary_traces_too() {
    let fixture =
        fixtures().into_iter().find(|fixture| fixture.path.ends_with("otlp-protobuf/good.pb")).unwrap();
    let mut policy = flyball::Policy::preset(flyball::Preset::Agent);
    policy.journal.patterns = vec!["12 euros".to_owned()];
    let door = flyball_journal::Door::new(&policy.journal).unwrap();
    let mut events = String::new();
    let mut input = fixture.bytes.as_slice();
    let transcript = Transcript { name: "x", format: None, otherwise: None, input: &mut input };
    flyball_adapt::source::read_behind(transcript, &door, &mut |item| {
        events.push_str(&item.event.to_json().to_string());
        true
    })
    .unwrap();
    assert!(events.contains("are open") && !events.contains("12 euros"), "{events}");
}

#[test]
fn whoever_takes_events_can_end_the_reading() {
    for fixture in fixtures() {
        let (all, _) = read_all(&fixture);
        let mut taken = 0;
        let mut input = fixture.bytes.as_slice();
        let transcript =
            Transcript { name: "run", format: Some(fixture.format), otherwise: None, input: &mut input };
        read(transcript, &mut |_| {
            taken += 1;
            taken < 2
        })
        .unwrap();
        assert_eq!(taken, all.len().min(2), "{}", fixture.path.display());
    }
}

#[test]
fn broken_lines_of_other_tools_are_passed_over_and_counted() {
    let counts = |name: &str| {
        let fixture = fixtures().into_iter().find(|fixture| fixture.path.ends_with(name)).expect(name);
        read_all(&fixture).1
    };
    assert_eq!(counts("claude-code/nasty.jsonl").broken, 1);
    assert_eq!(counts("codex/nasty.jsonl").broken, 1);
    assert_eq!(counts("openai-chat/nasty.jsonl").broken, 1);
    assert_eq!(counts("claude-code/good.jsonl").broken, 0);
    // Flyball's own events are not guessed at.
    let own = b"{\"type\":\"compaction\"}\n{\"type\":\"compac\n{\"type\":\"compaction\"}\n";
    let broken = read_as(own, None, 64).expect_err("a broken line");
    assert_eq!((broken.line, broken.error.code.as_str()), (2, "broken_line"));
}

/// Usage of a whole fixture, and how many different models it names.
fn used(name: &str) -> (u64, u64, u64, u64) {
    let fixture = fixtures().into_iter().find(|fixture| fixture.path.ends_with(name)).expect(name);
    read_all(&fixture).0.iter().fold((0, 0, 0, 0), |all, item| {
        let usage = item.event.usage;
        (
            all.0 + usage.tokens_in,
            all.1 + usage.tokens_out,
            all.2 + item.cached.read,
            all.3 + item.cached.written,
        )
    })
}

/// Adds up the numbers at a path of all lines that a rule picks, each only once by a key.
fn sum(name: &str, key: &str, paths: &[&str]) -> u64 {
    let text = std::fs::read_to_string(kit::root().join("fixtures/transcripts").join(name)).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for value in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let Some(id) = value.pointer(key).and_then(Value::as_str) {
            let total = paths.iter().filter_map(|path| value.pointer(path)?.as_u64()).sum::<u64>();
            seen.insert(id.to_owned(), total);
        }
    }
    seen.values().sum()
}

#[test]
fn usage_is_counted_once_an_answer() {
    for name in ["claude-code/good.jsonl", "claude-code/loop.jsonl", "claude-code/nasty.jsonl"] {
        let (tokens_in, tokens_out, read, written) = used(name);
        let usage = "/message/usage/";
        let path = |field: &str| format!("{usage}{field}");
        let (fresh, made, had) =
            (path("input_tokens"), path("cache_creation_input_tokens"), path("cache_read_input_tokens"));
        assert_eq!(tokens_in, sum(name, "/message/id", &[&fresh, &made, &had]), "{name}");
        assert_eq!(tokens_out, sum(name, "/message/id", &[&path("output_tokens")]), "{name}");
        assert_eq!(read, sum(name, "/message/id", &[&had]), "{name}");
        assert_eq!(written, sum(name, "/message/id", &[&made]), "{name}");
    }
    assert_eq!(
        used("codex/good.jsonl"),
        (8200 + 9100 + 9900 + 10300, 240 + 310 + 60 + 40, 8192 + 8960 + 9856, 0)
    );
    assert_eq!(used("codex/nasty.jsonl"), (12_500, 90, 0, 0), "a count that begins anew is added");
    assert_eq!(used("openai-chat/log.jsonl"), (400 + 450 + 30 + 500 + 540, 63, 384 + 448 + 512, 0));
    assert_eq!(used("anthropic/log.jsonl"), (640, 29, 300, 0));
}
