// vuhlp, which runs graphs of agents: nodes take turns, edges pass on their results, and loops are intended.
//
// The nodes are scripted; the runtime around them is vuhlp's. Flyball finds the loops of the graph, counts their
// iterations, enforces the budgets of turns, nodes and loops, and halts a loop that does not converge.
//
// Run it: node vuhlp.mts (Node 22.18 or later), deno or bun. With Node 20, compile it first:
// npx -p typescript -p @types/node tsc --target es2022 --module nodenext vuhlp.mts && node vuhlp.mjs
// Set FLYBALL to the path of the program if `flyball` is not on your PATH.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const POLICY: string = join(dirname(fileURLToPath(import.meta.url)), "loop_policy.yaml");
const FOLDER: string = mkdtempSync(join(tmpdir(), "vuhlp-"));
const STORE: string = `sqlite:${join(FOLDER, "vuhlp.db")}`;
process.on("exit", () => rmSync(FOLDER, { recursive: true }));
const MINUTE = 60_000;
// Simulated time in milliseconds, so that every run prints the same.
let now = 1_760_000_000_000;

/** The part of an answer that the runtime uses. */
interface Answer {
  decision: "allow" | "warn" | "block" | "halt";
  trips: { message: string }[];
  effects: Halt[];
}

/** The event that vuhlp emits when a loop is halted. */
interface Halt {
  effect: string;
  cycleId?: string;
  haltReason: string;
  evidence: { diffHashes: string[]; failingSignatures: string[]; outputHashes: string[] };
  suggestedActions: string[];
}

// --- glue
import { spawnSync } from "node:child_process";
function flyball(args: string[], input = ""): string {
  const ran = spawnSync(process.env.FLYBALL ?? "flyball", [...args, "--store", STORE], { input, encoding: "utf8" });
  if (ran.error || ran.stderr) throw new Error(ran.stderr || String(ran.error));
  return ran.stdout;
}
function govern(event: object): Answer {
  return JSON.parse(flyball(["observe", "--policy", POLICY], JSON.stringify(event)));
}
const graph = (run: string): string => flyball(["graph", run]);
// --- end of glue

/** Result of one turn of a node. */
interface Turn {
  output: string;
  minutes?: number;
  diff?: string;
  failing?: string[];
}

const GRAPH = {
  nodes: ["planner", "coder", "verifier", "publisher"],
  edges: [
    { id: "plan", from: "planner", to: "coder" },
    { id: "patch", from: "coder", to: "verifier" },
    { id: "report", from: "verifier", to: "coder" },
    { id: "release", from: "verifier", to: "publisher" },
  ],
  signals: ["diff", "tests"],
};

/** One run of the graph. Every method returns whether the run may continue. */
class Run {
  private node = "planner";
  private name: string;

  constructor(name: string) {
    this.name = name;
  }

  private ask(type: string, fields: object): boolean {
    now += 1_000;
    const answer = govern({ type, session: this.name, at: now, ...fields });
    for (const trip of answer.trips) console.log(`  [${answer.decision}] ${trip.message}`);
    for (const halt of answer.effects.filter((effect) => effect.effect === "loop.halted")) {
      const { evidence } = halt;
      console.log(`  loop.halted: ${halt.haltReason}${halt.cycleId ? " in " + halt.cycleId : ""}`);
      console.log(`    diff hashes:    ${evidence.diffHashes.join(" ") || "none"}`);
      console.log(`    failing tests:  ${evidence.failingSignatures.join(" ") || "none"}`);
      console.log(`    node outputs:   ${evidence.outputHashes.join(" ") || "none"}`);
      console.log(`    what to do:     ${halt.suggestedActions.join(", ")}`);
    }
    return answer.decision === "allow" || answer.decision === "warn";
  }

  start(): boolean {
    return this.ask("session.started", { workflow: GRAPH });
  }

  /** Runs a turn of the current node and measures its signals. */
  turn({ output, minutes = 1, diff, failing }: Turn): boolean {
    if (!this.ask("turn.started", { node: this.node })) return false;
    now += minutes * MINUTE;
    console.log(`  ${this.node}: ${output}`);
    return (
      this.ask("turn.finished", { node: this.node, output }) &&
      (diff === undefined || this.ask("progress", { signal: "diff", content: diff })) &&
      (failing === undefined || this.ask("progress", { signal: "tests", failing }))
    );
  }

  /** Passes the result to another node. */
  hand(to: string): boolean {
    const edge = GRAPH.edges.find((edge) => edge.from === this.node && edge.to === to)?.id;
    if (!this.ask("transition.requested", { from: this.node, to, edge })) return false;
    this.node = to;
    return true;
  }

  /** A person releases the loop. */
  release(guard: string, why: string): boolean {
    console.log(`  anna: ${why}`);
    return this.ask("human.released", { guard, by: "anna", why });
  }

  /** The loop: the coder patches, the verifier tests, until nothing fails. */
  loop(round: (n: number) => { patch: string; diff: string; failing: string[] }): boolean {
    for (let n = 1; ; n++) {
      const { patch, diff, failing } = round(n);
      const found = failing.length === 0 ? "all tests pass" : `${failing.length} failing (patch ${n})`;
      const done =
        this.turn({ output: patch, diff }) && this.hand("verifier") && this.turn({ output: found, failing });
      if (!done) return false;
      if (failing.length === 0) return this.hand("publisher");
      if (!this.hand("coder")) return false;
    }
  }

  show(): void {
    for (const line of graph(this.name).trimEnd().split("\n")) console.log(`    ${line}`);
  }
}

function begin(name: string): Run {
  const run = new Run(name);
  run.start();
  run.turn({ output: "a plan" });
  run.hand("coder");
  return run;
}

const TESTS = ["login", "logout", "search", "upload", "export", "import", "print", "rename", "delete", "share"];

console.log("1. A loop that converges is left alone.");
const good = begin("converging");
good.loop((n) => ({ patch: `patch ${n}`, diff: `+ line ${n}`, failing: TESTS.slice(0, [7, 4, 2, 0][n - 1]) }));
good.show();

console.log("\n2. The coder submits the same patch again. The loop is halted, a person helps, and it continues.");
const stuck = begin("stalled");
stuck.loop((n) => ({ patch: `try ${n}`, diff: "+ retry the login", failing: ["login"] }));
stuck.show();
stuck.release("stall", "the server's clock is wrong; compare the dates in UTC");
stuck.loop((n) => ({ patch: `in UTC, try ${n}`, diff: "+ compare in UTC", failing: [] }));

console.log("\n3. The coder alternates between two solutions: A, B, A, B.");
const torn = begin("oscillating");
torn.loop((n) => ({ patch: n % 2 ? "use a lock" : "use no lock", diff: `+ v${n}`, failing: TESTS.slice(n) }));

console.log("\n4. Budgets: a turn, a node, a loop.");
const slow = begin("slow-turn");
slow.turn({ output: "a patch, at last", minutes: 11 });
const vague = new Run("restless-planner");
vague.start();
for (let n = 1; vague.turn({ output: `plan ${n}` }); n++);
const big = begin("long-loop");
big.loop((n) => ({ patch: `patch ${n}`, diff: `+ line ${n}`, failing: TESTS.slice(n) }));
big.show();
