// Checks in a real browser. Each check has its own server, so that none depends on another.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AXE, sessionPath, assertTrue, assertEqual, visit } from "./harness.mjs";
import { looping, plan, sampleSessions } from "./sample.mjs";
import { attacks } from "./attacks.mjs";
import { attacker, replay } from "./other_ports.mjs";

const rulebook = readFileSync(AXE, "utf8");
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
const card = (page, session) => page.locator("article.need", { has: page.getByRole("link", { name: session, exact: true }) });
const clean = (page) => assertEqual(page.browserErrors, [], "browser errors");
const retried = (call) => ({ type: "tool.requested", call, tool: "bash", args: { command: "npm test -- --grep login" } });

/** A looping session appears without a reload, is released with a reason, and continues. */
export const loop_appears_and_is_released = async (server, browser) => {
  const page = await server.logIn(browser);
  await page.evaluate(() => { window.same = "page"; });
  assertEqual(await page.locator("#count").textContent(), "Nothing needs your attention.", "the inbox at first");
  assertEqual((await server.events("looper", looping())).decision, "halt", "the last call");
  const found = card(page, "looper");
  await found.waitFor();
  assertEqual(await page.evaluate(() => window.same), "page", "the page was not loaded again");
  assertTrue(/the same call, the same result/.test(await found.textContent()), "the card says why");
  await page.getByText("1 session needs your attention.").waitFor();
  assertEqual((await server.event({ session: "looper", ...retried("before") })).decision, "halt", "before the release");
  await found.getByLabel("Reason").fill("the server under test is up again");
  await found.getByRole("button", { name: "Release 3 more" }).click();
  await page.getByText("Released. The session can continue within its limits.").waitFor();
  const after = await server.event({ session: "looper", ...retried("after") });
  assertTrue(["allow", "warn"].includes(after.decision), `it continues after the release: ${JSON.stringify(after)}`);
  await page.goto(server.url + sessionPath("looper"));
  assertTrue(/the server under test is up again/.test(await page.locator("#timeline").textContent()), "the reason is in the record");
  clean(page);
};

/** A loosened policy and a killed server show up on an open page within five seconds. */
export const removed_hook_is_shown = async (server, browser) => {
  const page = await server.logIn(browser);
  await page.goto(`${server.url}/health`);
  await page.locator("#coverage").getByText("policy", { exact: true }).waitFor({ timeout: 5_000 });
  assertEqual(await page.getByRole("alert").count(), 0, "alarms at first");
  await page.goto(server.url);
  await page.evaluate(() => { window.same = "page"; });
  writeFileSync(join(server.folder, "flyball.yaml"), "version: 1\nguards: {repetition: off}\n");
  await page.getByRole("alert").getByText("Coverage lost").waitFor({ timeout: 5_000 });
  assertEqual(await page.evaluate(() => window.same), "page", "the page was not loaded again");
  clean(page);
  server.child.removeAllListeners("exit");
  server.child.kill("SIGKILL");
  await page.getByText(/no response since/).waitFor({ timeout: 5_000 });
};

/** Times are shown in the zone of the browser, in UTC on hover, and stay so after live updates. */
export const times_are_local_and_utc_on_hover = async (server, browser) => {
  const page = await server.logIn(browser, { timezoneId: "Asia/Kolkata" });
  await server.events("looper", looping());
  await visit(page, server.url + sessionPath("looper"));
  const started = page.locator("main time[data-at]").first();
  const check = async (when) => {
    const [shown, hover] = [await started.textContent(), await started.getAttribute("title")];
    assertTrue(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d GMT\+5:30$/.test(shown), `the local time ${when}: ${shown}`);
    assertTrue(hover.endsWith(" UTC"), `the time on hover ${when}: ${hover}`);
    const local = Date.parse(shown.replace(" GMT+5:30", "+05:30").replace(" ", "T"));
    assertEqual(local, Date.parse(hover.replace(" UTC", "Z").replace(" ", "T")), `both times ${when}`);
  };
  await check("at first");
  const events = await page.locator("main").getByText(/\d+ events,/).first().textContent();
  await server.event({ session: "looper", ...retried("later") });
  await page.waitForFunction((before) => !document.querySelector("main").textContent.includes(before.trim().split(",")[0] + ","), events);
  await check("after an update");
  clean(page);
};

