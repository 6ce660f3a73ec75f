// All jobs: filter, sort, and only those rows in the document that can be seen.

import { get } from "./api.js";
import { age, badge, count, empty, h, jobPath, loss, plural, replace, sizeText, stamp, stateWord } from "./dom.js";

const OVERSCAN = 8;
const ORDER = ["failed", "waiting", "changing", "starting", "running", "new", "paused", "suspended", "deleting", "succeeded", "deleted"];
const rank = (state) => (ORDER.indexOf(state) + ORDER.length) % ORDER.length;
const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const numeric = (pick) => (a, b) => (pick(a) ?? -Infinity) - (pick(b) ?? -Infinity);

const COLUMNS = [
  { id: "name", title: "Job", sort: (a, b) => text(a.name, b.name), cell: nameCell },
  { id: "state", title: "State", sort: (a, b) => rank(a.state) - rank(b.state), cell: (row) => badge(row.state) },
  { id: "size", title: "Size", number: true, sort: numeric((row) => row.now), cell: sizeCell },
  { id: "progress", title: "Progress", sort: numeric((row) => row.percent), cell: progressCell },
  { id: "loss", title: "Loss", number: true, sort: numeric((row) => row.loss), cell: (row) => loss(row.loss) },
  { id: "pace", title: "Samples/s", number: true, sort: numeric((row) => row.throughput), cell: (row) => count(row.throughput) },
  { id: "why", title: "Why this size", sort: (a, b) => text(a.reason, b.reason), cell: (row) => h("span", { title: row.reason }, row.reason) },
  { id: "age", title: "Age", number: true, sort: (a, b) => numeric((row) => row.created)(b, a), cell: (row) => age(row.created) },
];

// A recording has no progress and no curves, and its times are not about today.
const RECORDED = COLUMNS.filter((one) => ["name", "state", "why", "age"].includes(one.id)).map((one) => ({ ...one, ...{
  why: { title: "How it fared" },
  age: { title: "Submitted", number: false, sort: numeric((row) => row.created), cell: (row) => stamp(row.created) },
}[one.id] }));
const searched = (row) => `${row.name} ${row.namespace} ${row.kind} ${row.state} ${row.reason}`.toLowerCase();

function nameCell(row) {
  return [h("a", { href: jobPath(row.key), class: "job-link" }, row.name), h("span", { class: "sub" }, row.namespace)];
}

function sizeCell(row) {
  const bounds = row.min === null ? "" : row.min === row.max ? `of ${row.max}` : `of ${row.min}–${row.max}`;
  return [h("span", { class: "size" }, sizeText(row)), " ", h("span", { class: "bounds" }, bounds)];
}

function progressCell(row) {
  if (row.percent === null && !row.progress) return h("span", { class: "faint" }, "–");
  const label = row.progress || `${Math.round(row.percent)}%`;
  return [
    row.percent === null ? null : h("progress", { max: 100, value: row.percent.toFixed(1), "aria-label": `${row.name}: progress` }),
    h("span", {}, label),
    row.eta ? h("span", { class: "sub" }, row.eta) : null,
  ];
}

