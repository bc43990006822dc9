// Screenshots of every page: light, dark, and on a phone.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { sessionPath } from "./harness.mjs";
import { sampleSessions } from "./sample.mjs";

const PAGES = {
  inbox: "/", sessions: "/sessions", session: sessionPath("nightly/login-restart"), evidence: sessionPath("api-refactor"), health: "/health",
};
const LOOKS = {
  light: { colorScheme: "light", viewport: { width: 1080, height: 800 } },
  dark: { colorScheme: "dark", viewport: { width: 1080, height: 800 } },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 }, isMobile: true },
};

export const shots = async (server, browser, folder) => {
  mkdirSync(folder, { recursive: true });
  await sampleSessions(server);
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await server.logIn(browser, options);
    for (const [name, place] of Object.entries({ ...PAGES, login: "/login" })) {
      await page.goto(server.url + place);
      await page.waitForLoadState("load");
      // Times and paths differ between runs; replace them, so that the screenshots do not.
      await page.evaluate(() => {
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
          const node = walk.currentNode;
          node.data = node.data.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, "2026-01-12 10:30:00 UTC").replace(/sqlite:\S+/g, "sqlite:.flyball/flyball.db").replace(/\d+\.\d\d ms/g, "0.84 ms").replace(/\/\S*flyball-pages-\w+/g, "/srv/app").replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:7717");
        }
      });
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.setViewportSize({ width: options.viewport.width, height: Math.min(height, look === "phone" ? 1300 : 1240) });
      await page.screenshot({ path: join(folder, `${name}-${look}.png`) });
      await page.setViewportSize(options.viewport);
    }
    await page.context().close();
  }
};
