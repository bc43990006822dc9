"""Kira, a chat bot that manages a person's tasks.

Each chat message starts a new process of the bot, which keeps no state: Flyball stores the pending plan. The original
kept it in the process and lost it, so it answered every "yes" with the same question.

Usage: kira.py CHAT PERSON TEXT. `play.py` starts a server, creates the keys and plays a conversation.
"""

import json
import os
import re
import sys

VAULT = os.environ["KIRA_VAULT"]

# --- glue
from urllib.request import Request, urlopen


def send(key, path, **body):
    headers = {"Authorization": "Bearer " + os.environ[key], "Content-Type": "application/json"}
    url = f"{os.environ['FLYBALL_URL']}/v1/sessions/{CHAT}/{path}"
    answer = json.load(urlopen(Request(url, json.dumps(body).encode(), headers)))
    return answer["decision"], [(effect["effect"], effect) for effect in answer["effects"]]
# --- end of glue


def ask(type, **fields):
    """Requests permission for an action, or reports a finished one."""
    return show(send("KIRA_AGENT_KEY", "events", type=type, **fields))


def hear(person, text):
    """Submits a message from a person, and returns what to do about it."""
    return show(send("KIRA_CHANNEL_KEY", "messages", by=person, text=text))


def show(answer):
    """Prints the text for the person."""
    decision, effects = answer
    for name, effect in effects:
        if name == "say":
            print(f"Kira: {effect['text']}")
    return decision, dict(effects)


def tasks():
    with open(VAULT, encoding="utf-8") as file:
        return json.load(file)


def delete(uid):
    left = {key: title for key, title in tasks().items() if key != uid}
    with open(VAULT, "w", encoding="utf-8") as file:
        json.dump(left, file)


def run(steps):
    """Runs the steps of a plan. Each step requests permission first."""
    for step in steps:
        uid = step["args"]["uid"]
        decision, _ = ask("tool.requested", call=uid, **step)
        if decision in ("block", "halt"):
            print(f"      (not run: {step['tool']} {uid}, it needs an approval)")
            continue
        delete(uid)
        ask("tool.finished", call=uid, ok=True)
        print(f"      (deleted: {uid})")


def think(text):
    """Plays the model: decides how to handle a request."""
    wanted = re.search(r"delete .*\babout (\w+)", text)
    if wanted:
        found = [uid for uid, title in tasks().items() if wanted[1].lower() in title.lower()]
        plan = [{"tool": "task_delete", "args": {"uid": uid}} for uid in found]
        question = f"Confirm the deletion of {', '.join(found)}. This cannot be undone. Are you sure?"
        ask("confirmation.requested", plan=plan, question=question)
        print(f"Kira: {question}")
    elif "once more" in text:
        # A model that reuses an old approval.
        run([{"tool": "task_delete", "args": {"uid": "task-1"}}])
    elif "clean up" in text:
        # A careless model calls the tool without asking. The call is blocked.
        run([{"tool": "task_delete", "args": {"uid": uid}} for uid in list(tasks())[:1]])
    elif "tasks" in text or "left" in text:
        print("Kira: Your tasks are " + ", ".join(f"{uid} ({title})" for uid, title in tasks().items()) + ".")


CHAT, PERSON, TEXT = sys.argv[1:]
_, effects = hear(PERSON, TEXT)
do = effects["person.message"]["next"]
if do == "run_plan":
    run(effects["plan.approved"]["plan"])
elif do == "pass_on":
    think(TEXT)
