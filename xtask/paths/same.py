"""Compares the decisions of all paths: canonical streams and recorded runs through `observe`, the hook of Claude Code
and the model proxy must get the same decisions as with `replay`.

usage: same.py --flyball PATH --shared DIR [--runs N]

The hook is started as a separate process for every event, as the host does. The proxy's upstream is a local server that
returns the answers of the run. Both stores are read back and compared, decision by decision. Events that a path does
not see (a hook does not see what an agent says between two calls) are also omitted from the input of `replay`.
"""

import argparse
import gzip
import http.client
import http.server
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

MOST_CALLS = 60


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def histories(shared, wanted, folder):
    """Named lists of events: all streams, and as many recorded runs as wanted."""
    subprocess.run(
        [sys.executable, "-B", os.path.join(shared, "streams/streams.py"), "--flyball", ARGS.flyball, "--dump", folder],
        check=True, stdout=subprocess.DEVNULL,
    )
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as lines:
            yield f"stream {name}", [json.loads(line) for line in lines if line.strip()]
    runs = os.path.join(shared, "trajectories")
    to_events = loaded(os.path.join(runs, "to_events.py"), "to_events")
    files = sorted(name for name in os.listdir(runs) if name.endswith(".jsonl.gz"))
    found = []
    for name in files:
        with gzip.open(os.path.join(runs, name), "rt", encoding="utf-8") as lines:
            of_source = []
            for line in lines:
                events = list(to_events.events(json.loads(line)))
                calls = sum(event["type"] == "tool.requested" for event in events)
                if 3 <= calls <= MOST_CALLS and not any("node" in event for event in events):
                    of_source.append(events)
        found.append((name.split(".")[0], of_source))
    # Interleave the sources, so that a small number of runs covers all of them.
    place, taken = 0, 0
    while taken < wanted and any(place < len(runs) for _, runs in found):
        for source, runs in found:
            if place < len(runs) and taken < wanted:
                taken += 1
                yield f"{source} {place}", runs[place]
        place += 1


def flyball(args, text="", env=None):
    cwd = env["HOME"] if env else None
    return subprocess.run([ARGS.flyball, *args], input=text, capture_output=True, text=True, env=env, cwd=cwd).stdout


def lines(events):
    return "".join(json.dumps(event) + "\n" for event in events)


def replay(folder, name, events):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(lines(events))
    return [json.loads(line) for line in flyball(["replay", "--json", path]).splitlines()]


def shown(decision):
    """The compared fields: everything except the session, the event numbers and the text of the evidence."""
    trips = [(t["guard"], t["reason"], t["severity"], t["count"], t["limit"], t["message"]) for t in decision["trips"]]
    return decision["decision"], decision["state"], trips


def environment(home):
    return {"PATH": os.environ["PATH"], "HOME": home, "FLYBALL_STORE": f"sqlite:{home}/flyball.db"}


def stored(home, session):
    """The stored events of a session with their decisions."""
    sql = sqlite3.connect(f"{home}/flyball.db")
    rows = sql.execute(
        "SELECT e.text, e.decision FROM flyball_events e JOIN flyball_sessions s ON s.no = e.no"
        " WHERE s.session = ? ORDER BY e.pos", (session,),
    ).fetchall()
    sql.close()
    return [(json.loads(text), json.loads(decision)) for text, decision in rows]


def asked(pairs):
    """The decisions on calls, in order; a call that is delivered again already has its answer."""
    first = {}
    for event, decision in pairs:
        if event["type"] == "tool.requested":
            first.setdefault(event["call"], shown(decision))
    return list(first.values())


def compare(name, path, expected, found):
    for place, (one, other) in enumerate(zip(expected, found), 1):
        if one != other:
            return f"{name}, {path}: call {place}: replay says {one}, {path} says {other}"
    if len(found) < len(expected):
        return f"{name}, {path}: {len(found)} of {len(expected)} calls were decided"
    return None


