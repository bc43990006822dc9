//! Successful replies in all wire formats.

use super::harness::{PROTOCOLS, ProtocolKind, ask, check, provider, question, server};
use flyball_model_server::{Framing, Newline, ReplyBehavior, ScriptedCall, ScriptedUsage};
use flyball_runner::provider::{FinishReason, ModelToolCall};
use serde_json::json;

const MAX_TEXT_BYTES: &str = "Żółw 🐢 says: \"hi\"\nи ещё строка";

fn rich_reply() -> ReplyBehavior {
    let usage = ScriptedUsage { input: 1_000, output: 50, cached: 400, cache_write: 0 };
    ReplyBehavior { usage, ..ReplyBehavior::text(MAX_TEXT_BYTES) }
        .call("bash", json!({"command": "echo \"ж🐢\"", "deep": {"list": [1, 2, null]}}))
        .call("bash", json!({}))
}

/// The same reply in every shape of a stream.
#[test]
fn reply_is_the_same_for_any_framing() {
    let shapes = [
        rich_reply(),
        ReplyBehavior { piece_chars: 1, ..rich_reply() },
        ReplyBehavior { piece_chars: 3, write_bytes: 1, ..rich_reply() },
        ReplyBehavior { piece_chars: 7, write_bytes: 11, newline: Newline::Crlf, ..rich_reply() },
        ReplyBehavior { write_bytes: 5, newline: Newline::Cr, chatter: true, ..rich_reply() },
        ReplyBehavior { piece_chars: 4, chatter: true, framing: Framing::Close, ..rich_reply() },
        ReplyBehavior { framing: Framing::Length, ..rich_reply() },
        ReplyBehavior { stream: Some(false), ..rich_reply() },
        ReplyBehavior { stream: Some(false), write_bytes: 3, ..rich_reply() },
        ReplyBehavior { content_type: Some("text/plain".to_owned()), ..rich_reply() },
        ReplyBehavior { content_type: Some("application/json".to_owned()), ..rich_reply() },
        ReplyBehavior {
            stream: Some(false),
            content_type: Some("text/event-stream".to_owned()),
            ..rich_reply()
        },
    ];
    for kind in PROTOCOLS {
        for (number, shape) in shapes.iter().enumerate() {
            let (asked, server) = check(kind, [shape.clone()], json!({}));
            let reply = asked.reply();
            assert_eq!(reply.text, MAX_TEXT_BYTES, "{kind:?} {number}");
            assert_eq!(asked.text(), MAX_TEXT_BYTES, "{kind:?} {number}: received text");
            let args: Vec<_> =
                reply.calls.iter().map(|call| (call.name.as_str(), call.args.clone())).collect();
            let first = json!({"command": "echo \"ж🐢\"", "deep": {"list": [1, 2, null]}});
            assert_eq!(args, [("bash", first), ("bash", json!({}))], "{kind:?} {number}");
            assert_ne!(reply.calls[0].id, reply.calls[1].id);
            assert!(reply.malformed.is_empty());
            assert_eq!(reply.stop, FinishReason::ToolCalls);
            assert_eq!(reply.model, "test-model");
            let used = reply.usage;
            let counted = (used.tokens_in, used.tokens_out, used.cached_in, used.cost_micros, used.estimated);
            assert_eq!(counted, (1_000, 50, 400, None, false), "{kind:?} {number}");
            assert!(asked.retries.is_empty());
            assert_eq!(server.requests().len(), 1, "{kind:?} {number}");
        }
    }
}

#[test]
fn text_deltas_are_streamed() {
    for kind in PROTOCOLS {
        let (asked, _) =
            check(kind, [ReplyBehavior { piece_chars: 2, ..ReplyBehavior::text("abcdef") }], json!({}));
        assert_eq!(asked.texts, ["ab", "cd", "ef"], "{kind:?}");
        let (asked, _) = check(kind, [ReplyBehavior::text("abcdef")], json!({"stream": false}));
        assert_eq!(asked.texts, ["abcdef"], "{kind:?}");
    }
}

#[test]
fn request_matches_the_wire_protocol() {
    let (_, server) = check(
        ProtocolKind::OpenAi,
        [ReplyBehavior::text("x")],
        json!({"max_tokens": 99, "body": {"temperature": 0}}),
    );
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {}", super::harness::KEY).as_str()));
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let expected = json!({"model": "test-model", "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 99, "temperature": 0,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is there?"}],
        "tools": [{"type": "function",
            "function": {"name": "bash", "description": "runs a command", "parameters": schema}}]});
    assert_eq!(request.body, expected);

    let (_, server) = check(
        ProtocolKind::Anthropic,
        [ReplyBehavior::text("x")],
        json!({"headers": {"anthropic-beta": "x"}}),
    );
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), Some(super::harness::KEY));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.header("anthropic-beta"), Some("x"));
    let expected = json!({"model": "test-model", "stream": true, "max_tokens": 8192, "system": "be brief",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "what is there?"}]}],
        "tools": [{"name": "bash", "description": "runs a command", "input_schema": schema}]});
    assert_eq!(request.body, expected);
}

