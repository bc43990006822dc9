//! The responses API: histories sent by the client, and histories stored by the provider.

use super::proxy_harness::{ProxyProcess, RawHttpResponse, TEST_API_KEY, event_outline, send, test_dir};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A server that answers every request with the same call in the responses protocol, and rejects what the real one
/// rejects: an output without its call, a call without its output.
struct ResponsesServer {
    address: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl ResponsesServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&requests);
        // It stops with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer_all(stream, &seen));
            }
        });
        ResponsesServer { address, requests }
    }

    fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer_all(mut stream: TcpStream, seen: &Mutex<Vec<Value>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
        while let Some((taken, body)) = parse_request(&bytes) {
            bytes.drain(..taken);
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(body.clone());
                seen.len()
            };
            if stream.write_all(&build_response(&body, number)).is_err() {
                return;
            }
        }
    }
}

fn parse_request(bytes: &[u8]) -> Option<(usize, Value)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = request.parse(bytes) else { return None };
    let length = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"))?;
    let length: usize = std::str::from_utf8(length.value).ok()?.parse().ok()?;
    let body = bytes.get(head..head + length)?;
    Some((head + length, serde_json::from_slice(body).unwrap_or_default()))
}

fn build_response(body: &Value, number: usize) -> Vec<u8> {
    if let Some(wrong) = pairing_error(body) {
        let text = json!({"error": {"message": wrong, "type": "invalid_request_error"}}).to_string();
        let length = text.len();
        return format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {length}\r\n\r\n{text}").into_bytes();
    }
    let call = json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
        "name": "shell", "arguments": "{\"command\":[\"cargo\",\"test\"]}", "status": "completed"});
    let usage = json!({"input_tokens": 12, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 19});
    let response = json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1_700_000_000,
        "status": "completed", "model": body["model"], "output": [call], "usage": usage});
    let (kind, text) = if body["stream"] == json!(true) {
        let events = [
            json!({"type": "response.created", "response": {"id": format!("resp_{number}"), "model": "m"}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
            json!({"type": "response.completed", "response": response}),
        ];
        let written = events.iter().map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap()));
        ("text/event-stream", written.collect::<String>())
    } else {
        ("application/json", response.to_string())
    };
    let length = text.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{text}").into_bytes()
}

/// The real API's error for unpaired calls and outputs; only if the client stores the history.
fn pairing_error(body: &Value) -> Option<String> {
    if body.get("previous_response_id").is_some() || body.get("conversation").is_some() {
        return None;
    }
    let mut open: Vec<&str> = Vec::new();
    for item in body["input"].as_array()? {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or("message") {
            "function_call" => open.push(id),
            "function_call_output" => match open.iter().position(|open| *open == id) {
                Some(at) => drop(open.remove(at)),
                None => {
                    return Some(format!("No tool call found for function call output with call_id {id}."));
                }
            },
            "message" if !open.is_empty() => {
                return Some(format!("No tool output found for function call {}.", open[0]));
            }
            _ => {}
        }
    }
    open.first().map(|id| format!("No tool output found for function call {id}."))
}

fn ask(proxy: &ProxyProcess, body: &Value) -> RawHttpResponse {
    let head = format!("POST /v1/responses HTTP/1.1\r\nAuthorization: Bearer {TEST_API_KEY}");
    send(&proxy.address, &head, body.to_string().as_bytes())
}

/// The response as one object, streamed or not.
fn response(response: &RawHttpResponse) -> Value {
    if response.headers["content-type"].starts_with("application/json") {
        return response.json();
    }
    let text = response.text();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let event: Value = serde_json::from_str(last).unwrap();
    assert_eq!(event["type"], "response.completed");
    event["response"].clone()
}

fn call_output(call: &Value) -> Value {
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": "1 failed"})
}

/// Continues until the answer has no calls; returns it with the number of answers before it.
fn run_until_halted(mut next: impl FnMut(Option<&Value>) -> Value) -> (usize, Value) {
    let mut last = None;
    for round in 0..20 {
        let answer = next(last.as_ref());
        if answer["output"][0]["type"] != "function_call" {
            return (round, answer);
        }
        last = Some(answer);
    }
    panic!("never halted");
}

fn check_halt(proxy: &ProxyProcess, server: &ResponsesServer, (rounds, answer): (usize, Value)) {
    assert_eq!(rounds, 8);
    assert_eq!(server.requests().len(), 8, "a halted request does not reach the server");
    let part = &answer["output"][0]["content"][0];
    assert_eq!(part["type"], "output_text");
    assert!(part["text"].as_str().unwrap().starts_with("[flyball] This session was halted"), "{answer}");
    assert_eq!((&answer["status"], &answer["usage"]["total_tokens"]), (&json!("completed"), &json!(0)));
    let [session] = proxy.sessions().try_into().expect("one session");
    let calls: Vec<_> = event_outline(&proxy.records(&session))
        .into_iter()
        .filter(|(kind, _)| kind == "tool.requested")
        .collect();
    assert_eq!(calls.len(), 8, "{calls:?}");
    let noted =
        server.requests().iter().filter(|body| body["input"].to_string().contains("[flyball]")).count();
    assert_eq!(noted, 5);
}

#[test]
fn client_side_history_is_guarded() {
    for stream in [true, false] {
        let server = ResponsesServer::start();
        let folder = test_dir(&format!("responses-{stream}"));
        let proxy = ProxyProcess::start(&folder, &format!("http://{}/v1", server.address), &[]);
        let mut input = vec![json!({"role": "user", "content": [{"type": "input_text", "text": "fix it"}]})];
        let halted = run_until_halted(|last| {
            if let Some(answer) = last {
                let call = answer["output"][0].clone();
                input.extend([json!({"type": "reasoning", "summary": []}), call.clone(), call_output(&call)]);
            }
            let reply = ask(&proxy, &json!({"model": "m", "stream": stream, "store": false, "input": input}));
            assert_eq!(reply.status, 200, "{}", reply.text());
            response(&reply)
        });
        check_halt(&proxy, &server, halted);
    }
}

#[test]
fn provider_side_history_is_guarded() {
    for (name, conversation) in [("previous", None), ("conversation", Some("conv_1"))] {
        let server = ResponsesServer::start();
        let folder = test_dir(&format!("responses-{name}"));
        let proxy = ProxyProcess::start(&folder, &format!("http://{}", server.address), &[]);
        let halted = run_until_halted(|last| {
            let mut body = json!({"model": "m", "input": "fix it"});
            if let Some(answer) = last {
                body["input"] = json!([call_output(&answer["output"][0])]);
                if conversation.is_none() {
                    body["previous_response_id"] = answer["id"].clone();
                }
            }
            if let Some(conversation) = conversation {
                body["conversation"] = json!(conversation);
            }
            let reply = ask(&proxy, &body);
            assert_eq!(reply.status, 200, "{}", reply.text());
            response(&reply)
        });
        check_halt(&proxy, &server, halted);
    }
}