def through_observe(name, events, folder):
    home = tempfile.mkdtemp(dir=folder)
    expected = [shown(decision) for decision in replay(home, "events.jsonl", events)]
    out = flyball(["observe"], lines(events), environment(home))
    return compare(name, "observe", expected, [shown(json.loads(line)) for line in out.splitlines()])


def heard(events):
    """The events a hook sees: prompts, calls and results, without rounds."""
    kept = [e for e in events if e["type"] in ("user.message", "tool.requested", "tool.finished")]
    return [{key: value for key, value in e.items() if key not in ("round", "at", "step", "session")} for e in kept]


def through_hook(name, events, folder):
    home = tempfile.mkdtemp(dir=folder)
    events = heard(events)
    decisions = replay(home, "events.jsonl", [{"type": "session.started"}, *events])[1:]
    expected = asked(zip(events, decisions))
    calls, env = {}, environment(home)
    base = {"session_id": "s", "transcript_path": "", "cwd": home, "permission_mode": "default"}
    for number, event in enumerate(events):
        kind = event["type"]
        if kind == "user.message":
            told = {"hook_event_name": "UserPromptSubmit", "prompt": event["text"], "prompt_id": f"p{number}"}
        elif kind == "tool.requested":
            calls[event["call"]] = {"tool_name": event["tool"], "tool_input": event["args"], "tool_use_id": event["call"]}
            told = {"hook_event_name": "PreToolUse", **calls[event["call"]]}
        elif event.get("ok", True):
            told = {"hook_event_name": "PostToolUse", **calls[event["call"]], "tool_response": event.get("output")}
        else:
            told = {"hook_event_name": "PostToolUseFailure", **calls[event["call"]], "error": event.get("error")}
        flyball(["hook", "claude-code"], json.dumps({**base, **told}), env)
    return compare(name, "hook", expected, asked(stored(home, "claude-code:s")))


def conversation(events):
    """The model's answers and the messages between them; None if the events do not form a conversation."""
    turns, said, opened = [], [{"type": "text", "text": "begin"}], set()
    answer = None
    for event in events:
        kind = event["type"]
        if kind in ("assistant.message", "tool.requested"):
            if answer is None:
                if opened:
                    return None
                turns.append((said, []))
                answer, said = turns[-1][1], []
            if kind == "assistant.message" and event["text"].strip():
                answer.append({"type": "text", "text": event["text"]})
            if kind == "tool.requested":
                if not isinstance(event["args"], dict):
                    return None
                opened.add(event["call"])
                answer.append({"type": "tool_use", "id": event["call"], "name": event["tool"], "input": event["args"]})
        elif kind in ("user.message", "tool.finished"):
            answer = None
            if kind == "user.message":
                if opened:
                    return None
                if any(block["type"] == "tool_result" for block in said):
                    # A person writes after the agent has ended its turn; text beside results comes from a program.
                    turns.append((said, [{"type": "text", "text": f"That was part {len(turns)}."}]))
                    said = []
                said.append({"type": "text", "text": event["text"] or " "})
            else:
                if event["call"] not in opened:
                    return None
                opened.discard(event["call"])
                text = event.get("error") if event.get("ok") is False else event.get("output")
                said.append({"type": "tool_result", "tool_use_id": event["call"], "content": text or "",
                             "is_error": event.get("ok") is False})
    return None if any(not answer for _, answer in turns) else turns


def told(turns):
    """The conversation as events."""
    events, round_ = [{"type": "session.started"}], 0
    for said, answer in turns:
        for block in [b for b in said if b["type"] == "tool_result"]:
            ok = not block["is_error"]
            extra = {} if ok else {"error": block["content"]}
            events.append({"type": "tool.finished", "call": block["tool_use_id"], "ok": ok, "output": block["content"], **extra})
        events += [{"type": "user.message", "text": b["text"]} for b in said if b["type"] == "text"]
        round_ += 1
        calls = [b for b in answer if b["type"] == "tool_use"]
        text = "".join(b["text"] for b in answer if b["type"] == "text")
        if text:
            events.append({"type": "assistant.message", "text": text, "round": round_, "final": not calls})
        events += [{"type": "tool.requested", "call": b["id"], "tool": b["name"], "args": b["input"], "round": round_}
                   for b in calls]
    return events


