"""Checks the golden tables of the hooks (fixtures/hooks) against the types and schemas that the hosts publish.

    python3 xtask/hooks/published.py                   types in npm: Claude Code, Gemini CLI, Copilot CLI, opencode
    python3 xtask/hooks/published.py --codex FOLDER    and the JSON Schemas of Codex (codex-rs/hooks/schema/generated)

Every recorded answer and input becomes a literal that must satisfy the published type; an unknown key is an error. As a
control, the same check must reject a copy of each with a misspelled key, and answers with a value that no host knows.
Cursor and goose publish neither. Needs Node and npm; everything is written to target/hook-types.
Exit code 0: everything matches and every control was rejected; 1: otherwise; 77: the packages could not be installed.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = ROOT / "fixtures" / "hooks"
PLUGIN = ROOT / "crates" / "flyball-integrations" / "src" / "hook" / "settings" / "opencode.js"
WORK = ROOT / "target" / "hook-types"
# Optional packages are omitted, because one SDK has very large ones; version 7 of the compiler is optional, too.
COMPILER = "typescript@5"
MISSPELLED = "permisionDecision"
SKIPPED = 77

# Claude Code: the answer to an event may contain only the fields specific to that event.
CLAUDE = """import type * as host from "@anthropic-ai/claude-agent-sdk";
type Specific<E> = Extract<host.SyncHookJSONOutput["hookSpecificOutput"], { hookEventName: E }>;
type Answer<E> = Omit<host.SyncHookJSONOutput, "hookSpecificOutput"> & { hookSpecificOutput?: Specific<E> };
type Input<E> = Extract<host.HookInput, { hook_event_name: E }>;
"""
# Gemini CLI: its enums are strings in JSON.
GEMINI = """import type * as host from "@google/gemini-cli-core/dist/src/hooks/types.js";
type Plain<T> = { [K in keyof T]: T[K] extends string ? `${T[K]}` : T[K] };
"""
# Copilot CLI: the SDK makes `cwd` and the milliseconds of a command hook into `workingDirectory` and a Date before it
# calls a function; a command gets what is before that.
COPILOT = """import type { SessionHooks } from "@github/copilot-sdk";
type Hook<N extends keyof SessionHooks> = NonNullable<SessionHooks[N]>;
type Answer<N extends keyof SessionHooks> = Exclude<Awaited<ReturnType<Hook<N>>>, void>;
type Input<N extends keyof SessionHooks> =
  Omit<Parameters<Hook<N>>[0], "timestamp" | "workingDirectory"> & { timestamp: number; cwd: string };
