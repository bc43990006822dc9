//! Files that are still being written, files that come in pieces, and files that are no files at all.

use crate::kit::{fixtures, read_all, read_as};
use flyball::Kind;
use flyball_adapt::source::{Cached, Format, Item};

/// Files up to this size are cut at every byte; longer ones at so many places.
const SMALL: usize = 1600;
const PLACES: usize = 250;

/// An event without what may still be added to the last one.
fn bare(item: &Item) -> Item {
    let mut item = item.clone();
    item.event.usage = flyball::Usage::default();
    item.cached = Cached::default();
    item.model = None;
    match &mut item.event.kind {
        Kind::AssistantMessage { is_final, .. } => *is_final = false,
        Kind::ToolFinished { duration_ms, .. } => *duration_ms = None,
        _ => {}
    }
    item
}

#[test]
fn a_file_that_is_cut_anywhere_gives_the_events_before_the_cut() {
    for fixture in fixtures() {
        let (whole, _) = read_all(&fixture);
        let length = fixture.bytes.len();
        let step = if length <= SMALL { 1 } else { length / PLACES + 1 };
        for cut in (0..fixture.bytes.len()).step_by(step) {
            let part = fixture.bytes.get(..cut).unwrap();
            let place = format!("{} cut at {cut}", fixture.path.display());
            let (items, summary) = read_as(part, Some(fixture.format), 1 << 16).expect(&place);
            assert!(items.len() <= whole.len(), "{place}: {summary:?}");
            if fixture.format.name().starts_with("otlp") {
                // Spans are told in the order of time: one that is missing may leave a gap.
                let known: Vec<Item> = whole.iter().map(bare).collect();
                let strange = items.iter().map(bare).find(|item| {
                    let same =
                        |other: &Item| other.event.kind == item.event.kind && other.event.at == item.event.at;
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
fn how_the_bytes_arrive_makes_no_difference() {
    for fixture in fixtures() {
        let (whole, all) = read_all(&fixture);
        for capacity in (1..=16).chain([31, 32, 33, 63, 64]) {
            let (items, summary) = read_as(&fixture.bytes, None, capacity).unwrap();
            assert_eq!(items, whole, "{} by {capacity}", fixture.path.display());
            assert_eq!(summary, all, "{} by {capacity}", fixture.path.display());
        }
    }
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_make_no_difference() {
    for fixture in fixtures() {
        let Ok(text) = std::str::from_utf8(&fixture.bytes) else { continue };
        let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let (items, _) = read_as(text.as_bytes(), None, 1 << 16).unwrap();
        assert_eq!(items, read_all(&fixture).0, "{}", fixture.path.display());
    }
}

/// Numbers that look random, the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }
}

#[test]
fn garbage_is_an_error_or_nothing_and_never_a_panic() {
    let mut dice = Dice(0x5eed);
    for round in 0..300 {
        let length = dice.next(400);
        let alphabet = b"{}[]\",:\\tfn0189.e-+ \n\x00\xff\xc3messagestyperolecontent";
        let bytes: Vec<u8> = (0..length).map(|_| alphabet[dice.next(alphabet.len())]).collect();
        for format in Format::ALL {
            let read = read_as(&bytes, Some(format), 1 + dice.next(64));
            assert!(
                read.is_ok() || format == Format::Flyball || is_binary(format),
                "{round} {format:?}: {read:?}"
            );
        }
        let _ = read_as(&bytes, None, 64);
    }
}

#[test]
fn a_fixture_with_bytes_changed_is_read_as_far_as_it_can_be() {
    let mut dice = Dice(0xf17b);
    for fixture in fixtures() {
        for _ in 0..60 {
            let mut bytes = fixture.bytes.clone();
            for _ in 0..=dice.next(6) {
                let at = dice.next(bytes.len());
                bytes[at] = u8::try_from(dice.next(256)).unwrap();
            }
            for item in read_as(&bytes, Some(fixture.format), 256).map_or_else(|_| Vec::new(), |read| read.0)
            {
                let text = item.event.to_json().to_string();
                assert!(flyball::Event::from_json(&text).is_ok(), "{}: {text}", fixture.path.display());
            }
        }
    }
}

/// Formats that are no text: what is not theirs is an error.
fn is_binary(format: Format) -> bool {
    format.name().ends_with("protobuf")
}
