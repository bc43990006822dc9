// Tests the pages in a real browser: `node run.mjs --flyball PROGRAM --chromium PROGRAM --modules FOLDER [--only NAME]`,
// or with `--shots FOLDER` screenshots of the pages.
import * as checks from "./checks.mjs";
import { Server, argument, browse } from "./harness.mjs";
import { policy } from "./sample.mjs";
import { shots } from "./shots.mjs";

const browser = await browse();
let failed = 0;
const step = async (name, work) => {
  const began = Date.now();
  const server = await Server.start(policy);
  try {
    await work(server, browser);
    console.log(`ok      ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.stack ?? error}`);
  } finally {
    server.stop();
    await Promise.all(browser.contexts().map((context) => context.close()));
  }
};
if (argument("--shots")) {
  await step("pictures", (server) => shots(server, browser, argument("--shots")));
} else {
  for (const [name, check] of Object.entries(checks)) {
    if (!argument("--only") || name === argument("--only")) await step(name.replaceAll("_", " "), check);
  }
}
await browser.close();
console.log(`${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
