//! Injection payloads in every field of every event that a page shows.

use super::server_harness::TestServer;
use serde_json::{Value, json};

/// Snippets that would do harm if a browser treated them as markup.
const HARMFUL_SNIPPETS: [&str; 26] = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<form action=\"//evil.invalid\"><button>x</button></form>",
    "<base href=\"//evil.invalid/\">",
    "<meta http-equiv=refresh content=\"0;url=//evil.invalid\">",
    "<link rel=stylesheet href=//evil.invalid/x.css>",
    "<style>*{display:none}</style>",
    "<div style=\"position:fixed;inset:0;background:red\">",
    "<input autofocus onfocus=alert(1)>",
    "<math><mi xlink:href=\"javascript:alert(1)\">x</mi></math>",
    "<object data=\"javascript:alert(1)\"></object>",
    "<!--<img src=x>-->",
    "<plaintext>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "javascript:alert(1)//",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}<%= 7*7 %>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3c;script&#x3e;alert(1)&#60;/script&#62;",
];

/// Prefixes that may break out of the surrounding markup.
const BREAKOUT_PREFIXES: [&str; 13] = [
    "",
    "\">",
    "'>",
    "\" onmouseover=\"",
    "</title>",
    "</script>",
    "</textarea></select></option>",
    "</pre></code></summary>",
    "-->",
    "]]>",
    "\u{202e}\u{2066}",
    "\u{0}\u{8}\u{1b}[31m",
    "\u{ff1c}\u{fe64}\r\n\t",
];

/// All payloads: every snippet after every prefix.
pub(crate) fn all_payloads() -> Vec<String> {
    BREAKOUT_PREFIXES
        .iter()
        .flat_map(|out| HARMFUL_SNIPPETS.iter().map(move |harm| format!("{out}{harm}")))
        .collect()
}

/// Number of payloads per session.
pub(crate) const PAYLOADS_PER_SESSION: usize = 3;

/// Events of a session in which every field is a payload.
fn events(texts: &[String], at: usize) -> Vec<Value> {
    let all_in_one = texts.join(" ");
    let nodes: Vec<String> = texts.iter().map(|text| text.chars().take(100).collect()).collect();
    let edges: Vec<Value> = nodes
        .iter()
        .zip(nodes.iter().cycle().skip(1))
        .map(|(from, to)| json!({"id": format!("{from}>"), "from": from, "to": to}))
        .collect();
    let mut all =
        vec![json!({"type": "session.started", "goal": all_in_one, "labels": {&all_in_one: all_in_one},
        "parent": texts[0], "workflow": {"nodes": nodes, "edges": edges}})];
    for (text, node) in texts.iter().zip(&nodes) {
        all.extend([
            json!({"type": "progress", "signal": text, "node": node, "failing": [text]}),
            json!({"type": "operation.failed", "operation": text, "key": text}),
            json!({"type": "tool.requested", "call": text, "tool": text, "args": {text: [text]}, "node": node}),
            json!({"type": "tool.finished", "call": text, "ok": false, "error": text}),
        ]);
    }
    // The end of the session: trips, a plan, a question, or a halt.
    match at % 4 {
        0 => all.extend(texts.iter().map(|text| {
            json!({"type": "validation.failed", "kind": text, "expected": text, "received": text, "error": text})
        })),
        1 => {
            let steps = texts.iter().map(|text| json!({"tool": text, "args": {text: text}}));
            all.push(json!({"type": "confirmation.requested", "question": all_in_one, "requester": all_in_one,
                "plan": steps.collect::<Vec<_>>()}));
        }
        2 => all.push(json!({"type": "question.asked", "text": all_in_one})),
        _ => {
            let check = |text: &String| json!({"name": text, "passed": false, "details": [text], "output": text});
            let checks: Vec<Value> = texts.iter().map(check).collect();
            all.push(json!({"type": "gate.checked", "request": all_in_one, "checks": checks}));
            for call in 0..8 {
                let call = format!("{call}{all_in_one}");
                all.push(json!({"type": "tool.requested", "call": call, "tool": all_in_one, "args": {&all_in_one: call.get(1..)}}));
                all.push(json!({"type": "tool.finished", "call": call, "ok": true, "output": {&all_in_one: all_in_one}}));
            }
        }
    }
    all
}

/// Submits all payloads in parallel: each as a session name, and groups of them in every field of a session. Returns
/// the names of the latter sessions.
pub(crate) fn submit_payloads(server: &TestServer, agent: &str, all: &[String]) -> Vec<String> {
    let names: Vec<String> = all
        .chunks(PAYLOADS_PER_SESSION)
        .zip(0..)
        .map(|(texts, at)| format!("{}#{at}", texts.concat()))
        .collect();
    std::thread::scope(|scope| {
        for part in 0..8 {
            let names = &names;
            scope.spawn(move || {
                for (at, texts) in all.chunks(PAYLOADS_PER_SESSION).enumerate().skip(part).step_by(8) {
                    for mut event in events(texts, at) {
                        event["session"] = json!(names[at]);
                        server.submit_event(agent, &event);
                    }
                    for text in texts {
                        server.submit_event(
                            agent,
                            &json!({"type": "question.asked", "session": text, "text": text}),
                        );
                    }
                }
            });
        }
    });
    names
}
