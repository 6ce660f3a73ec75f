// Elements and numbers for people. Text is only ever set as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

// --- numbers ---

export function count(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toPrecision(3);
}

export function loss(value) {
  return value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toString();
}

export function bytes(value) {
  if (value >= 2 ** 40) return `${trim(value / 2 ** 40)} TiB`;
  if (value >= 2 ** 30) return `${trim(value / 2 ** 30)} GiB`;
  return `${trim(value / 2 ** 20)} MiB`;
}

export const trim = (value) => Number(value.toFixed(value < 10 ? 1 : 0)).toString();

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${whole % 60 ? `${whole % 60} s` : ""}`.trim();
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function age(time) {
  if (!time) return "–";
  const whole = Math.max(0, Date.now() / 1000 - time);
  if (whole < 60) return `${Math.floor(whole)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} d`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const DAY_CLOCK = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
// The time of day, and which day if it is not about today.
export const stamp = (time) => (!time ? "–" : Math.abs(Date.now() / 1000 - time) < 43200 ? clock(time) : DAY_CLOCK.format(time * 1000));
export const clock = (time) => (time ? CLOCK.format(time * 1000) : "–");
export const date = (time) => (time ? DATE.format(time * 1000) : "–");

export function plural(number, one, many) {
  return `${number} ${number === 1 ? one : many || `${one}s`}`;
}

// --- parts that several views share ---

const WORDS = {
  new: "New", waiting: "Waiting", starting: "Starting", running: "Running", changing: "Changing",
  paused: "Paused", suspended: "Suspended", succeeded: "Succeeded", failed: "Failed", deleting: "Deleting", deleted: "Deleted",
};

export const stateWord = (state) => WORDS[state] || state;

// A shape as well as a colour, so that it can be told without seeing colours.
const SHAPES = {
  running: ["circle", { cx: 6, cy: 6, r: 4 }],
  changing: ["path", { d: "M6 1.5 10.5 6 6 10.5 1.5 6Z" }],
  starting: ["path", { d: "M6 1.5 10.5 6 6 10.5 1.5 6Z" }],
  waiting: ["circle", { cx: 6, cy: 6, r: 3.5, fill: "none", "stroke-width": 1.6, stroke: "currentColor" }],
  new: ["circle", { cx: 6, cy: 6, r: 3.5, fill: "none", "stroke-width": 1.6, stroke: "currentColor" }],
  paused: ["path", { d: "M2.5 2h2.6v8H2.5zM6.9 2h2.6v8H6.9z" }],
  suspended: ["path", { d: "M2.5 2h2.6v8H2.5zM6.9 2h2.6v8H6.9z" }],
  succeeded: ["path", { d: "M2 6.4 4.8 9.2 10.2 3", fill: "none", stroke: "currentColor", "stroke-width": 1.8 }],
  failed: ["path", { d: "M2.5 2.5l7 7m0-7l-7 7", fill: "none", stroke: "currentColor", "stroke-width": 1.8 }],
  deleted: ["path", { d: "M2.5 6h7", fill: "none", stroke: "currentColor", "stroke-width": 1.8 }],
  deleting: ["path", { d: "M2.5 6h7", fill: "none", stroke: "currentColor", "stroke-width": 1.8 }],
};

export function badge(state) {
  const [tag, attributes] = SHAPES[state] || SHAPES.new;
  const mark = s("svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true", fill: "currentColor" });
  mark.append(s(tag, attributes));
  return h("span", { class: `badge state-${state in WORDS ? state : "new"}` }, mark, stateWord(state));
}

export const jobPath = (key) => `#/job/${key.split("/").map(encodeURIComponent).join("/")}`;

export function sizeText(row) {
  const now = row.now === null ? 0 : row.now;
  return row.target !== null && row.target !== now ? `${now} → ${row.target}` : String(now);
}

export function missing(notes) {
  if (!notes || !notes.length) return null;
  return h("aside", { class: "missing" }, h("strong", {}, "Not shown: "), notes.join("; "));
}

export function empty(title, ...words) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), words.map((one) => h("p", {}, one)));
}
