//! Answers that go well, whatever they look like on the wire.

use super::kit::{BOTH, Kind, ask, check, provider, question, server};
use flyball_model_server::{Behaviour, Framing, Newline, SaidCall, Usage};
use flyball_run::provider::{Call, Stop};
use serde_json::json;

const TEXT: &str = "Żółw 🐢 says: \"hi\"\nи ещё строка";

fn rich() -> Behaviour {
    let usage = Usage { input: 1_000, output: 50, cached: 400, cache_write: 0 };
    Behaviour { usage, ..Behaviour::text(TEXT) }
        .call("bash", json!({"command": "echo \"ж🐢\"", "deep": {"list": [1, 2, null]}}))
        .call("bash", json!({}))
}

/// The same answer in every shape that a stream can have.
#[test]
fn an_answer_is_the_same_in_every_shape() {
    let shapes = [
        rich(),
        Behaviour { piece_chars: 1, ..rich() },
        Behaviour { piece_chars: 3, write_bytes: 1, ..rich() },
        Behaviour { piece_chars: 7, write_bytes: 11, newline: Newline::Crlf, ..rich() },
        Behaviour { write_bytes: 5, newline: Newline::Cr, chatter: true, ..rich() },
        Behaviour { piece_chars: 4, chatter: true, framing: Framing::Close, ..rich() },
        Behaviour { framing: Framing::Length, ..rich() },
        Behaviour { stream: Some(false), ..rich() },
        Behaviour { stream: Some(false), write_bytes: 3, ..rich() },
        Behaviour { content_type: Some("text/plain".to_owned()), ..rich() },
        Behaviour { content_type: Some("application/json".to_owned()), ..rich() },
        Behaviour { stream: Some(false), content_type: Some("text/event-stream".to_owned()), ..rich() },
    ];
    for kind in BOTH {
        for (number, shape) in shapes.iter().enumerate() {
            let (asked, server) = check(kind, [shape.clone()], json!({}));
            let reply = asked.reply();
            assert_eq!(reply.text, TEXT, "{kind:?} {number}");
            assert_eq!(asked.text(), TEXT, "{kind:?} {number}: what was heard");
            let args: Vec<_> =
                reply.calls.iter().map(|call| (call.name.as_str(), call.args.clone())).collect();
            let first = json!({"command": "echo \"ж🐢\"", "deep": {"list": [1, 2, null]}});
            assert_eq!(args, [("bash", first), ("bash", json!({}))], "{kind:?} {number}");
            assert_ne!(reply.calls[0].id, reply.calls[1].id);
            assert!(reply.malformed.is_empty());
            assert_eq!(reply.stop, Stop::ToolCalls);
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
fn pieces_are_heard_as_they_come() {
    for kind in BOTH {
        let (asked, _) = check(kind, [Behaviour { piece_chars: 2, ..Behaviour::text("abcdef") }], json!({}));
        assert_eq!(asked.texts, ["ab", "cd", "ef"], "{kind:?}");
        let (asked, _) = check(kind, [Behaviour::text("abcdef")], json!({"stream": false}));
        assert_eq!(asked.texts, ["abcdef"], "{kind:?}");
    }
}

#[test]
fn what_is_asked_is_what_the_protocol_wants() {
    let (_, server) =
        check(Kind::OpenAi, [Behaviour::text("x")], json!({"max_tokens": 99, "body": {"temperature": 0}}));
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {}", super::kit::KEY).as_str()));
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let expected = json!({"model": "test-model", "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 99, "temperature": 0,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is there?"}],
        "tools": [{"type": "function",
            "function": {"name": "bash", "description": "runs a command", "parameters": schema}}]});
    assert_eq!(request.body, expected);

    let (_, server) =
        check(Kind::Anthropic, [Behaviour::text("x")], json!({"headers": {"anthropic-beta": "x"}}));
    let request = server.requests().remove(0);
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), Some(super::kit::KEY));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.header("anthropic-beta"), Some("x"));
    let expected = json!({"model": "test-model", "stream": true, "max_tokens": 8192, "system": "be brief",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "what is there?"}]}],
        "tools": [{"name": "bash", "description": "runs a command", "input_schema": schema}]});
    assert_eq!(request.body, expected);
}

#[test]
fn the_request_has_the_last_word_on_how_much_may_be_written() {
    for (kind, field) in [(Kind::OpenAi, "max_tokens"), (Kind::Anthropic, "max_tokens")] {
        let server = server([Behaviour::text("x")]);
        let provider = provider(&kind.config(&server.url(), &json!({"max_tokens": 99}))).unwrap();
        let mut request = question();
        request.max_tokens = Some(5);
        ask(provider.as_ref(), &request).reply();
        assert_eq!(server.requests()[0].body[field], json!(5));
    }
}

#[test]
fn why_it_stopped_is_told_in_our_words() {
    let cases = [
        (Kind::OpenAi, "stop", Stop::End),
        (Kind::OpenAi, "length", Stop::MaxTokens),
        (Kind::OpenAi, "content_filter", Stop::Refused),
        (Kind::OpenAi, "moonlight", Stop::Other("moonlight".to_owned())),
        (Kind::Anthropic, "end_turn", Stop::End),
        (Kind::Anthropic, "stop_sequence", Stop::End),
        (Kind::Anthropic, "max_tokens", Stop::MaxTokens),
        (Kind::Anthropic, "refusal", Stop::Refused),
        (Kind::Anthropic, "pause_turn", Stop::Other("pause_turn".to_owned())),
    ];
    for (kind, word, expected) in cases {
        for stream in [true, false] {
            let said =
                Behaviour { stop: Some(word.to_owned()), stream: Some(stream), ..Behaviour::text("x") };
            let (asked, _) = check(kind, [said], json!({}));
            assert_eq!(asked.reply().stop, expected, "{kind:?} {word} stream={stream}");
        }
    }
}