class Model(http.server.BaseHTTPRequestHandler):
    """Returns the answer named by the model of the request: run and turn."""

    protocol_version = "HTTP/1.1"
    answers = {}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self.answers[body["model"]]
        stop = "tool_use" if any(block["type"] == "tool_use" for block in answer) else "end_turn"
        text = json.dumps({
            "id": f"msg_{body['model']}", "type": "message", "role": "assistant", "model": body["model"],
            "content": answer, "stop_reason": stop, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Proxy:
    def __init__(self, folder):
        self.home = tempfile.mkdtemp(dir=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        upstream = f"http://127.0.0.1:{self.server.server_port}"
        self.child = subprocess.Popen(
            [ARGS.flyball, "proxy", "--listen", "127.0.0.1:0", "--upstream", upstream],
            stderr=subprocess.PIPE, text=True, env=environment(self.home), cwd=self.home,
        )
        self.address = self.child.stderr.readline().split("http://")[1].split()[0]
        threading.Thread(target=self.child.stderr.read, daemon=True).start()

    def end(self):
        self.child.terminate()
        self.child.wait()
        self.server.shutdown()


def through_proxy(name, events, number, proxy, folder):
    turns = conversation(events)
    if turns is None:
        return "left out"
    home = tempfile.mkdtemp(dir=folder)
    as_events = told(turns)
    decisions = replay(home, "events.jsonl", as_events)
    expected = asked(zip(as_events, decisions))
    messages, halted = [], False
    for turn, (said, answer) in enumerate(turns):
        Model.answers[f"m{number}-{turn}"] = answer
        messages.append({"role": "user", "content": said})
        body = json.dumps({"model": f"m{number}-{turn}", "max_tokens": 100, "messages": messages})
        link = http.client.HTTPConnection(proxy.address, timeout=60)
        link.request("POST", "/v1/messages", body, {"content-type": "application/json", "x-flyball-session": f"s{number}"})
        reply = link.getresponse()
        halted = reply.getheader("x-flyball-decision") == "halt"
        reply.read()
        link.close()
        if halted:
            break
        messages.append({"role": "assistant", "content": answer})
    found = asked(stored(proxy.home, f"s{number}"))
    if halted:
        # From here on nothing reaches the model. With replay it must be halted at the same call or by its result.
        state = [d["state"] for d in decisions]
        before = as_events[: state.index("halted") + 1] if "halted" in state else []
        if sum(event["type"] == "tool.requested" for event in before) != len(found):
            return f"{name}, proxy: halted after {len(found)} calls, but not at the same call with replay"
        expected = expected[: len(found)]
    return compare(name, "proxy", expected, found)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "streams"))
        all_of_them = list(histories(ARGS.shared, ARGS.runs, os.path.join(folder, "streams")))
        proxy = Proxy(folder)
        counts, wrong = {"observe": 0, "hook": 0, "proxy": 0}, []

        def one(item):
            number, (name, events) = item
            return [
                ("observe", through_observe(name, events, folder)),
                ("hook", through_hook(name, events, folder)),
                ("proxy", through_proxy(name, events, number, proxy, folder)),
            ]

        with ThreadPoolExecutor(2) as pool:
            for done, results in enumerate(pool.map(one, enumerate(all_of_them)), 1):
                for path, result in results:
                    counts[path] += result is None
                    if result not in (None, "left out"):
                        wrong.append(result)
                if done % 20 == 0:
                    print(f"{done} of {len(all_of_them)}", flush=True)
        proxy.end()
        for line in wrong[:20]:
            print(line)
        print(f"{len(all_of_them)} histories; same decisions as replay: " + ", ".join(f"{path} {n}" for path, n in counts.items()))
        return 1 if wrong or counts["hook"] < len(all_of_them) or counts["proxy"] == 0 else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flyball", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--runs", type=int, default=200)
    ARGS = parser.parse_args()
    ARGS.flyball = os.path.abspath(ARGS.flyball)
    sys.exit(main())
