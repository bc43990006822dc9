//! Tests the detector against the definition, on every stream over a small alphabet and on long streams.

use super::{PeriodDetector, RepeatedBlock};
use crate::fingerprint::Fingerprint;

fn letters(text: &str) -> Vec<Fingerprint> {
    text.bytes().map(|b| Fingerprint::of(&[b])).collect()
}

/// The definition: the last p * r elements are r copies of one block of p.
fn by_definition(stream: &[Fingerprint], from: usize, to: usize, passes: usize) -> Option<usize> {
    (from..=to).find(|&p| {
        stream.len() >= p * passes && {
            let tail = &stream[stream.len() - p * passes..];
            tail.iter().enumerate().all(|(at, element)| *element == tail[at % p])
        }
    })
}

#[test]
fn agrees_with_the_definition_on_every_short_stream() {
    for length in 0..=9_u32 {
        for code in 0..3_u32.pow(length) {
            let mut rest = code;
            let stream: Vec<_> = (0..length)
                .map(|_| {
                    let digit = rest % 3;
                    rest /= 3;
                    Fingerprint::of(&[digit as u8])
                })
                .collect();
            let mut detector = PeriodDetector::default();
            for (at, element) in stream.iter().enumerate() {
                let foreseen = detector.find_repeat_with(*element, 1, 4, 2).map(|r| r.period);
                detector.push(*element, at as u64);
                let found = detector.find_repeat(1, 4, 2).map(|r| r.period);
                assert_eq!(found, by_definition(&stream[..=at], 1, 4, 2), "{stream:?} at {at}");
                assert_eq!(foreseen, found);
            }
        }
    }
}

#[test]
fn finds_every_period_up_to_the_bound_at_the_last_element_of_the_third_pass() {
    for period in 1..=64_usize {
        let mut detector = PeriodDetector::default();
        for noise in 0..37_u64 {
            detector.push(Fingerprint::of(&noise.to_le_bytes()), noise);
        }
        for at in 0..period * 3 {
            assert_eq!(detector.find_repeat(1, 64, 3), None, "period {period} fired early at {at}");
            detector.push(Fingerprint::of(&[200, (at % period) as u8]), 100 + at as u64);
        }
        assert_eq!(detector.find_repeat(1, 64, 3), Some(RepeatedBlock { period, run: 2 * period }));
        assert_eq!(detector.last_events(period).first(), Some(&(100 + 2 * period as u64)));
    }
}

#[test]
fn names_the_shortest_block_and_counts_its_passes() {
    let mut detector = PeriodDetector::default();
    for (at, element) in letters("abababab").into_iter().enumerate() {
        detector.push(element, at as u64);
    }
    let found = detector.find_repeat(1, 64, 3);
    assert_eq!(found.map(|r| (r.period, r.passes())), Some((2, 4)));
}

#[test]
fn one_other_element_ends_the_run() {
    let mut detector = PeriodDetector::default();
    for (at, element) in letters("ababaXababa").into_iter().enumerate() {
        detector.push(element, at as u64);
        assert_eq!(detector.find_repeat(2, 64, 3), None);
    }
}

/// The definition of a repeated block whose elements are not all equal.
fn block_by_definition(stream: &[Fingerprint], to: usize, passes: usize) -> Option<usize> {
    (2..=to).find(|&p| {
        stream.len() >= p * passes && {
            let tail = &stream[stream.len() - p * passes..];
            let repeats = tail.iter().enumerate().all(|(at, element)| *element == tail[at % p]);
            repeats && tail.iter().any(|element| *element != tail[0])
        }
    })
}

#[test]
fn block_is_found_after_a_run_of_equal_elements() {
    let mut seed = 11_u64;
    let mut found = 0;
    for _ in 0..4_000 {
        let mut detector = PeriodDetector::default();
        let mut stream = Vec::new();
        for at in 0..40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Mostly repeat what came a few positions before, so that blocks recur.
            let back = 1 + (seed >> 40) as usize % 5;
            let letter = (seed >> 33) as u8 % 2;
            let copied = !(seed >> 50).is_multiple_of(6) && stream.len() >= back;
            let element = if copied { stream[stream.len() - back] } else { Fingerprint::of(&[letter]) };
            stream.push(element);
            let expected = block_by_definition(&stream, 6, 3);
            let foreseen = detector.repeating_block_with(element, 6, 3).map(|repeat| repeat.period);
            assert_eq!(foreseen, expected, "{stream:?}");
            found += usize::from(expected.is_some());
            detector.push(element, at);
        }
    }
    assert!(found > 1_000, "{found}");
}
