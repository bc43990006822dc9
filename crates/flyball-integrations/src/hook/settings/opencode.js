// Flyball plugin for opencode: calls `flyball hook opencode` before and after each tool and applies its verdict.
// Installed with `flyball hook opencode install`; removed with `flyball hook opencode uninstall`.
import { spawn } from "node:child_process";

const FLYBALL = ["flyball", "hook", "opencode"];
// Whether a call is denied if Flyball cannot be run (`on_error: block` in the policy).
const STRICT = false;
const TIMEOUT_MS = 10000;

function ask(event, payload) {
  return new Promise((resolve) => {
    let out = "";
    let done = false;
    const end = (answer) => {
      if (!done) {
        done = true;
        resolve(answer);
      }
    };
    const failed = (why) => end({ verdict: STRICT ? "block" : "allow", message: why, notice: why, failed: true });
    try {
      const [program, ...args] = FLYBALL;
      const child = spawn(program, [...args, "--event", event], { stdio: ["pipe", "pipe", "ignore"] });
      const timer = setTimeout(() => {
        child.kill("SIGKILL");
        failed("Flyball timed out");
      }, TIMEOUT_MS);
      child.on("error", (error) => {
        clearTimeout(timer);
        failed(`Flyball cannot be run: ${error.message}`);
      });
      child.stdout.on("data", (chunk) => {
        out += chunk;
      });
      child.on("close", () => {
        clearTimeout(timer);
        try {
          end(JSON.parse(out));
        } catch {
          failed("Flyball returned no valid reply");
        }
      });
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify({ event, ...payload }));
    } catch (error) {
      failed(`Flyball cannot be run: ${error.message}`);
    }
  });
}

export const Flyball = async ({ client, directory }) => {
  const warned = new Map();
  const parents = new Map();
  const roles = new Map();
  const texts = new Map();

  const keep = (map, key, value) => {
    if (map.size >= 256) {
      map.delete(map.keys().next().value);
    }
    map.set(key, value);
  };
  const about = (sessionID) => ({ session_id: sessionID, parent_id: parents.get(sessionID), directory });
  const tell = async (answer) => {
    if (!answer.notice) return;
    try {
      await client?.tui?.showToast?.({ body: { message: answer.notice, variant: answer.failed ? "error" : "warning" } });
    } catch {
      console.error(answer.notice);
    }
  };
  const halt = async (sessionID) => {
    try {
      await client?.session?.abort?.({ path: { id: sessionID } });
    } catch (error) {
      console.error(`Flyball could not abort the session: ${error.message}`);
    }
  };

  return {
    // Lets commands in the agent's shell report to this session with `flyball tell`.
    "shell.env": async (input, output) => {
      if (input.sessionID && output.env) output.env.FLYBALL_SESSION = `opencode:${input.sessionID}`;
    },
    "tool.execute.before": async (input, output) => {
      const answer = await ask("tool.execute.before", {
        ...about(input.sessionID),
        call_id: input.callID,
        tool: input.tool,
        args: output.args,
      });
      await tell(answer);
      if (answer.verdict === "halt") await halt(input.sessionID);
      if (answer.verdict === "halt" || answer.verdict === "block") throw new Error(answer.message || answer.notice);
      if (answer.verdict === "warn") keep(warned, input.callID, answer.message);
    },
    "tool.execute.after": async (input, output) => {
      const answer = await ask("tool.execute.after", {
        ...about(input.sessionID),
        call_id: input.callID,
        tool: input.tool,
        args: input.args,
        output: output.output,
        metadata: { exit: output.metadata?.exit },
      });
      await tell(answer);
      const notes = [warned.get(input.callID), answer.verdict === "allow" ? undefined : answer.message];
      warned.delete(input.callID);
      for (const note of notes) {
        if (note) output.output = `${output.output}\n\n[Flyball] ${note}`;
      }
      if (answer.verdict === "halt") await halt(input.sessionID);
    },
    "permission.ask": async (input, output) => {
      const answer = await ask("permission.ask", { ...about(input.sessionID), tool: input.type, args: input.metadata });
      if (answer.verdict === "halt" || answer.verdict === "block") output.status = "deny";
      if (answer.verdict === "ask") output.status = "ask";
    },
    "chat.message": async (input, output) => {
      const text = (output.parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n");
      const answer = await ask("chat.message", { ...about(input.sessionID), message_id: output.message?.id, text });
      await tell(answer);
    },
    event: async ({ event }) => {
      if (event.type === "session.created" && event.properties?.info) {
        const info = event.properties.info;
        if (info.parentID) keep(parents, info.id, info.parentID);
        await tell(await ask("session.created", about(info.id)));
      } else if (event.type === "message.updated" && event.properties?.info) {
        keep(roles, event.properties.info.id, event.properties.info.role);
      } else if (event.type === "message.part.updated" && event.properties?.part?.type === "text") {
        const part = event.properties.part;
        if (roles.get(part.messageID) === "assistant") keep(texts, part.sessionID, part.text);
      } else if (event.type === "session.idle") {
        const sessionID = event.properties.sessionID;
        await tell(await ask("session.idle", { ...about(sessionID), text: texts.get(sessionID) }));
        texts.delete(sessionID);
      } else if (event.type === "session.compacted") {
        await tell(await ask("session.compacted", about(event.properties.sessionID)));
      }
    },
  };
};
