//! Corrupted responses never panic, and chunk boundaries do not affect the result.

use super::*;
use crate::provider::anthropic::AnthropicProtocol;
use crate::provider::openai::OpenAiProtocol;

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

/// Result of reading a body in chunks of this size.
fn read(protocol: &dyn WireProtocol, body: &[u8], size: usize) -> String {
    let mut reading =
        ReplyReader { protocol, format: ReplyBodyFormat::Unknown, builder: ReplyBuilder::default() };
    let mut received = String::new();
    let mut on_text = |text: &str| received.push_str(text);
    let mut outcome = Ok(());
    for piece in body.chunks(size) {
        outcome = reading.push(piece, &mut on_text);
        if outcome.is_err() || reading.builder.saw_end {
            break;
        }
    }
    if outcome.is_ok() && !reading.builder.saw_end {
        outcome = reading.finish(&mut on_text);
    }
    let result = match outcome {
        Ok(()) => "fine".to_owned(),
        Err(ReplyError::NotJson(_)) => "not JSON".to_owned(),
        // The message quotes the first chunk, which differs.
        Err(ReplyError::UnexpectedShape(_)) => "shape".to_owned(),
        Err(ReplyError::Failed(error)) => error.message,
    };
    assert_eq!(received, reading.builder.text);
    format!("{result} {:?}", reading.builder)
}

#[test]
fn recorded_streams_are_parsed() {
    let expected = ModelRequest::default();
    for (protocol, body) in protocols() {
        let mut reading = ReplyReader {
            protocol: protocol.as_ref(),
            format: ReplyBodyFormat::Unknown,
            builder: ReplyBuilder::default(),
        };
        reading.push(body.as_bytes(), &mut |_| {}).unwrap();
        let reply = reading.builder.build(&expected, "other", None);
        assert_eq!((reply.text.as_str(), reply.model.as_str()), ("żółw ", "m"));
        assert_eq!(reply.calls[0].args, serde_json::json!({"x": 1}));
        assert_eq!((reply.usage.tokens_in, reply.usage.tokens_out), (3, 4));
    }
}

#[test]
fn corrupted_streams_parse_the_same_for_any_chunking() {
    for (protocol, body) in protocols() {
        for seed in 0..2_000 {
            let noisy = corrupted(body.as_bytes(), seed);
            let at_once = read(protocol.as_ref(), &noisy, noisy.len().max(1));
            for size in [1, 2, 3, 7, 64] {
                assert_eq!(read(protocol.as_ref(), &noisy, size), at_once, "seed {seed}, chunks of {size}");
            }
        }
    }
}

fn protocols() -> [(Box<dyn WireProtocol>, &'static str); 2] {
    let anthropic = AnthropicProtocol { version: "2023-06-01".to_owned() };
    [(Box::new(OpenAiProtocol { max_tokens_field: None }), OPENAI), (Box::new(anthropic), ANTHROPIC)]
}

/// The body with a few bytes changed, removed, duplicated or truncated.
fn corrupted(body: &[u8], seed: u64) -> Vec<u8> {
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
