//! Transcript readers: every fixture's format is detected, and its events equal the golden file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "transcripts/fixture_files.rs"]
mod fixture_files;
#[path = "transcripts/oversized.rs"]
mod oversized;
#[path = "transcripts/truncation.rs"]
mod truncation;

use fixture_files::{TranscriptFixture, fixtures, read_all, read_as};
use flyball::Event;
use flyball_integrations::transcript::{Transcript, TranscriptFormat, detect_format, read};
use serde_json::{Value, json};
use std::io::BufReader;

/// An event with all its data on one line.
fn line(item: &flyball_integrations::transcript::TranscriptEvent) -> String {
    let mut whole = item.event.to_json();
    let map = whole.as_object_mut().unwrap();
    map.insert("line".into(), json!(item.line));
    if let Some(model) = &item.model {
        map.insert("model".into(), json!(&**model));
    }
    if item.cached != flyball_integrations::transcript::CachedTokens::default() {
        map.insert("cached".into(), json!({"read": item.cached.read, "written": item.cached.written}));
    }
    whole.to_string()
}

#[test]
fn every_fixture_matches_its_golden_events() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let (items, summary) = read_all(&fixture);
        let mut events_text: Vec<String> = items.iter().map(line).collect();
        events_text.push(String::new());
        let events_text = events_text.join("\n");
        let path = fixture.golden();
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(&path, &events_text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != events_text {
            wrong.push(format!("{}: {summary:?}\n{events_text}", path.display()));
        }
        assert_eq!(summary.format, fixture.format, "{}", fixture.path.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_format_has_a_looping_fixture_that_is_blocked() {
    for format in TranscriptFormat::ALL {
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
fn good_runs_are_allowed() {
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
fn every_fixture_format_is_detected() {
    for fixture in fixtures() {
        let found = detect_format(&mut BufReader::with_capacity(1 << 16, fixture.bytes.as_slice()));
        assert_eq!(found, Ok(fixture.format), "{}", fixture.path.display());
    }
}

#[test]
fn unknown_format_is_rejected_with_help() {
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
            broken.error.message.contains("claude-code") && broken.error.message.contains("codex"),
            "{broken:?}"
        );
        assert!(broken.error.help.contains("--format"), "{broken:?}");
    }
}

#[test]
fn partial_first_line_is_detected() {
    for (start, format) in [
        (r#"{"parentUuid":null,"isSidechain":false,"userTy"#, TranscriptFormat::ClaudeCode),
        (r#"{"type":"summary","summary":"x","leafUuid":"1"#, TranscriptFormat::ClaudeCode),
        (r#"{"timestamp":"2026-10-06T09:00:01.500Z","type":"session_meta","payl"#, TranscriptFormat::Codex),
        (r#"{"sessionId":"b1","projectHash":"0f","start"#, TranscriptFormat::Gemini),
        (r#"{"schema_version":"ATIF-v1.6","session_id":"#, TranscriptFormat::Atif),
        (r#"{"resourceSpans":[{"reso"#, TranscriptFormat::OtlpJson),
        (r#"{"type":"tool.requested","cal"#, TranscriptFormat::Flyball),
        ("", TranscriptFormat::Flyball),
        (" \n\n", TranscriptFormat::Flyball),
    ] {
        let (items, summary) = read_as(start.as_bytes(), None, 64).expect(start);
        assert_eq!((items.len(), summary.format), (0, format), "{start}");
        assert_eq!(summary.unfinished, !start.trim().is_empty(), "{start}");
    }
}

#[test]
fn format_names_round_trip() {
    for format in TranscriptFormat::ALL {
        assert_eq!(TranscriptFormat::from_name(format.name()), Some(format));
        let folder = fixture_files::root().join("fixtures/transcripts").join(format.name());
        assert!(folder.is_dir(), "{} has no fixtures", format.name());
    }
    assert_eq!(TranscriptFormat::from_name("nonsense"), None);
}

#[test]
fn every_event_round_trips_through_json() {
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
fn secrets_are_redacted_while_reading() {
    let secret = format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    let policy = flyball::Policy::preset(flyball::Preset::Agent);
    let redactor = flyball_store::RedactingParser::new(&policy.journal).unwrap();
    let mut spoilt = std::collections::BTreeSet::new();
    for TranscriptFixture { format, path, bytes } in fixtures() {
        // Only for text formats: in a binary format the length fields would no longer match. A separate test covers it.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if !text.contains(" the ") {
            continue;
        }
        let bytes = text.replace(" the ", &format!(" {secret} ")).into_bytes();
        let mut events = String::new();
        let mut input = bytes.as_slice();
        let transcript =
            Transcript { name: "x", format: Some(format), fallback_format: None, input: &mut input };
        flyball_integrations::transcript::read_redacted(transcript, &redactor, &mut |item| {
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
fn secrets_are_redacted_in_protobuf_traces() {
    let fixture =
        fixtures().into_iter().find(|fixture| fixture.path.ends_with("otlp-protobuf/good.pb")).unwrap();
    let mut policy = flyball::Policy::preset(flyball::Preset::Agent);
    policy.journal.patterns = vec!["12 euros".to_owned()];
    let redactor = flyball_store::RedactingParser::new(&policy.journal).unwrap();
    let mut events = String::new();
    let mut input = fixture.bytes.as_slice();
    let transcript = Transcript { name: "x", format: None, fallback_format: None, input: &mut input };
    flyball_integrations::transcript::read_redacted(transcript, &redactor, &mut |item| {
        events.push_str(&item.event.to_json().to_string());
        true
    })
    .unwrap();
    assert!(events.contains("are open") && !events.contains("12 euros"), "{events}");
}

#[test]
fn sink_can_stop_the_reading() {
    for fixture in fixtures() {
        let (all, _) = read_all(&fixture);
        let mut taken = 0;
        let mut input = fixture.bytes.as_slice();
        let transcript = Transcript {
            name: "run",
            format: Some(fixture.format),
            fallback_format: None,
            input: &mut input,
        };
        read(transcript, &mut |_| {
            taken += 1;
            taken < 2
        })
        .unwrap();
        assert_eq!(taken, all.len().min(2), "{}", fixture.path.display());
    }
}

#[test]
fn broken_lines_are_skipped_and_counted() {
    let counts = |name: &str| {
        let fixture = fixtures().into_iter().find(|fixture| fixture.path.ends_with(name)).expect(name);
        read_all(&fixture).1
    };
    assert_eq!(counts("claude-code/nasty.jsonl").broken, 1);
    assert_eq!(counts("codex/nasty.jsonl").broken, 1);
    assert_eq!(counts("openai-chat/nasty.jsonl").broken, 1);
    assert_eq!(counts("claude-code/good.jsonl").broken, 0);
    // Flyball's own events are parsed strictly.
    let own = b"{\"type\":\"compaction\"}\n{\"type\":\"compac\n{\"type\":\"compaction\"}\n";
    let broken = read_as(own, None, 64).expect_err("a broken line");
    assert_eq!((broken.line, broken.error.code.as_str()), (2, "invalid_json"));
}

/// Token usage of a whole fixture, and the number of distinct models.
fn fixture_usage(name: &str) -> (u64, u64, u64, u64) {
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

/// Sums the numbers at `paths` over all lines, counting each `key` once.
fn sum(name: &str, key: &str, paths: &[&str]) -> u64 {
    let text =
        std::fs::read_to_string(fixture_files::root().join("fixtures/transcripts").join(name)).unwrap();
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
fn usage_is_counted_once_per_answer() {
    for name in ["claude-code/good.jsonl", "claude-code/loop.jsonl", "claude-code/nasty.jsonl"] {
        let (tokens_in, tokens_out, read, written) = fixture_usage(name);
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
        fixture_usage("codex/good.jsonl"),
        (8200 + 9100 + 9900 + 10300, 240 + 310 + 60 + 40, 8192 + 8960 + 9856, 0)
    );
    assert_eq!(fixture_usage("codex/nasty.jsonl"), (12_500, 90, 0, 0), "a restarted count is added");
    assert_eq!(fixture_usage("openai-chat/log.jsonl"), (400 + 450 + 30 + 500 + 540, 63, 384 + 448 + 512, 0));
    assert_eq!(fixture_usage("anthropic/log.jsonl"), (640, 29, 300, 0));
}
