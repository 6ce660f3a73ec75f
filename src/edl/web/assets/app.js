// The page: who looks, which view is shown, and whether it is live.

import { follow, get, Refused, send, session } from "./api.js";
import { empty, h, replace } from "./dom.js";
import { jobsView } from "./jobs.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const who = document.getElementById("who");
const liveness = document.getElementById("liveness");

const VIEWS = [
  { name: "jobs", title: "Jobs", load: async () => jobsView },
  { name: "cluster", title: "Cluster", cluster: true, load: async () => (await import("./cluster.js")).clusterView },
  { name: "what-if", title: "What if", cluster: true, live: true, load: async () => (await import("./whatif.js")).whatIfView },
];

let me = null;
let leave = () => {};
let shown = 0;

// --- light and dark ---

const SUN = "☀";
const MOON = "☾";
const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const chosen = localStorage.getItem("edl-theme");
  const isDark = chosen ? chosen === "dark" : dark.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  button.textContent = isDark ? SUN : MOON;
  return isDark;
}

button.addEventListener("click", () => {
  localStorage.setItem("edl-theme", theme() ? "light" : "dark");
  theme();
});
dark.addEventListener("change", theme);
theme();

// --- notices and liveness ---

export function notice(message, kind = "note") {
  const box = h("div", { class: `notice ${kind}` }, message);
  document.getElementById("notices").append(box);
  setTimeout(() => box.remove(), 6000);
}

function showLiveness(state) {
  const recorded = me && me.recorded && state.live;
  const word = recorded ? "Recorded" : state.live ? "Live" : "Not live";
  if (liveness.dataset.word === word && liveness.title === (recorded || state.why)) return;
  liveness.dataset.word = word;
  liveness.className = `liveness ${recorded ? "" : state.live ? "is-live" : "is-stale"}`;
  liveness.title = recorded || state.why;
  replace(liveness, h("span", { class: "dot", "aria-hidden": "true" }), word);
  document.body.classList.toggle("stale", !state.live);
  const known = document.getElementById("stale-note");
  if (known) known.remove();
  if (!state.live) {
    main.before(h("p", { id: "stale-note", class: "banner", role: "alert" },
      `Not live: ${state.why}. What you see is the last that was known.`));
  }
}

// --- logging in ---

function showLogin(error) {
  leave();
  leave = () => {};
  me = null;
  replace(nav);
  replace(who);
  document.title = "Log in · EDL";
  const field = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const form = h("form", {
    class: "login panel",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        session.set((await send("POST", "login", { token: field.value })).session);
        await enter();
      } catch (refused) {
        showLogin(refused);
      }
    },
  },
  h("h1", {}, "Log in"),
  error ? h("p", { class: "error", role: "alert" }, error.message) : null,
  h("p", {}, "On your own machine, run ", h("code", {}, "edl ui"), ": it opens this page logged in."),
  h("p", {}, "Or give a bearer token of the cluster. You see what that account may see."),
  h("label", { for: "token" }, "Token"),
  field,
  h("button", { class: "primary", type: "submit" }, "Log in"));
  replace(main, form);
  if (error) field.focus();
}

async function redeem() {
  const code = /^#code=([\w-]+)$/.exec(location.hash);
  if (!code) return;
  history.replaceState(null, "", "#/jobs"); // a code is good once, and no business of the browser's history
  session.set((await send("POST", "login", { code: code[1] })).session);
}

async function enter() {
  const tried = Boolean(session.get()) || location.hash.startsWith("#code=");
  try {
    await redeem();
    me = await get("session");
  } catch (error) {
    if (error instanceof Refused && error.status === 401) session.clear();
    if (error instanceof Refused && error.status < 500) return showLogin(tried ? error : null);
    replace(main, empty("The server does not answer", error.message, "Trying again…"));
    showLiveness({ live: false, why: error.message });
    setTimeout(enter, 2000);
    return;
  }
  const out = h("button", { class: "quiet", type: "button", onclick: async () => {
    await send("POST", "logout").catch(() => {});
    session.clear();
    showLogin(null);
  } }, "Log out");
  replace(who, h("span", { class: "user", title: `EDL ${me.version}` }, me.user), session.get() ? out : null);
  await route();
}

// --- views ---

function parse() {
  const parts = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(decodeURIComponent);
  return parts[0] ? parts : ["jobs"];
}

function showNav(current) {
  replace(nav, VIEWS.filter((view) => (!view.cluster || me.cluster) && !(view.live && me.recorded)).map((view) =>
    h("a", { href: `#/${view.name}`, "aria-current": view.name === current ? "page" : null }, view.title)));
}

async function route() {
  if (!me) return enter();
  const mine = ++shown;
  leave();
  leave = () => {};
  const [name, ...rest] = parse();
  const isJob = name === "job" && rest.length === 3;
  showNav(isJob ? "jobs" : name);
  const view = VIEWS.find((one) => one.name === name);
  if (!isJob && !view) return replace(main, empty("There is no such page", "The views are above."));
  const make = isJob ? (await import("./job.js")).jobView : await view.load();
  if (mine !== shown) return;
  const context = {
    me, main, notice, args: rest,
    title: (words) => (document.title = `${words} · EDL`),
    follow: (query, on) => follow(query, { liveness: showLiveness, refused, ...on }),
  };
  leave = make(context) || (() => {});
}

function refused(error) {
  if (error.status === 401) {
    session.clear();
    return showLogin(error);
  }
  leave();
  const title = error.status === 404 || error.status === 400 ? "There is no such job, or you may not see it" : "You may not see this";
  replace(main, empty(title, error.message));
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#code=")) enter();
  else if (location.hash.startsWith("#/") || !location.hash) route().then(() => main.focus({ preventScroll: true }));
});
enter();
