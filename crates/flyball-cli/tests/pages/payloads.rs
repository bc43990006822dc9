//! Texts that try to be more than text, in every field of every event that a page shows.

use super::kit::Server;
use serde_json::{Value, json};

/// What would do harm if a browser took it for more than text.
const HARM: [&str; 26] = [
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

/// Where a text may break out of.
const BREAKS: [&str; 13] = [
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

/// All of them: every harm behind every break.
pub(crate) fn all() -> Vec<String> {
    BREAKS.iter().flat_map(|out| HARM.iter().map(move |harm| format!("{out}{harm}"))).collect()
}

/// How many payloads share a session.
pub(crate) const TOGETHER: usize = 3;

/// The events of a session in which every field is a payload.
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
    // How it ends up: with findings, with a plan, with a question, or stopped.
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

/// Plays them all, several at a time: each as a name of its own, and some of them together in every field of a session.
/// Gives the names of those sessions.
pub(crate) fn play(server: &Server, agent: &str, all: &[String]) -> Vec<String> {
    let names: Vec<String> =
        all.chunks(TOGETHER).zip(0..).map(|(texts, at)| format!("{}#{at}", texts.concat())).collect();
    std::thread::scope(|scope| {
        for part in 0..8 {
            let names = &names;
            scope.spawn(move || {
                for (at, texts) in all.chunks(TOGETHER).enumerate().skip(part).step_by(8) {
                    for mut event in events(texts, at) {
                        event["session"] = json!(names[at]);
                        server.event(agent, &event);
                    }
                    for text in texts {
                        server
                            .event(agent, &json!({"type": "question.asked", "session": text, "text": text}));
                    }
                }
            });
        }
    });
    names
}
