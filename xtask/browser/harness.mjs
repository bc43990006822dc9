// Test harness: a server process, a browser, and a logged-in person. Everything stays on this machine.
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

/** The value of a command-line argument. */
export const argument = (name) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};

const modules = createRequire(join(argument("--modules"), "package.json"));
const { chromium } = modules("playwright-core");
/** The accessibility rules, as a script for a page. */
export const AXE = modules.resolve("axe-core/axe.min.js");

export const browse = () =>
  chromium.launch({ executablePath: argument("--chromium"), args: FLAGS, headless: true });

export class Server {
  /** Starts a server on a new store, optionally with a policy. */
  static async start(policy) {
    const server = new Server();
    server.flyball = argument("--flyball");
    server.folder = mkdtempSync(join(tmpdir(), "flyball-pages-"));
    server.store = `sqlite:${join(server.folder, "flyball.db")}`;
    const more = policy ? ["--policy", "flyball.yaml"] : [];
    if (policy) writeFileSync(join(server.folder, "flyball.yaml"), policy);
    server.args = ["serve", "--no-socket", "--store", server.store, ...more];
    await server.run("127.0.0.1:0");
    server.url = /http:\/\/127\.0\.0\.1:\d+/.exec(server.said)[0];
    server.link = /http:\S+\/login\?link=\S+/.exec(server.said)[0];
    server.agent = server.key("bot", "agent");
    return server;
  }

  /** Starts the process. */
  async run(address, ...more) {
    this.child = spawn(this.flyball, [...this.args, "--listen", address, ...more], { cwd: this.folder, stdio: ["ignore", "ignore", "pipe"] });
    this.said = "";
    await new Promise((resolve, reject) => {
      this.child.stderr.on("data", (text) => {
        this.said += text;
        if (/keys for people/.test(this.said)) resolve();
      });
      this.child.on("exit", () => reject(new Error(`the server has exited:\n${this.said}`)));
      setTimeout(() => reject(new Error(`the server did not start:\n${this.said}`)), 60_000).unref();
    });
  }

  /** Kills the process and starts another one at the same address, with more arguments. */
  async restart(...more) {
    this.child.removeAllListeners("exit");
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGKILL");
    await ended;
    await this.run(this.url.replace("http://", ""), ...more);
  }

  stop() {
    this.child.removeAllListeners("exit");
    this.child.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The JSON output of a command. */
  told(...args) {
    try {
      const out = execFileSync(this.flyball, [...args, "--store", this.store, "--json"], { cwd: this.folder, stdio: ["ignore", "pipe", "ignore"] });
      return JSON.parse(out);
    } catch (failed) {
      // The exit code of a stopped session is not 0.
      return JSON.parse(failed.stdout);
    }
  }

  key(name, role) {
    return this.told("token", "create", name, "--role", role).secret;
  }

  /** Sends an event as an agent; returns the decision. A session with its own policy is started by a person. */
  async event(event) {
    const person = event.type === "session.started" && event.policy;
    if (person) this.starter ??= this.key("starter", "operator");
    const answer = await fetch(`${this.url}/v1/events`, {
      method: "POST",
      headers: { Authorization: `Bearer ${person ? this.starter : this.agent}`, "Content-Type": "application/json" },
      body: JSON.stringify(event),
    });
    const decision = await answer.json();
    if (answer.status !== 200) throw new Error(`${answer.status}: ${JSON.stringify(decision)} for ${JSON.stringify(event)}`);
    return decision;
  }

  /** Sends several events in order; returns the last decision. */
  async events(session, events) {
    let decision;
    for (const event of events) decision = await this.event({ session, ...event });
    return decision;
  }

  /** A logged-in person in a new browser window that records errors and dialogs. */
  async logIn(browser, options = {}) {
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    const page = await context.newPage();
    page.browserErrors = [];
    page.on("dialog", (dialog) => {
      page.browserErrors.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("pageerror", (error) => page.browserErrors.push(`the script failed: ${error.message}`));
    page.on("console", (message) => {
      const expected = /v1\/live|404 \(Not Found\)|status of 4\d\d|ERR_INCOMPLETE_CHUNKED/.test(message.text() + message.location().url);
      if (message.type() === "error" && !expected) page.browserErrors.push(`console: ${message.text()}`);
    });
    await page.goto(`${this.url}/login`);
    this.operator ??= this.key("anna", "operator");
    await page.getByLabel("Your key").fill(this.operator);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.waitForURL(`${this.url}/`);
    await page.locator("#inbox").waitFor({ state: "attached" });
    return page;
  }
}

/** Opens an address and waits until the script has loaded the contents. */
export const visit = async (page, address) => {
  await page.goto(address);
  await page.waitForFunction(() => !document.querySelector("#opening p"));
};

/** The address of a session's page. */
export const sessionPath = (session) => `/sessions/${encodeURIComponent(session)}`;

export const assertEqual = (found, wanted, what) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
  }
};

export const assertTrue = (fact, what) => {
  if (!fact) throw new Error(`false: ${what}`);
};