"""


def claude(event):
    return f'Answer<"{event}">', f'Input<"{event}">'


def gemini(event):
    # There is no specific type for the answer to the end of a session.
    answer = "HookOutput" if event == "SessionEnd" else f"{event}Output"
    return f"host.{answer}", f"Plain<host.{event}Input>"


def copilot(event):
    if event in ("permissionRequest", "subagentStop"):
        return None, None  # the SDK has no such hook
    name = "on" + event[0].upper() + event[1:]
    return f'Answer<"{name}">', f'Input<"{name}">'


# Folder of the tables: package, file header, types of an event, and an invalid answer with its event.
HOSTS = {
    "claude-code": ("@anthropic-ai/claude-agent-sdk", CLAUDE, claude, "PreToolUse",
                    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "maybe"}}),
    "gemini": ("@google/gemini-cli-core", GEMINI, gemini, "BeforeTool", {"decision": "maybe"}),
    "copilot": ("@github/copilot-sdk", COPILOT, copilot, "preToolUse", {"permissionDecision": "maybe"}),
}
OPENCODE = "@opencode-ai/plugin"


def tables(host):
    """Event, input, and the answers that are not empty."""
    for path in sorted((TABLES / host).glob("*.json")):
        table = json.loads(path.read_text())
        spoken = {verdict: json.loads(a["stdout"]) for verdict, a in table["answers"].items() if a["stdout"].strip()}
        yield path.stem, table["input"], spoken


def misspelled(value):
    """The value with an unknown key; inside the event-specific part if there is one."""
    inner = value.get("hookSpecificOutput")
    if inner is None:
        return {**value, MISSPELLED: "deny"}
    return {**value, "hookSpecificOutput": {**inner, MISSPELLED: "deny"}}


class Count:
    """Counts and errors of one host."""

    def __init__(self, host, against):
        self.host, self.against = host, against
        self.answers = self.inputs = self.controls = 0
        self.without, self.errors = [], []

    def told(self):
        without = f", no type or schema for {', '.join(self.without)}" if self.without else ""
        print(f"{self.host}: {self.answers} answers, {self.inputs} inputs against {self.against}; "
              f"{self.controls} controls{without}; {len(self.errors)} errors")
        for error in self.errors:
            print(f"  {error}")
        return not self.errors and self.answers + self.inputs > 0 and self.controls > 0


def version(package):
    return json.loads((WORK / "node_modules" / package / "package.json").read_text())["version"]


def installed():
    packages = [COMPILER] + [host[0] for host in HOSTS.values()] + [OPENCODE]
    if all((WORK / "node_modules" / p.removesuffix("@5") / "package.json").is_file() for p in packages):
        return True
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "package.json").write_text('{"private": true, "type": "module"}\n')
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional", "--loglevel=error"]
    return subprocess.run(["npm", "install", *flags, *packages], cwd=WORK, check=False).returncode == 0


def compiled(file, *flags):
    """The compiler errors, each with its line and text."""
    command = ["node", "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--pretty", "false",
               "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", *flags, file]
    said = subprocess.run(command, cwd=WORK, check=False, capture_output=True, text=True)
    found = re.findall(r"^(\S+?)\((\d+),\d+\): error (.*)$", said.stdout, re.MULTILINE)
    if said.returncode != 0 and not found:
        raise SystemExit(f"the compiler failed: {said.stdout}{said.stderr}")
    return [(where, int(line), text) for where, line, text in found]


def typed(host):
    """Writes one literal per line; the compiler reports the lines that do not satisfy their type."""
    package, head, types, event_of_bad, bad = HOSTS[host]
    count = Count(host, f"{package}@{version(package)}")
    lines, meant = head.splitlines(), {}

    def literal(value, type_, what, control):
        lines.append(f"({json.dumps(value)}) satisfies {type_};")
        meant[len(lines)] = (what, control)

    for event, given, answers in tables(host):
        answer_type, input_type = types(event)
        if answer_type is None:
            count.without.append(event)
            continue
        literal(given, input_type, f"{event}: input", False)
        literal({**given, MISSPELLED: "deny"}, input_type, f"{event}: input", True)
        count.inputs += 1
        for verdict, answer in answers.items():
            literal(answer, answer_type, f"{event}: {verdict}", False)
            literal(misspelled(answer), answer_type, f"{event}: {verdict}", True)
            count.answers += 1
    literal(bad, types(event_of_bad)[0], f"{event_of_bad}: maybe", True)

    file = f"{host}.ts"
    (WORK / file).write_text("\n".join(lines) + "\nexport {};\n")
    refused = {}
    for where, line, text in compiled(file):
        if where != file or line not in meant:
            count.errors.append(f"{where}:{line}: {text}")
        refused.setdefault(line, text)
    for line, (what, control) in meant.items():
        count.controls += control
        if control and line not in refused:
            count.errors.append(f"control not rejected: {what}")
        if not control and line in refused:
            count.errors.append(f"{what}: {refused[line]}")
    return count


def opencode():
    """Checks our plugin (counted as one input) against the type of a plugin, because it reads the answers itself.

    Its helper functions have no types, so their parameters may be anything; the host's arguments are typed by
    `@satisfies`. The controls are copies of the plugin with a hook, and with a field of a hook, that does not exist.
    """
    count = Count("opencode", f"{OPENCODE}@{version(OPENCODE)}")
    text = PLUGIN.read_text()
    begin = "export const Flyball = "
    typed_text = text.replace(begin, f'/** @satisfies {{import("{OPENCODE}").Plugin}} */\n{begin}')
    names = (f'import type {{ Hooks }} from "{OPENCODE}";\nimport {{ Flyball }} from "./NAME.js";\n'
             "type Unknown = Exclude<keyof Awaited<ReturnType<typeof Flyball>>, keyof Hooks>;\n"
             "null as unknown as Unknown satisfies never;\n")
    variants = {
        "plugin": typed_text,
        "control-hook": typed_text.replace('"tool.execute.before": async', '"tool.execute.befor": async'),
        "control-field": typed_text.replace("call_id: input.callID", "call_id: input.callId"),
    }
    for name, plugin in variants.items():
        (WORK / f"{name}.js").write_text(plugin)
        (WORK / f"{name}.ts").unlink(missing_ok=True)
        (WORK / f"{name}-names.ts").write_text(names.replace("NAME", name))
        loose = ["--allowJs", "--checkJs", "--noImplicitAny", "false", "--useUnknownInCatchVariables", "false"]
        found = compiled(f"{name}-names.ts", *loose, "--types", "node")
        if name == "plugin":
            count.inputs, own = 1, len(found)
            count.errors += [f"{where}:{line}: {error}" for where, line, error in found]
        else:
            count.controls += 1
            if len(found) <= own:
                count.errors.append(f"control not rejected: {name}")
    return count


def validators():
    """The installed jsonschema, or one in a virtual environment."""
    if importlib.util.find_spec("jsonschema") is None:
        home = WORK / "jsonschema"
        if not home.is_dir():
            venv.create(home, with_pip=True)
            subprocess.run([home / "bin" / "pip", "install", "--quiet", "jsonschema"], check=True)
        sys.path += [str(path) for path in home.glob("lib/python*/site-packages")]
    import jsonschema
    return jsonschema.Draft7Validator


def codex(folder):
    """Checks the answers and inputs of Codex against the schemas in a folder, as far as they exist."""
    validator = validators()
    count = Count("codex", "the JSON Schemas of openai/codex")

    def schema(event, side):
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", event).lower()
        path = folder / f"{name}.command.{side}.schema.json"
        if not path.is_file():
            count.without.append(f"{event} {side}")
            return None
        document = json.loads(path.read_text())
        validator.check_schema(document)
        return validator(document)

    def judge(by, value, what):
        count.errors += [f"{what}: {error.message}" for error in by.iter_errors(value)]
        count.controls += 1
        if by.is_valid(misspelled(value)):
            count.errors.append(f"control not rejected: {what}")

    for event, given, answers in tables("codex"):
        if (by := schema(event, "input")) is not None:
            judge(by, given, f"{event}: input")
            count.inputs += 1
        if (by := schema(event, "output")) is not None:
            for verdict, answer in answers.items():
                judge(by, answer, f"{event}: {verdict}")
                count.answers += 1
            # Valid for other hosts; Codex treats it as a failed hook, after which the call runs.
            for decision in ("ask", "maybe") if event == "PreToolUse" else ():
                count.controls += 1
                if by.is_valid({"hookSpecificOutput": {"hookEventName": event, "permissionDecision": decision}}):
                    count.errors.append(f"control not rejected: {event}: {decision}")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codex", type=pathlib.Path, metavar="FOLDER", help="the JSON Schemas of Codex")
    chosen = parser.parse_args()
    if not installed():
        print("the packages could not be installed")
        return SKIPPED
    counts = [typed(host) for host in HOSTS] + [opencode()]
    if chosen.codex is not None:
        counts.append(codex(chosen.codex))
    fits = [count.told() for count in counts]
    return 0 if all(fits) else 1


if __name__ == "__main__":
    sys.exit(main())
