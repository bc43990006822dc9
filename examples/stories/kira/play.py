"""Plays a conversation with Kira: starts a Flyball server as an operator would, and a new bot process per message.

Run it: python3 play.py (set FLYBALL to the path of the program if `flyball` is not on your PATH).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = tempfile.TemporaryDirectory()
FLYBALL = os.environ.get("FLYBALL", "flyball")
STORE = f"sqlite:{FOLDER.name}/kira.db"
CHAT = "telegram:916542313"


class Server:
    """The operator's side: a server that can be killed, and the keys of the bot."""

    def __init__(self):
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        command = [FLYBALL, "serve", "--store", STORE, "--policy", str(HERE / "policy.yaml")]
        command += ["--listen", self.address, "--no-socket"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.address = re.search(r"http://([\d.:]+)", self.process.stderr.readline())[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def key(name, role):
    command = [FLYBALL, "token", "create", name, "--role", role, "--store", STORE]
    return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()


def write(who, text):
    """A person writes in the chat."""
    print(f"\n{who}: {text}", flush=True)
    bot = {
        "FLYBALL_URL": f"http://{server.address}",
        "KIRA_AGENT_KEY": agent,
        "KIRA_CHANNEL_KEY": channel,
        "KIRA_VAULT": vault,
    }
    subprocess.run([sys.executable, HERE / "kira.py", CHAT, who, text], env={**os.environ, **bot}, check=True)


vault = f"{FOLDER.name}/tasks.json"
with open(vault, "w", encoding="utf-8") as file:
    json.dump({"task-1": "Call Varya", "task-2": "Buy a gift for Varya", "task-3": "Pay the rent"}, file)
agent, channel = key("kira", "agent"), key("telegram", "channel")
server = Server()
try:
    print("1. The bot asks about a plan, and the pending plan survives the bot and the server.")
    write("Maxim", "delete the 2 tasks about Varya")
    print("\n   The bot's process has ended. Now the server is killed and started again.")
    server.kill()
    server.start()
    write("Maxim", "Да")

    print("\n2. The approval is used up: repeating the call needs a new one, and a second yes has no effect.")
    write("Maxim", "try it once more")
    write("Maxim", "cancel")
    write("Maxim", "yes")
    write("Maxim", "what is left?")

    print("\n3. A new request drops the pending plan. A later yes approves nothing.")
    write("Maxim", "delete the task about rent")
    write("Maxim", "show me my tasks first")
    write("Maxim", "yes")

    print("\n4. A model that calls a destructive tool without asking is blocked, and the user is asked.")
    write("Maxim", "clean up")
    write("Maxim", "hm")
    write("Maxim", "no")
    write("Maxim", "what is left?")
finally:
    server.kill()
