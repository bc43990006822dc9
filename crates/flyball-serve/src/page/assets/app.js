// Live pages, keys, the switch for dark and light. The pages work without it.
// It keeps the CSRF token of the login in the storage of this origin: the cookie alone opens no page, because browsers
// send cookies to every port of a host.
// What comes from the server is parsed as a document and its elements are moved over: no text ever becomes markup here.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = (key, value) => {
    try {
      if (value === null) return localStorage.removeItem(key);
      return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value);
    } catch {
      return null; // A browser may forbid it; then nothing is kept.
    }
  };
  const CSRF = "flyball.csrf";
  const authorized = (more) => {
    const token = kept(CSRF);
    return token ? { ...more, "Flyball-CSRF": token } : { ...more };
  };
  const theme = kept("theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  const one = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  // ---- live: the same page is fetched again, and what changed is exchanged ----

  const dirty = new WeakSet();
  const busy = (element) =>
    element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
      || all("input, textarea", element).some((field) => dirty.has(field) && field.value !== "");

  // Two elements are the same if only what is made anew with each page differs: keys of forms, spans of time.
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
    if (busy(old)) return; // Somebody is writing in it: it is left alone until they are done.
    const focused = old.contains(document.activeElement);
    all("details[id]", old).forEach((each) => {
      const twin = fresh.querySelector("#" + CSS.escape(each.id));
      if (twin) twin.open = each.open;
    });
    const taken = document.importNode(fresh, true);
    old.replaceWith(taken);
    taken.classList.add("changed");
    if (focused) (one("#" + CSS.escape(taken.id)) || taken).focus({ preventScroll: true });
    ready(taken);
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
      // Put into order, but never move what somebody is writing in.
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

  const PAUSE = 1000;
  const GLANCE = 3000; // What is no decision, such as a guard that is down, is seen within so many milliseconds.
  let missed = null; // Since when the server has not answered.
  const reached = (answered) => {
    const sign = one("#live-state");
    if (answered) {
      missed = null;
      sign.classList.remove("lost");
      return;
    }
    missed ??= new Date();
    sign.textContent = `no answer since ${missed.toLocaleTimeString()}`;
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
    }, PAUSE));
  };

  const live = () => {
    if (!one("[data-live]")) return;
    const sign = one("#live-state");
    const told = (word, polls) => {
      sign.textContent = word;
      sign.classList.toggle("polls", polls);
    };
    setInterval(() => document.hidden || soon(), GLANCE);
    const poll = () => {
      if (!missed) told("every 3 s", true);
      soon();
    };
    // Not an EventSource: that cannot send the CSRF token.
    const leaving = new AbortController();
    const listen = async () => {
      try {
        const answer = await fetch("/v1/live", { headers: authorized({ Accept: "text/event-stream" }), signal: leaving.signal });
        if (!answer.ok) throw new Error(answer.status);
        told("live", false);
        soon();
        const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let piece = await text.read(); !piece.done; piece = await text.read()) {
          if (piece.value.includes("data:")) soon();
        }
      } catch {
        if (leaving.signal.aborted) return;
        poll();
      }
      setTimeout(listen, PAUSE);
    };
    listen();
    window.addEventListener("pagehide", () => leaving.abort());
    document.addEventListener("visibilitychange", () => document.hidden || soon());
  };

  // ---- keys ----

  let chosen = null; // The button that Enter presses.
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
  let went = false; // `g` was pressed: the next key says where.
  const places = { i: "/", s: "/sessions", h: "/health" };

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
      if (places[event.key]) location.href = places[event.key];
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

  // ---- what each new piece of the page needs ----

  const ready = (piece) => {
    all("button.copy", piece).forEach((button) => {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "Copied";
      });
    });
  };

  // ---- the login: the token stays here, and the page's contents are loaded with it ----

  const swap = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    document.title = page.title;
    document.body.replaceWith(document.importNode(page.body, true));
  };

  const open = async () => {
    const login = () => location.replace("/login?to=" + encodeURIComponent(location.pathname + location.search));
    if (!kept(CSRF)) return login();
    const answer = await load();
    if (answer.type === "opaqueredirect" || answer.headers.has("Flyball-Empty-Frame")) {
      kept(CSRF, null);
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
    kept(CSRF, "test");
    if (kept(CSRF) !== "test") return; // Nothing can be kept: log in as without the script.
    event.preventDefault();
    kept(CSRF, null);
    const body = new URLSearchParams(new FormData(form));
    body.set("script", "1");
    try {
      const answer = await fetch("/login", { method: "POST", body, headers: { Accept: "application/json" } });
      if (answer.ok) {
        const { csrf_token, to } = await answer.json();
        kept(CSRF, csrf_token);
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
      kept("theme", root.dataset.theme);
    });
    ready(document);
    one("form[action='/login']")?.addEventListener("submit", enter);
    live();
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.addEventListener("input", (event) => dirty.add(event.target));
    document.addEventListener("keydown", keys);
    // A second click must not send the form a second time; the server would not do it twice either.
    document.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.method !== "post") return;
      if (form.matches("[action='/logout']")) kept(CSRF, null);
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
    window.addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => delete form.dataset.sent));
    if (one("#opening")) {
      open().catch(() => { one("#opening").textContent = "The server does not answer. Load the page again."; });
    } else {
      start();
    }
  });
})();
