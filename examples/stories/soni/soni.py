"""Soni, a dialogue manager that books flights.

Soni interprets a message, moves from node to node, fills slots, and asks for confirmation before it books. Its language
understanding is weak on purpose: it often misses a correction or an answer. Flyball counts the failed attempts, opens a
circuit breaker, handles the confirmation, and detects cycles of nodes.

Run it: python3 soni.py (set FLYBALL to the path of the program if `flyball` is not on your PATH).
"""

import json
import os
import re
import tempfile

CALLER = "caller-7"
FOLDER = tempfile.TemporaryDirectory()
STORE = f"sqlite:{FOLDER.name}/soni.db"
CITIES = ("Madrid", "Paris", "Lisbon", "Rome")


class Clock:
    """Simulated time in milliseconds, so that every run prints the same."""

    ms = 1_760_000_000_000


# --- glue
from subprocess import PIPE, Popen, check_output

FLYBALL = os.environ.get("FLYBALL", "flyball")
GOVERNOR = Popen([FLYBALL, "observe", "--store", STORE], stdin=PIPE, stdout=PIPE, text=True)


def govern(event, **fields):
    print(json.dumps({"type": event, "session": CALLER, "at": Clock.ms, **fields}), file=GOVERNOR.stdin, flush=True)
    answer = json.loads(GOVERNOR.stdout.readline())
    return answer["decision"], [t["message"] for t in answer["trips"]], {e["effect"]: e for e in answer["effects"]}


def report():
    return json.loads(check_output([FLYBALL, "status", CALLER, "--store", STORE, "--json"]))["report"]
# --- end of glue


class Soni:
    """One conversation. `state` is what the original calls conversation_state."""

    def __init__(self):
        self.state = "understanding"
        self.node = "understand"
        self.slots = {}
        self.bookings = []

    def hear(self, text):
        """Handles one message from the caller."""
        Clock.ms += 5_000
        print(f"\nCaller: {text}")
        if self.state == "confirming":
            self.handle_confirmation(text)
        else:
            self.state = "understanding"
            govern("user.message", text=text)
            self.understand(text)
        print(f"        (state: {self.state})")

    def go(self, node):
        """Moves to another node, unless that closes a cycle."""
        decision, why, _ = govern("transition.requested", **{"from": self.node, "to": node})
        if decision == "block":
            log(decision, why)
            self.fail("I'm stuck in a loop. Let's start over. What would you like to do?")
            return False
        self.node = node
        return True

    def understand(self, text):
        self.node = "understand"
        if "I meant" in text:
            self.handle_correction(text)
        elif self.go("collect_next_slot"):
            self.collect_next_slot(text)

    def collect_next_slot(self, text):
        cities = [city for city in CITIES if city in text]
        if cities:
            self.slots["destination"] = cities[-1]
        seats = re.search(r"\b([1-9]) seats?\b", text)
        if seats:
            self.slots["seats"] = int(seats[1])
        if "destination" not in self.slots:
            say("Where would you like to fly?")
        elif "seats" not in self.slots:
            say(f"{self.slots['destination']}, good. How many seats?")
        else:
            self.ask_for_confirmation()

    def handle_correction(self, text):
        """Applies a correction, if the breaker allows the attempt and the city is recognized."""
        decision, why, effects = govern("operation.requested", operation="correction")
        log(decision, why)
        if decision == "block":
            # No attempt while the breaker is open.
            self.fail(effects["say"]["text"] if "say" in effects else "I can't take corrections right now.")
            return
        cities = [city for city in CITIES if city in text]
        if cities:
            govern("operation.succeeded", operation="correction")
            self.slots["destination"] = cities[-1]
            say(f"Got it, I've updated the destination to {cities[-1]}.")
        else:
            log(*govern("operation.failed", operation="correction")[:2])
            say("I didn't get the city. Which one did you mean?")

    def ask_for_confirmation(self):
        if self.go("handle_confirmation"):
            plan = [{"tool": "book_flight", "args": dict(self.slots)}]
            seats = "1 seat" if self.slots["seats"] == 1 else f"{self.slots['seats']} seats"
            question = f"{seats} to {self.slots['destination']}."
            govern("confirmation.requested", plan=plan, question=question)
            say(f"{question} Is this information correct? (yes/no)")
            self.state = "confirming"

    def handle_confirmation(self, text):
        """Reports the caller's answer as understood: true, false, or null for unclear."""
        value = {"yes": True, "no": False}.get(text.lower().strip(".!"))
        decision, why, effects = govern("confirmation.answered", value=value)
        log(decision, why)
        if "plan.approved" in effects:
            say(effects["say"]["text"])
            for step in effects["plan.approved"]["plan"]:
                self.bookings.append(step["args"])
                print(f"        * booked: {step['args']['seats']} seats to {step['args']['destination']}")
            self.slots, self.state, self.node = {}, "completed", "understand"
        elif "plan.rejected" in effects:
            say("What would you like to change?")
            self.state = "understanding"
        elif decision == "block":
            self.fail(effects["say"]["text"])
        else:
            say(effects["say"]["text"])

    def fail(self, text):
        say(text)
        self.slots, self.state, self.node = {}, "error", "understand"

    def route_with_the_old_bug(self, text):
        """The router before its fix: every answer returns to `understand`, which forwards it again."""
        Clock.ms += 5_000
        print(f"\nCaller: {text}")
        govern("user.message", text=text)
        steps = 0
        while self.go("handle_confirmation" if self.node == "understand" else "understand"):
            steps += 1
        print(f"        (state: {self.state}, stopped after {steps} transitions of one message)")


def say(text):
    print(f"Soni:   {text}")


def log(decision, why):
    if decision != "allow":
        print(f"        [{decision}] {'; '.join(why)}")


soni = Soni()

print("1. A correction that Soni does not understand: three attempts, then the breaker opens.")
soni.hear("I want to fly to Paris")
soni.hear("no, I meant the other one")
soni.hear("I meant the city in the south")
soni.hear("I meant where my sister lives")
print(f"\n   Counted: {report()['counters']}")
soni.hear("I meant the one with the trams")
for breaker in report()["breakers"]:
    print(f"\n   The breaker of '{breaker['operation']}' has opened {breaker['trips']} time.")
print("\n   While it is open, no correction is attempted, however clear the message is.")
soni.hear("I meant Lisbon")
print("\n   A minute later one attempt is allowed. It succeeds, and the breaker closes.")
Clock.ms += 60_000
soni.hear("I meant Lisbon")
soni.hear("I meant Rome")

print("\n2. Each unclear answer is reported once, and a clear yes still counts.")
soni.hear("2 seats please")
soni.hear("hm")
soni.hear("well, it depends")
soni.hear("yes")

print("\n3. Four unclear answers: the confirmation is aborted, and nothing is booked.")
soni.hear("fly me to Madrid, 3 seats")
for answer in ("hm", "my cat is asleep", "perhaps", "what did you say?"):
    soni.hear(answer)

print("\n4. The original bug: the router loops within one message.")
soni.route_with_the_old_bug("yes")
print("\n   The next message starts over.")
soni.hear("fly me to Paris, 1 seat")
soni.hear("no")

print(f"\nBooked in the end: {json.dumps(soni.bookings)}")

# --- glue
GOVERNOR.communicate()
# --- end of glue
