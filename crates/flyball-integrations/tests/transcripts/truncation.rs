//! Incomplete files, files read in chunks, and random bytes.

use crate::fixture_files::{fixtures, read_all, read_as};
use flyball::EventKind;
use flyball_integrations::transcript::{CachedTokens, TranscriptEvent, TranscriptFormat};

/// Files up to this size are truncated at every byte; longer ones at this many positions.
const SMALL_FILE_BYTES: usize = 1600;
const CUT_POSITIONS: usize = 250;

/// An event without the fields that may still be added to the last event.
fn bare(item: &TranscriptEvent) -> TranscriptEvent {
    let mut item = item.clone();
    item.event.usage = flyball::Usage::default();
    item.cached = CachedTokens::default();
    item.model = None;
    match &mut item.event.kind {
        EventKind::AssistantMessage { is_final, .. } => *is_final = false,
        EventKind::ToolFinished { duration_ms, .. } => *duration_ms = None,
        _ => {}
    }
    item
}

#[test]
fn truncated_file_yields_the_events_before_the_cut() {
    for fixture in fixtures() {
        let (whole, _) = read_all(&fixture);
        let length = fixture.bytes.len();
        let step = if length <= SMALL_FILE_BYTES { 1 } else { length / CUT_POSITIONS + 1 };
        for cut in (0..fixture.bytes.len()).step_by(step) {
            let part = fixture.bytes.get(..cut).unwrap();
            let place = format!("{} truncated at {cut}", fixture.path.display());
            let (items, summary) = read_as(part, Some(fixture.format), 1 << 16).expect(&place);
            assert!(items.len() <= whole.len(), "{place}: {summary:?}");
            if fixture.format.name().starts_with("otlp") {
                // Spans are emitted in chronological order, so a missing one may leave a gap.
                let known: Vec<TranscriptEvent> = whole.iter().map(bare).collect();
                let strange = items.iter().map(bare).find(|item| {
                    let same = |other: &TranscriptEvent| {
                        other.event.kind == item.event.kind && other.event.at == item.event.at
                    };
                    !known.iter().any(same)
                });
                assert_eq!(strange, None, "{place}");
                continue;
            }
            for (at, (item, wanted)) in items.iter().zip(&whole).enumerate() {
                if at + 1 < items.len() {
                    assert_eq!(item.event.kind, wanted.event.kind, "{place}, event {at}");
                }
                assert_eq!(bare(item).event, bare(wanted).event, "{place}, event {at}");
            }
        }
    }
}

#[test]
fn buffer_size_does_not_change_the_events() {
    for fixture in fixtures() {
        let (whole, all) = read_all(&fixture);
        for capacity in (1..=16).chain([31, 32, 33, 63, 64]) {
            let (items, summary) = read_as(&fixture.bytes, None, capacity).unwrap();
            assert_eq!(items, whole, "{} with capacity {capacity}", fixture.path.display());
            assert_eq!(summary, all, "{} with capacity {capacity}", fixture.path.display());
        }
    }
}

#[test]
fn crlf_and_byte_order_mark_do_not_change_the_events() {
    for fixture in fixtures() {
        let Ok(text) = std::str::from_utf8(&fixture.bytes) else { continue };
        let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let (items, _) = read_as(text.as_bytes(), None, 1 << 16).unwrap();
        assert_eq!(items, read_all(&fixture).0, "{}", fixture.path.display());
    }
}

/// A deterministic pseudorandom number generator.
struct TranscriptRng(u64);

impl TranscriptRng {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }
}

#[test]
fn garbage_input_never_panics() {
    let mut rng = TranscriptRng(0x5eed);
    for round in 0..300 {
        let length = rng.next(400);
        let alphabet = b"{}[]\",:\\tfn0189.e-+ \n\x00\xff\xc3messagestyperolecontent";
        let bytes: Vec<u8> = (0..length).map(|_| alphabet[rng.next(alphabet.len())]).collect();
        for format in TranscriptFormat::ALL {
            let read = read_as(&bytes, Some(format), 1 + rng.next(64));
            assert!(
                read.is_ok() || format == TranscriptFormat::Flyball || is_binary(format),
                "{round} {format:?}: {read:?}"
            );
        }
        let _ = read_as(&bytes, None, 64);
    }
}

#[test]
fn corrupted_fixture_yields_only_valid_events() {
    let mut rng = TranscriptRng(0xf17b);
    for fixture in fixtures() {
        for _ in 0..60 {
            let mut bytes = fixture.bytes.clone();
            for _ in 0..=rng.next(6) {
                let at = rng.next(bytes.len());
                bytes[at] = u8::try_from(rng.next(256)).unwrap();
            }
            for item in read_as(&bytes, Some(fixture.format), 256).map_or_else(|_| Vec::new(), |read| read.0)
            {
                let text = item.event.to_json().to_string();
                assert!(flyball::Event::from_json(&text).is_ok(), "{}: {text}", fixture.path.display());
            }
        }
    }
}

/// Binary formats, for which foreign bytes are an error.
fn is_binary(format: TranscriptFormat) -> bool {
    format.name().ends_with("protobuf")
}
