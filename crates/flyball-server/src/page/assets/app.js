// Live updates, keyboard shortcuts and the dark mode toggle. The pages work without this script.
// It keeps the login's CSRF token in the storage of this origin: the cookie alone grants no access, because browsers
// send cookies to every port of a host.
// Responses are parsed as documents and their elements are imported, so no text becomes markup here.
"use strict";
(() => {
  const root = document.documentElement;
  const storage = (key, value) => {
    try {
      if (value === null) return localStorage.removeItem(key);
      return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value);
    } catch {
      return null; // Storage may be disabled; then nothing is kept.
    }
  };
  const CSRF = "flyball.csrf";
  const authorized = (more) => {
    const token = storage(CSRF);
    return token ? { ...more, "Flyball-CSRF": token } : { ...more };
  };
  const theme = storage("theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  const one = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  // Times are sent in UTC and shown in the local zone, in the format of the command line.
  const localize = (inside) => all("time[data-at]", inside).forEach((element) => {
    const date = new Date(Number(element.dataset.at));
    const two = (number) => String(number).padStart(2, "0");
    const zone = new Intl.DateTimeFormat([], { timeZoneName: "short" }).formatToParts(date)
      .find((part) => part.type === "timeZoneName").value;
    const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
    const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
    element.textContent = `${day} ${time} ${zone}`;
  });

  // ---- live updates: fetch the same page again and replace what changed ----

  const dirty = new WeakSet();
  const busy = (element) =>
    element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
      || all("input, textarea", element).some((field) => dirty.has(field) && field.value !== "");

  // Elements are equal if they differ only in values generated for each page: form keys, tickets, relative times.
  const bare = (element) => {
    const copy = element.cloneNode(true);
    all("input[name=key], input[name=ticket], time", copy).forEach((each) => each.remove());
    all("details", copy).concat(copy.matches("details") ? [copy] : []).forEach((each) => each.removeAttribute("open"));
    [copy, ...all(".changed", copy)].forEach((each) => each.classList.remove("changed"));
    all("[class='']", copy).concat(copy.className === "" ? [copy] : []).forEach((each) => each.removeAttribute("class"));
    all("button.copy", copy).forEach((each) => each.removeAttribute("hidden"));
    return copy.outerHTML;
  };

  const exchange = (old, fresh) => {
    if (bare(old) === bare(fresh)) {
      const times = all("time", fresh);
      all("time", old).forEach((time, at) => times[at] && (time.textContent = times[at].textContent));
      return;
    }
    if (busy(old)) return; // The user is typing in it: leave it alone until they are done.
    const focused = old.contains(document.activeElement);
    all("details[id]", old).forEach((each) => {
      const twin = fresh.querySelector("#" + CSS.escape(each.id));
      if (twin) twin.open = each.open;
    });
    const copy = document.importNode(fresh, true);
    old.replaceWith(copy);
    copy.classList.add("changed");
    if (focused) (one("#" + CSS.escape(copy.id)) || copy).focus({ preventScroll: true });
    ready(copy);
  };

  const keyed = (old, fresh) => {
    const wanted = [...fresh.children];
    const names = new Set(wanted.map((each) => each.id));
    [...old.children].forEach((each) => {
      if (!names.has(each.id) && !busy(each)) each.remove();
    });
    let before = null;
    for (const each of wanted) {
      const there = [...old.children].find((child) => child.id === each.id);
      if (there) {
        exchange(there, each);
      } else {
        const taken = document.importNode(each, true);
        taken.classList.add("changed");
        before ? before.after(taken) : old.prepend(taken);
        ready(taken);
      }
      const now = [...old.children].find((child) => child.id === each.id);
      // Restore the order, but never move an element that the user is typing in.
      if (now && now.previousElementSibling !== before && !now.contains(document.activeElement)) {
        before ? before.after(now) : old.prepend(now);
      }
      before = now || before;
    }
  };

  const load = () => fetch(location.href.split("#")[0], { headers: authorized({ Accept: "text/html" }), redirect: "manual" });

  const refresh = async () => {
    const answer = await load();
    if (answer.type === "opaqueredirect" || answer.headers.has("Flyball-Empty-Frame")) return location.reload();
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    localize(page);
    for (const name of ["waiting"]) {
      const [old, fresh] = [document.getElementById(name), page.getElementById(name)];
      if (old && fresh && old.textContent !== fresh.textContent) {
        old.textContent = fresh.textContent;
        old.className = fresh.className;
      }
    }
    all("[data-live]").forEach((old) => {
      const fresh = page.getElementById(old.id);
      if (!fresh) return;
      if (old.matches("[aria-live]")) {
        if (old.textContent !== fresh.textContent) old.textContent = fresh.textContent;
      } else if (old.hasAttribute("data-keyed") && fresh.hasAttribute("data-keyed")) {
        keyed(old, fresh);
      } else if (one("[data-keyed]", old) && one("[data-keyed]", fresh)) {
        keyed(one("[data-keyed]", old), one("[data-keyed]", fresh));
      } else {
        exchange(old, fresh);
      }
    });
  };

  const MIN_INTERVAL_MS = 1000;
  const POLL_INTERVAL_MS = 3000; // For changes without a decision, such as missing coverage.
  let missed = null; // When the server stopped responding.
  const reached = (answered) => {
    const sign = one("#live-state");
    if (answered) {
      missed = null;
      sign.classList.remove("lost");
      return;
    }
    missed ??= new Date();
    sign.textContent = `no response since ${missed.toLocaleTimeString()}`;
    sign.classList.add("lost");
  };
  let running = false;
  let again = false;
  const soon = () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    refresh().then(() => reached(true), () => reached(false)).finally(() => setTimeout(() => {
      running = false;
      if (again) {
        again = false;
        soon();
      }
    }, MIN_INTERVAL_MS));
  };

  const live = () => {
    if (!one("[data-live]")) return;
    const sign = one("#live-state");
    const show = (text, polls) => {
      sign.textContent = text;
      sign.classList.toggle("polls", polls);
    };
    setInterval(() => document.hidden || soon(), POLL_INTERVAL_MS);
    const poll = () => {
      if (!missed) show("polling every 3 s", true);
      soon();
    };
    // Not an EventSource, which cannot send the CSRF token.
    const leaving = new AbortController();
    const listen = async () => {
      try {
        const answer = await fetch("/v1/live", { headers: authorized({ Accept: "text/event-stream" }), signal: leaving.signal });
        if (!answer.ok) throw new Error(answer.status);
        show("live", false);
        soon();
        const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let chunk = await text.read(); !chunk.done; chunk = await text.read()) {
          if (chunk.value.includes("data:")) soon();
        }
      } catch {
        if (leaving.signal.aborted) return;
        poll();
      }
      setTimeout(listen, MIN_INTERVAL_MS);
    };
    listen();
    window.addEventListener("pagehide", () => leaving.abort());
    document.addEventListener("visibilitychange", () => document.hidden || soon());
  };

  // ---- keyboard shortcuts ----

  let chosen = null; // The button that Enter activates.
  const choose = (button) => {
    chosen?.classList.remove("chosen");
    chosen = button;
    chosen?.classList.add("chosen");
  };
  const items = () => all("[data-item]");
  const current = () => document.activeElement?.closest("[data-item]") || items().find((each) => each.matches(":focus"));
  const move = (by) => {
    const list = items();
    if (list.length === 0) return;
    const at = list.indexOf(current());
    const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const act = (key) => {
    const item = current() || (items().length === 1 ? items()[0] : items().find((each) => one("form.act", each)));
    const button = item && one(`button[data-key="${key}"]`, item);
    const field = item && one(".reason", item);
    if (!button || !field) return false;
    choose(button);
    field.focus();
    return true;
  };
  let went = false; // `g` was pressed: the next key selects the page.
  const pages = { i: "/", s: "/sessions", h: "/health" };

  const keys = (event) => {
    const field = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (field.matches("input, select, textarea")) {
      if (event.key === "Escape") {
        choose(null);
        (field.closest("[data-item]") || field).focus();
        field.blur();
        field.closest("[data-item]")?.focus();
      } else if (event.key === "Enter" && field.matches(".reason") && chosen && field.form?.contains(chosen)) {
        event.preventDefault();
        field.form.requestSubmit(chosen);
      }
      return;
    }
    if (went) {
      went = false;
      if (pages[event.key]) location.href = pages[event.key];
      return;
    }
    const used = {
      j: () => move(1),
      k: () => move(-1),
      g: () => { went = true; },
      "/": () => one("input[type=search]")?.focus(),
      "?": () => one("#help").showModal(),
      a: () => act("a"),
      d: () => act("d"),
      r: () => act("r"),
      l: () => act("l"),
      s: () => act("s"),
      Enter: () => field.matches("[data-item]") ? one("[data-open]", field)?.click() : false,
    }[event.key];
    if (used && used() !== false) event.preventDefault();
  };

  // ---- setup of new elements ----

  const ready = (element) => {
    localize(element);
    all("button.copy", element).forEach((button) => {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "Copied";
      });
    });
  };

  // ---- login: the token stays here, and page content is loaded with it ----

  const swap = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    document.title = page.title;
    localize(page);
    document.body.replaceWith(document.importNode(page.body, true));
  };

  const open = async () => {
    const login = () => location.replace("/login?to=" + encodeURIComponent(location.pathname + location.search));
    if (!storage(CSRF)) return login();
    const answer = await load();
    if (answer.type === "opaqueredirect" || answer.headers.has("Flyball-Empty-Frame")) {
      storage(CSRF, null);
      return login();
    }
    const kind = answer.headers.get("Content-Type") ?? "";
    const text = await answer.text();
    if (!kind.startsWith("text/html")) {
      const picture = document.createElement("img");
      picture.src = `data:${kind},${encodeURIComponent(text)}`;
      return one("#opening").replaceChildren(picture);
    }
    swap(text);
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
    start();
  };

  const enter = async (event) => {
    const form = event.target;
    if (form.dataset.sent) return event.preventDefault();
    storage(CSRF, "test");
    if (storage(CSRF) !== "test") return; // Storage is disabled: log in as without the script.
    event.preventDefault();
    storage(CSRF, null);
    const body = new URLSearchParams(new FormData(form));
    body.set("script", "1");
    try {
      const answer = await fetch("/login", { method: "POST", body, headers: { Accept: "application/json" } });
      if (answer.ok) {
        const { csrf_token, to } = await answer.json();
        storage(CSRF, csrf_token);
        return location.assign(to);
      }
      swap(await answer.text());
      start();
    } catch {
      delete form.dataset.sent;
    }
  };

  const start = () => {
    const sign = one("#theme");
    sign.hidden = false;
    sign.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      storage("theme", root.dataset.theme);
    });
    ready(document);
    one("form[action='/login']")?.addEventListener("submit", enter);
    live();
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.addEventListener("input", (event) => dirty.add(event.target));
    document.addEventListener("keydown", keys);
    // Do not submit a form twice; the server's idempotency key also prevents it.
    document.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.method !== "post") return;
      if (form.matches("[action='/logout']")) storage(CSRF, null);
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
    window.addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => delete form.dataset.sent));
    if (one("#opening")) {
      open().catch(() => { one("#opening").textContent = "The server does not respond. Reload the page."; });
    } else {
      start();
    }
  });
})();
