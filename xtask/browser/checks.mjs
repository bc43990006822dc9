// What must hold in a real browser. Each check has a server of its own, so that none depends on another.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AXE, at, holds, same, visit } from "./kit.mjs";
import { looping, plan, world } from "./sample.mjs";
import { attacks } from "./attacks.mjs";
import { attacker, replay } from "./other_ports.mjs";

const rulebook = readFileSync(AXE, "utf8");
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
const card = (page, session) => page.locator("article.need", { has: page.getByRole("link", { name: session, exact: true }) });
const clean = (page) => same(page.troubles, [], "what the browser complained about");
const retried = (call) => ({ type: "tool.requested", call, tool: "bash", args: { command: "npm test -- --grep login" } });

/** A session loops, appears without reloading, is released with a reason, and goes on. */
export const a_loop_appears_and_is_released = async (server, browser) => {
  const page = await server.person(browser);
  await page.evaluate(() => { window.same = "page"; });
  same(await page.locator("#count").textContent(), "Nothing waits for a person.", "the inbox at first");
  same((await server.events("looper", looping())).decision, "halt", "the last call");
  const found = card(page, "looper");
  await found.waitFor();
  same(await page.evaluate(() => window.same), "page", "the page was not loaded again");
  holds(/the same call, the same result/.test(await found.textContent()), "the card says why");
  await page.getByText("1 session waits for a person.").waitFor();
  same((await server.event({ session: "looper", ...retried("before") })).decision, "halt", "before the release");
  await found.getByLabel("Reason").fill("the server under test is up again");
  await found.getByRole("button", { name: "Release 3 more" }).click();
  await page.getByText("Released: it may go on, within bounds.").waitFor();
  const after = await server.event({ session: "looper", ...retried("after") });
  holds(["allow", "warn"].includes(after.decision), `it goes on after the release: ${JSON.stringify(after)}`);
  await page.goto(server.place + at("looper"));
  holds(/the server under test is up again/.test(await page.locator("#timeline").textContent()), "the reason is in the record");
  clean(page);
};

/** A policy that is loosened, and a server that is killed, are seen on a page that is open, within five seconds. */
export const a_guard_that_is_taken_down_is_shown = async (server, browser) => {
  const page = await server.person(browser);
  await page.goto(`${server.place}/health`);
  await page.locator("#posts").getByText("policy", { exact: true }).waitFor({ timeout: 5_000 });
  same(await page.getByRole("alert").count(), 0, "alarms at first");
  await page.goto(server.place);
  await page.evaluate(() => { window.same = "page"; });
  writeFileSync(join(server.folder, "flyball.yaml"), "version: 1\nguards: {repetition: off}\n");
  await page.getByRole("alert").getByText("A guard is down").waitFor({ timeout: 5_000 });
  same(await page.evaluate(() => window.same), "page", "the page was not loaded again");
  clean(page);
  server.child.removeAllListeners("exit");
  server.child.kill("SIGKILL");
  await page.getByText(/no answer since/).waitFor({ timeout: 5_000 });
};

/** A plan is approved and executes once, however often somebody clicks. */
export const a_plan_is_approved_once = async (server, browser) => {
  const page = await server.person(browser);
  await server.events("cleaner", plan());
  const found = card(page, "cleaner");
  await found.waitFor();
  same(await found.locator("ol.steps li").count(), 3, "steps of the plan");
  // A second window shows the same plan, and says yes later.
  const other = await page.context().newPage();
  await other.goto(server.place + at("cleaner"));
  await found.getByLabel("Reason").fill("they are expired");
  await found.getByRole("button", { name: "Approve" }).dblclick();
  await page.getByText("Approved. The plan runs once.").waitFor();
  await other.getByRole("button", { name: "Approve" }).click({ timeout: 2_000 }).catch(() => {});
  await other.waitForLoadState();
  const approved = server.told("explain", "cleaner").timeline.filter((note) => note.message.startsWith("plan.approved"));
  same(approved.map((note) => note.times), [1], "how often the plan was approved");
  same(await page.locator("article.need").count(), 0, "what still waits");
  clean(page);
};

/** What somebody is writing stays, with the cursor in it, while the page goes on around it. */
export const writing_is_not_disturbed = async (server, browser) => {
  await server.events("first", looping());
  const page = await server.person(browser);
  const field = card(page, "first").getByLabel("Reason");
  await field.fill("half a senten");
  await server.events("second", looping());
  await card(page, "second").waitFor();
  await field.pressSequentially("ce");
  same(await field.inputValue(), "half a sentence", "the text");
  holds(await field.evaluate((each) => each === document.activeElement), "the cursor is in the field");
  clean(page);
};