#[test]
fn a_server_that_ends_with_calls_but_says_it_simply_stopped_wants_its_calls_run() {
    let said =
        Behaviour { stop: Some("stop".to_owned()), ..Behaviour::default() }.call("bash", json!({"a": 1}));
    let (asked, _) = check(Kind::OpenAi, [said], json!({}));
    assert_eq!(asked.reply().stop, Stop::ToolCalls);
    assert_eq!(asked.reply().calls.len(), 1);
}

#[test]
fn a_refusal_is_heard_and_told() {
    let chunks = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","refusal":"I will "}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":"not."}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let reply = raw_stream(&chunks);
    assert_eq!((reply.stop, reply.text.as_str()), (Stop::Refused, "I will not."));
}

/// A reply to exactly these chunks.
fn raw_stream(chunks: &[&str]) -> flyball_run::provider::Reply {
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let (asked, _) = check(Kind::OpenAi, [Behaviour { body: Some(body), ..Behaviour::default() }], json!({}));
    asked.reply().clone()
}

/// Endpoints that call themselves compatible, and nearly are.
#[test]
fn calls_are_put_together_whatever_an_endpoint_makes_of_their_numbers() {
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
        let reply = raw_stream(&chunks);
        let expected = [("a", "x", json!({"n": 1})), ("b", "y", json!({"n": 2}))]
            .map(|(id, name, args)| Call { id: id.to_owned(), name: name.to_owned(), args });
        assert_eq!(reply.calls, expected, "{case}");
        assert_eq!((reply.usage.tokens_in, reply.usage.tokens_out), (3, 4), "{case}");
    }
}

#[test]
fn calls_without_an_id_or_with_the_same_one_get_their_own() {
    let call =
        |id: &str| SaidCall { id: Some(id.to_owned()), name: "bash".to_owned(), ..SaidCall::default() };
    for stream in [true, false] {
        let calls = vec![call(""), call("same"), call("other"), call("")];
        let said = Behaviour { calls, stream: Some(stream), ..Behaviour::default() };
        let (asked, _) = check(Kind::OpenAi, [said], json!({}));
        let ids: Vec<&str> = asked.reply().calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call-1-1-1", "same", "other", "call-1-1-4"], "stream={stream}");
    }
    let twice =
        Behaviour { calls: vec![call("same"), call("same")], stream: Some(false), ..Behaviour::default() };
    let (asked, _) = check(Kind::Anthropic, [twice], json!({}));
    let ids: Vec<&str> = asked.reply().calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["same", "call-1-1-2"]);
}

#[test]
fn arguments_that_are_no_object_are_malformed_and_not_run() {
    let raw =
        |text: &str| SaidCall { name: "bash".into(), raw_args: Some(text.into()), ..SaidCall::default() };
    for kind in BOTH {
        let calls = vec![raw(r#"{"command": "ls"#), raw("[1]"), raw(r#"{"ok": true}"#), raw("")];
        let said = Behaviour { calls, piece_chars: 3, ..Behaviour::text("x") };
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
        assert_eq!(reply.stop, Stop::ToolCalls);
    }
}

#[test]
fn tokens_are_estimated_where_nobody_counts_them() {
    for kind in BOTH {
        for stream in [true, false] {
            let said = Behaviour { no_usage: true, stream: Some(stream), ..Behaviour::text("12345678") };
            let (asked, _) = check(kind, [said], json!({}));
            let used = asked.reply().usage;
            assert!(used.estimated, "{kind:?}");
            assert_eq!(used.tokens_out, 2, "{kind:?}");
            assert_eq!(used.tokens_in, question().estimate());
        }
    }
}

#[test]
fn cost_follows_from_the_price_in_the_file_and_from_nothing_else() {
    let price = json!({"price": {"input_per_million_usd": 3, "output_per_million_usd": "15",
        "cached_input_per_million_usd": 0.3, "cache_write_per_million_usd": 3.75}});
    for (kind, cache_write, expected) in
        [(Kind::OpenAi, 0, 600 * 3 + 120 + 750), (Kind::Anthropic, 200, 400 * 3 + 120 + 750 + 750)]
    {
        for stream in [true, false] {
            let usage = Usage { input: 1_000, output: 50, cached: 400, cache_write };
            let said = Behaviour { usage, stream: Some(stream), ..Behaviour::text("x") };
            let (asked, _) = check(kind, [said], price.clone());
            let used = asked.reply().usage;
            assert_eq!((used.tokens_in, used.cached_in, used.cache_write_in), (1_000, 400, cache_write));
            assert_eq!(used.cost_micros, Some(expected), "{kind:?} stream={stream}");
        }
    }
}

#[test]
fn a_connection_is_used_again_for_the_next_question() {
    for kind in BOTH {
        let server = server((0..9).map(|n| Behaviour::text(&n.to_string())));
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        for n in 0..9 {
            assert_eq!(ask(provider.as_ref(), &question()).reply().text, n.to_string());
        }
        // One, unless the machine is so busy that the end of an answer comes late.
        assert!(server.connections() < 9, "{kind:?}");
    }
}

#[test]
fn many_may_ask_at_the_same_time() {
    for kind in BOTH {
        let server =
            server((0..8).map(|_| Behaviour { gap_ms: 2, piece_chars: 1, ..Behaviour::text("same words") }));
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