/** A plan is approved and executed once, regardless of repeated clicks. */
export const plan_is_approved_once = async (server, browser) => {
  const page = await server.logIn(browser);
  await server.events("cleaner", plan());
  const found = card(page, "cleaner");
  await found.waitFor();
  assertEqual(await found.locator("ol.steps li").count(), 3, "steps of the plan");
  // A second window shows the same plan and approves it later.
  const other = await page.context().newPage();
  await other.goto(server.url + sessionPath("cleaner"));
  await found.getByLabel("Reason").fill("they are expired");
  await found.getByRole("button", { name: "Approve" }).dblclick();
  await page.getByText("Approved. The plan can run once.").waitFor();
  await other.getByRole("button", { name: "Approve" }).click({ timeout: 2_000 }).catch(() => {});
  await other.waitForLoadState();
  const approved = server.told("explain", "cleaner").timeline.filter((note) => note.message.startsWith("plan.approved"));
  assertEqual(approved.map((note) => note.times), [1], "how often the plan was approved");
  assertEqual(await page.locator("article.need").count(), 0, "plans still waiting");
  clean(page);
};

/** Text being typed keeps its value and focus while the page updates around it. */
export const live_updates_do_not_interrupt_typing = async (server, browser) => {
  await server.events("first", looping());
  const page = await server.logIn(browser);
  const field = card(page, "first").getByLabel("Reason");
  await field.fill("half a senten");
  await server.events("second", looping());
  await card(page, "second").waitFor();
  await field.pressSequentially("ce");
  assertEqual(await field.inputValue(), "half a sentence", "the text");
  assertTrue(await field.evaluate((each) => each === document.activeElement), "the cursor is in the field");
  clean(page);
};

/** The keyboard alone is enough: down the list, to the reason, and submit. */
export const keyboard_alone_is_enough = async (server, browser) => {
  await server.events("one", looping());
  await server.events("two", looping());
  const page = await server.logIn(browser);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assertTrue(await card(page, "two").evaluate((each) => each === document.activeElement), "j goes to the second");
  await page.keyboard.press("r");
  await page.keyboard.type("looked at it");
  await page.keyboard.press("Enter");
  await page.getByText("Released. The session can continue within its limits.").waitFor();
  assertEqual(server.told("status", "two").state, "running", "the second");
  assertEqual(server.told("status", "one").state, "halted", "the first");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server.url}${sessionPath("one")}`);
  clean(page);
};

/** Session text is shown as text on every page and never interpreted. */
export const session_content_never_runs_as_script = async (server, browser) => {
  const page = await server.logIn(browser);
  await page.addInitScript(() => {
    window.hits = [];
    document.addEventListener("securitypolicyviolation", (event) => window.hits.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const names = await attacks(server);
  const places = ["/", "/?page=2", "/sessions", "/health", ...names.flatMap((name) => [sessionPath(name), `${sessionPath(name)}/graph.svg`])];
  for (const place of places) {
    await visit(page, server.url + place);
    assertEqual(await page.evaluate(() => window.hits), [], `scripts run on ${place}`);
    assertEqual(await page.evaluate(() => document.querySelectorAll("script:not([src='/assets/app.js']), iframe, object, embed, [onerror], [onload], [onclick], [style]").length), 0, `foreign elements on ${place}`);
  }
  clean(page);
};

/** Every page meets the accessibility rules in light and dark mode, and fits on a phone. */
export const pages_are_accessible = async (server, browser) => {
  await sampleSessions(server);
  const pages = ["/", "/sessions", "/health", sessionPath("nightly/login-restart"), sessionPath("api-refactor"), sessionPath("support/4711"), "/login"];
  const looks = [
    [{ colorScheme: "light" }, undefined],
    [{ colorScheme: "dark" }, ["color-contrast"]],
    [PHONE, ["color-contrast", "meta-viewport", "scrollable-region-focusable"]],
  ];
  for (const [options, rules] of looks) {
    const page = await server.logIn(browser, options);
    for (const place of pages) {
      await visit(page, server.url + place);
      const told = `${place} (${JSON.stringify(options)})`;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assertTrue(wide <= 0, `${told} is not wider than the screen: ${wide} px`);
      // The rules are injected through the browser's developer tools, so the page's CSP stays in force.
      const client = await page.context().newCDPSession(page);
      await client.send("Runtime.evaluate", { expression: rulebook });
      const found = await page.evaluate((only) => window.axe.run(document, { resultTypes: ["violations"], ...(only && { runOnly: only }) }), rules);
      const grave = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
      assertEqual(grave.map((each) => `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`), [], `accessibility of ${told}`);
    }
    clean(page);
    await page.context().close();
  }
};

/** Everything works without the script. */
export const pages_work_without_javascript = async (server, browser) => {
  await server.events("looper", looping());
  await server.events("cleaner", plan());
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const operator = server.key("anna", "operator");
  await page.goto(`${server.url}/login`);
  await page.getByLabel("Your key").fill(operator);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${server.url}/`);
  // The cookie only grants reading, so each action needs the key.
  await card(page, "looper").getByLabel("Reason").fill("seen");
  await card(page, "looper").getByLabel("Your key").fill(operator);
  await card(page, "looper").getByRole("button", { name: "Release 3 more" }).click();
  await page.getByText("Released. The session can continue within its limits.").waitFor();
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Confirm the approval" }).waitFor();
  await page.getByLabel("Your key").fill(operator);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan can run once.").waitFor();
  await page.goto(`${server.url}/sessions`);
  await page.getByLabel("Search by name").fill("loop");
  await page.getByRole("button", { name: "Filter" }).click();
  assertEqual(await page.locator("tbody tr").count(), 1, "sessions that were found");
  await page.getByRole("link", { name: "looper", exact: true }).click();
  assertTrue(await page.locator("#timeline").isVisible(), "the session is shown");
  const fresh = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  for (const [times, place] of [[1, /Inbox/], [2, /was already used/]]) {
    await fresh.goto(server.link);
    await fresh.getByRole("button", { name: "Log in with this link" }).click();
    assertTrue(place.test(await fresh.textContent("main")), `a link works once: attempt ${times}`);
  }
};

