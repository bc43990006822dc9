//! Noise in place of an answer: nothing panics, and how the bytes are split changes nothing.

use super::*;
use crate::provider::anthropic::Anthropic;
use crate::provider::openai::OpenAi;

const OPENAI: &str = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"żółw \"}}]}\n\n\
    : wait\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\n\n\
    data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n";

const ANTHROPIC: &str = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":3}}}\r\n\r\n\
    event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"żółw \"}}\r\n\r\n\
    event: content_block_start\r\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\r\n\r\n\
    event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":1}\"}}\r\n\r\n\
    event: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":4}}\r\n\r\n\
    event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n";

/// What is understood of a body that comes in pieces of this size.
fn read(protocol: &dyn Protocol, body: &[u8], size: usize) -> String {
    let mut reading = Reading { protocol, shape: Shape::Unknown, draft: Draft::default() };
    let mut heard = String::new();
    let mut on_text = |text: &str| heard.push_str(text);
    let mut outcome = Ok(());
    for piece in body.chunks(size) {
        outcome = reading.take(piece, &mut on_text);
        if outcome.is_err() || reading.draft.ended {
            break;
        }
    }
    if outcome.is_ok() && !reading.draft.ended {
        outcome = reading.end(&mut on_text);
    }
    let trouble = match outcome {
        Ok(()) => "fine".to_owned(),
        Err(Trouble::NotJson(_)) => "not JSON".to_owned(),
        // Its words quote the first piece, which differs.
        Err(Trouble::Shape(_)) => "shape".to_owned(),
        Err(Trouble::Reported(fault)) => fault.what,
    };
    assert_eq!(heard, reading.draft.text);
    format!("{trouble} {:?}", reading.draft)
}

#[test]
fn the_streams_themselves_are_understood() {
    let expected = Request::default();
    for (protocol, body) in both() {
        let mut reading =
            Reading { protocol: protocol.as_ref(), shape: Shape::Unknown, draft: Draft::default() };
        reading.take(body.as_bytes(), &mut |_| {}).unwrap();
        let reply = reading.draft.finish(&expected, "other", None);
        assert_eq!((reply.text.as_str(), reply.model.as_str()), ("żółw ", "m"));
        assert_eq!(reply.calls[0].args, serde_json::json!({"x": 1}));
        assert_eq!((reply.usage.tokens_in, reply.usage.tokens_out), (3, 4));
    }
}

#[test]
fn noise_is_understood_in_the_same_way_however_it_is_split() {
    for (protocol, body) in both() {
        for seed in 0..2_000 {
            let noisy = spoilt(body.as_bytes(), seed);
            let at_once = read(protocol.as_ref(), &noisy, noisy.len().max(1));
            for size in [1, 2, 3, 7, 64] {
                assert_eq!(read(protocol.as_ref(), &noisy, size), at_once, "seed {seed}, pieces of {size}");
            }
        }
    }
}

fn both() -> [(Box<dyn Protocol>, &'static str); 2] {
    let anthropic = Anthropic { version: "2023-06-01".to_owned() };
    [(Box::new(OpenAi { max_tokens_field: None }), OPENAI), (Box::new(anthropic), ANTHROPIC)]
}

/// The body with a few bytes changed, left out, doubled or cut off.
fn spoilt(body: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let mut noisy = body.to_vec();
    for _ in 0..=next(4) {
        let at = next(noisy.len());
        let end = (at + next(40)).min(noisy.len());
        match next(6) {
            0 => noisy.truncate(at),
            1 => drop(noisy.drain(at..end)),
            2 => {
                let again = noisy[at..end].to_vec();
                noisy.splice(at..at, again);
            }
            3 => noisy.insert(at.min(noisy.len()), b"\r\n{}[]\":,\0\xff"[next(11)]),
            _ if noisy.is_empty() => {}
            _ => noisy[at] = u8::try_from(next(256)).unwrap(),
        }
    }
    noisy
}