#[test]
fn request_max_tokens_overrides_config() {
    for (kind, field) in [(ProtocolKind::OpenAi, "max_tokens"), (ProtocolKind::Anthropic, "max_tokens")] {
        let server = server([ReplyBehavior::text("x")]);
        let provider = provider(&kind.config(&server.url(), &json!({"max_tokens": 99}))).unwrap();
        let mut request = question();
        request.max_tokens = Some(5);
        ask(provider.as_ref(), &request).reply();
        assert_eq!(server.requests()[0].body[field], json!(5));
    }
}

#[test]
fn finish_reasons_are_mapped() {
    let cases = [
        (ProtocolKind::OpenAi, "stop", FinishReason::End),
        (ProtocolKind::OpenAi, "length", FinishReason::MaxTokens),
        (ProtocolKind::OpenAi, "content_filter", FinishReason::Refused),
        (ProtocolKind::OpenAi, "moonlight", FinishReason::Other("moonlight".to_owned())),
        (ProtocolKind::Anthropic, "end_turn", FinishReason::End),
        (ProtocolKind::Anthropic, "stop_sequence", FinishReason::End),
        (ProtocolKind::Anthropic, "max_tokens", FinishReason::MaxTokens),
        (ProtocolKind::Anthropic, "refusal", FinishReason::Refused),
        (ProtocolKind::Anthropic, "pause_turn", FinishReason::Other("pause_turn".to_owned())),
    ];
    for (kind, word, expected) in cases {
        for stream in [true, false] {
            let said = ReplyBehavior {
                stop: Some(word.to_owned()),
                stream: Some(stream),
                ..ReplyBehavior::text("x")
            };
            let (asked, _) = check(kind, [said], json!({}));
            assert_eq!(asked.reply().stop, expected, "{kind:?} {word} stream={stream}");
        }
    }
}

#[test]
fn stop_reason_with_calls_is_tool_calls() {
    let said = ReplyBehavior { stop: Some("stop".to_owned()), ..ReplyBehavior::default() }
        .call("bash", json!({"a": 1}));
    let (asked, _) = check(ProtocolKind::OpenAi, [said], json!({}));
    assert_eq!(asked.reply().stop, FinishReason::ToolCalls);
    assert_eq!(asked.reply().calls.len(), 1);
}

#[test]
fn refusal_is_reported() {
    let chunks = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","refusal":"I will "}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":"not."}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let reply = reply_to_chunks(&chunks);
    assert_eq!((reply.stop, reply.text.as_str()), (FinishReason::Refused, "I will not."));
}

/// Reply to exactly these chunks.
fn reply_to_chunks(chunks: &[&str]) -> flyball_runner::provider::ModelReply {
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let (asked, _) = check(
        ProtocolKind::OpenAi,
        [ReplyBehavior { body: Some(body), ..ReplyBehavior::default() }],
        json!({}),
    );
    asked.reply().clone()
}