export function jobsView({ main, follow, title, me }) {
  title("Jobs");
  const rows = new Map();
  const columns = me.recorded ? RECORDED : COLUMNS;
  const saved = history.state || {};
  const view = { text: saved.text || "", state: saved.state || "", namespace: saved.namespace || "", sort: saved.sort || "state", down: Boolean(saved.down) };
  let visible = [];
  let loaded = false;
  let asked = false;

  const search = h("input", {
    id: "filter", type: "search", placeholder: "Filter by name, namespace, kind or reason", value: view.text, autocomplete: "off", spellcheck: "false",
    oninput: () => change({ text: search.value }),
  });
  const namespaces = h("select", { id: "namespace", onchange: () => change({ namespace: namespaces.value }) });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const total = h("p", { class: "total", role: "status", id: "total" });
  const head = h("div", { class: "row head", role: "row", "aria-rowindex": 1 });
  const body = h("div", { class: "rows", role: "rowgroup" });
  const scroller = h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Jobs, scrollable" }, body);
  const table = h("div", { class: me.recorded ? "grid recorded" : "grid", role: "table", "aria-label": "Jobs" }, h("div", { role: "rowgroup" }, head), scroller);
  const hint = h("div", {});
  const past = h("button", { id: "past", type: "button", class: "chip", onclick: showPast }, "Show jobs that are gone");
  replace(main,
    h("div", { class: "toolbar" },
      h("h1", {}, "Jobs"), total,
      h("div", { class: "field" }, h("label", { for: "filter" }, "Filter"), search),
      h("div", { class: "field" }, h("label", { for: "namespace" }, "Namespace"), namespaces)),
    h("div", { class: "filters" }, chips, me.recorded ? null : past), table, hint);

  // Those that history kept; they do not change any more.
  async function showPast() {
    past.disabled = true;
    try {
      const found = await get("past");
      for (const row of found.rows) if (!rows.has(row.key)) rows.set(row.key, { ...row, past: true, search: searched(row) });
      past.textContent = found.rows.length ? "Jobs that are gone are shown" : "History knows no job that is gone";
      draw();
    } catch (error) {
      past.textContent = error.message;
    }
  }

  function change(part) {
    Object.assign(view, part);
    history.replaceState({ ...view }, "");
    scroller.scrollTop = 0;
    draw();
  }

  function showHead() {
    replace(head, columns.map((column) => {
      const on = view.sort === column.id;
      return h("div", { class: `cell c-${column.id}${column.number ? " number" : ""}`, role: "columnheader", "aria-sort": on ? (view.down ? "descending" : "ascending") : "none" },
        h("button", { type: "button", onclick: () => change({ sort: column.id, down: on ? !view.down : false }) },
          column.title, h("span", { class: "arrow", "aria-hidden": "true" }, on ? (view.down ? "▼" : "▲") : "")));
    }));
  }

  function showFilters() {
    const counts = new Map();
    const places = new Map();
    for (const row of rows.values()) {
      counts.set(row.state, (counts.get(row.state) || 0) + 1);
      places.set(row.namespace, (places.get(row.namespace) || 0) + 1);
    }
    const states = ORDER.filter((state) => counts.has(state) || view.state === state);
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.chip : null;
    replace(chips, [["", `All ${rows.size}`], ...states.map((state) => [state, `${stateWord(state)} ${counts.get(state) || 0}`])].map(([state, words]) =>
      h("button", { type: "button", class: "chip", "data-chip": state || "all", "aria-pressed": String(view.state === state), onclick: () => change({ state }) }, words)));
    if (focused) chips.querySelector(`[data-chip="${CSS.escape(focused)}"]`)?.focus();
    const options = [["", "All"], ...[...places.keys()].sort().map((name) => [name, `${name} (${places.get(name)})`])];
    const signature = JSON.stringify(options);
    if (namespaces.dataset.signature !== signature) {
      namespaces.dataset.signature = signature;
      replace(namespaces, options.map(([value, words]) => h("option", { value, selected: value === view.namespace }, words)));
    }
  }

  function matching() {
    const words = view.text.toLowerCase().split(/\s+/).filter(Boolean);
    const column = columns.find((one) => one.id === view.sort) || columns[0];
    const sign = view.down ? -1 : 1;
    return [...rows.values()]
      .filter((row) => (!view.state || row.state === view.state) && (!view.namespace || row.namespace === view.namespace))
      .filter((row) => words.every((word) => row.search.includes(word)))
      .sort((a, b) => sign * column.sort(a, b) || text(a.namespace, b.namespace) || text(a.name, b.name));
  }

  function draw() {
    showHead();
    showFilters();
    visible = matching();
    const some = visible.length === rows.size ? plural(rows.size, "job") : `${visible.length} of ${plural(rows.size, "job")}`;
    if (total.textContent !== some) total.textContent = loaded ? some : "Loading…";
    table.setAttribute("aria-rowcount", String(visible.length + 1));
    replace(hint, loaded && !visible.length ? nothing() : null);
    table.hidden = loaded && !visible.length;
    drawRows();
  }

  function nothing() {
    if (rows.size) return empty("No job matches", "Change the filter, or choose All.");
    if (me.recorded) return empty("No jobs in this recording");
    return me.namespaces === null
      ? empty("No jobs yet", "Submit one: edl run train.py --min 1 --max 4")
      : empty("No jobs that you may see", "You see the jobs of namespaces in which you may list them.");
  }

  function drawRows() {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - OVERSCAN);
    const last = Math.min(visible.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + OVERSCAN);
    const focused = document.activeElement?.closest?.(".row")?.dataset.key;
    body.style.height = `${visible.length * height}px`;
    replace(body, visible.slice(first, last).map((row, index) => {
      const line = h("div", { class: "row", role: "row", "aria-rowindex": first + index + 2, "data-key": row.key },
        columns.map((column) => h("div", { class: `cell c-${column.id}${column.number ? " number" : ""}`, role: "cell" }, column.cell(row))));
      line.style.transform = `translateY(${(first + index) * height}px)`;
      return line;
    }));
    if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
  }

  const rowHeight = () => (scroller.clientWidth < 700 ? 76 : 44);

  function later() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }

  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = document.activeElement?.closest?.(".row[data-key]");
    if (!step || !line) return;
    event.preventDefault();
    const place = visible.findIndex((row) => row.key === line.dataset.key) + step;
    if (place < 0 || place >= visible.length) return;
    const height = rowHeight();
    if (place * height < scroller.scrollTop) scroller.scrollTop = place * height;
    if ((place + 1) * height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (place + 1) * height - scroller.clientHeight;
    drawRows();
    body.querySelector(`[data-key="${CSS.escape(visible[place].key)}"] a`)?.focus({ preventScroll: true });
  }

  scroller.addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
  scroller.addEventListener("keydown", onKey);
  const sized = new ResizeObserver(() => requestAnimationFrame(drawRows));
  sized.observe(scroller);
  const tick = setInterval(drawRows, 15000);
  draw();
  if (me.recorded) showPast();

  const stop = follow({ view: "jobs" }, {
    jobs(message) {
      if (message.reset) for (const [key, row] of rows) if (!row.past) rows.delete(key);
      for (const row of message.rows) {
        row.search = searched(row);
        rows.set(row.key, row);
      }
      for (const key of message.gone) rows.delete(key);
      if (!loaded) performance.mark("edl-jobs-shown");
      loaded = true;
      later();
    },
  });
  return () => {
    stop();
    clearInterval(tick);
    sized.disconnect();
  };
}