/** The keys: down the list, to the reason, and done. */
export const keys_are_enough = async (server, browser) => {
  await server.events("one", looping());
  await server.events("two", looping());
  const page = await server.person(browser);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  holds(await card(page, "two").evaluate((each) => each === document.activeElement), "j goes to the second");
  await page.keyboard.press("r");
  await page.keyboard.type("looked at it");
  await page.keyboard.press("Enter");
  await page.getByText("Released: it may go on, within bounds.").waitFor();
  same(server.told("status", "two").state, "running", "the second");
  same(server.told("status", "one").state, "halted", "the first");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server.place}${at("one")}`);
  clean(page);
};

/** What a session says is text, wherever it stands. */
export const nothing_that_a_session_says_runs = async (server, browser) => {
  const page = await server.person(browser);
  await page.addInitScript(() => {
    window.hits = [];
    document.addEventListener("securitypolicyviolation", (event) => window.hits.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const names = await attacks(server);
  const places = ["/", "/?page=2", "/sessions", "/health", ...names.flatMap((name) => [at(name), `${at(name)}/graph.svg`])];
  for (const place of places) {
    await visit(page, server.place + place);
    same(await page.evaluate(() => window.hits), [], `what ran on ${place}`);
    same(await page.evaluate(() => document.querySelectorAll("script:not([src='/assets/app.js']), iframe, object, embed, [onerror], [onload], [onclick], [style]").length), 0, `foreign elements on ${place}`);
  }
  clean(page);
};

/** Nobody is shut out: the rules of accessibility on every page, light and dark, and nothing too wide for a phone. */
export const pages_are_for_everybody = async (server, browser) => {
  await world(server);
  const pages = ["/", "/sessions", "/health", at("nightly/login-restart"), at("api-refactor"), at("support/4711"), "/login"];
  const looks = [
    [{ colorScheme: "light" }, undefined],
    [{ colorScheme: "dark" }, ["color-contrast"]],
    [PHONE, ["color-contrast", "meta-viewport", "scrollable-region-focusable"]],
  ];
  for (const [options, rules] of looks) {
    const page = await server.person(browser, options);
    for (const place of pages) {
      await visit(page, server.place + place);
      const told = `${place} (${JSON.stringify(options)})`;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      holds(wide <= 0, `${told} is not wider than the screen: ${wide} px`);
      // The browser's own tools bring the rules in; the policy of the page stays as it is.
      const client = await page.context().newCDPSession(page);
      await client.send("Runtime.evaluate", { expression: rulebook });
      const found = await page.evaluate((only) => window.axe.run(document, { resultTypes: ["violations"], ...(only && { runOnly: only }) }), rules);
      const grave = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
      same(grave.map((each) => `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`), [], `accessibility of ${told}`);
    }
    clean(page);
    await page.context().close();
  }
};

/** Without the script everything can be done as well. */
export const the_script_is_not_needed = async (server, browser) => {
  await server.events("looper", looping());
  await server.events("cleaner", plan());
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const operator = server.key("anna", "operator");
  await page.goto(`${server.place}/login`);
  await page.getByLabel("Your key").fill(operator);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`${server.place}/`);
  // The cookie alone reads these pages, so each act needs the key.
  await card(page, "looper").getByLabel("Reason").fill("seen");
  await card(page, "looper").getByLabel("Your key").fill(operator);
  await card(page, "looper").getByRole("button", { name: "Release 3 more" }).click();
  await page.getByText("Released: it may go on, within bounds.").waitFor();
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Confirm the approval" }).waitFor();
  await page.getByLabel("Your key").fill(operator);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan runs once.").waitFor();
  await page.goto(`${server.place}/sessions`);
  await page.getByLabel("Search by name").fill("loop");
  await page.getByRole("button", { name: "Show" }).click();
  same(await page.locator("tbody tr").count(), 1, "sessions that were found");
  await page.getByRole("link", { name: "looper", exact: true }).click();
  holds(await page.locator("#timeline").isVisible(), "the session is shown");
  const fresh = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  for (const [times, place] of [[1, /Inbox/], [2, /was used before/]]) {
    await fresh.goto(server.link);
    await fresh.getByRole("button", { name: "Log in with this link" }).click();
    holds(place.test(await fresh.textContent("main")), `a link lets in once: attempt ${times}`);
  }
};

/** After a while the key is asked for again, with the script too, and the act is done with it. */
export const an_old_login_proves_itself_before_it_approves = async (server, browser) => {
  const page = await server.person(browser);
  await server.events("cleaner", plan());
  await server.restart("--proof-max-age", "1s");
  await new Promise((done) => setTimeout(done, 1_500));
  await visit(page, server.place);
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Confirm the approval" }).waitFor();
  same(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan before the proof");
  await page.getByLabel("Your key").fill("flyball_operator_wrong");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("This is not the key of this login.").waitFor();
  await page.getByLabel("Your key").fill(server.operator);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan runs once.").waitFor();
  clean(page);
};

/** A page and a server on another port of the same host get the cookie, and can neither approve, release nor read. */
export const a_login_is_useless_to_other_ports = async (server, browser) => {
  const page = await server.person(browser);
  await server.events("cleaner", plan());
  await server.events("looper", looping());
  await card(page, "cleaner").waitFor();
  const other = await attacker(server.place);
  try {
    for (const host of ["127.0.0.1", "localhost"]) {
      const target = server.place.replace("127.0.0.1", host);
      const victim = await page.context().newPage();
      await victim.goto(`http://${host}:${other.port}/`);
      await victim.waitForFunction(() => window.finished, null, { timeout: 30_000 });
      const read = await victim.evaluate(() => window.read.join(" "));
      holds(!/expired|npm test/.test(read), `the page on ${host}:${other.port} reads nothing: ${read.slice(0, 200)}`);
      await victim.close();
      for (const cookie of other.cookies) {
        for (const session of ["cleaner", "looper"]) {
          const stolen = await replay(target, cookie, session);
          same(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan after a replay of the cookie");
          same(server.told("status", "looper").state, "halted", "the halt after a replay of the cookie");
          holds(!stolen.some((text) => /expired|npm test/.test(text)), "the cookie alone reads nothing");
        }
      }
    }
    holds(other.cookies.size > 0, "the browser sent its cookie to the other port");
  } finally {
    other.close();
  }
  same(server.told("status", "cleaner").state, "awaiting_confirmation", "the plan after all attacks");
  await page.goto(server.place);
  await card(page, "cleaner").getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved. The plan runs once.").waitFor();
};