/** An old login must enter the key again before it can approve, with the script as well. */
export const old_login_must_authenticate_again_before_approving = async (server, browser) => {
  const page = await server.logIn(browser);
  await server.events("cleaner", plan());
  await server.restart("--proof-max-age", "1s");
  await new Promise((done) => setTimeout(done, 1_500));
  await visit(page, server.url);
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Confirm the approval" }).waitFor();
  assertEqual(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan before the proof");
  await page.getByLabel("Your key").fill("flyball_operator_wrong");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("This is not the key you logged in with.").waitFor();
  await page.getByLabel("Your key").fill(server.operator);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan can run once.").waitFor();
  clean(page);
};

/** A page or server on another port of the same host gets the cookie, but cannot approve, release or read. */
export const login_does_not_work_on_other_ports = async (server, browser) => {
  const page = await server.logIn(browser);
  await server.events("cleaner", plan());
  await server.events("looper", looping());
  await card(page, "cleaner").waitFor();
  const other = await attacker(server.url);
  try {
    for (const host of ["127.0.0.1", "localhost"]) {
      const target = server.url.replace("127.0.0.1", host);
      const victim = await page.context().newPage();
      await victim.goto(`http://${host}:${other.port}/`);
      await victim.waitForFunction(() => window.finished, null, { timeout: 30_000 });
      const read = await victim.evaluate(() => window.read.join(" "));
      assertTrue(!/expired|npm test/.test(read), `the page on ${host}:${other.port} reads nothing: ${read.slice(0, 200)}`);
      await victim.close();
      for (const cookie of other.cookies) {
        for (const session of ["cleaner", "looper"]) {
          const stolen = await replay(target, cookie, session);
          assertEqual(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan after a replay of the cookie");
          assertEqual(server.told("status", "looper").state, "halted", "the halt after a replay of the cookie");
          assertTrue(!stolen.some((text) => /expired|npm test/.test(text)), "the cookie alone reads nothing");
        }
      }
    }
    assertTrue(other.cookies.size > 0, "the browser sent its cookie to the other port");
  } finally {
    other.close();
  }
  assertEqual(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan after all attacks");
  await page.goto(server.url);
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan can run once.").waitFor();
};
