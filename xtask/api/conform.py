"""Tests the running server against its OpenAPI document with schemathesis: valid and invalid requests.

Starts a server on its own store with sample sessions, and sends requests as admin, operator and agent.
Exit code 0: no failures; 1: failures; 77: schemathesis could not be installed.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "openapi.json"
# A body that matches its schema may still be rejected: the schema knows neither the fields of each event type nor
# which session is waiting for an answer.
LEFT_OUT = "positive_data_acceptance"
# Endless streams cannot be tested by a client that waits for the end of a response.
ENDLESS = "text/event-stream"
EXAMPLES = {"admin": 8, "operator": 4, "agent": 4}
SKIPPED = 77


def installed(work):
    """Installs the pinned schemathesis in a virtual environment."""
    home = work / "schemathesis"
    program = home / "bin" / "schemathesis"
    if not program.is_file():
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"]
        if subprocess.run(pip, check=False).returncode != 0:
            shutil.rmtree(home)
            return None
    return program


class Server:
    """A server with its own store."""

    def __init__(self, flyball, folder):
        self.flyball = flyball
        self.store = f"sqlite:{folder}/flyball.db"
        command = [flyball, "serve", "--listen", "127.0.0.1:0", "--no-socket", "--store", self.store]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found is None:
            self.process.kill()
            raise SystemExit(f"the server printed no address: {line}")
        self.place = found.group()

    def key(self, role):
        command = [self.flyball, "token", "create", f"{role}-key", "--role", role, "--store", self.store, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["secret"]

    def event(self, key, event):
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.place}/v1/events", json.dumps(event).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def furnish(server, key):
    """Sample data: a session with a workflow, findings and a plan awaiting approval."""
    edges = [{"id": "e1", "from": "code", "to": "test"}, {"id": "e2", "from": "test", "to": "code"}]
    server.event(key, {"type": "session.started", "session": "s1", "workflow": {"nodes": ["code", "test"], "edges": edges}})
    for call in range(6):
        name = {"session": "s1", "call": f"c{call}"}
        server.event(key, {"type": "tool.requested", "tool": "bash", "args": {"command": "ls"}, **name})
        server.event(key, {"type": "tool.finished", "ok": True, "output": "a b", **name})
    server.event(key, {"type": "confirmation.requested", "session": "s2", "question": "?", "plan": [{"tool": "rm", "args": {}}]})


def endless():
    """The routes whose responses never end."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    for path, item in paths.items():
        for operation in item.values():
            content = operation["responses"].get("200", {}).get("content", {})
            if ENDLESS in content:
                yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flyball", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    program = installed(args.work)
    if program is None:
        return SKIPPED
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(args.flyball, folder)
        try:
            furnish(server, server.key("agent"))
            for role, examples in EXAMPLES.items():
                command = [program, "--config-file", HERE / "schemathesis.toml", "run", DOCUMENT, "--url", server.place, "--no-color", "--seed", "1"]
                command += ["--header", f"Authorization: Bearer {server.key(role)}", "--exclude-checks", LEFT_OUT]
                command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(examples)]
                command += ["--continue-on-failure", "--warnings", "off"]
                for path in endless():
                    command += ["--exclude-path", path]
                print(f"schemathesis as {role}", flush=True)
                if subprocess.run(command, cwd=folder, check=False).returncode != 0:
                    failed.append(role)
            if server.process.poll() is not None:
                failed.append("the server has exited")
        finally:
            server.stop()
    if failed:
        print(f"failures as {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
