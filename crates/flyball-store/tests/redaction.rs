//! Secrets never reach the disk, and large payloads reach it only as a preview.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

mod common;

use common::{SqliteTestStore, TestStore, recorder};
use flyball::{Decision, PolicySource, Preset};
use flyball_store::RedactingParser;

const CANARY: &str = concat!("ghp_", "0123456789abcdefghij", "ABCDEFGHIJ012345");

#[test]
fn redacted_secret_is_in_no_store_file() {
    let test_store = SqliteTestStore::new("secrets");
    let parser = RedactingParser::new(&PolicySource::preset(Preset::Agent).base().journal).unwrap();
    let recorder = recorder(test_store.open());
    let lines = [
        format!(r#"{{"type":"session.started","session":"s","at":1,"goal":"use {CANARY}"}}"#),
        format!(
            r#"{{"type":"tool.requested","session":"s","at":2,"call":"c","tool":"bash","args":{{"command":"curl -H 'Authorization: Bearer {CANARY}'"}}}}"#
        ),
        format!(
            r#"{{"type":"tool.finished","session":"s","at":3,"call":"c","ok":false,"error":"bad token {CANARY}"}}"#
        ),
        format!(
            r#"{{"type":"confirmation.requested","session":"s","at":4,"question":"Delete with {CANARY}?","plan":[{{"tool":"rm","args":{{"token":"{CANARY}"}}}}]}}"#
        ),
        format!(r#"{{"type":"user.message","session":"s","at":5,"text":"my key is {CANARY}"}}"#),
        format!(r#"{{"type":"human.stopped","session":"s","at":6,"by":"ann","why":"leaked {CANARY}"}}"#),
    ];
    let mut shown = String::new();
    for line in &lines {
        shown.push_str(&recorder.submit(parser.read(line, None).unwrap()).unwrap().to_json());
    }
    assert!(!shown.contains(CANARY));
    let folder = test_store.0.parent().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[test]
fn identifier_containing_a_secret_is_rejected() {
    let parser = RedactingParser::new(&PolicySource::preset(Preset::Agent).base().journal).unwrap();
    for line in [
        format!(r#"{{"type":"user.message","session":"{CANARY}","text":"x"}}"#),
        format!(r#"{{"type":"user.message","session":"s","id":"{CANARY}","text":"x"}}"#),
    ] {
        let error = parser.read(&line, None).unwrap_err();
        assert!(
            error.message.contains("looks like a secret") && !error.message.contains(CANARY),
            "{error:?}"
        );
        assert!(parser.parse_owned(line, None).is_err());
    }
}

#[test]
fn large_payload_is_stored_as_preview_but_decided_in_full() {
    let test_store = SqliteTestStore::new("payload");
    // Two results that differ only after the preview: no loop, although the stored texts are equal.
    let line = |number: u64, end: &str| {
        let output = format!("{}{end}", "x".repeat(50_000));
        [
            format!(
                r#"{{"type":"tool.requested","session":"s","at":{number},"call":"c{number}","tool":"bash","args":{{"command":"cat log"}}}}"#
            ),
            format!(
                r#"{{"type":"tool.finished","session":"s","at":{number},"call":"c{number}","ok":true,"output":"{output}"}}"#
            ),
        ]
    };
    let straight = recorder(common::MemoryTestStore::new().open());
    let mut last: Option<Decision> = None;
    for number in 0..8 {
        for line in line(number, &format!("end {number} of many")) {
            let expected = straight.submit(common::event(&line)).unwrap();
            let answer = recorder(test_store.open()).submit(common::event(&line)).unwrap();
            assert_eq!(answer, expected);
            last = Some(answer);
        }
    }
    assert_eq!(last.unwrap().seq, 16);
    let records = test_store.open().records("s", 2, 2).unwrap();
    let record = records.first().unwrap();
    assert!(!record.is_complete && record.text.len() < 2_000, "{}", record.text.len());
    assert!(record.text.contains(r#""length":500"#), "{}", record.text);
}
