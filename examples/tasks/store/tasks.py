"""A small store of tasks: list, delete, and name the tasks of a plan. Run it in the folder of tasks.json.

A deletion may be repeated with the same idempotency key (FLYBALL_CALL): the task is deleted once.
"""

import json
import os
import sys

FILE = "tasks.json"
# The keys of started deletions.
BEGUN = "begun.log"


def load():
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)


def save(tasks):
    # Written to a temporary file and renamed, so that a partial file is never read.
    with open(FILE + ".new", "w", encoding="utf-8") as file:
        json.dump(tasks, file, ensure_ascii=False, indent=2)
    os.replace(FILE + ".new", FILE)


def list_tasks(about=""):
    found = [task for task in load() if about.lower() in task["title"].lower()]
    return "\n".join(f"{task['uid']} {task['title']}" for task in found) or "Задач нет."


def begun(key):
    if not os.path.exists(BEGUN):
        return False
    with open(BEGUN, encoding="utf-8") as file:
        return key + "\n" in file.readlines()


def delete_task(uid):
    tasks = load()
    left = [task for task in tasks if task["uid"] != uid]
    key = f"{os.environ.get('FLYBALL_CALL', '')} {uid}"
    again = begun(key)
    if len(left) == len(tasks) and not again:
        sys.exit(f"there is no task {uid}")
    if not again:
        with open(BEGUN, "a", encoding="utf-8") as file:
            file.write(key + "\n")
    save(left)
    return f"deleted {uid}"


def name_tasks(plan):
    """The ids that a plan would delete. A plan that names a missing task is invalid."""
    known = {task["uid"] for task in load()}
    uids = [step["args"]["uid"] for step in json.loads(plan)]
    gone = [uid for uid in uids if uid not in known]
    if gone:
        sys.exit(f"there is no task {', '.join(gone)}")
    return ", ".join(uids)


COMMANDS = {"list": list_tasks, "delete": delete_task, "names": name_tasks}

if __name__ == "__main__":
    print(COMMANDS[sys.argv[1]](*sys.argv[2:]), end="")
