// Dex, an agent that works on coding tasks in a loop.
//
// The model, its tools and the project's checks are scripted; the loop around them is Dex's. Flyball governs the loop
// under Dex's configuration (`config.yaml`): runtime, repeated calls, invalid answers, large outputs, and the quality
// gate on TASK_COMPLETE.
//
// Run it: node dex.mjs (set FLYBALL to the path of the program if `flyball` is not on your PATH).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CONFIG = fileURLToPath(new URL("config.yaml", import.meta.url));
const FOLDER = mkdtempSync(join(tmpdir(), "dex-"));
const STORE = `sqlite:${join(FOLDER, "dex.db")}`;
process.on("exit", () => rmSync(FOLDER, { recursive: true }));
const MINUTE = 60_000;
// Simulated time in milliseconds, so that every run prints the same.
let now = 1_760_000_000_000;

// --- glue
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
const stdio = ["pipe", "pipe", "inherit"];
const flyball = spawn(process.env.FLYBALL ?? "flyball", ["observe", "--policy", CONFIG, "--store", STORE], { stdio });
const answers = createInterface({ input: flyball.stdout })[Symbol.asyncIterator]();
async function govern(task, type, fields) {
  flyball.stdin.write(JSON.stringify({ type, session: task, at: now, ...fields }) + "\n");
  return JSON.parse((await answers.next()).value);
}
// --- end of glue

/** One task. Every method is a step of the loop and returns whether the loop may continue. */
class Task {
  constructor(name) {
    this.name = name;
    this.calls = 0;
  }

  ask(type, fields) {
    now += 1_000;
    return govern(this.name, type, fields);
  }

  /** Runs a tool, unless it is blocked. The model gets the result, or the reason why there is none. */
  async tool(tool, args, run) {
    const call = `call-${++this.calls}`;
    const answer = await this.ask("tool.requested", { call, tool, args });
    const shown = `${tool} ${JSON.stringify(args)}`;
    log(answer);
    if (refused(answer)) {
      console.log(`  Dex: ${shown} does not run. To the model: ${answer.feedback}`);
      return answer.decision !== "halt";
    }
    const result = run();
    await this.ask("tool.finished", { call, ok: true, output: result.slice(0, 1_000) });
    const { output } = await this.ask("output.received", { call, tool, text: result });
    if (output) {
      console.log(`  Dex: ${shown} ran. To the model, instead of ${output.chars} characters:`);
      for (const line of output.text.split("\n").slice(0, 4)) console.log(`    | ${line}`.trimEnd());
    } else {
      console.log(`  Dex: ${shown} ran: ${result}`);
    }
    return true;
  }

  /** Parses an answer of the model and reports whether it is valid. */
  async parse(text) {
    try {
      const call = JSON.parse(text);
      await this.ask("validation.passed");
      console.log(`  Dex: understood: ${call.tool}`);
      return true;
    } catch {
      const error = "unexpected end of JSON";
      const problem = { kind: "malformed_json", expected: "a tool call", received: text, error };
      const answer = await this.ask("validation.failed", problem);
      log(answer);
      return answer.decision !== "halt";
    }
  }

  /** The model reports completion: Dex runs the project's checks and submits their output. */
  async complete(checks) {
    console.log("  model: TASK_COMPLETE");
    await this.ask("completion.requested", { request: "TASK_COMPLETE" });
    const answer = await this.ask("gate.checked", { request: "TASK_COMPLETE", checks });
    log(answer);
    const blocked = effect(answer, "completion.blocked");
    if (blocked) {
      console.log(`  Dex: blocked by ${blocked.blocked_by}: ${blocked.details.join("; ")}. To the model:`);
      for (const line of blocked.text.trimEnd().split("\n")) console.log(`    | ${line}`.trimEnd());
      return false;
    }
    console.log(`  Dex: ${this.name} is complete.`);
    return true;
  }

  /** One turn of the model that takes some time. */
  async turn(minutes, output) {
    const answer = await this.ask("turn.started", { node: "coder" });
    log(answer);
    if (refused(answer)) return false;
    now += minutes * MINUTE;
    console.log(`  model: ${output}`);
    log(await this.ask("turn.finished", { node: "coder", output }));
    return true;
  }
}

const effect = (answer, name) => answer.effects.find((effect) => effect.effect === name);
const refused = (answer) => answer.decision === "block" || answer.decision === "halt";

function log(answer) {
  for (const trip of answer.trips) console.log(`  [${answer.decision}] ${trip.message}`);
  const halted = effect(answer, "loop.halted");
  if (halted) console.log(`  Dex: stopped: ${halted.reason} (${halted.haltReason})`);
}

console.log("1. The model reads one file repeatedly. Five calls run, the sixth is blocked, and the third block halts.");
const reader = new Task("task-read");
while (await reader.tool("read_file", { path: "main.go" }, () => "package main"));

console.log("\n2. Invalid answers. A valid one in between resets the count.");
const broken = new Task("task-broken");
for (const text of ['{"tool": ', '{"tool": "grep"}', '{"tool": ', '{"tool": "gr', '{"to']) {
  if (!(await broken.parse(text))) break;
}

console.log("\n3. A tool that prints 300,000 characters. The model gets a preview and a reference.");
const loud = new Task("task-loud");
await loud.tool("run_tests", { verbose: true }, () => "=== RUN TestAll\n".repeat(18_750));

console.log("\n4. The quality gate: raw output of the checks in, findings and instructions out.");
const login = new Task("task-login");
const build = { name: "build", kind: "go-build", output: "", exit_code: 0 };
const red = `--- FAIL: TestLogin (0.00s)
    auth_test.go:17: got 401, want 200
FAIL
FAIL\texample.com/auth\t0.003s
FAIL
`;
const green = "ok  \texample.com/auth\t0.003s\n";
if (!(await login.complete([{ name: "tests", kind: "go-test", output: red, exit_code: 1 }, build]))) {
  await login.tool("write_file", { path: "auth.go" }, () => "the token is checked now");
  await login.complete([{ name: "tests", kind: "go-test", output: green, exit_code: 0 }, build]);
}

console.log("\n5. The four hours run out in the middle of the work. A person grants more, and the turn is repeated.");
const long = new Task("task-long");
const steps = ["read the code", "split the parser", "move the tests", "fix the imports", "update the docs"];
for (const step of steps) {
  while (!(await long.turn(5, step))) {
    const raised = await long.ask("human.released", { guard: "budget", by: "anna", why: "nearly done" });
    console.log(`  anna: continue, it is nearly done (${effect(raised, "budget.raised").text})`);
  }
  // The tests of this project take long.
  now += 59 * MINUTE;
}
await long.complete([{ name: "tests", kind: "go-test", output: green, exit_code: 0 }, build]);

// --- glue
flyball.stdin.end();
// --- end of glue
