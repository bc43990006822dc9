"""Agent Shepherd, a worker that takes issues through phases.

The phases and the limits are in `policies.yaml`, as Agent Shepherd prints them: both this program and Flyball read that
file. An issue that loops gets a label that requests a person, and is skipped until the label is removed.

Run it: python3 shepherd.py (set FLYBALL to the path of the program if `flyball` is not on your PATH).
"""

import json
import os
import re
import tempfile
from pathlib import Path

POLICY = str(Path(__file__).with_name("policies.yaml"))
FOLDER = tempfile.TemporaryDirectory()
STORE = f"sqlite:{FOLDER.name}/shepherd.db"

# --- glue
from subprocess import DEVNULL, PIPE, Popen, check_call

FLYBALL = os.environ.get("FLYBALL", "flyball")
GOVERNOR = Popen([FLYBALL, "observe", "--policy", POLICY, "--store", STORE], stdin=PIPE, stdout=PIPE, text=True)


def govern(event, issue, **fields):
    print(json.dumps({"type": event, "session": issue, **fields}), file=GOVERNOR.stdin, flush=True)
    answer = json.loads(GOVERNOR.stdout.readline())
    return answer["decision"], [t["message"] for t in answer["trips"]], {e["effect"]: e for e in answer["effects"]}


def unlabel(issue, who, why):
    check_call([FLYBALL, "unlabel", issue, "--by", who, "--why", why, "--store", STORE], stdout=DEVNULL)
# --- end of glue


def read_phases():
    """The phases of the policy and their transitions: {'test': {'on_success': ['review'], …}, …}."""
    phases = {}
    for line in Path(POLICY).read_text(encoding="utf-8").splitlines():
        if name := re.match(r"\s*- name: (\S+)", line):
            phase = phases.setdefault(name[1], {})
        elif outcome := re.match(r"\s*(on_\w+): *(\S*)", line):
            phase[outcome[1]] = [outcome[2]] if outcome[2] else []
            last = phase[outcome[1]]
        elif allowed := re.match(r"\s*allowed_destinations: \[(.*)\]", line):
            last.extend(allowed[1].split(", "))
    return phases


PHASES = read_phases()


class Tracker:
    """The issue tracker, where people see and remove labels."""

    labels = {}

    @classmethod
    def add(cls, issue, label):
        cls.labels.setdefault(issue, set()).add(label)
        print(f"  tracker: {issue} gets the label {label}")

    @classmethod
    def remove(cls, issue, who, why):
        for label in cls.labels.pop(issue, set()):
            print(f"  tracker: {who} takes the label {label} off {issue} ({why})")
            unlabel(issue, who, why)


class Issue:
    """An issue in progress. The script gives the outcome of each phase, and the choices of the decision agent."""

    def __init__(self, name, start, script):
        self.name, self.phase, self.script = name, start, script.split()
        print(f"  {start}", end="")

    def work(self):
        """Works until the script ends, or a label stops the worker."""
        while self.script:
            if Tracker.labels.get(self.name):
                print(f"  worker: {self.name} waits for a person and is skipped")
                return
            self.step(self.script[0])
        print("\n  worker: done" if self.phase == "deploy" else "")

    def step(self, outcome):
        """Follows the transition for an outcome and starts that phase. `retry` starts the same phase again."""
        target, asked = self.phase, []
        if outcome != "retry":
            # `ok` and `failed` have one destination, or a decision agent names one: `failed:fix`.
            word, _, choice = outcome.partition(":")
            target = choice or PHASES[self.phase]["on_success" if word == "ok" else "on_failure"][0]
            asked.append(govern("transition.requested", self.name, **{"from": self.phase, "to": target}))
        if not asked or asked[0][0] != "block":
            asked.append(govern("turn.started", self.name, node=target))
        decision, why, effects = asked[-1]
        if decision == "block":
            print(f"\n  [block] {why[-1]}")
            if "label.added" in effects:
                Tracker.add(self.name, effects["label.added"]["label"])
            else:
                # The decision agent is asked again: the rest of the script has its second choice.
                self.script.pop(0)
                print(f"  {self.phase}", end="")
            return
        self.script.pop(0)
        self.phase = target
        print(f" → {target}", end="")
        for message in [message for _, why, _ in asked for message in why]:
            print(f"\n  [warn] {message}\n  {target}", end="")


def resume(issue, who, why):
    Tracker.remove(issue.name, who, why)
    print(f"  {issue.phase}", end="")
    issue.work()


print("Issue-123: the test phase is flaky and retried. Five visits are allowed.")
flaky = Issue("Issue-123", "implement", "ok retry retry retry retry retry ok ok")
flaky.work()
resume(flaky, "anna", "the test server was down")

print("\nIssue-456: test keeps failing, whichever path the decision agent tries. The transition to fix is used up.")
worn = Issue("Issue-456", "plan", "ok ok failed ok:test ok failed:implement ok failed ok:implement ok failed ok:review "
             "failed:test failed")
worn.work()

print("\nIssue-789: nothing changes between the rounds. The second round is a cycle.")
Issue("Issue-789", "plan", "ok ok failed ok:implement ok failed ok:implement").work()

print("\nIssue-790: a decision agent wants to deploy untested code. fix does not lead there.")
Issue("Issue-790", "fix", "ok:deploy ok:test ok ok").work()

labels = {issue: sorted(labels) for issue, labels in Tracker.labels.items()}
print(f"\nLabels left in the tracker: {json.dumps(labels)}")

# --- glue
GOVERNOR.communicate()
# --- end of glue