/// Endpoints that are almost compatible.
#[test]
fn streamed_calls_are_assembled_despite_bad_indexes() {
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let piece = |call: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}"#);
    let cases: [(&str, Vec<String>); 5] = [
        (
            "numbers, interleaved",
            vec![
                piece(
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}},{"index":1,"id":"b","function":{"name":"y","arguments":"{\"n\":"}}"#,
                ),
                piece(r#"{"index":1,"function":{"arguments":"2}"}}"#),
                piece(r#"{"index":0,"function":{"arguments":":1}"}}"#),
            ],
        ),
        (
            "no numbers, each call at once",
            vec![
                piece(r#"{"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#),
                piece(r#"{"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}"#),
            ],
        ),
        (
            "no numbers, in pieces",
            vec![
                piece(r#"{"id":"a","function":{"name":"x","arguments":"{\"n\":"}}"#),
                piece(r#"{"function":{"arguments":"1}"}}"#),
                piece(r#"{"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}"#),
            ],
        ),
        (
            "the same number for all",
            vec![
                piece(r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#),
                piece(r#"{"index":0,"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}"#),
            ],
        ),
        (
            "the id again in every piece, arguments as an object",
            vec![
                piece(r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":"}}"#),
                piece(r#"{"index":0,"id":"a","function":{"name":"x","arguments":"1}"}}"#),
                piece(r#"{"index":1,"id":"b","function":{"name":"y","arguments":{"n":2}}}"#),
            ],
        ),
    ];
    for (case, pieces) in cases {
        let mut chunks: Vec<&str> = pieces.iter().map(String::as_str).collect();
        chunks.extend([
            end,
            r#"{"choices":null,"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
            "[DONE]",
        ]);
        let reply = reply_to_chunks(&chunks);
        let expected = [("a", "x", json!({"n": 1})), ("b", "y", json!({"n": 2}))]
            .map(|(id, name, args)| ModelToolCall { id: id.to_owned(), name: name.to_owned(), args });
        assert_eq!(reply.calls, expected, "{case}");
        assert_eq!((reply.usage.tokens_in, reply.usage.tokens_out), (3, 4), "{case}");
    }
}

#[test]
fn missing_or_duplicate_call_ids_are_replaced() {
    let call = |id: &str| ScriptedCall {
        id: Some(id.to_owned()),
        name: "bash".to_owned(),
        ..ScriptedCall::default()
    };
    for stream in [true, false] {
        let calls = vec![call(""), call("same"), call("other"), call("")];
        let said = ReplyBehavior { calls, stream: Some(stream), ..ReplyBehavior::default() };
        let (asked, _) = check(ProtocolKind::OpenAi, [said], json!({}));
        let ids: Vec<&str> = asked.reply().calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call-1-1-1", "same", "other", "call-1-1-4"], "stream={stream}");
    }
    let twice = ReplyBehavior {
        calls: vec![call("same"), call("same")],
        stream: Some(false),
        ..ReplyBehavior::default()
    };
    let (asked, _) = check(ProtocolKind::Anthropic, [twice], json!({}));
    let ids: Vec<&str> = asked.reply().calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["same", "call-1-1-2"]);
}

#[test]
fn non_object_arguments_are_malformed() {
    let raw = |text: &str| ScriptedCall {
        name: "bash".into(),
        raw_args: Some(text.into()),
        ..ScriptedCall::default()
    };
    for kind in PROTOCOLS {
        let calls = vec![raw(r#"{"command": "ls"#), raw("[1]"), raw(r#"{"ok": true}"#), raw("")];
        let said = ReplyBehavior { calls, piece_chars: 3, ..ReplyBehavior::text("x") };
        let (asked, _) = check(kind, [said], json!({}));
        let reply = asked.reply();
        let run: Vec<_> = reply.calls.iter().map(|call| call.args.clone()).collect();
        assert_eq!(run, [json!({"ok": true}), json!({})], "{kind:?}");
        let malformed: Vec<_> = reply.malformed.iter().map(|call| call.raw.as_str()).collect();
        assert_eq!(malformed, [r#"{"command": "ls"#, "[1]"], "{kind:?}");
        assert!(reply.malformed[0].error.contains("not JSON"), "{}", reply.malformed[0].error);
        assert!(reply.malformed[1].error.contains("not a JSON object"));
        assert_eq!(reply.malformed[0].name, "bash");
        assert!(!reply.malformed[0].id.is_empty());
        assert_eq!(reply.stop, FinishReason::ToolCalls);
    }
}

#[test]
fn missing_usage_is_estimated() {
    for kind in PROTOCOLS {
        for stream in [true, false] {
            let said =
                ReplyBehavior { no_usage: true, stream: Some(stream), ..ReplyBehavior::text("12345678") };
            let (asked, _) = check(kind, [said], json!({}));
            let used = asked.reply().usage;
            assert!(used.estimated, "{kind:?}");
            assert_eq!(used.tokens_out, 2, "{kind:?}");
            assert_eq!(used.tokens_in, question().estimate_tokens());
        }
    }
}

#[test]
fn cost_uses_only_the_configured_price() {
    let price = json!({"price": {"input_per_million_usd": 3, "output_per_million_usd": "15",
        "cached_input_per_million_usd": 0.3, "cache_write_per_million_usd": 3.75}});
    for (kind, cache_write, expected) in [
        (ProtocolKind::OpenAi, 0, 600 * 3 + 120 + 750),
        (ProtocolKind::Anthropic, 200, 400 * 3 + 120 + 750 + 750),
    ] {
        for stream in [true, false] {
            let usage = ScriptedUsage { input: 1_000, output: 50, cached: 400, cache_write };
            let said = ReplyBehavior { usage, stream: Some(stream), ..ReplyBehavior::text("x") };
            let (asked, _) = check(kind, [said], price.clone());
            let used = asked.reply().usage;
            assert_eq!((used.tokens_in, used.cached_in, used.cache_write_in), (1_000, 400, cache_write));
            assert_eq!(used.cost_micros, Some(expected), "{kind:?} stream={stream}");
        }
    }
}

#[test]
fn connection_is_reused() {
    for kind in PROTOCOLS {
        let server = server((0..9).map(|n| ReplyBehavior::text(&n.to_string())));
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        for n in 0..9 {
            assert_eq!(ask(provider.as_ref(), &question()).reply().text, n.to_string());
        }
        // One connection, unless the machine is so busy that the end of a response arrives late.
        assert!(server.connections() < 9, "{kind:?}");
    }
}

#[test]
fn concurrent_requests_are_supported() {
    for kind in PROTOCOLS {
        let server = server((0..8).map(|_| ReplyBehavior {
            gap_ms: 2,
            piece_chars: 1,
            ..ReplyBehavior::text("same words")
        }));
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        std::thread::scope(|scope| {
            let asks: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(provider.as_ref(), &question()))).collect();
            for asked in asks {
                assert_eq!(asked.join().unwrap().reply().text, "same words", "{kind:?}");
            }
        });
        assert_eq!(server.requests().len(), 8);
    }
}
